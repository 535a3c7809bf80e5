//! Keeps the numbered pods of a StatefulSet, in order, each under its own name.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume,
};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};

use super::{count, create_pod, delete_pod, listen_to, listen_to_children, pods_of, write_status};
use crate::actors::informers::Informers;
use crate::actors::objects::{
    controlled_by, fingerprint, is_ending, is_finished, is_ready, pod_from,
};
use crate::actors::queue::Queue;
use crate::actors::store::Key;
use crate::actors::work::{self, Actor, Outcome, is_conflict};

const REVISION: &str = "controller-revision-hash";

pub(crate) struct StatefulSets {
    client: Client,
    informers: Informers,
}

impl StatefulSets {
    pub(crate) async fn run(client: Client, informers: Informers) {
        let queue = Queue::new();
        listen_to(&informers.stateful_sets, &queue);
        listen_to_children::<Pod, StatefulSet>(&informers.pods, &queue);
        informers.synced().await;
        work::run(Self { client, informers }, queue).await;
    }

    /// Takes the next step. A name is used again only once its last holder is gone.
    async fn step(&self, set: &StatefulSet, spec: &StatefulSetSpec) -> Result<(), kube::Error> {
        let wanted = spec.replicas.unwrap_or(1);
        let ordered = spec.pod_management_policy.as_deref() != Some("Parallel");
        let pods = pods_of(&self.informers.pods, set);
        for number in 0..wanted {
            let name = format!("{}-{number}", set.name_any());
            match pods.iter().find(|pod| pod.name_any() == name) {
                None => self.create(set, spec, number).await?,
                Some(pod) if is_finished(pod) && !is_ending(pod.as_ref()) => {
                    delete_pod(&self.client, &self.informers.pods, pod).await?;
                }
                Some(pod) if is_ready(pod) && !is_ending(pod.as_ref()) => continue,
                Some(_) => {}
            }
            if ordered {
                return Ok(());
            }
        }
        let surplus = pods
            .iter()
            .filter(|pod| number_of(pod).is_some_and(|number| number >= wanted));
        if let Some(last) = surplus.max_by_key(|pod| number_of(pod)) {
            if is_ending(last.as_ref()) {
                return Ok(());
            }
            return delete_pod(&self.client, &self.informers.pods, last).await;
        }
        self.renew(spec, &pods).await
    }

    /// Replaces the last pod that is of an older template, once all are ready.
    async fn renew(&self, spec: &StatefulSetSpec, pods: &[Arc<Pod>]) -> Result<(), kube::Error> {
        let strategy = spec
            .update_strategy
            .as_ref()
            .and_then(|strategy| strategy.type_.as_deref());
        let whole = pods
            .iter()
            .all(|pod| is_ready(pod) && !is_ending(pod.as_ref()));
        if strategy == Some("OnDelete") || !whole {
            return Ok(());
        }
        let revision = fingerprint(&spec.template);
        let old = pods
            .iter()
            .filter(|pod| pod.labels().get(REVISION) != Some(&revision));
        match old.max_by_key(|pod| number_of(pod)) {
            Some(pod) => delete_pod(&self.client, &self.informers.pods, pod).await,
            None => Ok(()),
        }
    }

    async fn create(
        &self,
        set: &StatefulSet,
        spec: &StatefulSetSpec,
        number: i32,
    ) -> Result<(), kube::Error> {
        let namespace = set.namespace().unwrap_or_default();
        let name = format!("{}-{number}", set.name_any());
        let mut pod = pod_from(&spec.template, &namespace, &name, controlled_by(set));
        let labels = pod.metadata.labels.get_or_insert_default();
        labels.insert(REVISION.to_owned(), fingerprint(&spec.template));
        labels.insert(
            "statefulset.kubernetes.io/pod-name".to_owned(),
            name.clone(),
        );
        labels.insert(
            "apps.kubernetes.io/pod-index".to_owned(),
            number.to_string(),
        );
        let pod_spec = pod.spec.get_or_insert_default();
        pod_spec.hostname = Some(name.clone());
        pod_spec.subdomain.clone_from(&spec.service_name);
        for template in spec.volume_claim_templates.iter().flatten() {
            let claim = format!("{}-{name}", template.name_any());
            self.claim(template, &namespace, &claim).await?;
            pod_spec.volumes.get_or_insert_default().push(Volume {
                name: template.name_any(),
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name: claim,
                    read_only: None,
                }),
                ..Volume::default()
            });
        }
        create_pod(&self.client, &self.informers.pods, &pod).await
    }

    async fn claim(
        &self,
        template: &PersistentVolumeClaim,
        namespace: &str,
        name: &str,
    ) -> Result<(), kube::Error> {
        if self
            .informers
            .claims
            .get(&Key::new(namespace, name))
            .is_some()
        {
            return Ok(());
        }
        let mut claim = template.clone();
        claim.metadata.name = Some(name.to_owned());
        claim.metadata.namespace = Some(namespace.to_owned());
        claim.status = None;
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        match api.create(&PostParams::default(), &claim).await {
            Err(error) if !is_conflict(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn status(&self, set: &StatefulSet, spec: &StatefulSetSpec) -> StatefulSetStatus {
        let pods = pods_of(&self.informers.pods, set);
        let revision = fingerprint(&spec.template);
        let there = pods.iter().filter(|pod| !is_finished(pod));
        let ready = there
            .clone()
            .filter(|pod| is_ready(pod) && !is_ending(pod.as_ref()))
            .count();
        let new = there
            .clone()
            .filter(|pod| pod.labels().get(REVISION) == Some(&revision))
            .count();
        let total = there.count();
        let name = format!("{}-{revision}", set.name_any());
        let before = set.status.clone().unwrap_or_default();
        let done = new == total;
        StatefulSetStatus {
            replicas: count(total),
            ready_replicas: Some(count(ready)),
            available_replicas: Some(count(ready)),
            current_replicas: Some(count(if done { new } else { total - new })),
            updated_replicas: Some(count(new)),
            current_revision: if done {
                Some(name.clone())
            } else {
                before.current_revision.clone()
            },
            update_revision: Some(name),
            observed_generation: set.metadata.generation,
            collision_count: Some(0),
            ..before
        }
    }
}

/// The number at the end of a pod's name.
fn number_of(pod: &Pod) -> Option<i32> {
    pod.name_any()
        .rsplit_once('-')
        .and_then(|(_, number)| number.parse().ok())
}

#[async_trait]
impl Actor for StatefulSets {
    type Item = Key;

    async fn look(&mut self, key: &Key) -> Outcome {
        let Some(set) = self.informers.stateful_sets.get(key) else {
            return Ok(None);
        };
        let spec = set.spec.clone().unwrap_or_default();
        if !is_ending(set.as_ref()) {
            self.step(&set, &spec).await?;
        }
        let status = self.status(&set, &spec);
        write_status(&self.client, set.as_ref(), set.status.as_ref(), &status).await?;
        Ok(None)
    }
}
