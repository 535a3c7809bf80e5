//! The eyes of the witness: watches and logs of a stage, turned into facts.
//!
//! Owns the order in which facts are told. What the logs gained is told before the change that was
//! just seen, so that a cloud call is judged by what was visible when it was made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::{Api, ResourceExt};
use shipshape_api::conditions::OLD_DELETED;
use shipshape_api::{NodePatchRun, NodePatchTask, PendingNode, names};
use shipshape_cluster::store::{Following, Settings};
use shipshape_cluster::{Change, Store};
use shipshape_engine::condition;
use shipshape_engine::machine::{MachineId, MachineState};
use shipshape_engine::view::{AttachmentView, NodeView, PodView};
use shipshape_simulator::cloud::node_name;
use shipshape_simulator::faults::{Faults, Told};
use tokio::sync::Notify;

use crate::stage::{OPERATOR, Stage};
use crate::timeline::Timeline;
use crate::witness::{Call, Fact, Hearing, Witness};

/// What the observer calls itself to the API.
const OBSERVER: &str = "witness";

struct Seen {
    witness: Witness,
    timeline: Timeline,
    /// Positions in the request log, in the cloud's log and in etcd's.
    requests: usize,
    calls: usize,
    members: usize,
    /// Provider ids of machines, kept after the machines are gone.
    provider_ids: BTreeMap<String, String>,
    /// All runs that there ever were, by UID: namespace and name.
    runs: BTreeMap<String, (String, String)>,
    /// Where each operator meets its faults, and what it heard.
    ears: Vec<Faults>,
}

impl Seen {
    fn from_now_on(stage: &Stage, witness: Witness, ears: Vec<Faults>) -> Self {
        Self {
            witness,
            timeline: Timeline::new(stage.clock.now()),
            requests: (stage.requests)(0).1,
            calls: stage.cloud.log().len(),
            members: 0,
            provider_ids: BTreeMap::new(),
            runs: BTreeMap::new(),
            ears,
        }
    }
}

/// Watches a stage while a story plays.
pub struct Observer {
    stage: Stage,
    seen: Arc<Mutex<Seen>>,
    /// The runs, as they stand.
    pub runs: Store<NodePatchRun>,
    /// The tasks, as they stand.
    pub tasks: Store<NodePatchTask>,
    /// The nodes, as they stand.
    pub nodes: Store<Node>,
    /// The machines on their way, as they stand.
    pub pending: Store<PendingNode>,
    /// Told whenever a run, a task or a machine on its way changes.
    pub runs_changed: Arc<Notify>,
    _following: Vec<Following>,
}

/// Copies of all kinds that facts come from.
#[derive(Default)]
struct Stores {
    runs: Store<NodePatchRun>,
    tasks: Store<NodePatchTask>,
    nodes: Store<Node>,
    pods: Store<Pod>,
    pending: Store<PendingNode>,
    attachments: Store<VolumeAttachment>,
    deployments: Store<Deployment>,
    locks: Store<Lease>,
}

impl Stores {
    /// Begins to follow all kinds.
    fn follow(
        &self,
        stage: &Stage,
        seen: &Arc<Mutex<Seen>>,
        runs_changed: &Arc<Notify>,
    ) -> Vec<Following> {
        let client = stage.client(OBSERVER);
        let locks_api = Api::namespaced(client.clone(), names::DEFAULT_NAMESPACE);
        vec![
            self.nodes
                .start(Api::all(client.clone()), Settings::default(), {
                    let (stage, seen) = (stage.clone(), Arc::clone(seen));
                    move |change: Change<Node>| see(&stage, &seen, node_fact(&change))
                }),
            self.pods
                .start(Api::all(client.clone()), Settings::default(), {
                    let (stage, seen) = (stage.clone(), Arc::clone(seen));
                    move |change: Change<Pod>| see(&stage, &seen, pod_fact(&change))
                }),
            self.attachments
                .start(Api::all(client.clone()), Settings::default(), {
                    let (stage, seen) = (stage.clone(), Arc::clone(seen));
                    move |change| see(&stage, &seen, attachment_fact(&change))
                }),
            self.tasks
                .start(Api::all(client.clone()), Settings::default(), {
                    let (stage, seen) = (stage.clone(), Arc::clone(seen));
                    let changed = Arc::clone(runs_changed);
                    move |change: Change<NodePatchTask>| {
                        let now = stage.clock.now();
                        lock(&seen).timeline.saw(change.object(), now);
                        see(&stage, &seen, task_fact(&stage, &change));
                        changed.notify_one();
                    }
                }),
            self.runs
                .start(Api::all(client.clone()), Settings::default(), {
                    let (stage, seen) = (stage.clone(), Arc::clone(seen));
                    let changed = Arc::clone(runs_changed);
                    move |change: Change<NodePatchRun>| {
                        lock(&seen).runs.extend(run_key(change.object()));
                        see(&stage, &seen, run_fact(&change));
                        changed.notify_one();
                    }
                }),
            self.pending
                .start(Api::all(client.clone()), Settings::default(), {
                    let changed = Arc::clone(runs_changed);
                    move |_| changed.notify_one()
                }),
            self.deployments
                .start(Api::all(client.clone()), Settings::default(), {
                    let (stage, seen) = (stage.clone(), Arc::clone(seen));
                    move |change| see(&stage, &seen, deployment_fact(&change))
                }),
            self.locks.start(locks_api, Settings::default(), {
                let (stage, seen) = (stage.clone(), Arc::clone(seen));
                move |change| see_if_any(&stage, &seen, lock_fact(&change))
            }),
        ]
    }

