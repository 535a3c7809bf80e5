//! What a `decide` function returns: data that `act` and `report` carry out.
//!
//! Owns the vocabulary of effects. Must not perform anything. Every effect is an idempotent "ensure"
//! that names its object by UID or token, so that a repeat after a crash, a lost answer or a second
//! leader does no harm. An effect that creates or destroys is only ever decided on when its intent
//! is already in the snapshot's status.

use std::collections::BTreeMap;

use jiff::Timestamp;
use shipshape_api::gates::OutdatedTaintEffect;
use shipshape_api::{NodePatchTask, PendingNode};

use crate::etcd::MemberId;
use crate::ledger::{Ledger, Slot};
use crate::machine::{MachineId, ReplacementRequest};
use crate::verify::effect::GateEffect;

/// The outcome of one look at the world.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<S> {
    /// What the status shall say, conditions included. Written only when it differs.
    pub status: S,
    /// What to do, in this order; the first failure ends the pass.
    pub effects: Vec<Effect>,
    /// What to tell people, as Events.
    pub notices: Vec<Notice>,
    /// When to look again even if nothing changes; `None` when only a change can help.
    pub wake: Option<Timestamp>,
}

impl<S> Decision<S> {
    /// Keep this status and wait for a change.
    pub fn rest(status: S) -> Self {
        Self {
            status,
            effects: Vec::new(),
            notices: Vec::new(),
            wake: None,
        }
    }
}

/// One idempotent command.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Writes the ledger with these slots added, guarded by the version that was read.
    GrantSlots {
        /// The ledger as it was read.
        ledger: Ledger,
        /// New slots by node UID.
        slots: Vec<(String, Slot)>,
    },
    /// Creates the task if it does not exist.
    EnsureTask(Box<NodePatchTask>),
    /// Takes the node's lock for an operation.
    AcquireLock(LockRequest),
    /// Says that a lock is still in use, if it is still this operation's.
    RenewLock {
        /// Name of the node.
        node: String,
        /// The operation that holds it.
        operation: String,
    },
    /// Creates the replacement, or adopts the one that its token already made.
    EnsureReplacement(ReplacementRequest),
    /// Marks the node unschedulable and records whose cordon it is, if it still has the version that the decision saw.
    EnsureCordoned(NodeTarget),
    /// Lifts the operation's own cordon; one of somebody else stays.
    EnsureUncordoned(NodeTarget),
    /// Gives a node labels that it lacks and takes others away; never overwrites one.
    EnsureLabels {
        /// The node.
        node: NodeTarget,
        /// Labels to add where the key is missing.
        add: BTreeMap<String, String>,
        /// Keys to take away.
        remove: Vec<String>,
    },
    /// Makes a node carry exactly these marks of a run, in one write.
    MarkNode {
        /// The node; its operation is the run's UID.
        node: NodeTarget,
        /// The run as `namespace/name`.
        run: String,
        /// What it shall carry.
        marks: Marks,
    },
    /// Says in a run's own mark that it was renewed at this time, which gives the node another version.
    RenewMark {
        /// The node; its operation is the run's UID.
        node: NodeTarget,
        /// Whole seconds, as a taint tells them.
        at: Timestamp,
    },
    /// Evicts one pod.
    EvictPod(PodTarget),
    /// Sets or lifts a machine's protection against its group's own scale-in.
    ProtectMachine {
        /// The machine.
        id: MachineId,
        /// Whether it shall be protected.
        protected: bool,
    },
    /// Says in a machine's tags how far it has come.
    TagMachine {
        /// The machine.
        id: MachineId,
        /// Value of the state tag.
        state: &'static str,
    },
    /// Has another member of etcd lead.
    MoveEtcdLeader {
        /// The member that leads now.
        from: MemberId,
        /// The member that shall.
        to: MemberId,
    },
    /// Takes a member out of etcd; one that is gone already is fine.
    RemoveEtcdMember(MemberId),
    /// Asks the cloud for the end of a machine.
    DeleteMachine(MachineId),
    /// Gives the cloud's groups back what replacements changed about them.
    RestoreGroups,
    /// Deletes the Node object.
    DeleteNode(NodeTarget),
    /// Gives the slot of a node back, if it is still this task's.
    ReleaseSlot {
        /// UID of the node.
        node_uid: String,
        /// The task that holds it, as `namespace/name`.
        task: String,
    },
    /// Gives the lock of a node back, if it is still this operation's.
    ReleaseLock {
        /// Name of the node.
        node: String,
        /// The operation that holds it.
        operation: String,
    },
    /// Saves a Deployment's replica count on it and scales it to zero, in one write.
    HoldDeployment {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// The count to save, unless one is saved already.
        original: i32,
        /// UID of the run that holds it.
        holder: String,
        /// The same run as `namespace/name`.
        run: String,
    },
    /// Takes the marks of a hold off a Deployment, and gives it its count back.
    ReleaseDeployment {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// The count, or `None` to leave what somebody has set meanwhile.
        replicas: Option<i32>,
    },
    /// Follows a machine on its way: creates the object, or turns the one that is there to Leave.
    /// Never turns one back.
    EnsurePending(Box<PendingNode>),
    /// Sends the machine of a PendingNode away, if the object is still there.
    TurnPending {
        /// Name.
        name: String,
        /// UID: another object of the same name is left alone.
        uid: String,
    },
    /// Deletes a PendingNode whose goal is reached.
    ForgetPending {
        /// Name.
        name: String,
        /// UID: another object of the same name is left alone.
        uid: String,
    },
    /// Makes sure that the object stays until what it changed is put back.
    EnsureFinalizer(Kept),
    /// Lets the object go.
    DropFinalizer(Kept),
    /// What the gate asks for.
    Gate(GateEffect),
}

