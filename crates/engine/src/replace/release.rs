//! The end of a task: protection goes, then it is over; slot and lock go back.
//!
//! Owns the last words of a task. Must not touch a node.

use shipshape_api::conditions::{OLD_DELETED, SUCCEEDED};
use shipshape_api::node_patch_task::{ParkRecord, TaskStep, UndoNext};
use shipshape_api::reasons::NODE_LEFT;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::draft::{Draft, Milestone, Unclear};
use super::facts::{note_protection, operation, own_node, task_key};
use super::park::{ASKED_AGAIN, is_asked_again, retry_wish};
use super::{is_call_off, order};
use crate::condition::Truth;
use crate::decision::{Effect, Kept, KeptKind, Notice};
use crate::machine::Machine;
use crate::snapshot::LockView;
use crate::sweep::{COMPLETED, is_completed};
use crate::view::is_kept;

/// Entered when the work is over, well or badly. Left when the protection is lifted. The run gives the
/// slot back, together with others and with what it grants next; without a run the task does it. The
/// lock goes last, once the end is stored.
pub(super) fn release(draft: &mut Draft<'_>) {
    let has_run = draft.snapshot.run.spec.is_some();
    let mut slot = None;
    if !has_run {
        match draft.look(&draft.snapshot.slot, "whether the slot is free") {
            Ok(found) => slot = found,
            Err(Unclear) => return,
        }
    }
    let Ok(is_protected) = lift_protection(draft) else {
        return;
    };
    if slot.is_some() {
        let task = task_key(draft);
        draft.effect(Effect::ReleaseSlot {
            node_uid: draft.snapshot.task.spec.node_uid.clone(),
            task,
        });
        draft.look_again();
    } else if is_protected {
        // A cloud may show what was for a while.
        let reason = "the new machine's protection to be lifted".to_owned();
        draft.wait(reason, Some(draft.settings.machine_poll));
    } else {
        end(draft);
    }
}

/// Asks for the end of the new machine's protection; says whether it may still be protected. The object
/// that protects it must have gone: its last call might come after ours.
fn lift_protection(draft: &mut Draft<'_>) -> Result<bool, Unclear> {
    if draft.status.new_machine.is_none() {
        return Ok(false);
    }
    let about = "whether the new machine is followed";
    if draft.look(&draft.snapshot.pending, about)?.is_some() {
        draft.wait("its PendingNode to go".to_owned(), None);
        return Err(Unclear);
    }
    let about = "whether the new machine is protected";
    let Some(machine) = draft.look(&draft.snapshot.new_machine, about)? else {
        return Ok(is_young(draft));
    };
    note_protection(draft, machine.protected);
    Ok(!is_given_back(draft, &machine))
}

/// Whether the machine may be too new for the cloud to show.
fn is_young(draft: &Draft<'_>) -> bool {
    let asked = draft.status.replacement.as_ref();
    asked.is_some_and(|asked| {
        draft.now.duration_since(asked.requested_at.0) < draft.settings.cloud_lag
    })
}

/// Whether the new machine is an ordinary member of its group; asks for that if not. A cloud may show
/// what was for a while: only together with our tag does the missing protection prove that it was
/// lifted, because the tag comes first.
pub(super) fn is_given_back(draft: &mut Draft<'_>, machine: &Machine) -> bool {
    if !machine.protected && is_completed(machine) {
        return true;
    }
    draft.effect(Effect::TagMachine {
        id: machine.id.clone(),
        state: COMPLETED,
    });
    draft.effect(Effect::ProtectMachine {
        id: machine.id.clone(),
        protected: false,
    });
    false
}

fn end(draft: &mut Draft<'_>) {
    let Some(undo) = draft.status.undo.clone() else {
        return succeed(draft);
    };
    if undo.next == UndoNext::Leave {
        return draft.advance(
            TaskStep::Done,
            Milestone {
                condition: SUCCEEDED,
                reason: NODE_LEFT,
                message: undo.message,
            },
        );
    }
    draft.claim(SUCCEEDED, Truth::False, &undo.reason, undo.message.clone());
    draft.enter(TaskStep::Failed);
    draft.status.last_error = Some(undo.message);
}

