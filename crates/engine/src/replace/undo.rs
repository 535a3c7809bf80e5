//! The way back: an attempt that failed or was called off is taken back, then tried again or ended.
//!
//! Owns the order: lift our cordon and bar a late one, empty the new node if it ever was one, take its member out of etcd,
//! remove the new machine, remove its Node. Must not begin once the old machine may be ending; `order` knows. Everything here
//! can be repeated.

use jiff::{SignedDuration, Timestamp};
use shipshape_api::PendingNodeGoal;
use shipshape_api::conditions::{LOCKED, OLD_DELETED};
use shipshape_api::node_patch_task::{TaskStep, UndoNext, UndoRecord};

use super::draft::{Draft, Unclear};
use super::facts::{is_ending, is_followed_out, machine_record, node_target, operation, own_node};
use super::release::is_given_back;
use super::{leave, member, order};
use crate::decision::{Effect, NodeTarget, Notice};
use crate::drain;
use crate::machine::{Machine, MachineState, ProviderId};
use crate::settings::Settings;
use crate::sweep::is_load;
use crate::view::{NodeView, Observed, PodView};

/// The record of an attempt that has failed: another one follows while the budget of attempts lasts.
pub(super) fn gave_up(draft: &Draft<'_>, reason: &str, message: &str) -> UndoRecord {
    let attempt = draft.status.attempt.unwrap_or(1);
    let limit = draft.attempt_limit();
    let (next, message) = if attempt < limit {
        (
            UndoNext::Retry,
            format!("attempt {attempt} of {limit}: {message}"),
        )
    } else {
        (
            UndoNext::Fail,
            format!("attempt {attempt} of {limit}, the last: {message}"),
        )
    };
    UndoRecord {
        reason: reason.to_owned(),
        message,
        next,
        keeps_machine: false,
    }
}

/// The record of a task that somebody called off.
pub(super) fn called_off(why: &str) -> UndoRecord {
    UndoRecord {
        reason: "CalledOff".to_owned(),
        message: format!("called off: {why}"),
        next: UndoNext::CallOff,
        keeps_machine: false,
    }
}

/// Entered when an attempt is over without success. Left when nothing of it is left. Asks for the
/// uncordon, for evictions from the new node, and for the end of the new machine and its Node.
pub(super) fn undo(draft: &mut Draft<'_>) {
    if !is_cordon_lifted(draft) || !is_late_cordon_barred(draft) {
        return;
    }
    if draft
        .status
        .undo
        .as_ref()
        .is_some_and(|undo| undo.keeps_machine)
    {
        return keep_machine(draft);
    }
    // A node that joined after the attempt was given up may have brought a member of etcd.
    if let Observed::Present(node) = &draft.snapshot.new_node {
        member::note_new(draft, node);
    }
    match is_followed_out(draft) {
        Err(Unclear) => return,
        Ok(true) => return draft.wait("the new machine to end".to_owned(), None),
        Ok(false) => {}
    }
    match draft.look(
        &draft.snapshot.new_machine,
        "whether the new machine is left",
    ) {
        Err(Unclear) => {}
        Ok(Some(machine)) => {
            if draft.status.new_machine.is_none() {
                // Given up before the cloud showed it: by its record its Node is known later on.
                draft.status.new_machine = Some(machine_record(draft, &machine));
            }
            remove_machine(draft, &machine);
        }
        Ok(None) => machine_absent(draft),
    }
}

/// Whether the old node is as it was found; if not, the effect is already asked for. One that somebody has opened still
/// bears our name, under which a later cordon of theirs would be taken for ours.
fn is_cordon_lifted(draft: &mut Draft<'_>) -> bool {
    match draft.look(&own_node(draft), "whether the old node is cordoned") {
        Err(Unclear) => false,
        Ok(Some(node)) if node.cordoned_by.as_deref() == Some(operation(draft)) => {
            draft.effect(Effect::EnsureUncordoned(node_target(draft, &node)));
            draft.wait(format!("node {} to take pods again", node.name), None);
            false
        }
        Ok(_) => true,
    }
}

/// Whether a cordon of the old node would fail that was decided before the task was turned, by a leader that has been held
/// up since: it names the version that the node had then, and the renewed mark gives it another. Nothing waits for that
/// past the deadline, and where the node has no mark of the run nothing is changed: a cordon that comes late is lifted
/// by the next look, or once the task is over as one that it has left behind.
fn is_late_cordon_barred(draft: &mut Draft<'_>) -> bool {
    let may_have_joined = draft.status.replacement.is_some() || draft.status.new_machine.is_some();
    if !may_have_joined || draft.is_past_deadline() {
        return true;
    }
    let since = draft.status.step.as_ref().map(|step| step.since.0);
    let at = since.and_then(|since| Timestamp::from_second(since.as_second()).ok());
    let run = &draft.snapshot.task.spec.run_uid;
    match (own_node(draft), at) {
        (Observed::Present(node), Some(at))
            if node.marks.contains(run) && node.renewed_marks.get(run) != Some(&at) =>
        {
            // Without the version that was seen: asked for twice in a row it is the same, and ends the pass.
            let node = NodeTarget {
                operation: run.clone(),
                resource_version: String::new(),
                ..node_target(draft, &node)
            };
            let reason = format!("the mark of node {} to be renewed", node.name);
            draft.wait(reason, Some(draft.settings.machine_poll));
            draft.effect(Effect::RenewMark { node, at });
            false
        }
        _ => true,
    }
}

