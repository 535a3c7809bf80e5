//! The second half of a replacement: empty the old node and take it out.
//!
//! Each function says when its step is entered, when it is left and what it may ask for. Every one
//! that disrupts looks at live facts first and waits when they disagree.

use jiff::Timestamp;
use shipshape_api::conditions::{CORDONED, DRAINED, OLD_DELETED};
use shipshape_api::node_patch_task::TaskStep;
use shipshape_api::reasons::PODS_BLOCKED;
use shipshape_api::{OnDeadline, PendingNodeGoal};

use super::draft::{Draft, Milestone, Unclear};
use super::facts::{
    is_ending, is_followed_out, is_group_there, is_replacement_ready, node_left, node_target,
    own_node, takes_pods,
};
use super::undo::gave_up;
use super::{anew, daemons, keep, member, order, park, unseen};
use crate::condition::Truth;
use crate::decision::{Effect, Notice};
use crate::drain::{self, BlockedPod, DrainMove};
use crate::machine::{MachineId, MachineState};
use crate::view::{Observed, PodView};

/// Entered when the replacement is ready. Left when the old node is unschedulable, or gone. Asks for
/// the cordon.
pub(super) fn cordon(draft: &mut Draft<'_>) {
    if unseen::has_ended(draft) || !may_empty(draft) || !keep::is_held(draft) {
        return;
    }
    match draft.look(&own_node(draft), "how the old node fares") {
        Err(Unclear) => {}
        Ok(None) if anew::has_come_back(draft) => {}
        Ok(None) => now_left(draft),
        Ok(Some(node)) if !daemons::may_go_first(draft, &node) => {}
        Ok(Some(_)) if !is_group_there(draft) => {}
        Ok(Some(node)) if node.unschedulable => {
            let message = format!("node {} takes no new pods", node.name);
            draft.advance(
                TaskStep::Drain,
                Milestone {
                    condition: CORDONED,
                    reason: "NodeCordoned",
                    message,
                },
            );
        }
        Ok(Some(node)) => {
            let is_open = match draft.snapshot.new_node.present() {
                Some(_) if order::is_terminate_first(draft) || unseen::is_showing(draft) => true,
                Some(new) => takes_pods(draft, new),
                None => true,
            };
            if is_open {
                draft.effect(Effect::EnsureCordoned(node_target(draft, &node)));
                draft.wait_as_usual(None);
            }
        }
    }
}

/// Entered when the old node takes no new pods. Left when the pod list says that it is empty. Asks
/// for evictions.
pub(super) fn drain(draft: &mut Draft<'_>) {
    if unseen::has_ended(draft) || !is_closed(draft) {
        return;
    }
    let Some(next) = drain_move(draft) else {
        return;
    };
    let quiet_until = tell(draft, &next);
    if quiet_until.is_none() {
        claim_block(draft, &next);
    }
    if next.is_done() {
        if !may_empty(draft) || is_left_to_group(draft) {
            return;
        }
        let node = &draft.snapshot.task.spec.node_name;
        let message = format!("node {node} has no more pods to move");
        return now_drained(draft, order::after_drain(draft), message);
    }
    for pod in &next.evict {
        draft.effect(Effect::EvictPod(pod.clone()));
    }
    let look_at = next.look_at.into_iter().chain(quiet_until).min();
    let again = look_at.map(|at| at.duration_since(draft.now));
    let again = again.map(|again| again.min(draft.settings.resync));
    let told = draft.status.waiting_for.clone();
    match next.reason() {
        Some(reason) => draft.wait(
            told.filter(|_| quiet_until.is_some()).unwrap_or(reason),
            again,
        ),
        None => draft.wait_as_usual(again),
    }
}

/// Tells of a drain's move: an event for what only a person can help with, and the record of what is blocked,
/// unless the last word will do. Returns until when it does.
pub(super) fn tell(draft: &mut Draft<'_>, next: &DrainMove) -> Option<Timestamp> {
    tell_of_block(draft, next);
    let quiet_until = quiet_until(draft, next);
    if quiet_until.is_none() {
        drain::record(&mut draft.status.drain, next);
    }
    quiet_until
}

