//! Parking: a node that cannot go on now is set aside, so that it does not stop the others.
//!
//! Owns when a task is set aside and when it comes back. A parked task keeps its lock and its new
//! machine, has lifted its cordon and given its slot back, and comes back as soon as what was in its
//! way is gone, or in the last round of its run.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::conditions::LOCKED;
use shipshape_api::names::ANNOTATION_RETRY;
use shipshape_api::node_patch_task::{ParkRecord, TaskStep};
use shipshape_api::reasons::NO_CAPACITY;

use super::draft::{Draft, Unclear};
use super::facts::{left_before_replacement, node_target, operation, own_node, task_key};
use super::settle::gate;
use super::undo::gave_up;
use super::{anew, daemons, member, order, turn};
use crate::condition;
use crate::decision::{Effect, Notice};
use crate::drain;

/// What a node waits for whose run a person has paused.
const PAUSED: &str = "spec.paused of its run to be lifted";

/// The reason of a park that a person has ended.
pub(super) const ASKED_AGAIN: &str = "AskedAgain";

/// The reason of a park for want of a machine that could be replaced.
pub(super) const NO_PROVIDER_ID: &str = "NoProviderId";

/// Sets the task aside, or gives it up when its attempts are used up. Want of room is nobody's fault
/// and counts as an attempt only when there is nothing else left to do.
pub(super) fn park(draft: &mut Draft<'_>, reason: &'static str, message: String) {
    let attempt = draft.status.attempt.unwrap_or(1);
    let counts = reason != NO_CAPACITY || draft.snapshot.run.last_round;
    if counts && attempt >= draft.attempt_limit() {
        let record = gave_up(draft, reason, &message);
        return draft.begin_undo(record);
    }
    draft.drop_effects();
    if counts {
        draft.status.attempt = Some(attempt + 1);
    }
    draft.status.parked = Some(ParkRecord {
        reason: reason.to_owned(),
        message: message.clone(),
        since: Time(draft.now),
        resuming: false,
        turn_since: None,
    });
    draft.notice(Notice::warning("Parked", message.clone()));
    draft.enter(TaskStep::Parked);
    draft.status.waiting_for = Some(message);
}

/// Entered when the task is set aside. Left with a new slot. Asks for the uncordon, gives the slot
/// back, and asks for a new one when the way is free.
pub(super) fn parked(draft: &mut Draft<'_>) {
    let Some(record) = draft.status.parked.clone() else {
        return draft.enter(TaskStep::Lock);
    };
    if record.resuming {
        return resume(draft, record);
    }
    if !is_node_at_rest(draft) {
        return;
    }
    let Ok(slot) = draft.look(&draft.snapshot.slot, "whether the slot is free") else {
        return;
    };
    if slot.is_some() {
        let task = task_key(draft);
        draft.effect(Effect::ReleaseSlot {
            node_uid: draft.snapshot.task.spec.node_uid.clone(),
            task,
        });
        return draft.wait(record.message, Some(draft.settings.machine_poll));
    }
    let run = &draft.snapshot.run;
    let comes_back = is_way_free(draft, &record) || is_last_round(draft, &record);
    let is_asked = is_asked_again(draft);
    let is_free = is_asked || (comes_back && !run.braked);
    if is_free && !run.paused {
        turn::come_back(draft);
        if let Some(parked) = draft.status.parked.as_mut().filter(|_| is_asked) {
            ASKED_AGAIN.clone_into(&mut parked.reason);
        }
        draft.status.retried = retry_wish(draft);
        draft.look_again();
    } else if is_asked {
        draft.wait(PAUSED.to_owned(), None);
    } else {
        let rest = rest_left(draft, &record);
        draft.wait(record.message, rest);
    }
}

/// How long until time alone may bring the node back, where that is sooner than the next look.
fn rest_left(draft: &Draft<'_>, record: &ParkRecord) -> Option<SignedDuration> {
    let settings = draft.settings;
    let rested = draft.now.duration_since(record.since.0);
    let left = |rest: SignedDuration| Some(rest - rested).filter(SignedDuration::is_positive);
    let asks_again = record.reason == NO_CAPACITY || has_refusal(draft);
    let for_room = left(settings.retry_backoff_max).filter(|_| asks_again);
    let for_last_round = left(settings.park_rest).filter(|_| draft.snapshot.run.last_round);
    let soonest = [for_room, for_last_round].into_iter().flatten().min()?;
    Some(soonest.min(settings.resync))
}

/// Whether the server has refused to let a pod go for a reason that nothing shows from here.
fn has_refusal(draft: &Draft<'_>) -> bool {
    let record = draft.status.drain.iter();
    let mut blocked = record.flat_map(|record| &record.blocked);
    blocked.any(|told| drain::Block::refused_as_told(told).is_some())
}

