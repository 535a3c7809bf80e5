//! Binds claims to volumes, attaches volumes to the nodes of their pods, and detaches them late.
//!
//! Owns PersistentVolumes, the binding of claims and VolumeAttachments. A volume is attached to one
//! node at a time: the next node waits until the last one has let go. Must not hold pods back; the
//! kubelets do not wait for an attachment (see MISMATCH.md).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim,
    PersistentVolumeSpec, Pod,
};
use k8s_openapi::api::storage::v1::{
    VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::Instant;

use super::informers::Informers;
use super::objects::{fingerprint, is_ending, is_finished, node_of};
use super::queue::Queue;
use super::store::Key;
use super::work::{self, Actor, Outcome, is_conflict, unless_overtaken};

pub(super) const DRIVER: &str = "embedded.shipshape.dev";
const PROTECTION: &str = "kubernetes.io/pvc-protection";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    Claim(Key),
    Volume(String),
}

pub(crate) struct Volumes {
    client: Client,
    informers: Informers,
    detach: Duration,
    /// Attachments that nobody needs any more, and when they end.
    leaving: BTreeMap<String, Instant>,
}

impl Volumes {
    pub(crate) async fn run(client: Client, informers: Informers, detach: Duration) {
        let queue = Queue::new();
        let claims = queue.clone();
        informers.claims.on_change(move |before, after| {
            if let Some(claim) = after.or(before) {
                claims.add(Item::Claim(Key::of(claim)));
            }
        });
        let users = queue.clone();
        informers.pods.on_change(move |before, after| {
            if let Some(pod) = after.or(before) {
                for claim in claims_of(pod) {
                    users.add(Item::Claim(claim));
                }
            }
        });
        let attachments = queue.clone();
        informers.attachments.on_change(move |before, after| {
            if let Some(volume) = after.or(before).and_then(volume_of) {
                attachments.add(Item::Volume(volume.to_owned()));
            }
        });
        informers.synced().await;
        let actor = Self {
            client,
            informers,
            detach,
            leaving: BTreeMap::new(),
        };
        work::run(actor, queue).await;
    }

    /// Binds a new claim, releases one that is to go; answers with its volume.
    async fn look_at_claim(&self, key: &Key) -> Result<Option<String>, kube::Error> {
        let Some(claim) = self.informers.claims.get(key) else {
            return Ok(None);
        };
        let volume = claim
            .spec
            .as_ref()
            .and_then(|spec| spec.volume_name.clone());
        if is_ending(claim.as_ref()) {
            self.release(&claim).await?;
        } else if volume.is_none() {
            self.bind(&claim).await?;
        }
        Ok(volume)
    }

