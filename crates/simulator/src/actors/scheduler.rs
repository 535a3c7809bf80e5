//! Binds pods to nodes.
//!
//! Owns the choice of a node and the PodScheduled condition. Must not preempt. A pod that fits
//! nowhere waits until a node or another pod changes.

mod fit;

use std::collections::BTreeMap;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use shipshape_cluster::Clock;

use super::informers::Informers;
use super::objects::{is_active, is_ending, is_finished, node_of};
use super::queue::Queue;
use super::store::Key;
use super::work::{self, Actor, Outcome, unless_overtaken};
use fit::{Demand, Room};

const NAME: &str = "default-scheduler";

pub(crate) struct Scheduler {
    client: Client,
    clock: Clock,
    informers: Informers,
    /// Pods bound by us that the watch does not show as bound yet.
    assumed: BTreeMap<Key, (String, String)>,
}

impl Scheduler {
    pub(crate) async fn run(client: Client, clock: Clock, informers: Informers) {
        let queue = Queue::new();
        listen(&informers, &queue);
        informers.synced().await;
        let scheduler = Self {
            client,
            clock,
            informers,
            assumed: BTreeMap::new(),
        };
        work::run(scheduler, queue).await;
    }

    /// Every node with what is left on it, counting pods that are assumed to be there.
    fn rooms(&mut self) -> BTreeMap<String, (std::sync::Arc<Node>, Room)> {
        let mut rooms: BTreeMap<_, _> = self
            .informers
            .nodes
            .all()
            .into_iter()
            .map(|node| (node.name_any(), (node.clone(), Room::of(&node))))
            .collect();
        for pod in self.informers.pods.all() {
            let key = Key::of(pod.as_ref());
            let bound = node_of(&pod);
            if bound.is_some() {
                self.assumed.remove(&key);
            }
            let assumed = self
                .assumed
                .get(&key)
                .filter(|(uid, _)| pod.uid().as_deref() == Some(uid));
            let node = bound.or(assumed.map(|(_, node)| node.as_str()));
            if let Some((_, room)) = node.and_then(|node| rooms.get_mut(node))
                && !is_finished(&pod)
            {
                room.take(&pod);
            }
        }
        rooms
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
        unless_overtaken(
            pods.patch_status(&key.name, &PatchParams::default(), &patch)
                .await,
        )?;
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

fn listen(informers: &Informers, queue: &Queue<Key>) {
    let (pods, waiting) = (informers.pods.clone(), queue.clone());
    let wake_all = move || {
        for pod in pods.all().iter().filter(|pod| is_waiting(pod)) {
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
        let rooms = self.rooms();
        let demand = Demand::of(&pod);
        let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
        let mut best: Option<(fit::Score, &str)> = None;
        for (name, (node, room)) in &rooms {
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
                self.refuse(key, &pod, &fit::summary(rooms.len(), &refusals))
                    .await?;
            }
        }
        Ok(None)
    }
}
