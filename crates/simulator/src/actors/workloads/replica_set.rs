//! Keeps as many pods as a ReplicaSet asks for.

use async_trait::async_trait;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};

use super::{
    adopt, count, create_drawn, delete_pod, listen_to, listen_to_children, pods_of, write_status,
};
use crate::actors::informers::Informers;
use crate::actors::objects::{
    controlled_by, is_active, is_ending, is_ready, node_of, phase, pod_from,
};
use crate::actors::queue::Queue;
use crate::actors::store::Key;
use crate::actors::work::{self, Actor, Outcome};
use crate::seed::Seed;

pub(crate) struct ReplicaSets {
    client: Client,
    informers: Informers,
    chance: Seed,
}

impl ReplicaSets {
    pub(crate) async fn run(client: Client, informers: Informers, seed: Seed) {
        let queue = Queue::new();
        listen_to(&informers.replica_sets, &queue);
        listen_to_children::<Pod, ReplicaSet>(&informers.pods, &queue);
        informers.synced().await;
        let actor = Self {
            client,
            informers,
            chance: seed.fork("replica sets"),
        };
        work::run(actor, queue).await;
    }

    async fn scale(&mut self, set: &ReplicaSet, active: &[&Pod]) -> Result<(), kube::Error> {
        let spec = set.spec.clone().unwrap_or_default();
        let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
        let template = spec.template.unwrap_or_default();
        for _ in active.len()..wanted {
            let namespace = set.namespace().unwrap_or_default();
            let pod = pod_from(&template, &namespace, "", controlled_by(set));
            let (chance, pods) = (&mut self.chance, &self.informers.pods);
            create_drawn(&self.client, pods, chance, &set.name_any(), pod).await?;
        }
        let mut surplus = active.to_vec();
        surplus.sort_by_key(|pod| cost(pod));
        for pod in surplus.iter().take(active.len().saturating_sub(wanted)) {
            delete_pod(&self.client, &self.informers.pods, pod).await?;
        }
        Ok(())
    }
}

/// Which pod to remove first: not bound, not running, not ready, then the youngest.
fn cost(pod: &Pod) -> (bool, bool, bool, std::cmp::Reverse<String>, String) {
    let created = pod
        .creation_timestamp()
        .map(|time| time.0.to_string())
        .unwrap_or_default();
    (
        node_of(pod).is_some(),
        phase(pod) == "Running",
        is_ready(pod),
        std::cmp::Reverse(created),
        pod.name_any(),
    )
}

#[async_trait]
impl Actor for ReplicaSets {
    type Item = Key;

    async fn look(&mut self, key: &Key) -> Outcome {
        let Some(set) = self.informers.replica_sets.get(key) else {
            return Ok(None);
        };
        if set
            .status
            .as_ref()
            .is_none_or(|status| status.observed_generation.is_none())
        {
            let spec = set.spec.clone().unwrap_or_default();
            adopt(
                &self.client,
                &self.informers.pods,
                set.as_ref(),
                &spec.selector,
            )
            .await?;
        }
        let pods = pods_of(&self.informers.pods, set.as_ref());
        let active: Vec<&Pod> = pods
            .iter()
            .map(AsRef::as_ref)
            .filter(|pod| is_active(pod))
            .collect();
        if !is_ending(set.as_ref()) {
            self.scale(&set, &active).await?;
        }
        let pods = pods_of(&self.informers.pods, set.as_ref());
        let active = pods.iter().filter(|pod| is_active(pod)).count();
        let ready = pods
            .iter()
            .filter(|pod| is_active(pod) && is_ready(pod))
            .count();
        let before = set.status.as_ref();
        let status = ReplicaSetStatus {
            replicas: count(active),
            fully_labeled_replicas: Some(count(active)),
            ready_replicas: Some(count(ready)),
            available_replicas: Some(count(ready)),
            observed_generation: set.metadata.generation,
            ..before.cloned().unwrap_or_default()
        };
        write_status(&self.client, set.as_ref(), before, &status).await?;
        Ok(None)
    }
}
