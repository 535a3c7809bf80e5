//! ScheduledUpdate: upgrade these nodes in place, at a time.
//!
//! Owns spec and status. Makes a DirectUpdate when its time has come.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::update::{self, AirGapped, Canary, Component, DEFAULT_COMPONENTS, Strategy};

/// What shall be upgraded, how and when.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "shipshape.dev",
    version = "v1alpha1",
    kind = "ScheduledUpdate",
    status = "ScheduledUpdateStatus",
    shortname = "su",
    category = "shipshape",
    derive = "PartialEq",
    doc = "Upgrades nodes in place, at a given time.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.targetVersion"),
    printcolumn(name = "Scheduled", type_ = "string", json_path = ".spec.scheduleAt"),
    printcolumn(
        name = "Waiting for",
        type_ = "string",
        json_path = ".status.waitingFor"
    ),
    printcolumn(
        name = "Update",
        type_ = "string",
        json_path = ".status.directUpdateName",
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
pub struct ScheduledUpdateSpec {
    /// Kubernetes version to reach, for example 1.35.2.
    #[schemars(transform = update::target_version)]
    pub target_version: String,
    /// When the upgrade begins.
    pub schedule_at: Time,
    /// Parts of the nodes to upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = update::components(&DEFAULT_COMPONENTS))]
    pub components: Option<Vec<Component>>,
    /// In which order nodes are upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = Strategy::default()))]
    pub strategy: Option<Strategy>,
    /// Most worker nodes in work at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::count(1, 1))]
    pub concurrency: Option<i32>,
    /// Nodes that go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// Labels that a node must have to be upgraded; absent means all nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = schema::label_map("nodeSelector", schema::ENTRIES))]
    pub node_selector: BTreeMap<String, String>,
    /// Whether the cluster is checked before anything moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub preflight_checks: Option<bool>,
    /// Upgrades without a way to the internet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub air_gapped: Option<AirGapped>,
}

/// How far a scheduled upgrade has come.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum ScheduledPhase {
    /// Its time has not come.
    #[default]
    Scheduled,
    /// Its DirectUpdate is under way.
    Executing,
    /// Its DirectUpdate succeeded.
    Completed,
    /// Its DirectUpdate failed.
    Failed,
    /// Ended by a person.
    Cancelled,
}

/// How far a scheduled upgrade has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::strict)]
pub struct ScheduledUpdateStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the upgrade, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// How far the upgrade has come, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ScheduledPhase>,
    /// When the upgrade will begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_for: Option<Time>,
    /// When the upgrade began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed_at: Option<Time>,
    /// Name of the DirectUpdate that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::NAME))]
    pub direct_update_name: Option<String>,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub message: Option<String>,
    /// What the upgrade waits for, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub waiting_for: Option<String>,
}
