//! Keeps one pod of a DaemonSet on every node that fits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};
use kube::{Client, ResourceExt as _};

use super::{
    count, create_drawn, delete_pod, listen_to, listen_to_children, pods_of, write_status,
};
use crate::actors::informers::Informers;
use crate::actors::objects::{
    controlled_by, fingerprint, is_ending, is_finished, is_ready, pod_from,
};
use crate::actors::placement::{is_wanted, repelling, tolerates};
use crate::actors::queue::Queue;
use crate::actors::store::Key;
use crate::actors::work::{self, Actor, Outcome};
use crate::seed::Seed;

const GENERATION: &str = "pod-template-generation";

pub(crate) struct DaemonSets {
    client: Client,
    informers: Informers,
    chance: Seed,
}

impl DaemonSets {
    pub(crate) async fn run(client: Client, informers: Informers, seed: Seed) {
        let queue = Queue::new();
        listen_to(&informers.daemon_sets, &queue);
        listen_to_children::<Pod, DaemonSet>(&informers.pods, &queue);
        let (sets, all) = (informers.daemon_sets.clone(), queue.clone());
        informers.nodes.on_change(move |before, after| {
            let is_same = before.zip(after).is_some_and(|(before, after)| {
                before.spec == after.spec && before.labels() == after.labels()
            });
            if !is_same {
                for set in sets.all() {
                    all.add(Key::of(set.as_ref()));
                }
            }
        });
        informers.synced().await;
        let actor = Self {
            client,
            informers,
            chance: seed.fork("daemon sets"),
        };
        work::run(actor, queue).await;
    }

    async fn step(
        &mut self,
        set: &DaemonSet,
        template: &Pod,
        pods: &[Arc<Pod>],
    ) -> Result<(), kube::Error> {
        let spec = template.spec.clone().unwrap_or_default();
        let mut placed: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
        for pod in pods {
            placed
                .entry(target(pod).unwrap_or_default())
                .or_default()
                .push(pod);
        }
        for node in self.informers.nodes.all() {
            let name = node.name_any();
            let mut here = placed.remove(name.as_str()).into_iter().flatten();
            let found = here.next();
            let fits = fits(&spec, &node);
            match found {
                None if fits && may_start(&spec, &node) => {
                    self.create(set, template, &name).await?;
                }
                Some(pod) if !is_ending(pod.as_ref()) && (!fits || is_finished(pod)) => {
                    delete_pod(&self.client, &self.informers.pods, pod).await?;
                }
                _ => {}
            }
            for second in here.filter(|pod| !is_ending(pod.as_ref())) {
                delete_pod(&self.client, &self.informers.pods, second).await?;
            }
        }
        Ok(())
    }

