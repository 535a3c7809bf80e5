//! ScalingGroup: one cloud group and the image it launches.
//!
//! Owns spec and status. Made by discovery, read by replacements.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A cloud group as Shipshape shall treat it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "shipshape.dev",
    version = "v1alpha1",
    kind = "ScalingGroup",
    status = "ScalingGroupStatus",
    shortname = "sg",
    category = "shipshape",
    derive = "PartialEq",
    derive = "Default",
    doc = "One group of machines in the cloud and the image that it launches.",
    printcolumn(name = "Role", type_ = "string", json_path = ".spec.role"),
    printcolumn(
        name = "Outdated",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Outdated\")].status"
    ),
    printcolumn(name = "Min", type_ = "integer", json_path = ".spec.min"),
    printcolumn(name = "Max", type_ = "integer", json_path = ".spec.max"),
    printcolumn(
        name = "Waiting for",
        type_ = "string",
        json_path = ".status.waitingFor"
    ),
    printcolumn(
        name = "Group",
        type_ = "string",
        json_path = ".spec.groupId",
        priority = 1
    ),
    printcolumn(
        name = "Image",
        type_ = "string",
        json_path = ".status.imageReference",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = schema::strict,
    transform = schema::rule_on("min", "self.min <= self.max", "min must not be greater than max"),
)]
pub struct ScalingGroupSpec {
    /// Name of the NodeVersion whose image the group shall launch.
    #[schemars(transform = schema::some_text(schema::NAME))]
    pub node_image: String,
    /// The cloud's name of the group.
    #[schemars(transform = schema::some_text(schema::CLOUD_ID))]
    pub group_id: String,
    /// The cluster autoscaler's name of the group; empty means the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::CLOUD_ID))]
    pub autoscaler_group_name: Option<String>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::NAME))]
    pub node_group_name: Option<String>,
    /// Whether the cluster autoscaler may resize the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub autoscaling: Option<bool>,
    /// Fewest machines the autoscaler may keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::at_least(0), extend("default" = 1))]
    pub min: Option<i32>,
    /// Most machines the autoscaler may ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::at_least(0), extend("default" = 10))]
    pub max: Option<i32>,
    /// What the group's nodes are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = ScalingGroupRole::default()))]
    pub role: Option<ScalingGroupRole>,
}

impl ScalingGroupSpec {
    /// Whether the cluster autoscaler may resize the group.
    pub fn autoscaling(&self) -> bool {
        self.autoscaling.unwrap_or(false)
    }

    /// Fewest machines the autoscaler may keep.
    pub fn min(&self) -> i32 {
        self.min.unwrap_or(1)
    }

    /// Most machines the autoscaler may ask for.
    pub fn max(&self) -> i32 {
        self.max.unwrap_or(10)
    }

    /// What the group's nodes are.
    pub fn role(&self) -> ScalingGroupRole {
        self.role.unwrap_or_default()
    }
}

/// What a group's nodes are.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum ScalingGroupRole {
    /// Nodes that run workloads.
    #[default]
    Worker,
    /// Nodes that run the control plane.
    ControlPlane,
}

/// What a group launches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::strict)]
pub struct ScalingGroupStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the group, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The image that the group launches now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::CLOUD_ID))]
    pub image_reference: Option<String>,
    /// What the group waits for, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub waiting_for: Option<String>,
}
