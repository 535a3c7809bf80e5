//! PendingNode: one machine on its way in or out, or one node whose network is verified.
//!
//! Owns spec and status. Made by tasks for their machines, or by a person, it is driven by a controller of
//! its own, which deletes it once its goal is reached. Made by the gate for a node (`spec.nodeUID`), it
//! remembers what the checks came to, and goes with that node.

mod verification;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::provider::ProviderRef;
use crate::schema;

pub use verification::{
    EVIDENCE_MAX, FINDINGS_MAX, TEXT_MAX, Verification, VerificationEvidence, VerificationFinding,
    VerificationVerdict,
};

/// Which machine, and where it shall go.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "shipshape.dev",
    version = "v1alpha1",
    kind = "PendingNode",
    status = "PendingNodeStatus",
    shortname = "pn",
    category = "shipshape",
    derive = "PartialEq",
    derive = "Default",
    doc = "One machine on its way into the cluster or out of it.",
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.nodeName"),
    printcolumn(name = "Goal", type_ = "string", json_path = ".spec.goal"),
    printcolumn(name = "Task", type_ = "string", json_path = ".spec.taskRef.name"),
    printcolumn(name = "Machine", type_ = "string", json_path = ".spec.providerID"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.cspState"),
    printcolumn(
        name = "Since",
        type_ = "date",
        json_path = ".status.cspStateSince",
        priority = 1
    ),
    printcolumn(
        name = "Attempt",
        type_ = "integer",
        json_path = ".status.verification.attempt"
    ),
    printcolumn(
        name = "Verdict",
        type_ = "string",
        json_path = ".status.verification.verdict"
    ),
    printcolumn(
        name = "First failing check",
        type_ = "string",
        json_path = ".status.verification.firstFailingCheck"
    ),
    printcolumn(
        name = "Waiting for",
        type_ = "string",
        json_path = ".status.waitingFor"
    ),
    printcolumn(name = "Deadline", type_ = "string", json_path = ".spec.deadline"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = schema::strict,
    transform = schema::rule_on(
        "providerID",
        "(has(self.providerID) && self.providerID != '') || (has(self.nodeName) && self.nodeName != '')",
        "providerID or nodeName is required",
    ),
)]
pub struct PendingNodeSpec {
    /// What the machine's kubelet registers as providerID.
    #[serde(
        rename = "providerID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(transform = schema::text(schema::CLOUD_ID))]
    pub provider_id: Option<String>,
    /// The cloud's name of the machine's group.
    #[serde(rename = "groupID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::CLOUD_ID))]
    pub group_id: Option<String>,
    /// Name of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::NAME))]
    pub node_name: Option<String>,
    /// UID of the node whose network is verified. Such an object belongs to the gate and goes with its
    /// node; others follow machines.
    #[serde(rename = "nodeUID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::UID))]
    pub node_uid: Option<String>,
    /// Where the machine shall go.
    pub goal: PendingNodeGoal,
    /// When the goal must be reached; a machine that has not joined by then is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// The cloud that the machine is in; without it no state can be asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<ProviderRef>,
    /// The task that waits for the machine. While it lives it decides; once it is gone, a machine
    /// that has not joined is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<TaskRef>,
}

/// A task, so exactly that another one of the same name is a stranger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskRef {
    /// Namespace of the task.
    #[schemars(transform = schema::some_namespace)]
    pub namespace: String,
    /// Name of the task.
    #[schemars(transform = schema::some_text(schema::NAME))]
    pub name: String,
    /// UID of the task.
    #[schemars(transform = schema::some_text(schema::UID))]
    pub uid: String,
}

/// Where a machine shall go.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum PendingNodeGoal {
    /// Become a node of the cluster.
    #[default]
    Join,
    /// Go away, once its node is cordoned and its pods have left.
    Leave,
}

/// Where a machine is in its life, as the cloud says.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum CspState {
    /// The cloud gave no clear answer.
    #[default]
    Unknown,
    /// Asked for, not yet running.
    Creating,
    /// Running.
    Ready,
    /// Switched off but still there.
    Stopped,
    /// On its way out.
    Terminating,
    /// Gone.
    Terminated,
    /// The cloud gave up on it.
    Failed,
}

/// How far a machine has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::strict)]
pub struct PendingNodeStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the machine, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Where the machine is in its life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csp_state: Option<CspState>,
    /// Since when the machine has been seen in that state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csp_state_since: Option<Time>,
    /// Whether the goal is reached; the object goes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_goal: Option<bool>,
    /// How far the verification of the node's network has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// What the machine waits for, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub waiting_for: Option<String>,
}