/// Whether the old node may be emptied, as far as its replacement goes; if not, the wait is decided on. One whose
/// machine is ending has no time to wait for it.
fn may_empty(draft: &mut Draft<'_>) -> bool {
    unseen::is_showing(draft) || is_replacement_ready(draft)
}

/// What is blocked stands in the condition for as long as it is.
fn claim_block(draft: &mut Draft<'_>, next: &DrainMove) {
    let mut conditions = draft.status.conditions.iter();
    let was_blocked = conditions.any(|one| one.type_ == DRAINED && one.reason == PODS_BLOCKED);
    match next.reason().filter(|_| !next.blocked.is_empty()) {
        Some(message) => draft.claim(DRAINED, Truth::False, PODS_BLOCKED, message),
        None if was_blocked => {
            let message = "nothing is blocked any more".to_owned();
            draft.claim(DRAINED, Truth::False, "PodsLeaving", message);
        }
        None => {}
    }
}

/// Until when the last word about this drain will do: it names all that is blocked now, and was said not
/// long ago.
fn quiet_until(draft: &Draft<'_>, next: &DrainMove) -> Option<Timestamp> {
    let told_at = draft.status.updated_at.as_ref()?.0;
    let until = told_at.checked_add(draft.settings.drain.quiet).ok()?;
    let is_told = drain::is_told(draft.status.drain.as_ref(), next);
    (is_told && draft.now < until).then_some(until)
}

/// What only a person can help with is told once, when it is first seen to be so.
fn tell_of_block(draft: &mut Draft<'_>, next: &DrainMove) {
    let known = draft.status.drain.clone().unwrap_or_default().blocked;
    let is_news = |pod: &BlockedPod| {
        let (namespace, name) = (&pod.pod.namespace, &pod.pod.name);
        let word = Some(pod.block.word());
        let mut told = known.iter();
        !told.any(|one| {
            one.namespace == *namespace && one.pod == *name && one.reason.as_deref() == word
        })
    };
    let lasting = drain::named(next).filter(|one| one.block.is_lasting());
    let first = lasting
        .filter(|one| is_news(one))
        .min_by_key(|one| &one.pod.name);
    if let Some(one) = first {
        let message = format!(
            "pod {}/{}: {}; to help: {}",
            one.pod.namespace,
            one.pod.name,
            one.block.sentence(),
            one.block.remedy()
        );
        draft.notice(Notice::warning("DrainBlocked", message));
    }
}

/// Whether the old node still takes no new pods. One that somebody has opened again is cordoned once
/// more: else each evicted pod could come straight back. One that has left needs no drain.
fn is_closed(draft: &mut Draft<'_>) -> bool {
    match draft.look(&own_node(draft), "whether the old node is cordoned") {
        Err(Unclear) => false,
        Ok(None) if anew::has_come_back(draft) => false,
        Ok(None) => {
            now_left(draft);
            false
        }
        Ok(Some(node)) if !node.unschedulable => {
            let message = format!("somebody has opened node {} again", node.name);
            draft.notice(Notice::warning("NodeOpened", message.clone()));
            draft.claim(CORDONED, Truth::False, "NodeOpened", message);
            draft.enter(TaskStep::Cordon);
            false
        }
        Ok(Some(_)) => true,
    }
}

fn drain_move(draft: &mut Draft<'_>) -> Option<DrainMove> {
    let pods = draft
        .look(&draft.snapshot.pods, "which pods are left")
        .ok()?;
    Some(drain_of(draft, &pods.unwrap_or_default()))
}

/// The next move of a drain that is under way, with the refusals that stand.
pub(super) fn drain_of(draft: &Draft<'_>, pods: &[PodView]) -> DrainMove {
    let next = drain::of_task(draft.snapshot, pods, draft.settings, draft.now);
    drain::with_standing_refusals(next, draft.status.drain.as_ref())
}