/// Whether the old node carries no cordon of ours; if not, what follows is already decided on.
fn is_node_at_rest(draft: &mut Draft<'_>) -> bool {
    match draft.look(&own_node(draft), "how the old node fares") {
        Err(Unclear) => false,
        Ok(None) if anew::has_come_back(draft) => false,
        Ok(None) => {
            go_on_without(draft);
            false
        }
        Ok(Some(node)) if node.cordoned_by.as_deref() == Some(operation(draft)) => {
            draft.effect(Effect::EnsureUncordoned(node_target(draft, &node)));
            draft.wait(format!("node {} to take pods again", node.name), None);
            false
        }
        Ok(Some(_)) => true,
    }
}

/// The node has left while it was parked. With something to take its place the rest of the way works without it;
/// else nothing is left to replace.
pub(super) fn go_on_without(draft: &mut Draft<'_>) {
    let is_first = order::is_terminate_first(draft) && draft.status.replacement.is_some();
    let has_place = is_first || !order::can_be_undone(draft, TaskStep::Parked);
    if has_place || draft.status.new_machine.is_some() {
        draft.enter(order::before_drain(draft));
    } else {
        left_before_replacement(draft);
    }
}

/// Whether what was in the way is gone: no pod is blocked, and the important pods are ready if the
/// run asks for that. Whether the cloud has room again, or the server lets a pod go that it has refused, only another
/// try can tell.
fn is_way_free(draft: &Draft<'_>, record: &ParkRecord) -> bool {
    let has_rested = draft.now.duration_since(record.since.0) >= draft.settings.retry_backoff_max;
    if record.reason == NO_CAPACITY {
        return has_rested;
    }
    if record.reason == NO_PROVIDER_ID {
        let node = own_node(draft);
        return node
            .present()
            .is_some_and(|node| node.provider_id.is_some());
    }
    if record.reason == member::NOT_WELL && !member::is_way_free(draft) {
        return false;
    }
    if record.reason == daemons::MISSING && daemons::is_lacking(draft) {
        return false;
    }
    let Some(pods) = draft.snapshot.pods.present() else {
        return false;
    };
    let next = drain::of_task(draft.snapshot, pods, draft.settings, draft.now);
    let told = draft.status.drain.as_ref();
    let mut evict = next.evict.iter();
    if !has_rested && evict.any(|pod| drain::is_told_refused(told, pod)) {
        return false;
    }
    let is_stable = match gate(draft) {
        Ok(None) => true,
        Ok(Some(_)) => draft.snapshot.unstable.present().is_some_and(Vec::is_empty),
        Err(_) => false,
    };
    next.blocked.is_empty() && is_stable
}

fn is_last_round(draft: &Draft<'_>, record: &ParkRecord) -> bool {
    let rested = draft.now.duration_since(record.since.0);
    draft.snapshot.run.last_round && rested >= draft.settings.park_rest
}

/// The value of the retry annotation, if it is set.
pub(super) fn retry_wish(draft: &Draft<'_>) -> Option<String> {
    let notes = draft.snapshot.task.metadata.annotations.as_ref()?;
    notes.get(ANNOTATION_RETRY).cloned()
}

/// Whether a person asked for another try since the last one.
pub(super) fn is_asked_again(draft: &Draft<'_>) -> bool {
    let wish = retry_wish(draft);
    wish.is_some() && wish != draft.status.retried
}

/// Takes a slot again, under the limits of the run as they are now. Until it has one, a pause holds it like
/// a node that never began.
fn resume(draft: &mut Draft<'_>, record: ParkRecord) {
    let Ok(slot) = draft.look(&draft.snapshot.slot, "whether the slot is ours") else {
        return;
    };
    if slot.is_some() {
        draft.status.parked = None;
        let has_machine = draft.status.new_machine.is_some() || order::is_terminate_first(draft);
        // A task that had failed has given its lock back.
        let is_locked = condition::is_true(&draft.status.conditions, LOCKED);
        let next = if has_machine && is_locked {
            order::before_drain(draft)
        } else {
            TaskStep::Lock
        };
        draft.notice(Notice::normal(
            "Resumed",
            format!("node {} is tried again", draft.snapshot.task.spec.node_name),
        ));
        draft.status.cordon = None;
        draft.status.drain = None;
        return draft.enter(next);
    }
    if draft.snapshot.run.braked && record.reason != ASKED_AGAIN {
        // What came between holds it back like one that nobody has called yet.
        if let Some(parked) = &mut draft.status.parked {
            parked.resuming = false;
        }
        return draft.wait(record.message, None);
    }
    if draft.snapshot.run.paused {
        return draft.wait(PAUSED.to_owned(), None);
    }
    let ledger = match draft.look(&draft.snapshot.ledger, "which slots are taken") {
        Err(Unclear) => return,
        Ok(ledger) => ledger.unwrap_or_default(),
    };
    turn::ask_for_slot(draft, ledger.with(&draft.snapshot.slotless.slots));
}
