//! Replace: the next move of one node's replacement.
//!
//! Owns the order of the steps: lock, replacement, join, labels, gate, cordon, drain, gate, etcd
//! member gone, old machine gone, old Node gone, release; and the ways out: undo, another attempt, parking. Must not
//! perform anything: each step looks at its snapshot and either waits with a reason, asks for effects
//! whose intent is already recorded, or records the next step. The task's status is the only memory,
//! so a crash between any two lines resumes here.

mod anew;
mod arrive;
mod daemons;
mod draft;
mod expire;
mod facts;
mod keep;
mod leave;
mod member;
mod order;
mod park;
mod passage;
mod release;
mod settle;
#[cfg(test)]
mod tests;
mod turn;
mod undo;
mod unseen;

use jiff::Timestamp;
use shipshape_api::NodePatchTask;
use shipshape_api::conditions::OLD_DELETED;
use shipshape_api::node_patch_task::{NodePatchTaskStatus, TaskStep, UndoNext, UndoRecord};

use crate::condition;
use crate::decision::{Decision, Effect};
use crate::settings::Settings;
use crate::snapshot::TaskSnapshot;
use draft::Draft;
pub use keep::{is_lock_due, is_lock_missing};
pub use unseen::may_be_ending;

/// Decides what one look at a task leads to.
pub fn decide(
    snapshot: &TaskSnapshot,
    settings: &Settings,
    now: Timestamp,
) -> Decision<NodePatchTaskStatus> {
    let mut draft = Draft::new(snapshot, settings, now);
    unseen::judge(&mut draft);
    let step = step_of(snapshot);
    let call_off = snapshot.run.call_off.as_ref();
    let call_off = call_off.filter(|_| order::can_be_undone(&draft, step));
    if let Some(why) = call_off
        && !turn::waits_for_turn(&draft, step)
    {
        draft.begin_undo(undo::called_off(why));
        return draft.finish();
    }
    let is_locked = keep::keep_lock(&mut draft).is_ok();
    if let Some(why) = call_off {
        turn::put_back(&mut draft, why);
    } else if is_locked {
        look_at(&mut draft, step);
    }
    if draft.status.step_name() == step && draft.is_past_deadline() {
        expire::expire(&mut draft, step);
    }
    draft.finish()
}

/// Whether a pass that has come to this step may look at it at once, before it is stored: on the way
/// forward the world leads back here after a crash. A turn is stored first, and so is a step whose first effect
/// needs that: it would be looked at twice.
pub fn may_go_on(step: TaskStep) -> bool {
    match step {
        TaskStep::Join
        | TaskStep::Transfer
        | TaskStep::Settle
        | TaskStep::Cordon
        | TaskStep::Drain
        | TaskStep::Recover
        | TaskStep::RemoveMember
        | TaskStep::Forget
        | TaskStep::Release
        | TaskStep::Done => true,
        TaskStep::Lock
        | TaskStep::Provision
        | TaskStep::Remove
        | TaskStep::Undo
        | TaskStep::Backoff
        | TaskStep::Parked
        | TaskStep::Failed => false,
    }
}

/// Whether all that `effects` rest upon is in the status that was read: the step, the words of the
/// replacement, and the members of etcd.
pub fn is_recorded(
    read: Option<&NodePatchTaskStatus>,
    wanted: &NodePatchTaskStatus,
    effects: &[Effect],
) -> bool {
    let is_stored = read.map(NodePatchTaskStatus::step_name).unwrap_or_default()
        == wanted.step_name()
        && read.and_then(|read| read.replacement.as_ref()) == wanted.replacement.as_ref()
        && read.and_then(|read| read.etcd.as_ref()) == wanted.etcd.as_ref();
    is_stored || !effects.iter().any(Effect::needs_record)
}

fn look_at(draft: &mut Draft<'_>, step: TaskStep) {
    match step {
        TaskStep::Lock => arrive::lock(draft),
        TaskStep::Provision => arrive::provision(draft),
        TaskStep::Join => arrive::join(draft),
        TaskStep::Transfer => settle::transfer(draft),
        TaskStep::Settle => settle::settle(draft),
        TaskStep::Cordon => leave::cordon(draft),
        TaskStep::Drain => leave::drain(draft),
        TaskStep::Recover => settle::recover(draft),
        TaskStep::RemoveMember => member::remove(draft),
        TaskStep::Remove => leave::remove(draft),
        TaskStep::Forget => leave::forget(draft),
        TaskStep::Undo => undo::undo(draft),
        TaskStep::Backoff => undo::back_off(draft),
        TaskStep::Parked => park::parked(draft),
        TaskStep::Release => release::release(draft),
        TaskStep::Done | TaskStep::Failed => release::rest(draft),
    }
}

/// Whether a task that has ended badly was called off, as opposed to one that has failed.
pub fn was_called_off(task: &NodePatchTask) -> bool {
    let undo = task.status.as_ref().and_then(|it| it.undo.as_ref());
    undo.is_some_and(is_call_off)
}

fn is_call_off(undo: &UndoRecord) -> bool {
    undo.next == UndoNext::CallOff
}

/// Whether a task has ended badly after its old machine had gone: the place of its node is empty, unless the new
/// machine could not be emptied and stays.
pub fn has_lost_place(task: &NodePatchTask) -> bool {
    task.status.as_ref().is_some_and(|status| {
        let keeps_machine = status.undo.as_ref().is_some_and(|undo| undo.keeps_machine);
        status.step_name() == TaskStep::Failed
            && condition::is_true(&status.conditions, OLD_DELETED)
            && !keeps_machine
    })
}

/// Whether a task has ended badly and left its new machine beside the old one.
pub fn has_surplus(task: &NodePatchTask) -> bool {
    task.status.as_ref().is_some_and(|status| {
        let keeps_machine = status.undo.as_ref().is_some_and(|undo| undo.keeps_machine);
        status.step_name() == TaskStep::Failed
            && !condition::is_true(&status.conditions, OLD_DELETED)
            && keeps_machine
    })
}

/// The step a task is in. A task without a record has just been made and waits for its lock; that
/// needs no record, because the lock's name follows from the node's.
pub fn step_of(snapshot: &TaskSnapshot) -> TaskStep {
    snapshot
        .task
        .status
        .as_ref()
        .and_then(|status| status.step.as_ref())
        .map_or(TaskStep::Lock, |step| step.name)
}
