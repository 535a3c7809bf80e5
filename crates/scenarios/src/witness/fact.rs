//! What a witness is told, one thing at a time.
//!
//! Owns plain values. What a task says of itself is among them only so that it can be held against the
//! rest.

use std::sync::Arc;

use shipshape_api::{NodePatchRun, NodePatchTask};
use shipshape_engine::view::{NodeView, PodView};
use shipshape_simulator::etcd::EtcdEvent;

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Fact {
    /// A node is there, or has changed.
    Node(NodeView),
    /// A node is gone, by name.
    NodeGone(String),
    /// A pod is there, or has changed.
    Pod(PodView),
    /// A pod is gone, by UID.
    PodGone(String),
    /// A volume is attached to a node.
    Attached {
        /// Name of the attachment.
        name: String,
        /// The node.
        node: String,
        /// The volume.
        volume: String,
    },
    /// An attachment is gone, by name.
    Detached(String),
    /// A run is there, or has changed: what was asked for and promised.
    Run(Arc<NodePatchRun>),
    /// A run is gone, by UID.
    RunGone(String),
    /// A task is there, or has changed: what is planned, and what it claims.
    Task {
        /// The task.
        task: Arc<NodePatchTask>,
        /// Whether the old machine that it names still runs.
        old_machine_runs: bool,
    },
    /// A task is gone, by UID.
    TaskGone(String),
    /// A node's lock is held, by name of the lock.
    Lock {
        /// Name of the lock.
        name: String,
        /// UID of the task that holds it.
        operation: String,
    },
    /// A lock is gone, by name.
    LockGone(String),
    /// A Deployment is gone, by `namespace/name`.
    DeploymentGone(String),
    /// A Deployment is there, or has changed.
    Deployment {
        /// `namespace/name`.
        name: String,
        /// Replicas that it asks for.
        replicas: i32,
        /// Replicas that are saved on it while it is held.
        saved: Option<String>,
        /// UID of the run that holds it.
        held_by: Option<String>,
    },
    /// The operator asked the API for something.
    Request(Request),
    /// The operator asked the cloud for something, and it took place.
    Call(Call),
    /// Something happened to a member of etcd.
    Etcd(EtcdEvent),
    /// What one operator, by its number, asked, heard and did, in the order in which it lived it.
    Hearing(usize, Hearing),
}

/// One thing in the life of an operator.
#[derive(Clone, Debug)]
pub enum Hearing {
    /// It asked, and heard what is so, or did not.
    Asked {
        /// In which pass, if that is known.
        work: Option<u64>,
        /// The question.
        question: String,
        /// Whether a true answer came.
        heard: bool,
    },
    /// It makes or removes something.
    Acted {
        /// In which pass, if that is known.
        work: Option<u64>,
        /// What it does, in words.
        effect: String,
        /// The questions that this rests upon.
        upon: Vec<String>,
    },
    /// Another process has taken its place.
    Restarted,
}

/// A request of the operator.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The verb, as in an audit log.
    pub verb: String,
    /// The resource in plural.
    pub resource: String,
    /// The subresource, or the empty string.
    pub subresource: String,
    /// `namespace/name`.
    pub object: String,
    /// UID of the object, where the log has it.
    pub uid: String,
    /// The answer's code.
    pub code: u16,
    /// Whether it was a dry run.
    pub dry_run: bool,
}

impl Request {
    /// Whether it has changed something.
    pub(crate) fn took_effect(&self) -> bool {
        (200..300).contains(&self.code) && !self.dry_run
    }
}

/// A cloud call that took place.
#[derive(Clone, Debug)]
pub enum Call {
    /// A machine was created in place of another.
    Created {
        /// The new machine.
        machine: String,
        /// What its kubelet will register as provider id.
        provider_id: String,
        /// The machine it replaces.
        replaces: String,
        /// The idempotency token of the call.
        token: String,
    },
    /// A machine's end was asked for.
    Deleted {
        /// The machine.
        machine: String,
        /// What its kubelet registered as provider id.
        provider_id: String,
    },
}
