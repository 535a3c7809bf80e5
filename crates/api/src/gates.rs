//! Settings that a run hands on to its tasks: when the cluster counts as stable, which labels move.
//!
//! Owns the words and their defaults; the gates themselves are the engine's business.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// When the important pods count as stable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stability {
    /// How long all important pods must have been ready without a break before a drain, for
    /// example 2m; 0 or absent switches the gate off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::duration)]
    pub stable_for: Option<String>,
    /// Whether only tasks of important nodes wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub important_only: Option<bool>,
}

impl Stability {
    /// Whether only tasks of important nodes wait.
    pub fn important_only(&self) -> bool {
        self.important_only.unwrap_or(true)
    }
}

/// Whether the new machine comes before the old one goes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum ReplacementMode {
    /// The new machine first; the old one goes once the new one is ready.
    #[default]
    Surge,
    /// The old machine first, for groups that cannot grow.
    TerminateFirst,
    /// The new machine first; if the cloud has no room for it, the old machine first.
    SurgeElseTerminateFirst,
}

/// What the taint on nodes that are still to be replaced asks of the scheduler.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum OutdatedTaintEffect {
    /// To prefer other nodes. In a cluster of more than a hundred nodes the scheduler looks at a part of
    /// them only, and a moved pod may land on a node that goes later, and move again.
    #[default]
    PreferNoSchedule,
    /// Not to use them: each pod moves once. Pods that do not fit on the new nodes wait until the next one
    /// is there, and so do those that a workload adds.
    NoSchedule,
}

impl OutdatedTaintEffect {
    /// The effect as Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoSchedule => "NoSchedule",
        }
    }
}

/// Which labels of the old node the new one gets. Existing labels are never overwritten.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelTransfer {
    /// Label keys that are copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::label_keys(256))]
    pub keys: Vec<String>,
    /// Beginnings of label keys that are copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::label_prefixes(64))]
    pub prefixes: Vec<String>,
    /// Label keys that are never copied, whatever the other lists say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::label_keys(256))]
    pub exclude_keys: Vec<String>,
    /// Whether labels that the old node lacks are taken away from the new one, if allowed by the
    /// lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub remove_missing: Option<bool>,
}

impl LabelTransfer {
    /// Whether allowed labels that the old node lacks are taken away.
    pub fn remove_missing(&self) -> bool {
        self.remove_missing.unwrap_or(false)
    }
}
