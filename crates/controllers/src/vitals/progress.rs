//! What happened between two looks at a task, as far as it is counted.
//!
//! A pure comparison of two statuses: a status is written once for each change, so nothing is counted
//! twice, and after a restart nothing is counted that an earlier process has counted.

use jiff::SignedDuration;
use shipshape_api::node_patch_task::UndoNext;
use shipshape_api::{NodePatchTaskStatus, TaskStep};

/// One thing worth counting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mark {
    /// A step is over, after so long.
    StepOver(TaskStep, SignedDuration),
    /// An attempt was given up at this step.
    AttemptFailed(TaskStep),
    /// The node is replaced.
    Replaced,
    /// The node is given up.
    Failed,
    /// The node is set aside.
    Parked,
}

/// What happened between the two.
pub(super) fn between(old: Option<&NodePatchTaskStatus>, new: &NodePatchTaskStatus) -> Vec<Mark> {
    let before = old.map(NodePatchTaskStatus::step_name).unwrap_or_default();
    let now = new.step_name();
    let mut marks = Vec::new();
    if before == now {
        return marks;
    }
    let since = |status: &NodePatchTaskStatus| status.step.as_ref().map(|step| step.since.0);
    if let (Some(began), Some(ended)) = (old.and_then(since), since(new)) {
        marks.push(Mark::StepOver(before, ended.duration_since(began)));
    }
    let undo = new.undo.as_ref().map(|undo| undo.next);
    let is_back = new.parked.as_ref().is_some_and(|parked| parked.resuming);
    match (now, undo) {
        (TaskStep::Undo, Some(UndoNext::Retry | UndoNext::Fail)) => {
            marks.push(Mark::AttemptFailed(before));
        }
        (TaskStep::Done, None) => marks.push(Mark::Replaced),
        (TaskStep::Failed, Some(UndoNext::Fail)) => marks.push(Mark::Failed),
        (TaskStep::Parked, _) if !is_back => marks.push(Mark::Parked),
        // Called off, left by itself, or on its way.
        _ => {}
    }
    marks
}