    /// Returns when the first look is complete.
    async fn synced(&self) {
        self.nodes.synced().await;
        self.pending.synced().await;
        self.pods.synced().await;
        self.attachments.synced().await;
        self.deployments.synced().await;
        self.locks.synced().await;
        self.tasks.synced().await;
        self.runs.synced().await;
    }
}

impl Observer {
    /// Begins to watch; returns when the first look is complete. `ears` are what the operators hear
    /// through.
    pub async fn start(stage: Stage, witness: Witness, ears: Vec<Faults>) -> Self {
        let seen = Arc::new(Mutex::new(Seen::from_now_on(&stage, witness, ears)));
        let stores = Stores::default();
        let runs_changed = Arc::new(Notify::new());
        let following = stores.follow(&stage, &seen, &runs_changed);
        stores.synced().await;
        Self {
            stage,
            seen,
            runs: stores.runs,
            tasks: stores.tasks,
            nodes: stores.nodes,
            pending: stores.pending,
            runs_changed,
            _following: following,
        }
    }

    /// Works with the witness, once it knows everything that the logs hold.
    pub fn with_witness<T>(&self, work: impl FnOnce(&mut Witness) -> T) -> T {
        let mut seen = lock(&self.seen);
        read_logs(&self.stage, &mut seen);
        work(&mut seen.witness)
    }

    /// Namespaces and names of all runs that there ever were; one that came again is there twice.
    pub fn runs_seen(&self) -> Vec<(String, String)> {
        lock(&self.seen).runs.values().cloned().collect()
    }

    /// The picture so far.
    pub fn timeline(&self) -> Timeline {
        lock(&self.seen).timeline.clone()
    }
}

