//! The inputs of every decision, as plain values.
//!
//! Owns the shape of what `observe` must bring. Must not hold anything that a test could not write
//! down by hand. A snapshot is bounded: it grows with the work in flight, not with the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use shipshape_api::{
    CspState, DrainOptions, NodePatchRun, NodePatchRunSpec, NodePatchTask, PendingNode,
    PendingNodeGoal,
};

use crate::admit::{Down, Waiting};
use crate::autoscaler::DeploymentView;
use crate::closing::Homeless;
use crate::decision::NodeTarget;
use crate::drain::Around;
use crate::etcd::EtcdView;
use crate::ledger::{Ledger, Slotless};
use crate::machine::{Group, GroupId, Machine};
use crate::plan::Newcomer;
use crate::verify::passage::Passage;
use crate::view::{BudgetView, NodeView, Observed, PodView};

/// What a run's decision sees.
#[derive(Clone, Debug)]
pub struct RunSnapshot {
    /// The run.
    pub run: NodePatchRun,
    /// Provider types that this operator can speak to.
    pub known_providers: Vec<String>,
    /// All nodes, asked for only while the run has no plan.
    pub nodes: Observed<Vec<NodeView>>,
    /// The first nodes of the current partition that have no task yet, in plan order.
    pub waiting: Vec<Waiting>,
    /// Tasks of this run that have not ended.
    pub open: Vec<Arc<NodePatchTask>>,
    /// How many tasks of this run have ended well.
    pub succeeded: usize,
    /// How many tasks of this run have ended badly.
    pub failed: usize,
    /// How many of those somebody has called off.
    pub called_off: usize,
    /// How often tasks of this run had failed before a person asked for another try.
    pub failed_before: usize,
    /// How many of those that have ended badly are gone without a replacement: their old machine went first.
    pub lost: usize,
    /// How many of them have left a new machine that could not be emptied, beside the old one.
    pub surplus: usize,
    /// How many nodes of the plan are there and have no task; counted once the run is at its end.
    pub untried: usize,
    /// How many other runs in the same cloud have not ended.
    pub others: usize,
    /// The node and the last error of a task that ended badly, if there is one.
    pub last_failure: Option<String>,
    /// How many tasks of this run began within the last hour; asked for only with `maxPerHour`.
    pub begun_within_hour: usize,
    /// Slots, as node UID and task, whose task is over or surely gone.
    pub abandoned: Vec<(String, String)>,
    /// Nodes that are not ready and that nobody works on.
    pub down: Vec<Down>,
    /// Machines that tasks under way will ask a group for, and that it does not count yet. Looked at
    /// before the groups: a machine that comes in between is counted twice rather than not at all.
    pub on_their_way: BTreeMap<GroupId, usize>,
    /// Nodes, by UID, that are open to any pod and that nobody works on: more than wait, where there are so many.
    /// Asked for only where old machines go first.
    pub left_open: Vec<String>,
    /// Deployments of the cluster autoscaler; asked for only while they are to be held or put back.
    pub autoscalers: Observed<Vec<DeploymentView>>,
    /// Deployments, by namespace and name, that other runs hold too.
    pub shared_autoscalers: Vec<(String, String)>,
    /// Nodes that the run would take and that joined after its plan was made; asked for once every node
    /// of the plan has had its turn.
    pub newcomers: Observed<Vec<Newcomer>>,
    /// Nodes of the plan that lack the mark of this run or carry another than they should, a handful, each
    /// with its number in the plan; asked for until all have it.
    pub unmarked: Vec<(NodeTarget, usize)>,
    /// The pod that the scheduler has had no place for the longest, of those that came to want one during
    /// the run; asked for only while its nodes are closed to new pods.
    pub homeless: Option<Homeless>,
    /// Nodes that carry the mark of this run, a handful; asked for once it is ending.
    pub marked: Vec<NodeTarget>,
    /// The ledger, read live.
    pub ledger: Observed<Ledger>,
    /// What the ledger lacks.
    pub slotless: Slotless,
    /// How etcd fares, asked live while a control plane waits; absent where there is none to ask.
    pub etcd: Observed<EtcdView>,
}

/// Who holds a node's lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockView {
    /// The operation: UID of a task.
    pub operation: String,
    /// The task as `namespace/name`.
    pub holder: String,
    /// UID of the node it was taken for.
    pub node_uid: String,
    /// When its holder last said that it is in use.
    pub renewed: Option<Timestamp>,
    /// Whether nobody works under it any more: its task is surely gone, or has ended and so has its
    /// node.
    pub is_abandoned: bool,
    /// Whether it goes by itself when the node does.
    pub goes_with_node: bool,
}

