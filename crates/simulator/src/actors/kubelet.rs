//! One machine's kubelet: registers its Node, keeps its lease, runs the pods bound to it.
//!
//! Owns the Node's status, the node lease and the pods' status. Must not schedule, evict or touch
//! taints after registration. `machines` starts one when a machine has booted and drops it when the
//! machine ends: then leases stop and pods are lost, as when power fails. Speaks to the API through
//! a `kube::Client` alone, so it serves on a real control plane too.

mod node;
mod pods;
mod worker;

pub use worker::checked;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::api::{Patch, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use shipshape_cluster::Clock;
use tokio::task::JoinSet;

use super::delays::Delays;
use super::objects::node_ready;
use super::queue::Queue;
use super::store::{Key, Store};
use super::work::{self, Actor, Outcome, is_conflict, is_not_found, send_patch};
use crate::cloud::{Cloud, MachineFacts, node_name};
use crate::seed::Seed;

/// The namespace of node leases.
pub(crate) const LEASES: &str = "kube-node-lease";
/// How often a lease is renewed, and for how long it then holds.
const RENEW: Duration = Duration::from_secs(10);
const LEASE_SECONDS: i32 = 40;
/// How often an unchanged status is written all the same.
const HEARTBEAT: Duration = Duration::from_mins(5);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    Register,
    Ready,
    Lease,
    Status,
    Pod(Key),
}

/// What a test or a scenario does to a kubelet.
#[derive(Clone)]
pub struct KubeletControl {
    mode: Arc<Mutex<Mode>>,
    queue: Queue<Item>,
    pods: Store<Pod>,
}

#[derive(Clone, Debug)]
struct Mode {
    /// Whether the kubelet does anything at all.
    frozen: bool,
    /// Whether it says Ready, once it has had its start-up time.
    healthy: bool,
    started: bool,
    /// Counts boots; part of the boot id.
    boot: u32,
}

impl KubeletControl {
    fn change(&self, change: impl FnOnce(&mut Mode)) {
        change(&mut self.mode.lock().unwrap_or_else(PoisonError::into_inner));
        self.queue.add(Item::Lease);
        self.queue.add(Item::Status);
        for pod in self.pods.all() {
            self.queue.add(Item::Pod(Key::of(pod.as_ref())));
        }
    }

    /// Stops everything the kubelet does, heartbeats included, or lets it go on.
    pub fn set_frozen(&self, frozen: bool) {
        self.change(|mode| mode.frozen = frozen);
    }

    /// Makes the kubelet report Ready or not.
    pub fn set_healthy(&self, healthy: bool) {
        self.change(|mode| mode.healthy = healthy);
    }

    /// Takes the machine down for `outage`; it comes back with another boot id and its pods start
    /// again. A Node that somebody has deleted meanwhile is registered anew.
    pub async fn reboot(&self, outage: Duration) {
        self.set_frozen(true);
        tokio::time::sleep(outage).await;
        self.change(|mode| {
            mode.frozen = false;
            mode.boot += 1;
        });
        self.queue.add(Item::Register);
    }
}

/// A kubelet at work.
pub(crate) struct Kubelet {
    client: Client,
    clock: Clock,
    cloud: Cloud,
    facts: MachineFacts,
    name: String,
    delays: Delays,
    chance: Seed,
    queue: Queue<Item>,
    pods: Store<Pod>,
    own: Store<Node>,
    mode: Arc<Mutex<Mode>>,
    runs: BTreeMap<Key, pods::Run>,
    watches: JoinSet<()>,
}

impl Kubelet {
    /// A kubelet for a machine, and the handle to disturb it.
    pub(crate) fn new(
        client: Client,
        clock: Clock,
        (cloud, facts): (Cloud, MachineFacts),
        delays: Delays,
        seed: &Seed,
    ) -> Self {
        let name = node_name(&facts.machine.id);
        Self {
            client,
            clock,
            cloud,
            chance: seed.fork(&name),
            name,
            delays,
            queue: Queue::new(),
            pods: Store::new(),
            own: Store::new(),
            mode: Arc::new(Mutex::new(Mode {
                frozen: false,
                healthy: facts.gets_ready,
                started: false,
                boot: 1,
            })),
            facts,
            runs: BTreeMap::new(),
            watches: JoinSet::new(),
        }
    }

