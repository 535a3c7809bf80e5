//! How a run stands, in one word.
//!
//! Owns the one order in which spec, conditions and pause are weighed. Used by the controller, which
//! writes it into the status, and by everybody who shows runs: a run that no controller has looked at
//! yet may be paused or called off all the same.

use shipshape_api::conditions::{ABORTED, ACCEPTED};
use shipshape_api::node_patch_run::NodePatchRunStatus;
use shipshape_api::{NodePatchRun, RunState};

use super::is_over;
use crate::condition;

/// How a run stands.
pub fn state(run: &NodePatchRun) -> RunState {
    match &run.status {
        Some(status) => with(run, status),
        None => with(run, &NodePatchRunStatus::default()),
    }
}

/// How a run stands with a status that may not be written yet.
pub(super) fn with(run: &NodePatchRun, status: &NodePatchRunStatus) -> RunState {
    if condition::is_true(&status.conditions, ABORTED) {
        RunState::Aborted
    } else if is_over(status) {
        RunState::Completed
    } else if run.spec.abort() || run.metadata.deletion_timestamp.is_some() {
        RunState::Ending
    } else if condition::is_false(&status.conditions, ACCEPTED) {
        RunState::Refused
    } else if status.paused == Some(true) || run.spec.paused() {
        RunState::Paused
    } else {
        RunState::Active
    }
}
