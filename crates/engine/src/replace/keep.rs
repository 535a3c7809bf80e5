//! Keeping the node's lock while the work lasts.
//!
//! Owns when the lock is looked at and renewed, and what its loss means: one that somebody has removed is
//! taken anew before anything more is done to the node, and the way back does not need it. Must not free it:
//! the last step does.

use jiff::Timestamp;
use shipshape_api::conditions::LOCKED;
use shipshape_api::node_patch_task::TaskStep;

use super::draft::{Draft, Unclear};
use super::facts::{lock_request, operation, own_node};
use super::step_of;
use crate::decision::Effect;
use crate::settings::Settings;
use crate::snapshot::TaskSnapshot;
use crate::view::Observed;

/// Whether the lock has been held so long that this pass must look after it. Most replacements end
/// before, and never ask.
pub fn is_lock_due(snapshot: &TaskSnapshot, settings: &Settings, now: Timestamp) -> bool {
    let status = snapshot.task.status.as_ref();
    let locked = status
        .into_iter()
        .flat_map(|status| &status.conditions)
        .find(|one| one.type_ == LOCKED);
    let step = step_of(snapshot);
    // A task that was called off, gave up or was set aside before it had the lock has touched nothing: there
    // is nothing to keep.
    let is_kept = is_at_work(step) || (is_way_back(step) && locked.is_some());
    is_kept && locked.is_none_or(|one| is_old(one.last_transition_time.0, settings, now))
}

/// Whether a lock that the work needs is not there though its node is: then it must be known whether the
/// task is at work before it is taken anew.
pub fn is_lock_missing(snapshot: &TaskSnapshot) -> bool {
    let node = snapshot.old_node.present();
    let has_node = node.is_some_and(|node| node.uid == snapshot.task.spec.node_uid);
    snapshot.lock.is_absent() && has_node && is_at_work(step_of(snapshot))
}

/// Renews a lock that is ours, and takes one anew that somebody has removed. Without it nothing more is done
/// to the node but to put it back, and the wait is decided on.
pub(super) fn keep_lock(draft: &mut Draft<'_>) -> Result<(), Unclear> {
    let is_due = is_lock_due(draft.snapshot, draft.settings, draft.now);
    if !is_due && !is_before_disruption(step_of(draft.snapshot)) {
        return Ok(());
    }
    let node = &draft.snapshot.task.spec.node_name;
    let lost = match &draft.snapshot.lock {
        Observed::Present(lock) if lock.operation == operation(draft) => {
            let last = lock.renewed;
            if is_due && last.is_none_or(|last| is_old(last, draft.settings, draft.now)) {
                draft.effect(Effect::RenewLock {
                    node: node.clone(),
                    operation: operation(draft).to_owned(),
                });
            }
            return Ok(());
        }
        Observed::NotAsked | Observed::Unknown(_) => return Ok(()),
        // It went with its node, whose name another may have by now. What is left to do touches
        // machines only.
        Observed::Present(_) | Observed::Absent if own_node(draft).is_absent() => return Ok(()),
        Observed::Present(lock) => format!("node {node}, which {} has locked", lock.holder),
        // Nobody else has it, and what is put back is ours by its own mark.
        Observed::Absent if is_way_back(step_of(draft.snapshot)) => return Ok(()),
        Observed::Absent => format!("the lock of node {node}, which somebody has removed"),
    };
    draft.wait(lost, Some(draft.settings.machine_poll));
    if is_lock_missing(draft.snapshot) {
        take_anew(draft);
    }
    Err(Unclear)
}

/// Asks for a lock that is missing, unless this may be a late look at a task that has ended and let it go.
/// The lock is made, not written over: of two that ask, one gets it.
fn take_anew(draft: &mut Draft<'_>) {
    let is_at_work = draft.snapshot.at_work.present().is_some();
    if let (true, Some(node)) = (is_at_work, own_node(draft).present()) {
        draft.effect(Effect::AcquireLock(lock_request(draft, node)));
        draft.look_again();
    }
}

/// Whether this step is one of the work that the lock is for.
fn is_at_work(step: TaskStep) -> bool {
    match step {
        TaskStep::Provision
        | TaskStep::Join
        | TaskStep::Transfer
        | TaskStep::Settle
        | TaskStep::Recover
        | TaskStep::RemoveMember
        | TaskStep::Cordon
        | TaskStep::Drain
        | TaskStep::Remove
        | TaskStep::Forget => true,
        TaskStep::Lock
        | TaskStep::Undo
        | TaskStep::Backoff
        | TaskStep::Parked
        | TaskStep::Release
        | TaskStep::Done
        | TaskStep::Failed => false,
    }
}

/// Whether this step only puts back what the task has changed, or rests.
fn is_way_back(step: TaskStep) -> bool {
    matches!(step, TaskStep::Undo | TaskStep::Backoff | TaskStep::Parked)
}

/// Whether this step closes the node or ends its machine: the lock is read live before each.
fn is_before_disruption(step: TaskStep) -> bool {
    matches!(step, TaskStep::Cordon | TaskStep::Remove)
}

/// Whether the lock is surely ours, as just read, or has gone with its node; if not, the wait is decided
/// on.
pub(super) fn is_held(draft: &mut Draft<'_>) -> bool {
    if own_node(draft).is_absent() {
        return true;
    }
    match draft.look(&draft.snapshot.lock, "who holds the node's lock") {
        Ok(Some(lock)) => lock.operation == operation(draft),
        Ok(None) | Err(Unclear) => false,
    }
}

fn is_old(last_word: Timestamp, settings: &Settings, now: Timestamp) -> bool {
    now.duration_since(last_word) >= settings.lock_renewal()
}
