//! Explain: why something waits, since when, until when, and what would help.
//!
//! Owns the answers, as values that can be printed or sent. Must not ask the cluster: whoever calls
//! brings the objects. Called by the command line, which adds events and draws.

mod gate;
#[cfg(test)]
mod gate_tests;
mod machine;
mod node;
mod run;
mod task;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde::Serialize;
use shipshape_api::{NodePatchRun, NodePatchTask, NodePatchTaskStatus, TaskStep};

use crate::view::{BudgetView, NodeView, PodView};

pub use gate::{GateScene, at_gate, is_at_gate, pending};
pub use machine::machine;
pub use node::{node, place_of, task_of_node};
pub use run::run;
pub use task::{after_deadline, task};

/// The cluster around the thing that is explained.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// All runs.
    pub runs: &'a [NodePatchRun],
    /// All tasks.
    pub tasks: &'a [NodePatchTask],
    /// All nodes, or none where nobody asked.
    pub nodes: &'a [NodeView],
    /// Budgets in the namespaces of blocked pods.
    pub budgets: &'a [BudgetView],
    /// Pods in the namespaces of blocked pods.
    pub pods: &'a [PodView],
}

/// Why something waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// What is explained: kind and name.
    pub object: String,
    /// How it stands, in one sentence.
    pub state: String,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Until when at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What follows when that time has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// What is in the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Blocker>,
    /// What would help.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub helps: Vec<String>,
    /// What else is worth knowing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Explanation {
    fn about(object: String) -> Self {
        Self {
            object,
            ..Self::default()
        }
    }

    /// Says what helps, once.
    fn help(&mut self, words: String) {
        if !words.is_empty() && !self.helps.contains(&words) {
            self.helps.push(words);
        }
    }
}

/// One thing that is in the way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// The pod, as `namespace/name`.
    pub pod: String,
    /// The node that it is on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The disruption budgets, if any are in the way.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub budget: String,
    /// A stable word for programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What is in the way, in one sentence.
    pub message: String,
}

/// What is waited for, so that it can follow the words "waits for": a status may hold a complaint instead.
pub fn wait(words: &str) -> String {
    if words.starts_with("cannot tell ") {
        return format!("a clear answer: it {words}");
    }
    if words.starts_with("spec.") {
        return format!("a change of the manifest: {words}");
    }
    words.to_owned()
}

fn step_of(task: &NodePatchTask) -> TaskStep {
    let status = task.status.as_ref();
    status
        .map(NodePatchTaskStatus::step_name)
        .unwrap_or_default()
}

fn name_of(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> String {
    let name = meta.name.as_deref().unwrap_or_default();
    match meta.namespace.as_deref() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}
