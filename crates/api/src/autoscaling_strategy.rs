//! AutoscalingStrategy: the cluster autoscaler, held off while a roll is under way.
//!
//! Owns spec and status. Driven by the autoscaler controller.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Where the cluster autoscaler is and whether it shall run.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "shipshape.dev",
    version = "v1alpha1",
    kind = "AutoscalingStrategy",
    plural = "autoscalingstrategies",
    status = "AutoscalingStrategyStatus",
    shortname = "as",
    category = "shipshape",
    derive = "PartialEq",
    derive = "Default",
    doc = "The cluster autoscaler, held off while a roll is under way.",
    printcolumn(name = "Wanted", type_ = "boolean", json_path = ".spec.enabled"),
    printcolumn(name = "Enabled", type_ = "boolean", json_path = ".status.enabled"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(
        name = "Waiting for",
        type_ = "string",
        json_path = ".status.waitingFor"
    ),
    printcolumn(
        name = "Deployment",
        type_ = "string",
        json_path = ".spec.deploymentName",
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
pub struct AutoscalingStrategySpec {
    /// Whether the autoscaler shall run when no roll is under way.
    pub enabled: bool,
    /// Name of the autoscaler's Deployment.
    #[schemars(transform = schema::some_text(schema::NAME))]
    pub deployment_name: String,
    /// Namespace of the autoscaler's Deployment.
    #[schemars(transform = schema::some_namespace)]
    pub deployment_namespace: String,
    /// Arguments that the autoscaler gets besides its groups.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = schema::string_map(64, 1024))]
    pub autoscaler_extra_args: BTreeMap<String, String>,
}

/// What the cluster autoscaler does now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::strict)]
pub struct AutoscalingStrategyStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the autoscaler, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Whether the autoscaler runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Replicas of the autoscaler's Deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::at_least(0))]
    pub replicas: Option<i32>,
    /// What the autoscaler is held off for, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub waiting_for: Option<String>,
}
