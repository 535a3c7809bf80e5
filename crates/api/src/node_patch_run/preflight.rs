//! What was found before the first node of a wave was touched.
//!
//! Owns the record of one preflight in the status of a run. Written by the run controller once for
//! each wave; a restart neither repeats nor loses it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What was found on the nodes of one wave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightRecord {
    /// The plan that the wave belongs to.
    #[schemars(transform = schema::text(schema::WORD))]
    pub plan_version: String,
    /// The wave, as an index into the plan's partitions.
    #[schemars(transform = schema::at_least(0))]
    pub iteration: i32,
    /// When it was looked at.
    pub at: Time,
    /// How many nodes were looked at.
    #[schemars(transform = schema::at_least(0))]
    pub nodes: i32,
    /// How many evictions were asked for as dry runs.
    #[schemars(transform = schema::at_least(0))]
    pub dry_runs: i32,
    /// What was found, the gravest twenty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic(20))]
    pub findings: Vec<FindingRecord>,
    /// How many findings more there are.
    #[schemars(transform = schema::at_least(0))]
    pub more: i32,
}

/// One thing that is in the way of a drain, or that a drain would lose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingRecord {
    /// The node.
    #[schemars(transform = schema::text(schema::NAME))]
    pub node: String,
    /// Namespace of the pod.
    #[schemars(transform = schema::text(63))]
    pub namespace: String,
    /// Name of the pod.
    #[schemars(transform = schema::text(schema::NAME))]
    pub pod: String,
    /// The disruption budgets it is about, if it is about any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::CLOUD_ID))]
    pub budget: Option<String>,
    /// A stable word for programs.
    #[schemars(transform = schema::text(schema::WORD))]
    pub reason: String,
    /// What it is, in one sentence.
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub message: String,
    /// What would help.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub remedy: String,
}