fn remove_machine(draft: &mut Draft<'_>, machine: &Machine) {
    match machine.state {
        MachineState::Terminated => node_gone(draft),
        MachineState::Terminating => chase(draft, machine),
        MachineState::Unknown
        | MachineState::Creating
        | MachineState::Ready
        | MachineState::Stopped
        | MachineState::Failed => {
            if is_emptied(draft) && member::is_new_out(draft) && member::may_newcomer_end(draft) {
                draft.effect(Effect::DeleteMachine(machine.id.clone()));
                let reason = "the new machine to end".to_owned();
                draft.wait(reason, Some(draft.settings.machine_poll));
            }
        }
    }
}

/// The new machine's end was asked for and takes its time: its object sees to it, whatever becomes of
/// this task.
fn chase(draft: &mut Draft<'_>, machine: &Machine) {
    let record = machine_record(draft, machine);
    let node = draft.status.new_node_name.clone();
    draft.follow(&record, node, PendingNodeGoal::Leave);
    draft.wait("the new machine to end".to_owned(), None);
}

/// Whether the new node carries nothing that must leave first. A machine that never was a ready node
/// carries nothing; one that is ready may, even if this task never counted it as joined.
fn is_emptied(draft: &mut Draft<'_>) -> bool {
    let was_ready = draft.status.new_node_name.is_some();
    let node = match draft.look(&draft.snapshot.new_node, "how the new node fares") {
        Err(Unclear) => return false,
        Ok(None) => return true,
        // Its name is another machine's by now, and that one is neither ours to close nor to empty.
        Ok(Some(node)) if node.provider_id.is_some() && !is_new_node(draft, &node) => return true,
        Ok(Some(node)) => node,
    };
    let is_dead = !was_ready && !node.ready;
    if !is_dead && !node.unschedulable {
        close(draft, &node);
        return false;
    }
    let Ok(pods) = draft.look(&draft.snapshot.new_pods, "which pods the new node has") else {
        return false;
    };
    let pods = pods.unwrap_or_default();
    if is_dead && !node.unschedulable && !has_load(&pods) {
        return true;
    }
    // Nobody says that the pods of a dead node have ended, and to its group it is no use.
    if is_dead && draft.is_past_deadline() {
        return true;
    }
    if !node.unschedulable {
        close(draft, &node);
        return false;
    }
    let next = leave::drain_of(draft, &pods);
    if next.is_done() {
        drain::record(&mut draft.status.drain, &next);
        return true;
    }
    let quiet_until = leave::tell(draft, &next);
    for pod in &next.evict {
        draft.effect(Effect::EvictPod(pod.clone()));
    }
    let told = draft.status.waiting_for.clone();
    let reason = told.filter(|_| quiet_until.is_some()).unwrap_or_else(|| {
        let pods = format!(
            "{} pod(s) to leave node {} again",
            next.remaining, node.name
        );
        match next.reason() {
            Some(block) => format!("{pods}; {block}"),
            None => pods,
        }
    });
    let look_at = next.look_at.into_iter().chain(quiet_until).min();
    let again = look_at.map(|at| at.duration_since(draft.now));
    draft.wait(reason, again.map(|again| again.min(draft.settings.resync)));
    false
}

/// Lets the new node take no further pods.
fn close(draft: &mut Draft<'_>, node: &NodeView) {
    draft.effect(Effect::EnsureCordoned(node_target(draft, node)));
    draft.wait(format!("node {} to be cordoned", node.name), None);
}

/// Whether pods have run on the new node: then it was ready once. Those that never began lose nothing.
fn has_load(pods: &[PodView]) -> bool {
    pods.iter().any(|pod| is_load(pod) && !pod.pending)
}

/// The cloud knows no machine. Shortly after the call that might have made one this proves nothing.
fn machine_absent(draft: &mut Draft<'_>) {
    let is_only_intended = draft.status.new_machine.is_none() && draft.status.replacement.is_some();
    let since = draft.status.step.as_ref().map(|step| step.since.0);
    let sure_at = since.and_then(|since| since.checked_add(draft.settings.cloud_lag).ok());
    match sure_at.filter(|at| is_only_intended && draft.now < *at) {
        Some(at) => {
            let left = at.duration_since(draft.now);
            draft.wait(
                "the cloud to show whether it has made a machine".to_owned(),
                Some(left),
            );
        }
        None => node_gone(draft),
    }
}

/// The new machine is gone; its member of etcd and its Node go with it.
fn node_gone(draft: &mut Draft<'_>) {
    if !member::is_new_out(draft) {
        return;
    }
    match draft.look(&draft.snapshot.new_node, "whether the new Node is left") {
        Err(Unclear) => {}
        Ok(Some(node)) if is_new_node(draft, &node) => {
            if !node.deleting {
                draft.effect(Effect::DeleteNode(node_target(draft, &node)));
            }
            draft.wait(format!("Node {} to go", node.name), None);
        }
        Ok(_) => conclude(draft),
    }
}

