//! The order of the steps, for both modes.
//!
//! Owns which step follows which and where the way back ends. Must not look at the world.

use shipshape_api::conditions::OLD_DELETED;
use shipshape_api::node_patch_task::TaskStep;

use super::draft::Draft;
use super::settle::gate;
use super::{member, unseen};
use crate::condition;

/// Whether the old machine goes before the new one comes.
pub(super) fn is_terminate_first(draft: &Draft<'_>) -> bool {
    draft.status.terminate_first == Some(true)
}

/// Whether the old machine is gone, so that the only way is on.
pub(super) fn is_old_gone(draft: &Draft<'_>) -> bool {
    condition::is_true(&draft.status.conditions, OLD_DELETED)
}

/// Whether a task at this step can still be put back as it was. From the removal on the old machine
/// may already be ending, whatever the cloud shows; and a node whose member was told to leave etcd is no
/// control plane any more.
pub(super) fn can_be_undone(draft: &Draft<'_>, step: TaskStep) -> bool {
    match step {
        TaskStep::Lock
        | TaskStep::Provision
        | TaskStep::Join
        | TaskStep::Transfer
        | TaskStep::Settle
        | TaskStep::Cordon
        | TaskStep::Drain
        | TaskStep::Recover
        | TaskStep::RemoveMember
        | TaskStep::Backoff
        | TaskStep::Parked => {
            !is_old_gone(draft)
                && !member::is_old_leaving(draft)
                && !unseen::may_be_ending(&draft.status)
        }
        TaskStep::Remove
        | TaskStep::Forget
        | TaskStep::Undo
        | TaskStep::Release
        | TaskStep::Done
        | TaskStep::Failed => false,
    }
}

/// The step after the intent is recorded.
pub(super) fn after_intent(draft: &Draft<'_>) -> TaskStep {
    if is_terminate_first(draft) && !is_old_gone(draft) {
        before_drain(draft)
    } else {
        TaskStep::Provision
    }
}

/// The step after the new node is ready.
pub(super) fn after_join(draft: &Draft<'_>) -> TaskStep {
    if draft.snapshot.task.spec.label_transfer.is_some() {
        TaskStep::Transfer
    } else {
        after_transfer(draft)
    }
}

/// The step after the new node has its labels.
pub(super) fn after_transfer(draft: &Draft<'_>) -> TaskStep {
    if is_old_gone(draft) {
        TaskStep::Release
    } else {
        before_drain(draft)
    }
}

/// The step that leads up to the drain.
pub(super) fn before_drain(draft: &Draft<'_>) -> TaskStep {
    match gate(draft) {
        Ok(None) => TaskStep::Cordon,
        Ok(Some(_)) | Err(_) => TaskStep::Settle,
    }
}

/// The step after the drain.
pub(super) fn after_drain(draft: &Draft<'_>) -> TaskStep {
    match gate(draft) {
        Ok(None) => before_removal(draft),
        Ok(Some(_)) | Err(_) => TaskStep::Recover,
    }
}

/// The step that leads up to the old machine's end.
pub(super) fn before_removal(draft: &Draft<'_>) -> TaskStep {
    match draft.status.etcd {
        Some(_) => TaskStep::RemoveMember,
        None => TaskStep::Remove,
    }
}

/// The step after the old Node has gone.
pub(super) fn after_forget(draft: &Draft<'_>) -> TaskStep {
    if is_terminate_first(draft) {
        TaskStep::Provision
    } else {
        TaskStep::Release
    }
}
