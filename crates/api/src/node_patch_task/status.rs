//! The record of one task: what it set out to do and what is done.
//!
//! Owns the status of NodePatchTask. An intent is stored here before the call that carries it out,
//! so a restart finds it. Written by the task controller alone.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{TaskPhase, TaskStep};
use crate::schema;

/// The record of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::strict)]
pub struct NodePatchTaskStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the task, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How far the task has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<TaskPhase>,
    /// The step that the task is at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepRecord>,
    /// What the task waits for, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub waiting_for: Option<String>,
    /// How often the node has been tried, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::at_least(0))]
    pub attempt: Option<i32>,
    /// The last attempt that is allowed; raised when a person asks for another try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::at_least(0))]
    pub attempt_limit: Option<i32>,
    /// How often the node had failed before a person asked for the try that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::at_least(0))]
    pub failed_before: Option<i32>,
    /// The machine that shall go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_machine: Option<MachineRecord>,
    /// The machine that takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_machine: Option<MachineRecord>,
    /// Name of the node that takes the place of the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::NAME))]
    pub new_node_name: Option<String>,
    /// UID of the node that takes the place of the old one.
    #[serde(
        rename = "newNodeUID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(transform = schema::text(schema::UID))]
    pub new_node_uid: Option<String>,
    /// The stored intent of the call that creates the replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<ReplacementRecord>,
    /// Whose cordon the old node carries; stored before the node is cordoned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cordon: Option<CordonRecord>,
    /// Whether the old machine goes before the new one comes, once that is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminate_first: Option<bool>,
    /// The labels that the new node shall get; stored while the old node is still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelRecord>,
    /// Why the attempt is put back, and what follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<UndoRecord>,
    /// Why the task was set aside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<ParkRecord>,
    /// The last value of the retry annotation that was followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::WORD))]
    pub retried: Option<String>,
    /// Whether the machine goes with the pods that are left on it, because the run says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forced: Option<bool>,
    /// How far the drain has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainRecord>,
    /// The members of etcd on the old and the new node; absent where the old node has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EtcdRecord>,
    /// What only one cloud knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_details: Option<ProviderDetails>,
    /// Since when all important pods have been ready without a break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_since: Option<Time>,
    /// Why the important pods do not count as stable yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub stability_note: Option<String>,
    /// The last thing that went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub last_error: Option<String>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Time>,
}

impl NodePatchTaskStatus {
    /// The step that the task is at; a task without a record is at the first.
    pub fn step_name(&self) -> TaskStep {
        self.step
            .as_ref()
            .map_or_else(TaskStep::default, |step| step.name)
    }
}

/// The step that a task is at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepRecord {
    /// Which step.
    pub name: TaskStep,
    /// When it began.
    pub since: Time,
    /// When it must be over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
}

/// The stored intent of the call that creates a replacement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacementRecord {
    /// Idempotency key: the same token never makes a second machine.
    #[schemars(transform = schema::some_text(schema::WORD))]
    pub token: String,
    /// The group to launch in.
    #[schemars(transform = schema::some_text(schema::CLOUD_ID))]
    pub group_id: String,
    /// The zone to launch in.
    #[schemars(transform = schema::text(schema::WORD))]
    pub zone: String,
    /// The image that the group launched when the intent was stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::CLOUD_ID))]
    pub image: Option<String>,
    /// When the intent was stored.
    pub requested_at: Time,
    /// What the cloud said when it had no room for the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub no_room: Option<String>,
}

/// Whose cordon a node carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CordonRecord {
    /// Whether the cordon is ours: only then is it ever lifted by us.
    pub ours: bool,
    /// When the record was made.
    pub at: Time,
}

/// The labels that a new node shall get and lose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelRecord {
    /// Labels of the old node that the lists of the run take; one that the new node has already is
    /// not overwritten.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = schema::string_map(256, 63))]
    pub add: BTreeMap<String, String>,
}

/// Why an attempt is put back, and what follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoRecord {
    /// Stable reason.
    #[schemars(transform = schema::some_text(schema::WORD))]
    pub reason: String,
    /// One sentence.
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub message: String,
    /// What follows once everything is put back.
    pub next: UndoNext,
    /// Whether the new machine stays as an ordinary member of its group, because it could not be
    /// emptied in time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_machine: bool,
}

