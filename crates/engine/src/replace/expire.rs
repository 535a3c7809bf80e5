//! What follows when a step is past its deadline.
//!
//! Owns the answer for every step. Must not look at the world: the step has just looked and waits.

use shipshape_api::conditions::OVERDUE;
use shipshape_api::node_patch_task::TaskStep;
use shipshape_api::reasons::NO_CAPACITY;

use super::draft::Draft;
use super::undo::gave_up;
use super::{daemons, leave, member, order, park, passage};
use crate::condition;
use crate::startup::startup_taint;
use crate::view::Observed;

/// Gives the step up in the way that can be undone; where nothing can be, says so and goes on.
pub(super) fn expire(draft: &mut Draft<'_>, step: TaskStep) {
    let waited_for = draft
        .status
        .waiting_for
        .clone()
        .unwrap_or_else(|| "its turn".to_owned());
    match step {
        TaskStep::Settle | TaskStep::Cordon | TaskStep::Recover | TaskStep::RemoveMember
            if !order::can_be_undone(draft, step) =>
        {
            draft.mark_overdue(&waited_for);
        }
        TaskStep::RemoveMember => {
            let message = format!("past the deadline, waiting for {waited_for}");
            park::park(draft, member::NOT_WELL, message);
        }
        TaskStep::Provision if has_no_room(draft) => {
            park::park(draft, NO_CAPACITY, waited_for);
        }
        TaskStep::Lock => end(draft, "the lock", "LockTimedOut", &waited_for),
        TaskStep::Provision => end(draft, "the replacement", "ProvisionTimedOut", &waited_for),
        TaskStep::Join if passage::is_bounded(draft) => draft.mark_overdue(&waited_for),
        // The gate had it wait beyond its time. What follows the gate has a time of its own.
        TaskStep::Join if condition::is_true(&draft.status.conditions, OVERDUE) => {
            draft.grant_anew();
        }
        TaskStep::Join => {
            let cause = join_cause(draft, waited_for);
            end(draft, "the join", "JoinTimedOut", &cause);
        }
        TaskStep::Transfer => end(draft, "the label transfer", "TransferTimedOut", &waited_for),
        TaskStep::Cordon if daemons::is_lacking(draft) => {
            let message = format!("past the deadline, waiting for {waited_for}");
            park::park(draft, daemons::MISSING, message);
        }
        TaskStep::Cordon => end(draft, "the cordon", "CordonTimedOut", &waited_for),
        TaskStep::Settle | TaskStep::Recover => {
            let message = format!("past the deadline, waiting for {waited_for}");
            park::park(draft, "ImportantPodsUnstable", message);
        }
        TaskStep::Drain => leave::drain_overdue(draft, &waited_for),
        TaskStep::Undo => super::undo::overdue(draft, &waited_for),
        TaskStep::Remove | TaskStep::Forget | TaskStep::Release => {
            draft.mark_overdue(&waited_for);
        }
        TaskStep::Backoff | TaskStep::Parked | TaskStep::Done | TaskStep::Failed => {}
    }
}

/// Whether the cloud said that it had no room, while the old machine still stands.
fn has_no_room(draft: &Draft<'_>) -> bool {
    let record = draft.status.replacement.as_ref();
    record.is_some_and(|record| record.no_room.is_some()) && !order::is_old_gone(draft)
}

/// How far the replacement has come, and the image that may be at fault. Said here and not while the
/// step waits: that would cost every node a write.
fn join_cause(draft: &Draft<'_>, waited_for: String) -> String {
    let image = draft.status.replacement.as_ref();
    let image = image.and_then(|record| record.image.as_deref());
    let image = image.unwrap_or_default();
    match &draft.snapshot.new_node {
        Observed::Present(node) if !node.ready => {
            let name = &node.name;
            format!("{waited_for}: node {name} of image {image} has joined and is not ready")
        }
        Observed::Absent => format!("{waited_for}: it has not joined; its image is {image}"),
        Observed::Present(node) => match startup_taint(node) {
            Some(taint) => {
                let name = &node.name;
                format!(
                    "{waited_for}: node {name} of image {image} is ready and keeps taint {taint}"
                )
            }
            None => waited_for,
        },
        Observed::Unknown(_) | Observed::NotAsked => waited_for,
    }
}

/// Ends the attempt.
fn end(draft: &mut Draft<'_>, what: &str, reason: &str, waited_for: &str) {
    let message = format!("{what} is past its deadline, waiting for {waited_for}");
    let record = gave_up(draft, reason, &message);
    draft.begin_undo(record);
}
