//! How far an upgrade in place has come.
//!
//! Owns the status of DirectUpdate: bounded, because the tasks are the record. Written by the
//! update controller.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// How far an upgrade has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::strict)]
pub struct DirectUpdateStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the upgrade, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How far the upgrade has come, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<UpdatePhase>,
    /// Id of the operation, also found on nodes and in logs.
    #[serde(
        rename = "operationID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(transform = schema::text(schema::UID))]
    pub operation_id: Option<String>,
    /// When work began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// When work ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub message: Option<String>,
    /// What the upgrade waits for, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub waiting_for: Option<String>,
    /// Nodes in flight, failed or recent, by name; the tasks are the full record.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 200))]
    pub nodes: BTreeMap<String, NodeUpdate>,
    /// How many nodes are where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<UpdateSummary>,
    /// What the checks before the upgrade found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight_results: Option<PreflightResults>,
    /// The versions on the way to the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_path: Option<UpgradePath>,
    /// The backup made before the first control plane moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_info: Option<BackupInfo>,
}

/// How far an upgrade has come.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum UpdatePhase {
    /// Nothing has moved yet.
    #[default]
    Pending,
    /// Nodes are being upgraded.
    InProgress,
    /// All nodes are upgraded.
    Succeeded,
    /// Given up.
    Failed,
    /// A person must decide.
    RequiresAttention,
    /// Ended by a person.
    Cancelled,
}

/// How far one node has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeUpdate {
    /// How far the node has come, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<NodeUpdatePhase>,
    /// The last step that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::WORD))]
    pub last_step: Option<String>,
    /// When work on the node began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When this entry last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,
    /// When work on the node ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(1024))]
    pub message: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(1024))]
    pub error: Option<String>,
}

/// How far one node has come.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum NodeUpdatePhase {
    /// Nothing has happened yet.
    #[default]
    Pending,
    /// Pods are leaving.
    Draining,
    /// The agent is at work.
    Upgrading,
    /// The result is being checked from outside.
    Verifying,
    /// The node is opened for pods again.
    Uncordoning,
    /// Done.
    Completed,
    /// Given up.
    Failed,
}

/// How many nodes are where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateSummary {
    /// Nodes of the upgrade.
    #[schemars(transform = schema::at_least(0))]
    pub total: i32,
    /// Nodes that are done.
    #[schemars(transform = schema::at_least(0))]
    pub completed: i32,
    /// Nodes in work.
    #[schemars(transform = schema::at_least(0))]
    pub upgrading: i32,
    /// Nodes that have not begun.
    #[schemars(transform = schema::at_least(0))]
    pub pending: i32,
    /// Nodes that failed.
    #[schemars(transform = schema::at_least(0))]
    pub failed: i32,
}

/// What the checks before the upgrade found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightResults {
    /// Whether all checks passed.
    pub passed: bool,
    /// The checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::keyed(64, &["name"]))]
    pub checks: Vec<PreflightCheck>,
}

/// One check before the upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightCheck {
    /// Which check.
    #[schemars(transform = schema::text(schema::WORD))]
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// What it found.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub message: String,
}

/// The versions on the way to the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradePath {
    /// The version the cluster had.
    #[schemars(transform = schema::text(schema::WORD))]
    pub current_version: String,
    /// The version to reach.
    #[schemars(transform = schema::text(schema::WORD))]
    pub target_version: String,
    /// The versions in between and the last, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strings(schema::ENTRIES, schema::WORD))]
    pub steps: Vec<String>,
    /// Index of the version in work, from 0.
    #[schemars(transform = schema::at_least(0))]
    pub current_step: i32,
    /// How many versions there are.
    #[schemars(transform = schema::at_least(0))]
    pub total_steps: i32,
}

/// A backup of the cluster's store.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupInfo {
    /// Where the backup is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::CLOUD_ID))]
    pub etcd_snapshot: Option<String>,
    /// When the backup was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Time>,
}