/// Entered when the old node was seen empty. Left when the cloud says that its machine is gone. Asks
/// for the machine's end, after a last live look at both nodes, then for the object that chases it.
pub(super) fn remove(draft: &mut Draft<'_>) {
    match is_followed_out(draft) {
        Err(Unclear) => return,
        Ok(true) => return draft.wait_as_usual(None),
        Ok(false) => {}
    }
    let about = "how the old machine fares";
    let Ok(machine) = draft.look(&draft.snapshot.old_machine, about) else {
        return;
    };
    match machine.map(|machine| machine.state) {
        None | Some(MachineState::Terminated) => return machine_gone(draft),
        Some(MachineState::Terminating) => return chase(draft),
        Some(_) => {}
    }
    if is_clear(draft) && member::is_old_out(draft) && keep::is_held(draft) {
        ask_for_end(draft);
    }
}

/// Whether nothing speaks against the old node's end, as just read: its replacement is ready, it is
/// closed and empty, and its machine is no other Node. If not, what follows is decided on.
pub(super) fn is_clear(draft: &mut Draft<'_>) -> bool {
    if !anew::is_out_of_service(draft) || !is_replacement_ready(draft) {
        return false;
    }
    let Some(next) = drain_move(draft) else {
        return false;
    };
    match draft.look(&own_node(draft), "how the old node fares") {
        Err(Unclear) => return false,
        Ok(_) if draft.status.forced == Some(true) => return true,
        Ok(None) if next.remaining > 0 => {
            let reason = format!(
                "{} pod(s) of the node that has left to be collected",
                next.remaining
            );
            draft.wait(reason, None);
        }
        Ok(Some(node)) if !node.unschedulable => {
            let message = format!("somebody has opened node {} again", node.name);
            draft.claim(CORDONED, Truth::False, "NodeOpened", message);
            back_to_cordon(draft);
        }
        Ok(Some(_)) if !next.is_done() => {
            let message = match next.reason().filter(|_| next.remaining == 0) {
                Some(volume) => format!("the old node waits for {volume}"),
                None => format!("{} pod(s) came back to the old node", next.remaining),
            };
            draft.claim(DRAINED, Truth::False, "PodsCameBack", message);
            back_to_cordon(draft);
        }
        Ok(_) => return true,
    }
    false
}

/// The drain is past its deadline: set aside, given up or forced, as the run says.
pub(super) fn drain_overdue(draft: &mut Draft<'_>, waited_for: &str) {
    let message = format!("the drain is past its deadline, waiting for {waited_for}");
    let options = draft.snapshot.drain_options().cloned().unwrap_or_default();
    match options.on_deadline() {
        OnDeadline::Park | OnDeadline::Fail if !order::can_be_undone(draft, TaskStep::Drain) => {
            draft.mark_overdue(waited_for);
        }
        OnDeadline::Park => park::park(draft, "DrainTimedOut", message),
        OnDeadline::Fail => {
            let record = gave_up(draft, "DrainTimedOut", &message);
            draft.begin_undo(record);
        }
        OnDeadline::Force if is_left_to_group(draft) => {}
        OnDeadline::Force => {
            let message =
                format!("{message}; the machine goes with them (drain.onDeadline: Force)");
            draft.drop_effects();
            draft.status.forced = Some(true);
            draft.notice(Notice::warning("DrainForced", message.clone()));
            draft.claim(DRAINED, Truth::False, "DrainForced", message);
            draft.enter(order::before_removal(draft));
        }
    }
}

fn ask_for_end(draft: &mut Draft<'_>) {
    let Some(record) = &draft.status.old_machine else {
        let message = "the status has lost the old machine's record".to_owned();
        return draft.fail("IntentMissing", message);
    };
    let id = MachineId(record.id.clone());
    anew::note_end(draft);
    draft.effect(Effect::DeleteMachine(id));
    draft.wait_as_usual(Some(draft.soon()));
}

