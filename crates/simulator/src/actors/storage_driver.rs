//! The storage driver of a real control plane: makes volumes for claims, attaches and detaches them.
//!
//! Owns PersistentVolumes of its class and what an external attacher does to VolumeAttachments: it
//! says that one is attached, and holds one that is to go for as long as a detach takes. Must not bind
//! claims or ask for attachments: the published controller-manager does. On the embedded cluster
//! `volumes` plays all these parts.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::objects::is_ending;
use super::queue::Queue;
use super::store::{Key, Store};
use super::volumes::{DRIVER, volume_for};
use super::work::{self, Actor, Outcome, is_conflict, unless_overtaken};

/// Keeps an attachment until the volume is detached.
const HOLD: &str = "external-attacher/embedded-shipshape-dev";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    Claim(Key),
    Attachment(Key),
}

pub(crate) struct StorageDriver {
    client: Client,
    claims: Store<PersistentVolumeClaim>,
    attachments: Store<VolumeAttachment>,
    detach: Duration,
    /// Attachments that are to go, and when they may.
    leaving: BTreeMap<Key, Instant>,
    _watches: JoinSet<()>,
}

impl StorageDriver {
    pub(crate) async fn run(client: Client, detach: Duration) {
        let queue = Queue::new();
        let (claims, attachments) = (Store::new(), Store::new());
        let asked = queue.clone();
        claims.on_change(move |before: Option<&PersistentVolumeClaim>, after| {
            if let Some(claim) = after.or(before) {
                asked.add(Item::Claim(Key::of(claim)));
            }
        });
        let held = queue.clone();
        attachments.on_change(move |before: Option<&VolumeAttachment>, after| {
            if let Some(attachment) = after.or(before) {
                held.add(Item::Attachment(Key::of(attachment)));
            }
        });
        let mut watches = JoinSet::new();
        watches.spawn(claims.clone().follow(Api::all(client.clone()), None));
        watches.spawn(attachments.clone().follow(Api::all(client.clone()), None));
        let actor = Self {
            client,
            claims,
            attachments,
            detach,
            leaving: BTreeMap::new(),
            _watches: watches,
        };
        work::run(actor, queue).await;
    }

    /// Makes the volume of a new claim; whoever binds claims does the rest.
    async fn provision(&self, key: &Key) -> Outcome {
        let claim = self.claims.get(key);
        let is_new = |claim: &PersistentVolumeClaim| {
            let spec = claim.spec.as_ref();
            !is_ending(claim) && spec.is_some_and(|spec| spec.volume_name.is_none())
        };
        let Some(claim) = claim.filter(|claim| is_new(claim)) else {
            return Ok(None);
        };
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let made = volumes
            .create(&PostParams::default(), &volume_for(&claim))
            .await;
        match made {
            Err(error) if !is_conflict(&error) => Err(error),
            _ => Ok(None),
        }
    }

    async fn look_at_attachment(&mut self, key: &Key) -> Outcome {
        let found = self.attachments.get(key);
        let Some(attachment) = found.filter(|found| found.spec.attacher == DRIVER) else {
            self.leaving.remove(key);
            return Ok(None);
        };
        let is_held = attachment.finalizers().iter().any(|name| name == HOLD);
        let is_attached = attachment.status.as_ref().is_some_and(|it| it.attached);
        if is_ending(attachment.as_ref()) {
            let now = Instant::now();
            let due = *self.leaving.entry(key.clone()).or_insert(now + self.detach);
            if due > now {
                return Ok(Some(due - now));
            }
            if is_held {
                self.hold(&attachment, &[]).await?;
            }
        } else if !is_held {
            self.hold(&attachment, &[HOLD]).await?;
        } else if !is_attached {
            let api: Api<VolumeAttachment> = Api::all(self.client.clone());
            let attached = Patch::Merge(json!({ "status": { "attached": true } }));
            let params = PatchParams::default();
            unless_overtaken(api.patch_status(&key.name, &params, &attached).await)?;
        }
        Ok(None)
    }

    async fn hold(&self, attachment: &VolumeAttachment, by: &[&str]) -> Result<(), kube::Error> {
        let api: Api<VolumeAttachment> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "metadata": {
            "finalizers": by, "resourceVersion": attachment.resource_version(),
        } }));
        let params = PatchParams::default();
        unless_overtaken(api.patch(&attachment.name_any(), &params, &patch).await)?;
        Ok(())
    }
}

#[async_trait]
impl Actor for StorageDriver {
    type Item = Item;

    async fn look(&mut self, item: &Item) -> Outcome {
        match item {
            Item::Claim(key) => self.provision(key).await,
            Item::Attachment(key) => self.look_at_attachment(key).await,
        }
    }
}
