//! What becomes of a node whose drain gets nowhere.
//!
//! Owns the answer before a run begins, and its words; `replace::leave` does what they say.

use jiff::SignedDuration;
use serde::Serialize;
use shipshape_api::{DrainOptions, NodePatchRunSpec, OnDeadline};

use crate::span;

/// What becomes of a node with a pod that does not leave in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Fate {
    /// It is set aside and tried again at the end.
    Parked,
    /// It is put back and counts as failed.
    Failed,
    /// Its machine is ended with the pod on it.
    Forced,
}

impl Fate {
    /// The fate of all such nodes of a run.
    pub fn of(spec: &NodePatchRunSpec) -> Self {
        let drain = spec.drain.as_ref();
        match drain.map(DrainOptions::on_deadline).unwrap_or_default() {
            OnDeadline::Force => Self::Forced,
            // The last attempt has no other after it for which a node could be set aside.
            OnDeadline::Park if spec.max_attempts() > 1 => Self::Parked,
            OnDeadline::Park | OnDeadline::Fail => Self::Failed,
        }
    }

    /// A few words for a table.
    pub fn words(self) -> &'static str {
        match self {
            Self::Parked => "will be parked",
            Self::Failed => "will fail",
            Self::Forced => "will be ended with pods on it",
        }
    }

    /// Whether more is lost than time: pods are ended that somebody wants to keep.
    pub fn is_grave(self) -> bool {
        self == Self::Forced
    }

    /// What becomes of some nodes of a run, in one sentence.
    pub fn sentence(self, nodes: usize, spec: &NodePatchRunSpec, limit: SignedDuration) -> String {
        let limit = span::written(limit);
        match self {
            Self::Parked => format!("{nodes} node(s) will be parked unless somebody helps"),
            Self::Failed => {
                let attempts = spec.max_attempts();
                format!(
                    "{nodes} node(s) will fail unless somebody helps: each is put back {limit} after \
                     its drain began, {attempts} attempt(s) in all"
                )
            }
            Self::Forced => format!(
                "the machines of {nodes} node(s) will be ended with pods on them, {limit} after their \
                 drains began (spec.drain.onDeadline: Force): this breaks disruption budgets and loses \
                 what those pods hold"
            ),
        }
    }
}