/// What follows once an attempt is put back.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum UndoNext {
    /// Another attempt.
    Retry,
    /// The task has failed.
    Fail,
    /// The task was called off.
    CallOff,
    /// The node has left by itself; there is nothing to replace any more.
    Leave,
}

/// Why a task was set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParkRecord {
    /// Stable reason.
    #[schemars(transform = schema::some_text(schema::WORD))]
    pub reason: String,
    /// One sentence.
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub message: String,
    /// When it was set aside; on its way back, when that began.
    pub since: Time,
    /// Whether it is on its way back: it wants a slot again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resuming: bool,
    /// Since when it is called off and waits for its turn to be put back, or when its run last got on with that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_since: Option<Time>,
}

/// How far a drain has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainRecord {
    /// Pods that had to leave when the drain began.
    #[schemars(transform = schema::at_least(0))]
    pub total: i32,
    /// Pods that still have to leave.
    #[schemars(transform = schema::at_least(0))]
    pub remaining: i32,
    /// Pods that cannot leave now, the first ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic(10))]
    pub blocked: Vec<BlockedEviction>,
    /// Volumes whose pods have left and which are still attached; the next pod with volumes leaves
    /// after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic(schema::ENTRIES))]
    pub detaching: Vec<DetachRecord>,
}

/// A volume whose pod has left and which is still attached to the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DetachRecord {
    /// Name of the PersistentVolume, or of the attachment of a disk that has none.
    #[schemars(transform = schema::text(schema::NAME))]
    pub volume: String,
    /// Since when its pod has been gone.
    pub since: Time,
}

/// One pod that cannot leave now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedEviction {
    /// Namespace of the pod.
    #[schemars(transform = schema::text(63))]
    pub namespace: String,
    /// Name of the pod.
    #[schemars(transform = schema::text(schema::NAME))]
    pub pod: String,
    /// A stable word for what is in its way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::WORD))]
    pub reason: Option<String>,
    /// Names of the disruption budgets that are in its way, if any are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::CLOUD_ID))]
    pub budget: Option<String>,
    /// What is in its way, in one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub message: String,
}

/// The members of etcd that a replacement takes out and brings in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRecord {
    /// The member of the old node.
    pub old: MemberRecord,
    /// The member of the new node, once that node is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<MemberRecord>,
}

/// A member of etcd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberRecord {
    /// Its name, which is that of its node.
    #[schemars(transform = schema::some_text(schema::NAME))]
    pub name: String,
    /// Its id, in the hexadecimal form that etcd's own tools show, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::WORD))]
    pub id: Option<String>,
    /// Since when its removal has been asked for; stored before it is. From then on there is no way
    /// back for the old node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal_since: Option<Time>,
}

/// A machine as its cloud names it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineRecord {
    /// Name of the cloud.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(transform = schema::text(63))]
    pub provider: String,
    /// The cloud's name of the machine.
    #[schemars(transform = schema::text(schema::CLOUD_ID))]
    pub id: String,
    /// What the machine's kubelet registers as providerID.
    #[serde(
        rename = "providerID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(transform = schema::text(schema::CLOUD_ID))]
    pub provider_id: Option<String>,
    /// Where the machine is, in the cloud's words: zone, region, group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = schema::string_map(16, schema::CLOUD_ID))]
    pub location: BTreeMap<String, String>,
}

/// What only one cloud knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderDetails {
    /// What only Amazon Web Services knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<AwsDetails>,
}

/// What only Amazon Web Services knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwsDetails {
    /// Region of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::WORD))]
    pub region: Option<String>,
    /// Name of the Auto Scaling group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(255))]
    pub asg_name: Option<String>,
    /// Subnet of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::WORD))]
    pub subnet_id: Option<String>,
    /// Launch template that the replacement is made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::WORD))]
    pub launch_template_id: Option<String>,
    /// Version of the launch template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::WORD))]
    pub launch_template_version: Option<String>,
    /// Whether the replacement is protected against scale-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_protected: Option<bool>,
}
