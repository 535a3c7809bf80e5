//! NodePatchTask: one node's way through replace or upgrade.
//!
//! Owns the spec, written once by whoever asked, and the words for phases and steps. The record of
//! what was done is in `status`. Read by the task controller.

mod status;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use status::{
    AwsDetails, BlockedEviction, CordonRecord, DetachRecord, DrainRecord, EtcdRecord, LabelRecord,
    MachineRecord, MemberRecord, NodePatchTaskStatus, ParkRecord, ProviderDetails,
    ReplacementRecord, StepRecord, UndoNext, UndoRecord,
};

use crate::drain::DrainOptions;
use crate::gates::{LabelTransfer, ReplacementMode, Stability};
use crate::provider::ProviderRef;
use crate::schema;
use crate::selectors::PodSelector;

/// What shall happen to one node.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "shipshape.dev",
    version = "v1alpha1",
    kind = "NodePatchTask",
    namespaced,
    status = "NodePatchTaskStatus",
    shortname = "npt",
    category = "shipshape",
    derive = "PartialEq",
    derive = "Default",
    doc = "One node's way through replacement or upgrade, step by step.",
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.nodeName"),
    printcolumn(name = "Action", type_ = "string", json_path = ".spec.action"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Step", type_ = "string", json_path = ".status.step.name"),
    printcolumn(
        name = "Waiting for",
        type_ = "string",
        json_path = ".status.waitingFor"
    ),
    printcolumn(name = "Last error", type_ = "string", json_path = ".status.lastError"),
    printcolumn(
        name = "New node",
        type_ = "string",
        json_path = ".status.newNodeName",
        priority = 1
    ),
    printcolumn(
        name = "Zone",
        type_ = "string",
        json_path = ".spec.zone",
        priority = 1
    ),
    printcolumn(
        name = "Run",
        type_ = "string",
        json_path = ".spec.runName",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::strict)]
pub struct NodePatchTaskSpec {
    /// What shall be done to the node.
    #[serde(default)]
    #[schemars(transform = schema::frozen("action cannot be changed"))]
    pub action: TaskAction,
    /// Name of the run that asked for the task.
    #[schemars(transform = schema::some_text(schema::NAME))]
    pub run_name: String,
    /// UID of the run that asked for the task.
    #[serde(rename = "runUID")]
    #[schemars(transform = schema::some_text(schema::UID),
               transform = schema::frozen("runUID cannot be changed"))]
    pub run_uid: String,
    /// Index of the run's partition that the node belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::at_least(0))]
    pub iteration: Option<i32>,
    /// Name of the node.
    #[schemars(transform = schema::some_text(schema::NAME),
               transform = schema::frozen("nodeName cannot be changed"))]
    pub node_name: String,
    /// UID of the node: another node of the same name is left alone.
    #[serde(rename = "nodeUID")]
    #[schemars(transform = schema::some_text(schema::UID),
               transform = schema::frozen("nodeUID cannot be changed"))]
    pub node_uid: String,
    /// Zone of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::WORD))]
    pub zone: Option<String>,
    /// Whether the node hosted important pods when the task was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub important: Option<bool>,
    /// The cloud that the node runs in; absent for machines without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderRef>,
    /// Pods that must be stable before the drain, as in the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic(schema::ENTRIES))]
    pub important_pod_selectors: Vec<PodSelector>,
    /// Pods that must be ready on the new node, as in the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic(schema::ENTRIES))]
    pub required_node_daemon_pod_selectors: Vec<PodSelector>,
    /// When the important pods count as stable, as in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stability: Option<Stability>,
    /// Which labels of the old node the new one gets, as in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_transfer: Option<LabelTransfer>,
    /// How the pods of the node are moved away, as in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainOptions>,
    /// Whether the new machine comes before the old one goes, as in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<ReplacementMode>,
    /// How often the node is tried before the task counts as failed, as in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::count(1, 3), extend("maximum" = 100))]
    pub max_attempts: Option<i32>,
}

