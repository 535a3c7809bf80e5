//! Keeps a ReplicaSet per template of a Deployment, and rolls from the old to the new.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use shipshape_cluster::Clock;

use super::{listen_to, listen_to_children, write_status};
use crate::actors::informers::Informers;
use crate::actors::objects::{controlled_by, fingerprint, is_controlled_by, is_ending};
use crate::actors::queue::Queue;
use crate::actors::store::Key;
use crate::actors::work::{self, Actor, Outcome, is_conflict, unless_overtaken};

const HASH: &str = "pod-template-hash";

pub(crate) struct Deployments {
    client: Client,
    clock: Clock,
    informers: Informers,
}

impl Deployments {
    pub(crate) async fn run(client: Client, clock: Clock, informers: Informers) {
        let queue = Queue::new();
        listen_to(&informers.deployments, &queue);
        listen_to_children::<ReplicaSet, Deployment>(&informers.replica_sets, &queue);
        informers.synced().await;
        let actor = Self {
            client,
            clock,
            informers,
        };
        work::run(actor, queue).await;
    }

    fn sets_of(&self, deployment: &Deployment) -> Vec<Arc<ReplicaSet>> {
        let mut sets = self
            .informers
            .replica_sets
            .within(&deployment.namespace().unwrap_or_default());
        sets.retain(|set| is_controlled_by(set.as_ref(), deployment));
        sets
    }

    async fn create_set(
        &self,
        deployment: &Deployment,
        spec: &DeploymentSpec,
        replicas: i32,
    ) -> Result<(), kube::Error> {
        let hash = fingerprint(&spec.template);
        let mut template = spec.template.clone();
        let labels = template
            .metadata
            .get_or_insert_default()
            .labels
            .get_or_insert_default();
        labels.insert(HASH.to_owned(), hash.clone());
        let mut selector = spec.selector.clone();
        selector
            .match_labels
            .get_or_insert_default()
            .insert(HASH.to_owned(), hash.clone());
        let set = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(format!("{}-{hash}", deployment.name_any())),
                namespace: deployment.namespace(),
                labels: template
                    .metadata
                    .as_ref()
                    .and_then(|meta| meta.labels.clone()),
                owner_references: Some(vec![controlled_by(deployment)]),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(replicas),
                selector,
                template: Some(template),
                ..ReplicaSetSpec::default()
            }),
            status: None,
        };
        let api: Api<ReplicaSet> = Api::namespaced(
            self.client.clone(),
            &deployment.namespace().unwrap_or_default(),
        );
        match api.create(&PostParams::default(), &set).await {
            Ok(created) => self.informers.replica_sets.show(&created),
            Err(error) if is_conflict(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn resize(&self, set: &ReplicaSet, replicas: i32) -> Result<(), kube::Error> {
        if asked(set) == replicas {
            return Ok(());
        }
        let api: Api<ReplicaSet> =
            Api::namespaced(self.client.clone(), &set.namespace().unwrap_or_default());
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        let answer = api
            .patch(&set.name_any(), &PatchParams::default(), &patch)
            .await;
        if let Some(changed) = unless_overtaken(answer)? {
            self.informers.replica_sets.show(&changed);
        }
        Ok(())
    }

    /// One step of the way to `wanted` pods, all of the new template.
    async fn roll(
        &self,
        deployment: &Deployment,
        spec: &DeploymentSpec,
    ) -> Result<(), kube::Error> {
        let wanted = spec.replicas.unwrap_or(1);
        let hash = fingerprint(&spec.template);
        let sets = self.sets_of(deployment);
        let (new, old): (Vec<_>, Vec<_>) = sets
            .iter()
            .partition(|set| set.labels().get(HASH) == Some(&hash));
        let old_size: i32 = old.iter().map(|set| asked(set)).sum();
        let (surge, unavailable) = limits(spec, wanted);
        let Some(new) = new.first() else {
            let first = if old_size == 0 {
                wanted
            } else {
                (wanted + surge - old_size).clamp(0, wanted)
            };
            return self.create_set(deployment, spec, first).await;
        };
        if old_size == 0 {
            return self.resize(new, wanted).await;
        }
        let grown = (wanted + surge - old_size).clamp(asked(new).min(wanted), wanted);
        self.resize(new, grown).await?;
        let ready: i32 = sets.iter().map(|set| ready(set)).sum();
        let mut spare = ready - (wanted - unavailable);
        for set in old {
            let unready = asked(set) - ready_within(set);
            let cut = (unready + spare.max(0)).min(asked(set));
            spare -= (cut - unready).max(0);
            self.resize(set, asked(set) - cut).await?;
        }
        Ok(())
    }

    fn status(&self, deployment: &Deployment, spec: &DeploymentSpec) -> DeploymentStatus {
        let wanted = spec.replicas.unwrap_or(1);
        let hash = fingerprint(&spec.template);
        let sets = self.sets_of(deployment);
        let total: i32 = sets.iter().map(|set| size(set)).sum();
        let available: i32 = sets.iter().map(|set| ready(set)).sum();
        let new = sets
            .iter()
            .filter(|set| set.labels().get(HASH) == Some(&hash));
        let updated: i32 = new.map(|set| size(set)).sum();
        let (_, unavailable) = limits(spec, wanted);
        let before = deployment.status.clone().unwrap_or_default();
        let enough = available >= wanted - unavailable;
        let done = updated >= wanted && available >= wanted && total == updated;
        let conditions = vec![
            self.condition(
                &before,
                "Available",
                enough,
                ["MinimumReplicasAvailable", "MinimumReplicasUnavailable"],
            ),
            self.condition(
                &before,
                "Progressing",
                true,
                [if done {
                    "NewReplicaSetAvailable"
                } else {
                    "ReplicaSetUpdated"
                }; 2],
            ),
        ];
        DeploymentStatus {
            replicas: Some(total),
            updated_replicas: Some(updated),
            ready_replicas: Some(available),
            available_replicas: Some(available),
            unavailable_replicas: Some((wanted - available).max(0)),
            observed_generation: deployment.metadata.generation,
            conditions: Some(conditions),
            ..before
        }
    }

    fn condition(
        &self,
        before: &DeploymentStatus,
        kind: &str,
        holds: bool,
        reasons: [&str; 2],
    ) -> DeploymentCondition {
        let status = if holds { "True" } else { "False" };
        let reason = if holds { reasons[0] } else { reasons[1] };
        let known = before
            .conditions
            .iter()
            .flatten()
            .find(|item| item.type_ == kind);
        if let Some(known) =
            known.filter(|known| known.status == status && known.reason.as_deref() == Some(reason))
        {
            return known.clone();
        }
        // The server keeps whole seconds; so does this, or the status would differ for ever.
        let now =
            Time(jiff::Timestamp::from_second(self.clock.now().as_second()).unwrap_or_default());
        let since = known
            .filter(|known| known.status == status)
            .and_then(|known| known.last_transition_time.clone());
        DeploymentCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            last_update_time: Some(now.clone()),
            last_transition_time: since.or(Some(now)),
            message: None,
        }
    }
}

