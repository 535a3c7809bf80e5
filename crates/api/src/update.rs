//! What the three update kinds have in common: components, strategy, canary, air gap, version.
//!
//! Owns the words and their defaults; version arithmetic is the engine's business.

use schemars::transform::Transform;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::schema;

/// A part of a node that can be upgraded.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Component {
    /// The kubeadm package and what it manages.
    Kubeadm,
    /// The kubelet.
    Kubelet,
    /// The command line client.
    Kubectl,
    /// The container runtime.
    Containerd,
    /// The cluster's store.
    Etcd,
}

/// Components of DirectUpdate and ScheduledUpdate unless the manifest names others.
pub const DEFAULT_COMPONENTS: [Component; 3] =
    [Component::Kubeadm, Component::Kubelet, Component::Kubectl];
/// Components of UpdateSchedule unless the manifest names others.
pub const DEFAULT_POLICY_COMPONENTS: [Component; 2] = [Component::Kubeadm, Component::Kubelet];

/// In which order nodes are upgraded.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// One batch after the other.
    #[default]
    Rolling,
    /// As many workers at once as concurrency allows, without waves.
    Parallel,
    /// Named nodes first, the others after a soak.
    Canary,
}

/// Nodes that go first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::rule_on(
    "nodes",
    "!has(self.enabled) || !self.enabled || (has(self.nodes) && size(self.nodes) > 0)",
    "nodes must name at least one node when canary.enabled is true",
))]
pub struct Canary {
    /// Whether some nodes go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub enabled: Option<bool>,
    /// Names of the nodes that go first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strings(100, schema::NAME))]
    pub nodes: Vec<String>,
}

impl Canary {
    /// Whether some nodes go first.
    pub fn enabled(&self) -> bool {
        self.enabled.unwrap_or(false)
    }
}

/// Upgrades without a way to the internet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::rule_on(
    "bundleConfigMap",
    "!has(self.enabled) || !self.enabled || (has(self.bundleConfigMap) && self.bundleConfigMap != '')",
    "bundleConfigMap is required when airGapped.enabled is true",
))]
pub struct AirGapped {
    /// Whether packages come from a bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub enabled: Option<bool>,
    /// Name of the ConfigMap in kube-system that describes the bundle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::NAME))]
    pub bundle_config_map: Option<String>,
}

impl AirGapped {
    /// Whether packages come from a bundle.
    pub fn enabled(&self) -> bool {
        self.enabled.unwrap_or(false)
    }
}

/// A Kubernetes version: `1.35.2`, `v1.35.2` or, for the newest patch, `1.35`.
pub(crate) fn target_version(schema: &mut Schema) {
    schema::some_text(32).transform(schema);
    schema::matches(
        "^v?[0-9]+([.][0-9]+){0,2}$",
        "targetVersion must be a version such as 1.35.2, v1.35.2 or 1.35",
    )
    .transform(schema);
}

/// A list of components that is `default` when absent.
pub(crate) fn components(default: &'static [Component]) -> impl Transform {
    move |schema: &mut Schema| {
        schema::set(5).transform(schema);
        schema.insert("default".into(), json!(default));
    }
}