/// The node was replaced. Somebody may have deleted the new Node since its machine was the only one left: on was the
/// only way then, but nobody shall take what is not there for a node in service.
fn succeed(draft: &mut Draft<'_>) {
    let node = &draft.snapshot.task.spec.node_name;
    let mut message = format!("node {node} was replaced");
    if draft.snapshot.new_node.is_absent() {
        let machine = draft.status.new_machine.as_ref();
        let lost = format!(
            "node {} of its new machine {} is gone since; to help: let its kubelet register again, or end the machine",
            draft.status.new_node_name.as_deref().unwrap_or_default(),
            machine
                .map(|machine| machine.id.as_str())
                .unwrap_or_default()
        );
        draft.notice(Notice::warning("ReplacementGone", lost.clone()));
        message = format!("{message}, but {lost}");
    }
    draft.advance(
        TaskStep::Done,
        Milestone {
            condition: SUCCEEDED,
            reason: "NodeReplaced",
            message,
        },
    );
}

/// Nothing is left to do but to give the lock back, unless it goes with its node or a person asks for
/// another try. The object may go then.
pub(super) fn rest(draft: &mut Draft<'_>) {
    let is_failed = draft.status.step_name() == TaskStep::Failed;
    if is_failed && is_asked_again(draft) && draft.snapshot.run.call_off.is_none() {
        return try_again(draft);
    }
    draft.status.waiting_for = None;
    if !is_kept(&draft.snapshot.task.metadata) {
        return;
    }
    let Ok(lock) = draft.look(&draft.snapshot.lock, "whether the lock is free") else {
        return;
    };
    let is_node_gone = own_node(draft).is_absent();
    let is_due = |lock: LockView| {
        lock.operation == operation(draft) && !(lock.goes_with_node && is_node_gone)
    };
    if lock.is_some_and(is_due) {
        let operation = operation(draft).to_owned();
        draft.effect(Effect::ReleaseLock {
            node: draft.snapshot.task.spec.node_name.clone(),
            operation,
        });
    }
    draft.effect(Effect::DropFinalizer(kept(draft)));
}

fn try_again(draft: &mut Draft<'_>) {
    if !is_kept(&draft.snapshot.task.metadata) {
        draft.effect(Effect::EnsureFinalizer(kept(draft)));
        return draft.look_again();
    }
    let message = "a person asked for another try".to_owned();
    let was_called_off = draft.status.undo.as_ref().is_some_and(is_call_off);
    draft.forget_attempt();
    draft.status.undo = None;
    draft.status.etcd = None;
    let attempt = draft.status.attempt.unwrap_or(1) + 1;
    draft.status.attempt = Some(attempt);
    draft.status.attempt_limit = Some(attempt - 1 + draft.snapshot.max_attempts());
    // The failure stays one that somebody has to know of, whatever comes of this try.
    if !was_called_off {
        draft.status.failed_before = Some(draft.status.failed_before.unwrap_or(0) + 1);
    }
    draft.notice(Notice::normal("AskedAgain", message.clone()));
    if order::is_old_gone(draft) {
        // Only the machine is missing; the next attempt asks for it.
        let conditions = &mut draft.status.conditions;
        conditions.retain(|one| one.type_ == OLD_DELETED);
        draft.status.retried = retry_wish(draft);
        draft.enter(TaskStep::Backoff);
        return draft.look_again();
    }
    draft.status.conditions.clear();
    // Not on its way back yet: the slot that it had may be on its way to another node, so it is given back first.
    draft.status.parked = Some(ParkRecord {
        reason: ASKED_AGAIN.to_owned(),
        message,
        since: Time(draft.now),
        resuming: false,
        turn_since: None,
    });
    draft.enter(TaskStep::Parked);
    draft.look_again();
}

fn kept(draft: &Draft<'_>) -> Kept {
    let meta = &draft.snapshot.task.metadata;
    Kept {
        kind: KeptKind::Task,
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: operation(draft).to_owned(),
    }
}
