//! NodeVersion: nodes shall run this image, always.
//!
//! Owns spec and status. Read and written by the version controller.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// A version with an optional suffix of a distribution; empty means "don't care".
const VERSION: &str = "^(v?[0-9]+([.][0-9]+){1,2}([-+][0-9A-Za-z.+-]+)?)?$";

/// What nodes shall run.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "shipshape.dev",
    version = "v1alpha1",
    kind = "NodeVersion",
    status = "NodeVersionStatus",
    shortname = "nv",
    category = "shipshape",
    derive = "PartialEq",
    derive = "Default",
    doc = "The image and the Kubernetes components that nodes shall run, now and later.",
    printcolumn(
        name = "Outdated",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Outdated\")].status"
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.imageVersion"),
    printcolumn(name = "Budget", type_ = "integer", json_path = ".status.budget"),
    printcolumn(
        name = "Waiting for",
        type_ = "string",
        json_path = ".status.waitingFor"
    ),
    printcolumn(
        name = "Image",
        type_ = "string",
        json_path = ".spec.image",
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
pub struct NodeVersionSpec {
    /// The image, as the cloud names it; empty means don't care.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::CLOUD_ID))]
    pub image: Option<String>,
    /// The image's version for people; nothing is decided by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::NAME))]
    pub image_version: Option<String>,
    /// Name of the ConfigMap in kube-system that lists the Kubernetes components; empty means don't
    /// care.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::NAME))]
    pub kubernetes_components_reference: Option<String>,
    /// Kubernetes version of the cluster, for example v1.35.2; empty means don't care.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        transform = schema::text(schema::WORD),
        transform = schema::matches(
            VERSION,
            "kubernetesClusterVersion must be a version such as v1.35.2, or empty",
        ),
    )]
    pub kubernetes_cluster_version: Option<String>,
}

impl NodeVersionSpec {
    /// The wanted image, if somebody cares.
    pub fn image(&self) -> Option<&str> {
        wanted(self.image.as_deref())
    }

    /// The ConfigMap of the wanted components, if somebody cares.
    pub fn components_reference(&self) -> Option<&str> {
        wanted(self.kubernetes_components_reference.as_deref())
    }

    /// The wanted Kubernetes version, if somebody cares.
    pub fn cluster_version(&self) -> Option<&str> {
        wanted(self.kubernetes_cluster_version.as_deref())
    }
}

/// Empty is the same as absent.
fn wanted(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

/// How far nodes are from the wanted version. Each list names at most a thousand nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::strict)]
pub struct NodeVersionStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds for the nodes, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Nodes that run something else and have no replacement yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub outdated: Vec<ObjectReference>,
    /// Nodes that run what is wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub up_to_date: Vec<ObjectReference>,
    /// Outdated nodes that hand over to a replacement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub donors: Vec<ObjectReference>,
    /// Replacements that take over from an outdated node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub heirs: Vec<ObjectReference>,
    /// New nodes that have no outdated node to take over from yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub mints: Vec<ObjectReference>,
    /// Nodes of which it is not known yet what they run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub awaiting_annotation: Vec<ObjectReference>,
    /// Machines on their way in or out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub pending: Vec<ObjectReference>,
    /// Nodes that nobody needs any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub obsolete: Vec<ObjectReference>,
    /// Nodes that cannot be matched with a machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::references")]
    pub invalid: Vec<ObjectReference>,
    /// How many machines may be added now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::at_least(0))]
    pub budget: Option<i64>,
    /// Whether the cluster's Kubernetes version is being raised.
    #[serde(
        rename = "activeclusterversionupgrade",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub active_cluster_version_upgrade: Option<bool>,
    /// What the roll waits for, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub waiting_for: Option<String>,
}
