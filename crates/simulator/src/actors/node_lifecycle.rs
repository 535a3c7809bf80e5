//! What the control plane does about nodes: lapsed leases, taints, and the pods of lost nodes.
//!
//! Owns the taints `not-ready`, `unreachable` and `unschedulable`, the Unknown state of a silent
//! node, the eviction of pods by taints and the removal of pods whose Node is gone. Must not touch
//! machines.

mod eviction;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::Patch;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use shipshape_cluster::Clock;

use super::informers::Informers;
use super::objects::{is_finished, is_ready, node_of, node_ready};
use super::placement::taints;
use super::queue::Queue;
use super::store::{Index, Key};
use super::work::{self, Actor, Outcome, send_patch, unless_overtaken};

/// How long a node may be silent.
const GRACE: SignedDuration = SignedDuration::from_secs(40);
/// How long a node may take to its first lease.
const START: SignedDuration = SignedDuration::from_secs(60);
/// How long the pods of a Node that is gone are left alone, in case it comes back.
const QUARANTINE: Duration = Duration::from_secs(40);

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    Node(String),
    Orphans(String),
    Pod(Key),
}

pub(crate) struct NodeLifecycle {
    client: Client,
    clock: Clock,
    informers: Informers,
    /// Nodes that are silent: their next lease is news.
    silent: Arc<Mutex<BTreeSet<String>>>,
    queue: Queue<Item>,
}

impl NodeLifecycle {
    pub(crate) async fn run(client: Client, clock: Clock, informers: Informers) {
        let queue = Queue::new();
        let silent = Arc::new(Mutex::new(BTreeSet::new()));
        listen(&informers, &queue, &silent);
        informers.synced().await;
        let actor = Self {
            client,
            clock,
            informers,
            silent,
            queue: queue.clone(),
        };
        work::run(actor, queue).await;
    }

    /// How long the node may still be silent; negative when it has been silent for too long.
    fn patience(&self, node: &Node) -> SignedDuration {
        let lease = self
            .informers
            .leases
            .get(&Key::new(super::kubelet::LEASES, &node.name_any()));
        let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.clone());
        let created = node.creation_timestamp().map(|time| time.0);
        let now = self.clock.now();
        match (renewed, created) {
            (Some(renewed), _) => GRACE - now.duration_since(renewed.0),
            (None, Some(created)) => START - now.duration_since(created),
            (None, None) => START,
        }
    }

    async fn look_at_node(&mut self, name: &str) -> Outcome {
        let Some(node) = self.informers.nodes.get(&Key::new("", name)) else {
            self.silent().remove(name);
            self.queue
                .add_after(Item::Orphans(name.to_owned()), QUARANTINE);
            return Ok(None);
        };
        let patience = self.patience(&node);
        let is_silent = !patience.is_positive();
        if is_silent {
            self.silent().insert(name.to_owned());
            if node_ready(&node) != Some("Unknown") {
                self.mark_unknown(name).await?;
                return Ok(None);
            }
        } else {
            self.silent().remove(name);
        }
        self.taint(&node).await?;
        if node_ready(&node) != Some("True") {
            self.mark_pods(name).await?;
        }
        for pod in self.pods_on(name) {
            self.queue.add(Item::Pod(Key::of(pod.as_ref())));
        }
        Ok(Duration::try_from(patience).ok().filter(|_| !is_silent))
    }

    fn silent(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pods_on(&self, name: &str) -> Vec<Arc<Pod>> {
        self.informers.pods.under(Index::Node, name)
    }

    async fn mark_unknown(&self, name: &str) -> Result<(), kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = Patch::Strategic(json!({ "status": { "conditions": [{
            "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": Time(self.clock.now()),
        }] } }));
        unless_overtaken(send_patch(&nodes, name, Some("status"), &patch).await)?;
        Ok(())
    }

    /// Pods of a node that is not ready do not serve.
    async fn mark_pods(&self, name: &str) -> Result<(), kube::Error> {
        for pod in self
            .pods_on(name)
            .iter()
            .filter(|pod| is_ready(pod) && !is_finished(pod))
        {
            let patch = Patch::Strategic(json!({ "status": { "conditions": [{
                "type": "Ready", "status": "False", "lastTransitionTime": Time(self.clock.now()),
            }] } }));
            let pods: Api<Pod> =
                Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
            unless_overtaken(send_patch(&pods, &pod.name_any(), Some("status"), &patch).await)?;
        }
        Ok(())
    }

    /// Makes the node's taints say what its conditions say.
    async fn taint(&self, node: &Node) -> Result<(), kube::Error> {
        let wanted = self.wanted_taints(node);
        if wanted == taints(node) {
            return Ok(());
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": node.resource_version() },
            "spec": { "taints": wanted },
        }));
        unless_overtaken(send_patch(&nodes, &node.name_any(), None, &patch).await)?;
        Ok(())
    }

    fn wanted_taints(&self, node: &Node) -> Vec<Taint> {
        let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
        let mut wanted = Vec::new();
        match node_ready(node) {
            Some("True") => {}
            Some("Unknown") => {
                wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]);
            }
            Some(_) => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
            None => wanted.push((NOT_READY, "NoSchedule")),
        }
        if cordoned {
            wanted.push((UNSCHEDULABLE, "NoSchedule"));
        }
        let ours =
            |taint: &Taint| [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&taint.key.as_str());
        let is_wanted = |taint: &&Taint| {
            !ours(taint) || wanted.contains(&(taint.key.as_str(), taint.effect.as_str()))
        };
        let mut result: Vec<Taint> = taints(node).iter().filter(is_wanted).cloned().collect();
        for (key, effect) in wanted {
            if !result
                .iter()
                .any(|taint| taint.key == key && taint.effect == effect)
            {
                let added = jiff::Timestamp::from_second(self.clock.now().as_second());
                result.push(Taint {
                    key: key.to_owned(),
                    effect: effect.to_owned(),
                    time_added: (effect == "NoExecute").then(|| Time(added.unwrap_or_default())),
                    value: None,
                });
            }
        }
        result
    }
}

fn listen(informers: &Informers, queue: &Queue<Item>, silent: &Arc<Mutex<BTreeSet<String>>>) {
    let nodes = queue.clone();
    informers.nodes.on_change(move |before, after| {
        if let Some(node) = after.or(before) {
            nodes.add(Item::Node(node.name_any()));
        }
    });
    let (leases, silent) = (queue.clone(), Arc::clone(silent));
    informers.leases.on_change(move |_, after| {
        let Some(name) = after.map(kube::ResourceExt::name_any) else {
            return;
        };
        if silent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&name)
        {
            leases.add(Item::Node(name));
        }
    });
    let pods = queue.clone();
    informers.pods.on_change(move |before, after| {
        if let Some(pod) = after
            && before.is_none_or(|before| node_of(before) != node_of(pod))
            && node_of(pod).is_some()
        {
            pods.add(Item::Pod(Key::of(pod)));
        }
    });
}

#[async_trait]
impl Actor for NodeLifecycle {
    type Item = Item;

    async fn look(&mut self, item: &Item) -> Outcome {
        match item {
            Item::Node(name) => self.look_at_node(name).await,
            Item::Orphans(name) => self.remove_orphans(name).await,
            Item::Pod(key) => self.look_at_pod(key).await,
        }
    }
}