/// An object that must not go before what it changed is put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Which kind.
    pub kind: KeptKind,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID: another object of the same name is left alone.
    pub uid: String,
}

/// Kinds that carry our finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptKind {
    /// A NodePatchRun.
    Run,
    /// A NodePatchTask.
    Task,
}

impl Effect {
    /// A short name for logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::GrantSlots { .. } => "GrantSlots",
            Self::EnsureTask(_) => "EnsureTask",
            Self::AcquireLock(_) => "AcquireLock",
            Self::RenewLock { .. } => "RenewLock",
            Self::EnsureReplacement(_) => "EnsureReplacement",
            Self::EnsureCordoned(_) => "EnsureCordoned",
            Self::EnsureUncordoned(_) => "EnsureUncordoned",
            Self::EnsureLabels { .. } => "EnsureLabels",
            Self::MarkNode { .. } => "MarkNode",
            Self::RenewMark { .. } => "RenewMark",
            Self::EvictPod(_) => "EvictPod",
            Self::ProtectMachine { .. } => "ProtectMachine",
            Self::TagMachine { .. } => "TagMachine",
            Self::MoveEtcdLeader { .. } => "MoveEtcdLeader",
            Self::RemoveEtcdMember(_) => "RemoveEtcdMember",
            Self::DeleteMachine(_) => "DeleteMachine",
            Self::RestoreGroups => "RestoreGroups",
            Self::DeleteNode(_) => "DeleteNode",
            Self::ReleaseSlot { .. } => "ReleaseSlot",
            Self::ReleaseLock { .. } => "ReleaseLock",
            Self::HoldDeployment { .. } => "HoldDeployment",
            Self::ReleaseDeployment { .. } => "ReleaseDeployment",
            Self::EnsurePending(_) => "EnsurePending",
            Self::TurnPending { .. } => "TurnPending",
            Self::ForgetPending { .. } => "ForgetPending",
            Self::EnsureFinalizer(_) => "EnsureFinalizer",
            Self::DropFinalizer(_) => "DropFinalizer",
            Self::Gate(effect) => effect.name(),
        }
    }
}

impl Effect {
    /// Whether the step that asks for it must be stored before it is carried out: it creates or
    /// destroys, or gives away what keeps others off. That write fails where another leader has turned
    /// the task meanwhile, so a pass that was held up for long between two calls ends there.
    pub fn needs_record(&self) -> bool {
        match self {
            Self::EnsureReplacement(_)
            | Self::RemoveEtcdMember(_)
            | Self::DeleteMachine(_)
            | Self::EnsurePending(_)
            | Self::EvictPod(_)
            | Self::ReleaseLock { .. }
            | Self::DropFinalizer(_) => true,
            Self::Gate(effect) => effect.needs_record(),
            Self::GrantSlots { .. }
            | Self::EnsureTask(_)
            | Self::AcquireLock(_)
            | Self::RenewLock { .. }
            | Self::EnsureCordoned(_)
            | Self::EnsureUncordoned(_)
            | Self::EnsureLabels { .. }
            | Self::MarkNode { .. }
            | Self::RenewMark { .. }
            | Self::ProtectMachine { .. }
            | Self::TagMachine { .. }
            | Self::RestoreGroups
            | Self::MoveEtcdLeader { .. }
            | Self::DeleteNode(_)
            | Self::ReleaseSlot { .. }
            | Self::HoldDeployment { .. }
            | Self::ReleaseDeployment { .. }
            | Self::TurnPending { .. }
            | Self::ForgetPending { .. }
            | Self::EnsureFinalizer(_) => false,
        }
    }

    /// Whether a second look right after it usually finds it done, so that the pass can go on.
    pub fn shows_at_once(&self) -> bool {
        matches!(
            self,
            Self::AcquireLock(_)
                | Self::RenewLock { .. }
                | Self::EnsureReplacement(_)
                | Self::EnsureCordoned(_)
                | Self::EnsureUncordoned(_)
                | Self::EnsureLabels { .. }
                | Self::MarkNode { .. }
                | Self::RenewMark { .. }
                | Self::ProtectMachine { .. }
                | Self::TagMachine { .. }
                | Self::MoveEtcdLeader { .. }
                | Self::RemoveEtcdMember(_)
                | Self::DeleteMachine(_)
                | Self::DeleteNode(_)
                | Self::ReleaseSlot { .. }
        )
    }
}

/// Who wants which node's lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// Name of the node.
    pub node: String,
    /// UID of the node.
    pub node_uid: String,
    /// The operation: UID of the task. Fences against an earlier task of the same name.
    pub operation: String,
    /// The task as `namespace/name`, for people.
    pub holder: String,
}

/// A node, so exactly that a stranger of the same name is safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTarget {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Version that the decision saw.
    pub resource_version: String,
    /// The operation that asks.
    pub operation: String,
}

/// What a run puts on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The taint of an outdated node, and what it asks of the scheduler.
    pub outdated: Option<OutdatedTaintEffect>,
    /// The annotation that forbids a cluster autoscaler to remove it.
    pub held: bool,
}

impl Marks {
    /// Nothing.
    pub const NONE: Self = Self {
        outdated: None,
        held: false,
    };
}

/// A pod, so exactly that a stranger of the same name is safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTarget {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

/// Something worth telling a person, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether it is a warning.
    pub warning: bool,
    /// Stable reason in one CamelCase word.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}

impl Notice {
    /// A notice of something that went as planned.
    pub fn normal(reason: &'static str, message: String) -> Self {
        Self {
            warning: false,
            reason,
            message,
        }
    }

    /// A notice of something that a person should look at.
    pub fn warning(reason: &'static str, message: String) -> Self {
        Self {
            warning: true,
            reason,
            message,
        }
    }
}
