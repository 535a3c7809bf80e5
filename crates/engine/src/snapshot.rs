//! The inputs of every decision, as plain values.
//!
//! Owns the shape of what `observe` must bring. Must not hold anything that a test could not write
//! down by hand. A snapshot is bounded: it grows with the work in flight, not with the cluster.

use jiff::Timestamp;
use shipshape_api::{NodePatchRun, NodePatchTask};

use crate::admit::Waiting;
use crate::drain::Around;
use crate::ledger::Ledger;
use crate::machine::{Group, Machine};
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
    pub open: Vec<NodePatchTask>,
    /// How many tasks of this run have ended well.
    pub succeeded: usize,
    /// How many tasks of this run have ended badly.
    pub failed: usize,
    /// How many other runs in the same cloud have not ended.
    pub others: usize,
    /// The ledger, read live; asked for only while nodes wait.
    pub ledger: Observed<Ledger>,
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
}

/// What a task's decision sees. Each step asks for what it needs; the rest stays `NotAsked`.
#[derive(Clone, Debug)]
pub struct TaskSnapshot {
    /// The task.
    pub task: NodePatchTask,
    /// The node to be replaced; read live in every step that is about to disrupt it.
    pub old_node: Observed<NodeView>,
    /// The replacement's node, found by its provider id.
    pub new_node: Observed<NodeView>,
    /// The machine behind the old node.
    pub old_machine: Observed<Machine>,
    /// The replacement, found by its token.
    pub new_machine: Observed<Machine>,
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
    /// Whether the ledger still has this task's slot.
    pub slot: Observed<()>,
}

impl TaskSnapshot {
    /// A snapshot in which nobody has looked at anything yet.
    pub fn of(task: NodePatchTask) -> Self {
        Self {
            task,
            old_node: Observed::NotAsked,
            new_node: Observed::NotAsked,
            old_machine: Observed::NotAsked,
            new_machine: Observed::NotAsked,
            group: Observed::NotAsked,
            pods: Observed::NotAsked,
            budgets: Vec::new(),
            around: Around::default(),
            lock: Observed::NotAsked,
            slot: Observed::NotAsked,
        }
    }
}
