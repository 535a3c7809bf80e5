//! The scenario file.
//!
//! Owns the format and its checks: a wrong file gets a sentence with its line and field. Must not
//! start anything. `docs/scenarios.md` documents every key.

mod check;
mod hurry;
mod manifests;
mod places;
mod world;

use std::collections::BTreeMap;
use std::path::Path;

use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::Value;
use shipshape_api::{TaskStep, VerificationVerdict};
use shipshape_engine::settings::Settings;
use shipshape_engine::verify::settings::GateSettings;
use thiserror::Error;

use crate::report::Outcome;
use crate::yaml;
pub(crate) use world::NEWCOMERS;
pub use world::{Budget, Workload, WorkloadKind, WorldSection};

/// A scenario that cannot be read.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The file cannot be opened.
    #[error("cannot read {path}")]
    File {
        /// Which file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The text is not a scenario.
    #[error("{path}: {message}")]
    Format {
        /// Which file.
        path: String,
        /// Line, field and what would be right.
        message: String,
    },
}

/// One scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Name, for reports.
    pub name: String,
    /// What it shows, for people.
    #[serde(default)]
    pub description: String,
    /// Whether a real control plane lacks what the scenario needs.
    #[serde(default)]
    pub embedded_only: bool,
    /// The cluster at the start.
    #[serde(default)]
    pub world: WorldSection,
    /// Settings of the operator.
    #[serde(default)]
    pub settings: Settings,
    /// Settings of the gate; without them there is none.
    #[serde(default)]
    pub gate: Option<GateSettings>,
    /// Manifests created at the start, in this order.
    #[serde(default)]
    pub intents: Vec<Value>,
    /// What happens on the way.
    #[serde(default)]
    pub events: Vec<Event>,
    /// What must come of it.
    #[serde(default)]
    pub expect: Expectations,
}

/// Something that happens at a time after the start.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Event {
    /// Time after the intents were created.
    #[serde(default)]
    pub at: SignedDuration,
    /// What must have come about by then; until it has, the event waits.
    #[serde(default)]
    pub once: Option<Once>,
    /// What happens.
    #[serde(rename = "do")]
    pub action: Action,
}

/// What an event waits for: where machines are slow, times alone would tell another story.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Once {
    /// The task of a node is at a step.
    Task {
        /// The node's place.
        node: usize,
        /// The step.
        step: TaskStep,
    },
    /// The machine of a node is on its way out, and followed there.
    Leaving {
        /// The node's place.
        node: usize,
    },
    /// A run is paused, by whatever cause.
    Paused,
    /// So many nodes at the gate have this verdict.
    Verdicts {
        /// The verdict.
        verdict: VerificationVerdict,
        /// How many, at least.
        count: usize,
    },
    /// So many attempts were made at nodes at the gate.
    Attempts(usize),
    /// So many tasks have come to a step.
    Tasks {
        /// The step.
        step: TaskStep,
        /// How many, at least.
        count: usize,
    },
}

/// What can happen. Nodes are named by their place in the sorted list of the first nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Action {
    /// Somebody cordons a node.
    Cordon {
        /// Its place.
        node: usize,
    },
    /// Somebody uncordons a node.
    Uncordon {
        /// Its place.
        node: usize,
    },
    /// The machine of a node dies.
    KillMachine {
        /// Its place.
        node: usize,
    },
    /// The operator's process dies, and a new one starts after a while.
    CrashOperator {
        /// How long none runs.
        down: SignedDuration,
    },
    /// These zones have no capacity from now on; an empty list means all have.
    FullZones(Vec<String>),
    /// Machines of these images boot but never join from now on; an empty list means all do.
    BrokenImages(Vec<String>),
    /// The members of etcd on these nodes stay silent from now on; an empty list means none does.
    SickMembers(Vec<usize>),
    /// Machines of these images join but never get ready from now on; an empty list means all do.
    UnreadyImages(Vec<String>),
    /// So many machines join the group of newcomers at once.
    Join {
        /// How many.
        newcomers: u32,
    },
    /// No name server answers anybody from now on, or all do again.
    DnsDown(bool),
    /// Pods on machines of these images reach no service from now on; an empty list means all do.
    UnconnectedImages(Vec<String>),
    /// The machine of a node boots again.
    Reboot {
        /// The node's name.
        name: String,
        /// How long it is away.
        outage: SignedDuration,
    },
    /// How it stands at the gate now, or the story has gone wrong.
    Check(GateCheck),
    /// Somebody resumes every run that is paused, as `shipshape resume` does.
    Resume,
    /// Somebody has every failed node tried again, as `shipshape retry` does.
    RetryFailed,
    /// Somebody creates an object.
    Create(Value),
    /// Somebody changes an object, by a merge patch that names it by apiVersion, kind and metadata.
    Patch(Value),
    /// Somebody deletes an object, given by apiVersion, kind and metadata.
    Delete(Value),
    /// A machine appears in the group of a node that carries our tags and that nobody speaks of.
    StrayMachine {
        /// The node's place.
        node: usize,
    },
    /// The group of a node grows by a machine of the node's image, as from an old template.
    JoinOutdated {
        /// The node's place.
        node: usize,
    },
    /// Somebody removes a run by force: its finalizers are taken off first.
    RemoveRun {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Somebody removes the task of a node by force: its finalizers are taken off first.
    RemoveTask {
        /// The node's place.
        node: usize,
    },
}

