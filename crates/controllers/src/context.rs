//! What every pass can reach: stores, clients of the few live calls, clouds, clock, settings.
//!
//! Owns the stores and their indexes. Must not hold anything that cannot be rebuilt from the cluster.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Client;
use shipshape_api::{NodePatchRun, NodePatchTask, PendingNode, ProviderRef};
use shipshape_cluster::events::{self, Events};
use shipshape_cluster::ledger::{self, LedgerStore};
use shipshape_cluster::lock::Locks;
use shipshape_cluster::node::Nodes;
use shipshape_cluster::pending::PendingNodes;
use shipshape_cluster::removals::RemovalStore;
use shipshape_cluster::worker::Workers;
use shipshape_cluster::{Clock, Store};
use shipshape_engine::ledger::{Ledger, needs_slot};
use shipshape_engine::settings::Settings;
use shipshape_engine::verify::outcome::WorkerView;
use shipshape_engine::verify::settings::GateSettings;
use shipshape_engine::view::{AttachmentView, NodeView, PodView};
use shipshape_provider::Provider;
use tokio::sync::Notify;

use crate::error::PassError;
use crate::etcd::EtcdAccess;
use crate::evictions::Evictions;
use crate::gate::neighbours::Neighbourhood;
use crate::gate::own::{OwnChecks, OwnRuns};
use crate::kept::{Claim, KeptBudget};
use crate::metered::Metered;
use crate::operator::{Places, Providers};
use crate::run::autoscalers::Looks;
use crate::run::groups::Memberships;
use crate::run::line::Lines;
use crate::vitals::Vitals;

/// Pods by the node they are bound to.
pub(crate) const PODS_BY_NODE: &str = "node";
/// Nodes by their provider id.
pub(crate) const NODES_BY_PROVIDER_ID: &str = "provider id";
/// Nodes by the runs whose mark or hold they carry.
pub(crate) const NODES_BY_MARK: &str = "mark";
/// Nodes that are not ready or are being deleted, all under the empty term.
pub(crate) const NODES_DOWN: &str = "down";
/// Nodes that any pod may come to, all under the empty term.
pub(crate) const NODES_OPEN: &str = "open";
/// Pods that should be ready and are not, all under the empty term.
pub(crate) const PODS_UNREADY: &str = "unready";
/// Pods that the scheduler has no place for, under the empty string.
pub(crate) const PODS_HOMELESS: &str = "homeless";
/// Budgets by namespace.
pub(crate) const BUDGETS_BY_NAMESPACE: &str = "namespace";
/// Claims by the volume that they are bound to.
pub(crate) const CLAIMS_BY_VOLUME: &str = "volume";
/// Attachments by the node that they are on.
pub(crate) const ATTACHMENTS_BY_NODE: &str = "node";
/// Tasks by the UID of their run, and by that and how they stand.
pub(crate) const TASKS_BY_RUN: &str = "run";
/// Tasks by the names of the nodes they are about, the old and the new one.
pub(crate) const TASKS_BY_NODE: &str = "node";
/// Tasks by the provider id of their replacement.
pub(crate) const TASKS_BY_REPLACEMENT: &str = "replacement";
/// Tasks that must have a slot, all under the empty term.
pub(crate) const TASKS_AT_WORK: &str = "work";
/// Tasks by the step they are in.
pub(crate) const TASKS_BY_STEP: &str = "step";

/// PendingNodes by the UID of the task that waits for them.
pub(crate) const PENDING_BY_TASK: &str = "task";
/// PendingNodes by the provider id of their machine.
pub(crate) const PENDING_BY_MACHINE: &str = "machine";

/// Worker pods by the node that they check.
pub(crate) const WORKERS_BY_NODE: &str = "node";
/// Worker pods on nodes in service, all under the empty term.
pub(crate) const WORKERS_OF_CONTROL: &str = "control";

/// Copies of the kinds that passes read.
#[derive(Clone)]
pub(crate) struct Stores {
    pub(crate) runs: Store<NodePatchRun>,
    pub(crate) tasks: Store<NodePatchTask>,
    pub(crate) pending: Store<PendingNode>,
    pub(crate) nodes: Store<Node, NodeView>,
    pub(crate) pods: Store<Pod, PodView>,
    pub(crate) budgets: Store<PodDisruptionBudget, KeptBudget>,
    pub(crate) claims: Store<PersistentVolumeClaim, Claim>,
    pub(crate) attachments: Store<VolumeAttachment, AttachmentView>,
    /// Of a DaemonSet only that it exists.
    pub(crate) daemon_sets: Store<DaemonSet, ()>,
    /// The one ledger, for its changes alone: what it holds is read live.
    pub(crate) ledger: Store<ConfigMap, Ledger>,
    /// Pods that check nodes; followed only where the gate is on.
    pub(crate) workers: Store<Pod, WorkerView>,
}