    /// Lets a claim that is to go, go, once no pod uses it.
    async fn release(&self, claim: &PersistentVolumeClaim) -> Result<(), kube::Error> {
        let key = Key::of(claim);
        let pods = self.informers.pods.within(&key.namespace);
        let used = pods
            .iter()
            .any(|pod| !is_finished(pod) && claims_of(pod).contains(&key));
        if used || !claim.finalizers().iter().any(|name| name == PROTECTION) {
            return Ok(());
        }
        let left: Vec<_> = claim
            .finalizers()
            .iter()
            .filter(|name| *name != PROTECTION)
            .collect();
        let patch = Patch::Merge(json!({
            "metadata": { "finalizers": left, "resourceVersion": claim.resource_version() },
        }));
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), &key.namespace);
        unless_overtaken(
            claims
                .patch(&key.name, &PatchParams::default(), &patch)
                .await,
        )?;
        Ok(())
    }

    async fn bind(&self, claim: &PersistentVolumeClaim) -> Result<(), kube::Error> {
        let spec = claim.spec.clone().unwrap_or_default();
        let namespace = claim.namespace().unwrap_or_default();
        let volume = volume_for(claim);
        let name = volume.name_any();
        let capacity = spec.resources.and_then(|resources| resources.requests);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        match volumes.create(&PostParams::default(), &volume).await {
            Err(error) if !is_conflict(&error) => return Err(error),
            _ => {}
        }
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &namespace);
        let params = PatchParams::default();
        let bound = Patch::Merge(json!({ "spec": { "volumeName": name } }));
        if unless_overtaken(claims.patch(&claim.name_any(), &params, &bound).await)?.is_some() {
            let status =
                json!({ "phase": "Bound", "accessModes": spec.access_modes, "capacity": capacity });
            let bound = Patch::Merge(json!({ "status": status }));
            unless_overtaken(
                claims
                    .patch_status(&claim.name_any(), &params, &bound)
                    .await,
            )?;
        }
        Ok(())
    }

    /// Nodes with a pod that uses the volume.
    fn users(&self, volume: &str) -> BTreeSet<String> {
        let claims: BTreeSet<Key> = self
            .informers
            .claims
            .all()
            .iter()
            .filter(|claim| {
                claim
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.volume_name.as_deref())
                    == Some(volume)
            })
            .map(|claim| Key::of(claim.as_ref()))
            .collect();
        let pods = self.informers.pods.all();
        let using = pods.iter().filter(|pod| !is_finished(pod));
        let using = using.filter(|pod| claims_of(pod).iter().any(|claim| claims.contains(claim)));
        using
            .filter_map(|pod| node_of(pod).map(str::to_owned))
            .collect()
    }

    async fn look_at_volume(&mut self, volume: &str) -> Outcome {
        let users = self.users(volume);
        let attachments = self.informers.attachments.all();
        let held: Vec<_> = attachments
            .iter()
            .filter(|item| volume_of(item) == Some(volume))
            .collect();
        let mut again: Option<Duration> = None;
        for attachment in &held {
            let name = attachment.name_any();
            if users.contains(&attachment.spec.node_name) {
                self.leaving.remove(&name);
                continue;
            }
            let now = Instant::now();
            let due = *self
                .leaving
                .entry(name.clone())
                .or_insert(now + self.detach);
            if due > now {
                again = Some(again.map_or(due - now, |known| known.min(due - now)));
                continue;
            }
            let api: Api<VolumeAttachment> = Api::all(self.client.clone());
            unless_overtaken(api.delete(&name, &DeleteParams::default()).await)?;
            self.leaving.remove(&name);
        }
        if let Some(node) = users.first().filter(|_| held.is_empty()) {
            self.attach(volume, node).await?;
        }
        Ok(again)
    }

    async fn attach(&self, volume: &str, node: &str) -> Result<(), kube::Error> {
        let name = format!("csi-{}", fingerprint(&(volume, node)));
        let attachment = VolumeAttachment {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            spec: VolumeAttachmentSpec {
                attacher: DRIVER.to_owned(),
                node_name: node.to_owned(),
                source: VolumeAttachmentSource {
                    persistent_volume_name: Some(volume.to_owned()),
                    inline_volume_spec: None,
                },
            },
            status: None,
        };
        let api: Api<VolumeAttachment> = Api::all(self.client.clone());
        match api.create(&PostParams::default(), &attachment).await {
            Ok(created) => self.informers.attachments.show(&created),
            Err(error) if is_conflict(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        let attached = Patch::Merge(json!({ "status": { "attached": true } }));
        unless_overtaken(
            api.patch_status(&name, &PatchParams::default(), &attached)
                .await,
        )?;
        Ok(())
    }
}

/// The volume of a claim, made for it alone.
pub(super) fn volume_for(claim: &PersistentVolumeClaim) -> PersistentVolume {
    let spec = claim.spec.clone().unwrap_or_default();
    let name = format!("pvc-{}", claim.uid().unwrap_or_default());
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            capacity: spec.resources.and_then(|resources| resources.requests),
            access_modes: spec.access_modes,
            claim_ref: Some(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("PersistentVolumeClaim".to_owned()),
                namespace: claim.namespace(),
                name: claim.metadata.name.clone(),
                uid: claim.uid(),
                ..ObjectReference::default()
            }),
            storage_class_name: spec.storage_class_name,
            persistent_volume_reclaim_policy: Some("Delete".to_owned()),
            csi: Some(CSIPersistentVolumeSource {
                driver: DRIVER.to_owned(),
                volume_handle: name,
                ..CSIPersistentVolumeSource::default()
            }),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

fn volume_of(attachment: &VolumeAttachment) -> Option<&str> {
    attachment.spec.source.persistent_volume_name.as_deref()
}

fn claims_of(pod: &Pod) -> Vec<Key> {
    let namespace = pod.namespace().unwrap_or_default();
    let volumes = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.volumes.as_deref())
        .unwrap_or_default();
    let claims = volumes
        .iter()
        .filter_map(|volume| volume.persistent_volume_claim.as_ref());
    claims
        .map(|claim| Key::new(&namespace, &claim.claim_name))
        .collect()
}

#[async_trait]
impl Actor for Volumes {
    type Item = Item;

    async fn look(&mut self, item: &Item) -> Outcome {
        match item {
            Item::Volume(volume) => self.look_at_volume(volume).await,
            Item::Claim(key) => match self.look_at_claim(key).await? {
                Some(volume) => {
                    let again = self.look_at_volume(&volume).await?;
                    Ok(again)
                }
                None => Ok(None),
            },
        }
    }
}