/// How many there must be: so many, or `[least, most]` where the order of what happens at once decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    expecting = "right would be a number such as 5, or [least, most]"
)]
pub enum Count {
    /// So many.
    Exactly(usize),
    /// No fewer than the first, no more than the second.
    Between(usize, usize),
}

impl Count {
    /// Whether so many are as expected.
    pub fn allows(self, count: usize) -> bool {
        match self {
            Self::Exactly(expected) => count == expected,
            Self::Between(least, most) => (least..=most).contains(&count),
        }
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(expected) => write!(f, "{expected}"),
            Self::Between(least, most) => write!(f, "{least} to {most}"),
        }
    }
}

/// How it stands at the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GateCheck {
    /// How many nodes are verified.
    pub verified: Option<Count>,
    /// How many nodes have failed.
    pub unfit: Option<Count>,
    /// How many nodes are inconclusive.
    pub inconclusive: Option<Count>,
    /// How many nodes carry the taint of the gate.
    pub gated: Option<Count>,
    /// How many attempts were made, all nodes together.
    pub attempts: Option<Count>,
    /// How many of them count against their node.
    pub failed_attempts: Option<Count>,
    /// How many machines and Node objects the operator has removed, by the logs.
    pub removed: Option<Count>,
}

/// What must come of a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Expectations {
    /// How it must end.
    pub outcome: Outcome,
    /// In what time.
    pub within: SignedDuration,
    /// How long the world is watched after the end: at rest nothing may be written.
    pub rest: SignedDuration,
    /// How many nodes must have been replaced.
    pub replaced: Option<usize>,
    /// How many tasks must have failed.
    pub failed: Option<usize>,
    /// How many machines may have been made.
    pub max_machines: Option<usize>,
    /// How often one pod may have been moved.
    pub max_moves: Option<usize>,
    /// How many evictions a budget may have refused.
    pub max_refused: Option<usize>,
    /// What a run or a task must have said it waits for, at some time; a part of the sentence is enough.
    pub says: Vec<String>,
    /// Reasons that conditions of every run must have at the end, by condition type.
    pub conditions: BTreeMap<String, String>,
    /// What events about runs and tasks must have said, as parts of their sentences.
    pub told: Vec<String>,
    /// How it must stand at the gate.
    pub gate: GateCheck,
}

impl Default for Expectations {
    fn default() -> Self {
        Self {
            outcome: Outcome::Converged,
            within: SignedDuration::from_hours(4),
            rest: SignedDuration::from_mins(10),
            replaced: None,
            failed: None,
            max_machines: None,
            max_moves: None,
            max_refused: None,
            says: Vec::new(),
            conditions: BTreeMap::new(),
            told: Vec::new(),
            gate: GateCheck::default(),
        }
    }
}

impl Scenario {
    /// Reads a scenario file.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| ScenarioError::File {
            path: name.clone(),
            source,
        })?;
        Self::parse(&name, &text)
    }

    /// Reads a scenario from text; `path` is only for messages.
    pub fn parse(path: &str, text: &str) -> Result<Self, ScenarioError> {
        let wrong = |message: String| ScenarioError::Format {
            path: path.to_owned(),
            message,
        };
        let scenario: Self = yaml::read(text).map_err(wrong)?;
        check::check(&scenario).map_err(wrong)?;
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests;