impl Stores {
    pub(crate) fn new() -> Self {
        Self {
            runs: Store::new(),
            tasks: Store::new()
                .with_index(TASKS_BY_RUN, |task: &NodePatchTask| {
                    let run = &task.spec.run_uid;
                    let failed_before = has_failed_before(task).then(|| failed_before_term(run));
                    let terms = [run.clone(), run_term(run, standing_of(task))];
                    terms.into_iter().chain(failed_before).collect()
                })
                .with_index(TASKS_BY_NODE, |task| {
                    let new = task.status.as_ref().and_then(|it| it.new_node_name.clone());
                    std::iter::once(task.spec.node_name.clone())
                        .chain(new)
                        .collect()
                })
                .with_index(TASKS_BY_REPLACEMENT, |task| {
                    let machine = task.status.as_ref().and_then(|it| it.new_machine.as_ref());
                    machine
                        .and_then(|machine| machine.provider_id.clone())
                        .into_iter()
                        .collect()
                })
                .with_index(TASKS_AT_WORK, work_term)
                .with_index(TASKS_BY_STEP, |task| vec![step_term(task)]),
            pending: Store::new()
                .with_index(PENDING_BY_TASK, |one: &PendingNode| {
                    one.spec.task_ref.iter().map(|it| it.uid.clone()).collect()
                })
                .with_index(PENDING_BY_MACHINE, |one| {
                    let is_gates = one.spec.node_uid.is_some();
                    let id = one.spec.provider_id.clone().filter(|_| !is_gates);
                    id.into_iter().collect()
                }),
            nodes: nodes(),
            pods: Store::keeping(|pod: Pod| PodView::of(&pod))
                .with_index(PODS_BY_NODE, |pod: &PodView| some(&pod.node))
                .with_index(PODS_HOMELESS, |pod: &PodView| {
                    let counts = pod.homeless_since.is_some() && !pod.terminating;
                    counts.then(String::new).into_iter().collect()
                })
                .with_index(PODS_UNREADY, |pod: &PodView| {
                    let counts = !pod.ready && !pod.finished && !pod.terminating;
                    counts.then(String::new).into_iter().collect()
                }),
            budgets: Store::keeping(KeptBudget::of)
                .with_index(BUDGETS_BY_NAMESPACE, |budget: &KeptBudget| {
                    some(&budget.view.namespace)
                }),
            claims: Store::keeping(Claim::of)
                .with_index(CLAIMS_BY_VOLUME, |claim: &Claim| some(&claim.volume)),
            attachments: Store::keeping(|one: VolumeAttachment| AttachmentView::of(&one))
                .with_index(ATTACHMENTS_BY_NODE, |one: &AttachmentView| some(&one.node)),
            daemon_sets: Store::keeping(|_| ()),
            ledger: Store::keeping(|object: ConfigMap| ledger::decode(&object)),
            workers: Store::keeping(|pod: Pod| WorkerView::of(&pod))
                .with_index(WORKERS_BY_NODE, |one: &WorkerView| some(&one.node))
                .with_index(WORKERS_OF_CONTROL, |one| {
                    one.is_control.then(String::new).into_iter().collect()
                }),
        }
    }
}

fn nodes() -> Store<Node, NodeView> {
    Store::keeping(|node: Node| NodeView::of(&node))
        .with_index(NODES_BY_PROVIDER_ID, |node: &NodeView| {
            node.provider_id.iter().map(|id| id.0.clone()).collect()
        })
        .with_index(NODES_BY_MARK, |node| {
            let mut runs: Vec<String> = node.marked_by().cloned().collect();
            runs.dedup();
            runs
        })
        .with_index(NODES_OPEN, |node| {
            let is_open = node.is_open() && !node.deleting;
            is_open.then(String::new).into_iter().collect()
        })
        .with_index(NODES_DOWN, |node| {
            let is_down = !node.ready || node.deleting;
            is_down.then(String::new).into_iter().collect()
        })
}

/// The index term, unless it is empty.
fn some(term: &str) -> Vec<String> {
    Some(term)
        .filter(|term| !term.is_empty())
        .map(str::to_owned)
        .into_iter()
        .collect()
}

/// How a task stands, as far as its run counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Under way.
    Open,
    /// Set aside until it can go on.
    Parked,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
}

impl Standing {
    /// Whether there is still something to do.
    pub(crate) fn is_under_way(self) -> bool {
        matches!(self, Self::Open | Self::Parked)
    }
}

/// How a task stands.
pub(crate) fn standing_of(task: &NodePatchTask) -> Standing {
    use shipshape_api::TaskStep;
    match task
        .status
        .as_ref()
        .map(shipshape_api::NodePatchTaskStatus::step_name)
    {
        Some(TaskStep::Done) => Standing::Succeeded,
        Some(TaskStep::Failed) => Standing::Failed,
        Some(TaskStep::Parked) => Standing::Parked,
        _ => Standing::Open,
    }
}

fn has_failed_before(task: &NodePatchTask) -> bool {
    let status = task.status.as_ref();
    status.and_then(|status| status.failed_before).is_some()
}