/// The machine's end was asked for and takes its time: from here on its object sees to it, whatever
/// becomes of this task.
fn chase(draft: &mut Draft<'_>) {
    if let Some(machine) = draft.status.old_machine.clone() {
        let node = draft.snapshot.task.spec.node_name.clone();
        draft.follow(&machine, Some(node), PendingNodeGoal::Leave);
    }
    draft.wait_as_usual(None);
}

fn machine_gone(draft: &mut Draft<'_>) {
    let id = draft
        .status
        .old_machine
        .as_ref()
        .map(|record| record.id.clone())
        .unwrap_or_default();
    let message = format!("machine {id} is gone");
    let milestone = Milestone {
        condition: OLD_DELETED,
        reason: "MachineGone",
        message,
    };
    if order::after_drain(draft) == TaskStep::Remove {
        draft.advance_from(DRAINED, TaskStep::Forget, milestone);
    } else {
        draft.advance(TaskStep::Forget, milestone);
    }
}

/// Entered when the old machine is gone. Left when its Node object is gone too. Asks for the
/// object's deletion.
pub(super) fn forget(draft: &mut Draft<'_>) {
    match draft.look(&own_node(draft), "whether the old Node is left") {
        Err(Unclear) => {}
        Ok(None) => draft.enter(order::after_forget(draft)),
        Ok(Some(node)) => {
            if !node.deleting {
                draft.effect(Effect::DeleteNode(node_target(draft, &node)));
            }
            draft.wait_as_usual(None);
        }
    }
}

/// Whether the old machine has ended by itself before another was asked for: its group makes one in its place, so this
/// task makes none, and what follows is decided on. The group's size is as it was, because nobody asked for that end.
pub(super) fn is_left_to_group(draft: &mut Draft<'_>) -> bool {
    let is_asked = draft.snapshot.old_machine != Observed::NotAsked;
    let step = draft.status.step_name();
    if !is_asked || !order::is_terminate_first(draft) || !order::can_be_undone(draft, step) {
        return false;
    }
    if unseen::may_be_ending(&draft.status) {
        return false;
    }
    let about = "whether the old machine has ended by itself";
    let Ok(machine) = draft.look(&draft.snapshot.old_machine, about) else {
        return true;
    };
    if machine.is_some_and(|machine| !is_ending(&machine)) {
        return false;
    }
    let record = draft.status.old_machine.as_ref();
    let id = record.map(|machine| machine.id.clone()).unwrap_or_default();
    let node = &draft.snapshot.task.spec.node_name;
    let message = format!(
        "machine {id} of node {node} has ended by itself; its group makes another in its place"
    );
    node_left(draft, message);
    true
}

/// Back to the cordon after a drain that was over: the next one counts its pods and the time of its volumes from its
/// own beginning. From the removal on the old machine's end may have been asked for, with its place in the group.
fn back_to_cordon(draft: &mut Draft<'_>) {
    if draft.status.step_name() == TaskStep::Remove {
        unseen::note(draft);
    }
    draft.status.drain = None;
    draft.enter(TaskStep::Cordon);
}

/// The old node is gone, and not by this task.
fn now_left(draft: &mut Draft<'_>) {
    if is_left_to_group(draft) {
        return;
    }
    let message = "the old node has left by itself".to_owned();
    if !order::is_terminate_first(draft) && !unseen::may_be_ending(&draft.status) {
        let group = draft.status.replacement.as_ref();
        let group = group.map(|record| record.group_id.clone());
        let message = format!(
            "{message}; if its machine ended too, group {} may have made another in its place, and be one \
             machine larger now",
            group.unwrap_or_default()
        );
        draft.notice(Notice::warning("NodeLeftByItself", message));
    }
    now_drained(draft, order::before_removal(draft), message);
}

/// The old node is empty. Where its machine goes at once, one event tells both.
fn now_drained(draft: &mut Draft<'_>, next: TaskStep, message: String) {
    let milestone = Milestone {
        condition: DRAINED,
        reason: "NodeDrained",
        message,
    };
    if next == TaskStep::Remove {
        draft.advance_quietly(next, milestone);
    } else {
        draft.advance(next, milestone);
    }
}