fn is_new_node(draft: &Draft<'_>, node: &NodeView) -> bool {
    let record = draft.status.new_machine.as_ref();
    let id = record.and_then(|machine| machine.provider_id.as_deref());
    id.is_some() && node.provider_id.as_ref().map(ProviderId::as_str) == id
}

/// The new machine could not be emptied in time and stays as an ordinary member of its group.
fn keep_machine(draft: &mut Draft<'_>) {
    let node = match draft.look(&draft.snapshot.new_node, "how the new node fares") {
        Err(Unclear) => return,
        Ok(node) => node,
    };
    if let Some(node) = node
        && node.cordoned_by.as_deref() == Some(operation(draft))
    {
        draft.effect(Effect::EnsureUncordoned(node_target(draft, &node)));
        return draft.wait(format!("node {} to take pods again", node.name), None);
    }
    match draft.look(&draft.snapshot.new_machine, "how the new machine fares") {
        Ok(Some(machine)) if !is_given_back(draft, &machine) => {
            let reason = "the new machine's protection to be lifted".to_owned();
            draft.wait(reason, Some(draft.settings.machine_poll));
        }
        Ok(_) => conclude(draft),
        Err(Unclear) => {}
    }
}

/// Past the deadline: what can be left alone is left alone.
pub(super) fn overdue(draft: &mut Draft<'_>, waited_for: &str) {
    let new = draft.snapshot.new_node.present();
    let is_emptying = draft.status.new_node_name.is_some() || new.is_some_and(|node| node.ready);
    let is_useless = member::is_new_leaving(draft) || is_new_ending(draft);
    let machine = draft.status.new_machine.as_ref();
    let id = machine.map_or(String::new(), |machine| format!(" {}", machine.id));
    if let Some(undo) = &mut draft.status.undo
        && is_emptying
        && !is_useless
        && !undo.keeps_machine
    {
        undo.keeps_machine = true;
        undo.message = format!(
            "{}; the new machine{id} stays in its group, because it could not be emptied: {waited_for}",
            undo.message
        );
        if undo.next == UndoNext::Retry {
            // Each further attempt could leave one more.
            undo.next = UndoNext::Fail;
            undo.message
                .push_str("; no attempt follows, which would make another");
            let notice = Notice::warning("TaskFailed", undo.message.clone());
            draft.notice(notice);
        }
        return draft.look_again();
    }
    draft.mark_overdue(waited_for);
}

/// Whether the end of the new machine was asked for and shows.
fn is_new_ending(draft: &Draft<'_>) -> bool {
    let pending = draft.snapshot.pending.present();
    let machine = draft.snapshot.new_machine.present();
    pending.is_some_and(|pending| pending.goal == PendingNodeGoal::Leave)
        || machine.is_some_and(is_ending)
}

/// Nothing of the attempt is left.
fn conclude(draft: &mut Draft<'_>) {
    let next = draft.status.undo.as_ref().map(|undo| undo.next);
    draft.forget_attempt();
    draft
        .status
        .conditions
        .retain(|one| one.type_ == LOCKED || one.type_ == OLD_DELETED);
    super::unseen::forget(&mut draft.status);
    if next == Some(UndoNext::Retry) {
        let attempt = draft.status.attempt.unwrap_or(1);
        let message = draft.status.undo.take().map(|undo| undo.message);
        draft.status.attempt = Some(attempt + 1);
        draft.enter(TaskStep::Backoff);
        draft.status.last_error = message;
    } else {
        draft.enter(TaskStep::Release);
    }
}

/// Entered between two attempts. Left when the pause is over. Asks for nothing.
pub(super) fn back_off(draft: &mut Draft<'_>) {
    let since = draft
        .status
        .step
        .as_ref()
        .map_or(draft.now, |step| step.since.0);
    let until = resume_at(draft.settings, draft.status.attempt.unwrap_or(2), since);
    if draft.now < until {
        let cause = draft.status.last_error.clone();
        let reason = format!("the next attempt at {until:.0}");
        draft.wait(reason, Some(until.duration_since(draft.now)));
        draft.status.last_error = cause;
    } else if order::is_old_gone(draft) {
        super::arrive::renew_intent(draft);
    } else {
        draft.enter(TaskStep::Lock);
    }
}

/// When the pause before this attempt ends: it doubles with each one, up to a limit.
fn resume_at(settings: &Settings, attempt: i32, since: Timestamp) -> Timestamp {
    let doublings = u32::try_from(attempt.saturating_sub(2).clamp(0, 16)).unwrap_or(0);
    let pause = settings
        .retry_backoff
        .checked_mul(2i32.saturating_pow(doublings))
        .unwrap_or(SignedDuration::MAX)
        .min(settings.retry_backoff_max);
    since.checked_add(pause).unwrap_or(since)
}