/// The index term for the tasks of a run that had failed before they were tried again, however they stand now.
pub(crate) fn failed_before_term(run_uid: &str) -> String {
    format!("{run_uid} FailedBefore")
}

/// The index term for the tasks of a run that stand in one way.
pub(crate) fn run_term(run_uid: &str, standing: Standing) -> String {
    format!("{run_uid} {standing:?}")
}

fn work_term(task: &NodePatchTask) -> Vec<String> {
    needs_slot(task).then(String::new).into_iter().collect()
}

fn step_term(task: &NodePatchTask) -> String {
    let step = task
        .status
        .as_ref()
        .map(shipshape_api::NodePatchTaskStatus::step_name);
    format!("{:?}", step.unwrap_or_default())
}

/// Workers live beside the operator unless settings say otherwise.
fn in_namespace(gate: &GateSettings, namespace: &str) -> Arc<GateSettings> {
    let mut gate = gate.clone();
    let own = || namespace.to_owned();
    gate.worker.namespace.get_or_insert_with(own);
    Arc::new(gate)
}

/// Where a process keeps its own objects, whom else it may ask, and where it shows itself.
pub(crate) struct Surroundings<'a> {
    pub(crate) places: &'a Places,
    pub(crate) etcd: Option<EtcdAccess>,
    pub(crate) gate: Option<Arc<GateSettings>>,
    pub(crate) own_checks: Option<Arc<dyn OwnChecks>>,
    pub(crate) vitals: Vitals,
}

/// Everything that a pass can reach.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) settings: Arc<Settings>,
    pub(crate) stores: Stores,
    pub(crate) nodes: Nodes,
    pub(crate) pending: PendingNodes,
    pub(crate) locks: Locks,
    pub(crate) ledger: LedgerStore,
    pub(crate) events: Events,
    pub(crate) evictions: Evictions,
    pub(crate) vitals: Vitals,
    /// Which group each machine belongs to, as far as anybody has asked.
    pub(crate) memberships: Memberships,
    /// When each run last looked whether its hold of the autoscaler stands.
    pub(crate) autoscaler_looks: Looks,
    /// Told when a run goes, a task is removed by force or ends without its run, so that what they may have
    /// left is looked for.
    pub(crate) orphaned: Arc<Notify>,
    pub(crate) etcd: Option<EtcdAccess>,
    pub(crate) workers: Workers,
    pub(crate) removals: RemovalStore,
    /// Settings of the gate, where it is on; the namespace of its workers is always named.
    pub(crate) gate: Option<Arc<GateSettings>>,
    /// What others have said of the gate's taints a moment ago.
    pub(crate) neighbourhood: Neighbourhood,
    /// The same checks from where this process stands.
    pub(crate) own_runs: OwnRuns,
    pub(crate) lines: Lines,
    providers: Providers,
}

impl Context {
    pub(crate) fn new(
        client: Client,
        clock: Clock,
        settings: Arc<Settings>,
        providers: Providers,
        around: Surroundings<'_>,
    ) -> Self {
        let Surroundings {
            places,
            etcd,
            gate,
            own_checks,
            vitals,
        } = around;
        // A negative setting counts as none: the lock then shows the shortest lease there is.
        let lock_lease = settings.lock_lease.try_into().unwrap_or_default();
        Self {
            stores: Stores::new(),
            nodes: Nodes::new(client.clone()),
            pending: PendingNodes::new(client.clone()),
            locks: Locks::new(client.clone(), clock, &places.lock_namespace, lock_lease),
            ledger: LedgerStore::new(client.clone(), &places.namespace),
            events: Events::new(
                client.clone(),
                clock,
                events::Settings::new(&places.identity),
            ),
            evictions: Evictions::default(),
            vitals,
            memberships: Memberships::default(),
            autoscaler_looks: Looks::default(),
            orphaned: Arc::new(Notify::new()),
            etcd,
            workers: Workers::new(client.clone()),
            removals: RemovalStore::new(client.clone(), &places.namespace),
            gate: gate.map(|gate| in_namespace(&gate, &places.namespace)),
            neighbourhood: Neighbourhood::default(),
            own_runs: OwnRuns::new(own_checks),
            lines: Lines::default(),
            providers,
            settings,
            clock,
            client,
        }
    }

    /// The cloud that a manifest's block asks for.
    pub(crate) async fn provider(
        &self,
        block: Option<&ProviderRef>,
    ) -> Result<Arc<dyn Provider>, PassError> {
        let kind = block.map(|block| block.r#type.as_str()).unwrap_or_default();
        match (self.providers.get(kind), block) {
            (Some(source), Some(block)) => Ok(Arc::new(Metered {
                cloud: source.provider(block).await?,
                kind: kind.to_owned(),
                vitals: self.vitals.clone(),
                clock: self.clock,
            })),
            _ => Err(PassError::NoProvider {
                wanted: kind.to_owned(),
                known: self.provider_types(),
            }),
        }
    }

    /// The types of cloud that this operator speaks to.
    pub(crate) fn provider_types(&self) -> Vec<String> {
        self.providers.keys().cloned().collect()
    }
}