/// What a task's decision sees. Each step asks for what it needs; the rest stays `NotAsked`.
#[derive(Clone, Debug)]
pub struct TaskSnapshot {
    /// The task.
    pub task: NodePatchTask,
    /// The node to be replaced; read live in every step that is about to disrupt it.
    pub old_node: Observed<NodeView>,
    /// Another Node of the old machine than the task's own, under whatever name: somebody has deleted that
    /// one, and the kubelet has registered anew. Looked for before the machine goes.
    pub anew: Observed<NodeView>,
    /// Pods bound to that Node, read live.
    pub anew_pods: Observed<Vec<PodView>>,
    /// The replacement's node, found by its provider id.
    pub new_node: Observed<NodeView>,
    /// How that node stands at the gate.
    pub passage: Passage,
    /// The machine behind the old node.
    pub old_machine: Observed<Machine>,
    /// The replacement, found by its token.
    pub new_machine: Observed<Machine>,
    /// The object that follows the machine which this step waits for: the new one while it joins or is
    /// put back, the old one while it leaves.
    pub pending: Observed<PendingView>,
    /// The group that launches the replacement.
    pub group: Observed<Group>,
    /// Pods bound to the old node.
    pub pods: Observed<Vec<PodView>>,
    /// Disruption budgets in the namespaces of those pods.
    pub budgets: Vec<BudgetView>,
    /// What else is around those pods.
    pub around: Around,
    /// Who holds the node's lock; asked for at both ends, and now and then while the work lasts.
    pub lock: Observed<LockView>,
    /// Whether the task is at work, as just read; asked for only where its lock is missing.
    pub at_work: Observed<()>,
    /// Whether the ledger still has this task's slot.
    pub slot: Observed<()>,
    /// The ledger, asked for only when the task wants a slot again.
    pub ledger: Observed<Ledger>,
    /// What the ledger lacks; asked for with it.
    pub slotless: Slotless,
    /// Machines that tasks under way will ask a group for, and that it does not count yet; asked for with
    /// the ledger.
    pub on_their_way: BTreeMap<GroupId, usize>,
    /// Nodes of the run that are not ready and that nobody works on; asked for with the ledger.
    pub down: Vec<Down>,
    /// Nodes, by UID, that are open to any pod and that nobody works on; asked for with the ledger, where old machines
    /// go first.
    pub left_open: Vec<String>,
    /// The run that asked for the task.
    pub run: RunView,
    /// Pods that the run calls important and that are not ready, anywhere; asked for by the gates.
    pub unstable: Observed<Vec<String>>,
    /// Pods bound to the new node: its daemons while it joins, what must leave when it is put back.
    pub new_pods: Observed<Vec<PodView>>,
    /// How etcd fares, asked live for control planes; absent where there is none to ask.
    pub etcd: Observed<EtcdView>,
}

/// What a task needs to know of the PendingNode of its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingView {
    /// Where the machine shall go.
    pub goal: PendingNodeGoal,
    /// Where it is in its life, if somebody has looked.
    pub state: Option<CspState>,
}

impl PendingView {
    /// Reads a PendingNode.
    pub fn of(pending: &PendingNode) -> Self {
        Self {
            goal: pending.spec.goal,
            state: pending.status.as_ref().and_then(|status| status.csp_state),
        }
    }
}

/// What a task needs to know of its run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunView {
    /// Why the task must be called off, if it must.
    pub call_off: Option<String>,
    /// Whether somebody holds new work back.
    pub paused: bool,
    /// Whether failures do; see [`crate::run::is_braked`].
    pub braked: bool,
    /// Whether nothing but parked nodes is left.
    pub last_round: bool,
    /// The run's spec, if the run is there: the limits under which a slot is granted again.
    pub spec: Option<Box<NodePatchRunSpec>>,
    /// Which version of the spec that is.
    pub generation: Option<i64>,
}

impl TaskSnapshot {
    /// How many attempts the node has: as its run says now, so that whoever lowers it stops the damage. The task's
    /// own copy speaks for a run that is gone.
    pub fn max_attempts(&self) -> i32 {
        match &self.run.spec {
            Some(run) => run.max_attempts(),
            None => self.task.spec.max_attempts(),
        }
    }

    /// How the node is emptied: as its run says now, so that what people are told to set there helps. The
    /// task's own copy speaks for a run that is gone.
    pub fn drain_options(&self) -> Option<&DrainOptions> {
        match &self.run.spec {
            Some(run) => run.drain.as_ref(),
            None => self.task.spec.drain.as_ref(),
        }
    }

    /// A snapshot in which nobody has looked at anything yet.
    pub fn of(task: NodePatchTask) -> Self {
        Self {
            task,
            old_node: Observed::NotAsked,
            anew: Observed::NotAsked,
            anew_pods: Observed::NotAsked,
            new_node: Observed::NotAsked,
            passage: Passage::Open,
            old_machine: Observed::NotAsked,
            new_machine: Observed::NotAsked,
            pending: Observed::NotAsked,
            group: Observed::NotAsked,
            pods: Observed::NotAsked,
            budgets: Vec::new(),
            around: Around::default(),
            lock: Observed::NotAsked,
            at_work: Observed::NotAsked,
            slot: Observed::NotAsked,
            ledger: Observed::NotAsked,
            slotless: Slotless::default(),
            left_open: Vec::new(),
            on_their_way: BTreeMap::new(),
            down: Vec::new(),
            run: RunView::default(),
            unstable: Observed::NotAsked,
            new_pods: Observed::NotAsked,
            etcd: Observed::NotAsked,
        }
    }
}
