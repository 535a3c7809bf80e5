//! How a node is emptied: the settings of a drain, which a run hands on to its tasks.
//!
//! Owns the words and their defaults; which pod leaves when is the engine's business.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// How the pods of a node are moved away. Pods leave by eviction alone, each with its own grace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrainOptions {
    /// What becomes of pods that no controller would bring back: Block leaves them and waits until
    /// somebody moves them, Evict ends them for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Block"))]
    pub bare_pods: Option<PodRule>,
    /// What becomes of pods with emptyDir volumes, whose content is lost with the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Evict"))]
    pub empty_dir: Option<PodRule>,
    /// What follows when the pods have not left in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Park"))]
    pub on_deadline: Option<OnDeadline>,
    /// How long the pods may take to leave, for example 30m; absent and 0s mean the controller's own
    /// setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::duration)]
    pub timeout: Option<String>,
}

impl DrainOptions {
    /// What becomes of pods that no controller would bring back.
    pub fn bare_pods(&self) -> PodRule {
        self.bare_pods.unwrap_or(PodRule::Block)
    }

    /// What becomes of pods with emptyDir volumes.
    pub fn empty_dir(&self) -> PodRule {
        self.empty_dir.unwrap_or(PodRule::Evict)
    }

    /// What follows when the pods have not left in time.
    pub fn on_deadline(&self) -> OnDeadline {
        self.on_deadline.unwrap_or_default()
    }
}

/// What becomes of pods of one sort.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum PodRule {
    /// They stay, and the drain waits until somebody else moves them.
    Block,
    /// They are evicted like all others.
    Evict,
}

/// What follows when the pods of a node have not left in time.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum OnDeadline {
    /// The node is set aside, the others go on, and it is tried again at the end.
    #[default]
    Park,
    /// The attempt has failed and is put back.
    Fail,
    /// The machine goes with the pods that are left on it. This breaks disruption budgets and loses
    /// what the pods hold: to be chosen knowingly.
    Force,
}
