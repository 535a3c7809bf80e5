//! Binds pods to nodes.
//!
//! Owns the choice of a node and the PodScheduled condition. Must not preempt. A pod that fits
//! nowhere waits until a node or another pod changes.

mod fit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status, Time};
use kube::api::{Patch, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use shipshape_cluster::Clock;

use super::informers::Informers;
use super::objects::{is_active, is_ending, is_finished, node_of};
use super::queue::Queue;
use super::store::{Index, Key};
use super::work::{self, Actor, Outcome, send_patch, unless_overtaken};
use fit::{Demand, Room};

const NAME: &str = "default-scheduler";

pub(crate) struct Scheduler {
    client: Client,
    clock: Clock,
    informers: Informers,
    /// Pods bound by us that the watch does not show as bound yet.
    assumed: BTreeMap<Key, (String, String)>,
    /// Every node with what is left on it, as of the last look.
    rooms: BTreeMap<String, (Arc<Node>, Room)>,
    /// Nodes about which something changed since.
    stale: Stale,
}

type Stale = Arc<Mutex<BTreeSet<String>>>;

fn mark(stale: &Stale, node: &str) {
    let mut stale = stale.lock().unwrap_or_else(PoisonError::into_inner);
    if !stale.contains(node) {
        stale.insert(node.to_owned());
    }
}

impl Scheduler {
    pub(crate) async fn run(client: Client, clock: Clock, informers: Informers) {
        let queue = Queue::new();
        let stale = Stale::default();
        listen(&informers, &queue);
        watch_rooms(&informers, &stale);
        informers.synced().await;
        let scheduler = Self {
            client,
            clock,
            informers,
            assumed: BTreeMap::new(),
            rooms: BTreeMap::new(),
            stale,
        };
        work::run(scheduler, queue).await;
    }

    /// Measures the nodes again about which something changed.
    fn measure(&mut self) {
        let pods = &self.informers.pods;
        let stale = &self.stale;
        self.assumed.retain(|key, (uid, node)| {
            let pod = pods.get(key);
            let is_open = pod.is_some_and(|pod| {
                pod.uid().as_deref() == Some(uid.as_str()) && node_of(&pod).is_none()
            });
            if !is_open {
                mark(stale, node);
            }
            is_open
        });
        let changed = std::mem::take(&mut *stale.lock().unwrap_or_else(PoisonError::into_inner));
        for name in changed {
            match self.informers.nodes.get(&Key::new("", &name)) {
                None => _ = self.rooms.remove(&name),
                Some(node) => {
                    let room = self.room(&node, &name);
                    self.rooms.insert(name, (node, room));
                }
            }
        }
    }

    /// What is left on a node, counting pods that are assumed to be there.
    fn room(&self, node: &Node, name: &str) -> Room {
        let pods = &self.informers.pods;
        let bound = pods.under(Index::Node, name);
        let assumed = self.assumed.iter().filter(|(_, (_, node))| node == name);
        let assumed = assumed.filter_map(|(key, _)| pods.get(key));
        let mut room = Room::of(node);
        for pod in bound.into_iter().chain(assumed) {
            if !is_finished(&pod) {
                room.take(&pod);
            }
        }
        room
    }

    async fn bind(&mut self, key: &Key, pod: &Pod, node: &str) -> Result<(), kube::Error> {
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                uid: pod.uid(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PostParams::default();
        let answer = pods
            .create_subresource::<_, Status>("binding", &key.name, &params, &binding)
            .await;
        if unless_overtaken(answer)?.is_some() {
            let assumed = (pod.uid().unwrap_or_default(), node.to_owned());
            self.assumed.insert(key.clone(), assumed);
            mark(&self.stale, node);
        }
        Ok(())
    }

    async fn refuse(&self, key: &Key, pod: &Pod, message: &str) -> Result<(), kube::Error> {
        let conditions = pod
            .status
            .as_ref()
            .and_then(|status| status.conditions.as_ref());
        let known =
            conditions.and_then(|list| list.iter().find(|item| item.type_ == "PodScheduled"));
        if known.is_some_and(|known| {
            known.status == "False" && known.message.as_deref() == Some(message)
        }) {
            return Ok(());
        }
        let patch = Patch::Strategic(json!({ "status": { "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": message, "lastTransitionTime": Time(self.clock.now()),
        }] } }));
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        unless_overtaken(send_patch(&pods, &key.name, Some("status"), &patch).await)?;
        Ok(())
    }
}