    pub(crate) fn control(&self) -> KubeletControl {
        KubeletControl {
            mode: Arc::clone(&self.mode),
            queue: self.queue.clone(),
            pods: self.pods.clone(),
        }
    }

    /// Runs until dropped.
    pub(crate) async fn run(self) {
        let queue = self.queue.clone();
        queue.add(Item::Register);
        work::run(self, queue).await;
    }

    fn mode(&self) -> Mode {
        self.mode
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn delay(&mut self, around: Duration) -> Duration {
        self.chance.jitter(around, self.delays.jitter)
    }

    async fn register(&mut self) -> Outcome {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let wanted = node::registration(&self.facts, &self.name);
        match nodes.create(&PostParams::default(), &wanted).await {
            Ok(_) => {}
            Err(error) if is_conflict(&error) => {}
            Err(error) => return Err(error),
        }
        self.write_status().await?;
        if self.watches.is_empty() {
            self.watch();
        }
        self.queue.add(Item::Lease);
        let ready = self.delay(self.delays.node_ready);
        self.queue.add_after(Item::Ready, ready);
        Ok(None)
    }

    fn watch(&mut self) {
        let queue = self.queue.clone();
        self.pods.on_change(move |before, after| {
            if let Some(pod) = after.or(before) {
                queue.add(Item::Pod(Key::of(pod)));
            }
        });
        let fields = format!("spec.nodeName={}", self.name);
        let pods = self
            .pods
            .clone()
            .follow(Api::all(self.client.clone()), Some(fields));
        self.watches.spawn(pods);

        let queue = self.queue.clone();
        let mode = Arc::clone(&self.mode);
        self.own.on_change(move |_, after| {
            let mode = mode.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let said = after.and_then(node_ready).unwrap_or("Unknown");
            if after.is_some() && said != node::ready_word(&mode) {
                queue.add(Item::Status);
            }
        });
        let fields = format!("metadata.name={}", self.name);
        let own = self
            .own
            .clone()
            .follow(Api::all(self.client.clone()), Some(fields));
        self.watches.spawn(own);
    }

    async fn write_status(&mut self) -> Result<(), kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let before = self.own.get(&Key::new("", &self.name));
        let status = node::status(
            &self.facts,
            &self.mode(),
            before.as_deref(),
            self.clock.now(),
        );
        let patch = Patch::Strategic(json!({ "status": status }));
        match send_patch(&nodes, &self.name, Some("status"), &patch).await {
            // A Node that somebody deleted stays deleted: kubelets register once a boot.
            Err(error) if is_not_found(&error) => Ok(()),
            result => result,
        }
    }

    async fn renew(&mut self) -> Outcome {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let now = MicroTime(self.clock.now());
        let patch = Patch::Merge(json!({ "spec": { "renewTime": now } }));
        match send_patch(&leases, &self.name, None, &patch).await {
            Err(error) if is_not_found(&error) => {
                if let Some(lease) = self.lease(now).await? {
                    leases.create(&PostParams::default(), &lease).await?;
                }
            }
            result => result?,
        }
        Ok(Some(RENEW))
    }

    /// A lease owned by the Node; none while there is no Node.
    async fn lease(&self, now: MicroTime) -> Result<Option<Lease>, kube::Error> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let Some(node) = nodes.get_opt(&self.name).await? else {
            return Ok(None);
        };
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.name.clone(),
            uid: node.uid().unwrap_or_default(),
            ..OwnerReference::default()
        };
        Ok(Some(Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.name.clone()),
                lease_duration_seconds: Some(LEASE_SECONDS),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        }))
    }
}

#[async_trait]
impl Actor for Kubelet {
    type Item = Item;

    async fn look(&mut self, item: &Item) -> Outcome {
        if self.mode().frozen {
            return Ok(None);
        }
        match item {
            Item::Register => self.register().await,
            Item::Ready => {
                self.mode
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .started = true;
                self.queue.add(Item::Status);
                Ok(None)
            }
            Item::Lease => self.renew().await,
            Item::Status => {
                self.write_status().await?;
                Ok(Some(HEARTBEAT))
            }
            Item::Pod(key) => self.look_at_pod(key).await,
        }
    }
}