fn run_key(run: &NodePatchRun) -> Option<(String, (String, String))> {
    let name = (run.namespace().unwrap_or_default(), run.name_any());
    run.uid().map(|uid| (uid, name))
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn see_if_any(stage: &Stage, seen: &Mutex<Seen>, fact: Option<Fact>) {
    if let Some(fact) = fact {
        see(stage, seen, fact);
    }
}

fn see(stage: &Stage, seen: &Mutex<Seen>, fact: Fact) {
    let mut seen = lock(seen);
    read_logs(stage, &mut seen);
    seen.witness.see(stage.clock.now(), fact);
}

fn read_logs(stage: &Stage, seen: &mut Seen) {
    let (requests, next) = (stage.requests)(seen.requests);
    seen.requests = next;
    for (at, request) in requests {
        seen.witness.see(at, Fact::Request(request));
    }
    read_etcd(stage, seen);
    read_ears(stage, seen);
    let calls = stage.cloud.log_since(seen.calls);
    let until = stage.clock.now().checked_sub(stage.lag);
    let until = until.unwrap_or(jiff::Timestamp::MIN);
    let fresh: Vec<_> = calls
        .into_iter()
        .take_while(|record| record.at <= until)
        .collect();
    seen.calls += fresh.len();
    if fresh.is_empty() {
        return;
    }
    let machines = stage.cloud.machines();
    for machine in &machines {
        seen.provider_ids
            .insert(machine.id.0.clone(), machine.provider_id.0.clone());
    }
    for record in fresh {
        if record.caller != OPERATOR || !record.took_effect() {
            continue;
        }
        let Some(id) = record.machine else { continue };
        let provider_id = seen.provider_ids.get(&id.0).cloned().unwrap_or_default();
        let replaces = machines.iter().find(|machine| machine.id == id);
        let replaces = replaces.and_then(|machine| machine.tags.get(names::TAG_REPLACES));
        let call = match (record.call, replaces) {
            ("ensureReplacement", Some(replaces)) => Call::Created {
                machine: id.0,
                provider_id,
                replaces: replaces.clone(),
                token: record.token.map(|token| token.0).unwrap_or_default(),
            },
            ("deleteMachine", _) => Call::Deleted {
                machine: id.0,
                provider_id,
            },
            _ => continue,
        };
        seen.witness.see(record.at, Fact::Call(call));
    }
}

/// What happens to members is read before the cloud's calls: one that is taken out at the same time as
/// its machine was taken out first.
fn read_etcd(stage: &Stage, seen: &mut Seen) {
    let Some(etcd) = &stage.etcd else { return };
    for event in etcd.log_since(seen.members) {
        seen.members += 1;
        seen.witness.see(event.at, Fact::Etcd(event));
    }
}

/// What the operators asked, heard and did since the last look.
fn read_ears(stage: &Stage, seen: &mut Seen) {
    let now = stage.clock.now();
    for (operator, ear) in seen.ears.iter().enumerate() {
        for told in ear.told() {
            let hearing = match told {
                Told::Asked {
                    work,
                    question,
                    heard,
                } => Hearing::Asked {
                    work,
                    question,
                    heard,
                },
                Told::Acted {
                    work,
                    effect,
                    object,
                } => Hearing::Acted {
                    work,
                    upon: rests_upon(&effect, &object),
                    effect: format!("{effect} {object}"),
                },
                Told::Restarted => Hearing::Restarted,
            };
            seen.witness.see(now, Fact::Hearing(operator, hearing));
        }
    }
}

/// The questions that must have been answered before something is made or removed.
fn rests_upon(effect: &str, object: &str) -> Vec<String> {
    match effect {
        "cloud ensureReplacement" => vec![format!("cloud findReplacement {object}")],
        "cloud deleteMachine" => {
            let node = node_name(&MachineId(object.to_owned()));
            vec![
                format!("get nodes/{node}"),
                format!("list pods spec.nodeName={node}"),
            ]
        }
        "delete nodes" => vec![format!("get {object}")],
        _ => Vec::new(),
    }
}

fn node_fact(change: &Change<Node>) -> Fact {
    match change {
        Change::Applied { new, .. } => Fact::Node(NodeView::of(new)),
        Change::Deleted { old } => Fact::NodeGone(NodeView::of(old).name),
    }
}

fn run_fact(change: &Change<NodePatchRun>) -> Fact {
    match change {
        Change::Applied { new, .. } => Fact::Run(Arc::clone(new)),
        Change::Deleted { old } => Fact::RunGone(old.metadata.uid.clone().unwrap_or_default()),
    }
}

fn task_fact(stage: &Stage, change: &Change<NodePatchTask>) -> Fact {
    match change {
        Change::Applied { new, .. } => Fact::Task {
            task: Arc::clone(new),
            old_machine_runs: old_machine_runs(stage, new),
        },
        Change::Deleted { old } => Fact::TaskGone(old.metadata.uid.clone().unwrap_or_default()),
    }
}

/// Whether the old machine runs although the task says that it is gone.
fn old_machine_runs(stage: &Stage, task: &NodePatchTask) -> bool {
    let status = task.status.as_ref();
    let Some(status) = status.filter(|it| condition::is_true(&it.conditions, OLD_DELETED)) else {
        return false;
    };
    let Some(record) = &status.old_machine else {
        return false;
    };
    let machines = stage.cloud.machines();
    let mut same = machines.iter().filter(|one| one.id.0 == record.id);
    same.any(|one| one.state != MachineState::Terminated)
}

fn deployment_fact(change: &Change<Deployment>) -> Fact {
    let name = |one: &Deployment| {
        let namespace = one.namespace().unwrap_or_default();
        format!("{namespace}/{}", one.name_any())
    };
    let Change::Applied { new, .. } = change else {
        return Fact::DeploymentGone(name(change.object()));
    };
    let saved = new.annotations().get(names::ANNOTATION_ORIGINAL_REPLICAS);
    Fact::Deployment {
        name: name(new),
        replicas: new
            .spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1),
        saved: saved.cloned(),
        held_by: new.labels().get(names::LABEL_HELD_BY).cloned(),
    }
}

/// The fact of a lease that is a node's lock.
fn lock_fact(change: &Change<Lease>) -> Option<Fact> {
    let lease = change.object();
    let operation = lease
        .annotations()
        .get(names::ANNOTATION_OPERATION)?
        .clone();
    let name = lease.name_any();
    Some(match change {
        Change::Applied { .. } => Fact::Lock { name, operation },
        Change::Deleted { .. } => Fact::LockGone(name),
    })
}

fn attachment_fact(change: &Change<VolumeAttachment>) -> Fact {
    let name = change.object().name_any();
    match change {
        Change::Applied { new, .. } => Fact::Attached {
            name,
            node: new.spec.node_name.clone(),
            volume: AttachmentView::of(new).volume,
        },
        Change::Deleted { .. } => Fact::Detached(name),
    }
}

fn pod_fact(change: &Change<Pod>) -> Fact {
    match change {
        Change::Applied { new, .. } => Fact::Pod(PodView::of(new)),
        Change::Deleted { old } => Fact::PodGone(PodView::of(old).uid),
    }
}
