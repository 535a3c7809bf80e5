//! What the gate asks for besides what others ask for too.
//!
//! Owns the words. Each is an "ensure" that may be repeated.

use k8s_openapi::api::core::v1::{Pod, Taint};

use super::removal::{ForeignObject, Removals};
use crate::condition::Truth;
use crate::decision::{Effect, NodeTarget, PodTarget};

/// One change that the gate asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum GateEffect {
    /// Creates a pod that checks a node's network, if it does not exist.
    EnsureWorker(Box<Pod>),
    /// Runs the same checks from the controller's own pod, with these variables, unless it does already.
    CheckFromHere(Vec<(String, String)>),
    /// Deletes such a pod, whose result is stored; never another.
    DeleteWorker(PodTarget),
    /// Opens the gate: sets the condition, then takes off the taints, by key and effect, and sets the label
    /// in one guarded write. Nothing happens to another node or another boot.
    ReleaseNode {
        /// The node; its operation is the UID of the object that remembers the verdict.
        node: NodeTarget,
        /// The boot that was verified.
        boot_id: String,
        /// The gate's taints.
        taints: Vec<Taint>,
        /// The label, key and value.
        label: (String, String),
        /// What the condition says.
        told: PublishedVerdict,
    },
    /// Writes what is known of a node's network as a condition of the Node.
    PublishVerdict {
        /// The node.
        node: NodeTarget,
        /// The boot that it is about.
        boot_id: String,
        /// What the condition says.
        told: PublishedVerdict,
    },
    /// Writes the removals of failed nodes, guarded by the version that was read.
    RecordRemovals(Removals),
    /// Deletes the Node object of a failed node that nobody else knows. What is remembered of it goes with it.
    RemoveNode(NodeTarget),
    /// Deletes the object of another system that stands for a failed node's machine.
    DeleteForeign(ForeignObject),
}

impl GateEffect {
    /// Its name in logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::EnsureWorker(_) => "EnsureWorker",
            Self::CheckFromHere(_) => "CheckFromHere",
            Self::DeleteWorker(_) => "DeleteWorker",
            Self::ReleaseNode { .. } => "ReleaseNode",
            Self::PublishVerdict { .. } => "PublishVerdict",
            Self::RecordRemovals(_) => "RecordRemovals",
            Self::RemoveNode(_) => "RemoveNode",
            Self::DeleteForeign(_) => "DeleteForeign",
        }
    }

    /// Whether the status that speaks of it must be stored before it is carried out.
    pub fn needs_record(&self) -> bool {
        match self {
            Self::EnsureWorker(_)
            | Self::DeleteWorker(_)
            | Self::RemoveNode(_)
            | Self::DeleteForeign(_) => true,
            Self::CheckFromHere(_)
            | Self::ReleaseNode { .. }
            | Self::PublishVerdict { .. }
            | Self::RecordRemovals(_) => false,
        }
    }
}

impl From<GateEffect> for Effect {
    fn from(effect: GateEffect) -> Self {
        Self::Gate(effect)
    }
}

/// What is known of a node's network, as a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedVerdict {
    /// Whether it works.
    pub truth: Truth,
    /// Stable reason in one word.
    pub reason: &'static str,
    /// One sentence.
    pub message: String,
}