impl NodePatchTaskSpec {
    /// Whether the node hosted important pods when the task was made.
    pub fn important(&self) -> bool {
        self.important.unwrap_or(false)
    }

    /// How often the node is tried.
    pub fn max_attempts(&self) -> i32 {
        self.max_attempts.unwrap_or(3).max(1)
    }

    /// Name of the cloud, or the empty string for machines without one.
    pub fn provider_type(&self) -> &str {
        self.provider
            .as_ref()
            .map_or("", |provider| provider.r#type.as_str())
    }

    /// Index of the run's partition that the node belongs to.
    pub fn iteration(&self) -> i32 {
        self.iteration.unwrap_or(0)
    }
}

/// What is done to a node.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum TaskAction {
    /// A new machine takes the place of the old one.
    #[default]
    Replace,
    /// The node is upgraded in place.
    Upgrade,
}

/// How far a task has come, in the words that people know.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum TaskPhase {
    /// Nothing has happened yet.
    #[default]
    Pending,
    /// The node lock is held.
    Locked,
    /// No new pods land on the old node.
    Cordoned,
    /// The replacement exists in the cloud.
    ReplacementEnsured,
    /// The replacement is a ready node.
    NewNodeReady,
    /// The new node has the labels of the old one.
    LabelsTransferred,
    /// The old node is empty.
    Drained,
    /// The old machine is gone.
    OldDeleted,
    /// Done.
    Succeeded,
    /// Given up; the reason is in the conditions.
    Failed,
}

impl TaskPhase {
    /// Whether nothing more will happen.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The step that a task is at: what it does next, or waits for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum TaskStep {
    /// Take the node lock.
    #[default]
    Lock,
    /// Create the replacement.
    Provision,
    /// Wait until the replacement is a ready node.
    Join,
    /// Give the new node the labels of the old one.
    Transfer,
    /// Wait until the important pods are stable, before the drain.
    Settle,
    /// Keep new pods away from the old node.
    Cordon,
    /// Evict the pods of the old node.
    Drain,
    /// Wait until the important pods are stable again, after the drain.
    Recover,
    /// Take the member of the old node out of etcd.
    RemoveMember,
    /// Delete the old machine.
    Remove,
    /// Delete the old Node object.
    Forget,
    /// Put back what an attempt has changed: lift the cordon, remove the new machine.
    Undo,
    /// Wait before the next attempt.
    Backoff,
    /// Set aside with its slot given back, until it can go on.
    Parked,
    /// Lift protection, give back slot and lock.
    Release,
    /// Nothing is left to do.
    Done,
    /// Given up.
    Failed,
}

impl TaskStep {
    /// Every step, in the order in which people read them.
    pub const ALL: [Self; 17] = [
        Self::Lock,
        Self::Provision,
        Self::Join,
        Self::Transfer,
        Self::Settle,
        Self::Cordon,
        Self::Drain,
        Self::Recover,
        Self::RemoveMember,
        Self::Remove,
        Self::Forget,
        Self::Undo,
        Self::Backoff,
        Self::Parked,
        Self::Release,
        Self::Done,
        Self::Failed,
    ];

    /// Whether nothing more will happen.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Failed)
    }
}

/// The phase that a task at `step` shows: the last thing that is surely true.
pub fn phase_of(step: TaskStep) -> TaskPhase {
    match step {
        TaskStep::Lock => TaskPhase::Pending,
        TaskStep::Provision | TaskStep::Undo | TaskStep::Backoff => TaskPhase::Locked,
        TaskStep::Join => TaskPhase::ReplacementEnsured,
        TaskStep::Transfer | TaskStep::Settle | TaskStep::Cordon | TaskStep::Parked => {
            TaskPhase::NewNodeReady
        }
        TaskStep::Drain => TaskPhase::Cordoned,
        TaskStep::Recover | TaskStep::RemoveMember | TaskStep::Remove => TaskPhase::Drained,
        TaskStep::Forget | TaskStep::Release => TaskPhase::OldDeleted,
        TaskStep::Done => TaskPhase::Succeeded,
        TaskStep::Failed => TaskPhase::Failed,
    }
}