/// Whether the pod waits for this scheduler.
fn is_waiting(pod: &Pod) -> bool {
    let scheduler = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.scheduler_name.as_deref())
        .unwrap_or(NAME);
    node_of(pod).is_none() && is_active(pod) && scheduler == NAME
}

/// Notes which nodes are to be measured again.
fn watch_rooms(informers: &Informers, stale: &Stale) {
    let (by_pods, by_nodes) = (Arc::clone(stale), Arc::clone(stale));
    informers.pods.on_change(move |before, after| {
        for node in [before, after].into_iter().flatten().filter_map(node_of) {
            mark(&by_pods, node);
        }
    });
    informers.nodes.on_change(move |before, after| {
        if let Some(node) = after.or(before) {
            mark(&by_nodes, &node.name_any());
        }
    });
}

fn listen(informers: &Informers, queue: &Queue<Key>) {
    let (pods, waiting) = (informers.pods.clone(), queue.clone());
    let wake_all = move || {
        let unbound = pods.under(Index::Node, "");
        for pod in unbound.iter().filter(|pod| is_waiting(pod)) {
            waiting.add(Key::of(pod.as_ref()));
        }
    };
    let (wake, one) = (wake_all.clone(), queue.clone());
    informers.pods.on_change(move |before, after| {
        if let Some(pod) = after.filter(|pod| is_waiting(pod)) {
            let moved = before.is_none_or(|before| before.labels() != pod.labels());
            let new = moved || before.is_some_and(|before| before.spec != pod.spec);
            if new {
                one.add(Key::of(pod));
            }
            return;
        }
        let freed = before.is_some_and(|pod| node_of(pod).is_some() && !is_finished(pod))
            && after.is_none_or(is_finished);
        if freed {
            wake();
        }
    });
    informers.nodes.on_change(move |before, after| {
        let changed = match (before, after) {
            (Some(before), Some(after)) => {
                before.spec != after.spec
                    || before.labels() != after.labels()
                    || Room::of(before) != Room::of(after)
            }
            _ => true,
        };
        if changed {
            wake_all();
        }
    });
}

#[async_trait]
impl Actor for Scheduler {
    type Item = Key;

    async fn look(&mut self, key: &Key) -> Outcome {
        let pod = self
            .informers
            .pods
            .get(key)
            .filter(|pod| is_waiting(pod) && !is_ending(pod.as_ref()));
        let Some(pod) = pod else { return Ok(None) };
        if self
            .assumed
            .get(key)
            .is_some_and(|(uid, _)| pod.uid().as_deref() == Some(uid))
        {
            return Ok(None);
        }
        self.measure();
        let rooms = &self.rooms;
        let demand = Demand::of(&pod);
        let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
        let mut best: Option<(fit::Score, &str)> = None;
        for (name, (node, room)) in rooms {
            match fit::judge(&pod, &demand, node, room) {
                Ok(score) if best.is_none_or(|(known, _)| score > known) => {
                    best = Some((score, name));
                }
                Ok(_) => {}
                Err(reason) => *refusals.entry(reason).or_default() += 1,
            }
        }
        match best {
            Some((_, node)) => {
                let node = node.to_owned();
                self.bind(key, &pod, &node).await?;
            }
            None => {
                self.refuse(key, &pod, &fit::summary(self.rooms.len(), &refusals))
                    .await?;
            }
        }
        Ok(None)
    }
}