fn asked(set: &ReplicaSet) -> i32 {
    set.spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1)
}

fn size(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.replicas)
}

fn ready(set: &ReplicaSet) -> i32 {
    set.status
        .as_ref()
        .and_then(|status| status.ready_replicas)
        .unwrap_or(0)
}

fn ready_within(set: &ReplicaSet) -> i32 {
    ready(set).min(asked(set))
}

/// How many pods more and fewer than wanted a roll may show.
fn limits(spec: &DeploymentSpec, wanted: i32) -> (i32, i32) {
    let strategy = spec.strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
        return (0, wanted);
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let surge = amount(
        rolling.and_then(|rolling| rolling.max_surge.as_ref()),
        wanted,
        true,
    );
    let unavailable = amount(
        rolling.and_then(|rolling| rolling.max_unavailable.as_ref()),
        wanted,
        false,
    );
    // Without either the roll could never move.
    (
        if surge == 0 && unavailable == 0 {
            1
        } else {
            surge
        },
        unavailable,
    )
}

fn amount(setting: Option<&IntOrString>, wanted: i32, up: bool) -> i32 {
    match setting {
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent: i32 = text.trim_end_matches('%').parse().unwrap_or(25);
            (wanted * percent + if up { 99 } else { 0 }) / 100
        }
        None => (wanted * 25 + if up { 99 } else { 0 }) / 100,
    }
}

#[async_trait]
impl Actor for Deployments {
    type Item = Key;

    async fn look(&mut self, key: &Key) -> Outcome {
        let Some(deployment) = self.informers.deployments.get(key) else {
            return Ok(None);
        };
        let spec = deployment.spec.clone().unwrap_or_default();
        if !is_ending(deployment.as_ref()) && spec.paused != Some(true) {
            self.roll(&deployment, &spec).await?;
        }
        let status = self.status(&deployment, &spec);
        write_status(
            &self.client,
            deployment.as_ref(),
            deployment.status.as_ref(),
            &status,
        )
        .await?;
        Ok(None)
    }
}