    async fn create(
        &mut self,
        set: &DaemonSet,
        template: &Pod,
        node: &str,
    ) -> Result<(), kube::Error> {
        let mut pod = template.clone();
        let affinity = pod
            .spec
            .get_or_insert_default()
            .affinity
            .get_or_insert_default();
        affinity
            .node_affinity
            .get_or_insert_default()
            .required_during_scheduling_ignored_during_execution = Some(NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm {
                match_fields: Some(vec![NodeSelectorRequirement {
                    key: "metadata.name".to_owned(),
                    operator: "In".to_owned(),
                    values: Some(vec![node.to_owned()]),
                }]),
                match_expressions: None,
            }],
        });
        let (chance, pods) = (&mut self.chance, &self.informers.pods);
        create_drawn(&self.client, pods, chance, &set.name_any(), pod).await
    }

    /// Lets the oldest templates go, one node at a time.
    async fn renew(&self, spec: &DaemonSetSpec, pods: &[Arc<Pod>]) -> Result<(), kube::Error> {
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
        let hash = fingerprint(&spec.template);
        let is_old = |pod: &&Arc<Pod>| pod.labels().get("controller-revision-hash") != Some(&hash);
        match pods.iter().find(is_old) {
            Some(pod) => delete_pod(&self.client, &self.informers.pods, pod).await,
            None => Ok(()),
        }
    }

    fn status(&self, set: &DaemonSet, spec: &DaemonSetSpec, wanted: &PodSpec) -> DaemonSetStatus {
        let pods = pods_of(&self.informers.pods, set);
        let hash = fingerprint(&spec.template);
        let nodes = self.informers.nodes.all();
        let fitting: BTreeSet<String> = nodes
            .iter()
            .filter(|node| is_wanted(wanted, node) && may_start(wanted, node))
            .map(|node| node.name_any())
            .collect();
        let placed: Vec<&Arc<Pod>> = pods
            .iter()
            .filter(|pod| {
                target(pod).is_some_and(|node| fitting.contains(node)) && !is_finished(pod)
            })
            .collect();
        let ready = placed.iter().filter(|pod| is_ready(pod)).count();
        let new = placed
            .iter()
            .filter(|pod| pod.labels().get("controller-revision-hash") == Some(&hash));
        let stray = pods
            .iter()
            .filter(|pod| target(pod).is_some_and(|node| !fitting.contains(node)));
        DaemonSetStatus {
            current_number_scheduled: count(placed.len()),
            desired_number_scheduled: count(fitting.len()),
            number_available: Some(count(ready)),
            number_misscheduled: count(stray.count()),
            number_ready: count(ready),
            number_unavailable: Some(count(fitting.len().saturating_sub(ready))),
            observed_generation: set.metadata.generation,
            updated_number_scheduled: Some(count(new.count())),
            ..set.status.clone().unwrap_or_default()
        }
    }
}

/// The pod of a set, before it knows its node, with the tolerations every daemon has.
fn template_of(set: &DaemonSet, spec: &DaemonSetSpec) -> Pod {
    let namespace = set.namespace().unwrap_or_default();
    let mut pod = pod_from(&spec.template, &namespace, "", controlled_by(set));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(
        "controller-revision-hash".to_owned(),
        fingerprint(&spec.template),
    );
    labels.insert(
        GENERATION.to_owned(),
        set.metadata.generation.unwrap_or(1).to_string(),
    );
    let tolerations = pod
        .spec
        .get_or_insert_default()
        .tolerations
        .get_or_insert_default();
    for (key, effect) in [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ] {
        tolerations.push(Toleration {
            key: Some(format!("node.kubernetes.io/{key}")),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        });
    }
    pod
}

/// Whether a daemon belongs on the node; one that is there already stays under NoSchedule taints.
fn fits(spec: &PodSpec, node: &Node) -> bool {
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let executing = crate::actors::placement::taints(node)
        .iter()
        .filter(|taint| taint.effect == "NoExecute");
    is_wanted(spec, node)
        && executing
            .into_iter()
            .all(|taint| tolerates(tolerations, taint))
}

/// Whether a new daemon pod can be placed on the node now.
fn may_start(spec: &PodSpec, node: &Node) -> bool {
    repelling(spec.tolerations.as_deref().unwrap_or_default(), node).is_none()
}

/// The node a daemon pod is meant for, bound or not.
fn target(pod: &Pod) -> Option<&str> {
    let required = pod
        .spec
        .as_ref()?
        .affinity
        .as_ref()?
        .node_affinity
        .as_ref()?
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let field = required
        .node_selector_terms
        .first()?
        .match_fields
        .as_ref()?
        .first()?;
    field.values.as_ref()?.first().map(String::as_str)
}

#[async_trait]
impl Actor for DaemonSets {
    type Item = Key;

    async fn look(&mut self, key: &Key) -> Outcome {
        let Some(set) = self.informers.daemon_sets.get(key) else {
            return Ok(None);
        };
        let spec = set.spec.clone().unwrap_or_default();
        let template = template_of(&set, &spec);
        if !is_ending(set.as_ref()) {
            let pods = pods_of(&self.informers.pods, set.as_ref());
            self.step(&set, &template, &pods).await?;
            self.renew(&spec, &pods).await?;
        }
        let wanted = template.spec.unwrap_or_default();
        let status = self.status(&set, &spec, &wanted);
        write_status(&self.client, set.as_ref(), set.status.as_ref(), &status).await?;
        Ok(None)
    }
}
