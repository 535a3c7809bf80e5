//! The second half of a replacement: empty the old node, take it out, give slot and lock back.
//!
//! Each function says when its step is entered, when it is left and what it may ask for. Every one
//! that disrupts looks at live facts first and waits when they disagree.

use shipshape_api::conditions::{CORDONED, DRAINED, OLD_DELETED, SUCCEEDED};
use shipshape_api::node_patch_task::TaskStep;

use super::draft::{Draft, Milestone, Unclear};
use super::facts::{is_replacement_ready, node_target, operation, own_node, task_key};
use crate::condition::Truth;
use crate::decision::Effect;
use crate::drain::{self, DrainMove};
use crate::machine::{MachineId, MachineState};

/// Entered when the replacement is ready. Left when the old node is unschedulable, or gone. Asks for
/// the cordon.
pub(super) fn cordon(draft: &mut Draft<'_>) {
    if !is_replacement_ready(draft) {
        return;
    }
    match draft.look(&own_node(draft), "how the old node fares") {
        Err(Unclear) => {}
        Ok(None) => {
            draft.advance(
                TaskStep::Remove,
                drained("the old node has left by itself".to_owned()),
            );
        }
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
            draft.effect(Effect::EnsureCordoned(node_target(draft, &node)));
            draft.wait_as_usual(None);
        }
    }
}

/// Entered when the old node takes no new pods. Left when the pod list says that it is empty. Asks
/// for evictions.
pub(super) fn drain(draft: &mut Draft<'_>) {
    let Some(next) = drain_move(draft) else {
        return;
    };
    drain::record(&mut draft.status.drain, &next);
    if next.is_done() {
        let node = &draft.snapshot.task.spec.node_name;
        draft.advance(
            TaskStep::Remove,
            drained(format!("node {node} has no more pods to move")),
        );
        return;
    }
    for pod in &next.evict {
        draft.effect(Effect::EvictPod(pod.clone()));
    }
    let again = next.look_at.map(|at| at.duration_since(draft.now));
    let again = again.map(|again| again.min(draft.settings.resync));
    match next.reason() {
        Some(reason) => draft.wait(reason, again),
        None => draft.wait_as_usual(again),
    }
}

fn drain_move(draft: &mut Draft<'_>) -> Option<DrainMove> {
    let pods = draft
        .look(&draft.snapshot.pods, "which pods are left")
        .ok()?;
    Some(drain::of_task(
        draft.snapshot,
        &pods.unwrap_or_default(),
        draft.settings,
        draft.now,
    ))
}

/// Entered when the old node was seen empty. Left when the cloud says that its machine is gone. Asks
/// for the machine's end, after a last live look at both nodes.
pub(super) fn remove(draft: &mut Draft<'_>) {
    let about = "how the old machine fares";
    let Ok(machine) = draft.look(&draft.snapshot.old_machine, about) else {
        return;
    };
    match machine.map(|machine| machine.state) {
        None | Some(MachineState::Terminated) => return machine_gone(draft),
        Some(MachineState::Terminating) => {
            return draft.wait_as_usual(Some(draft.settings.machine_poll));
        }
        Some(_) => {}
    }
    if !is_replacement_ready(draft) {
        return;
    }
    match drain_move(draft) {
        None => {}
        Some(next) if !next.is_done() => {
            let message = match next.reason().filter(|_| next.remaining == 0) {
                Some(volume) => format!("the old node waits for {volume}"),
                None => format!("{} pod(s) came back to the old node", next.remaining),
            };
            draft.claim(DRAINED, Truth::False, "PodsCameBack", message);
            draft.enter(TaskStep::Cordon);
        }
        Some(_) => ask_for_end(draft),
    }
}

fn ask_for_end(draft: &mut Draft<'_>) {
    let Some(record) = &draft.status.old_machine else {
        let message = "the status has lost the old machine's record".to_owned();
        return draft.fail("IntentMissing", message);
    };
    let id = MachineId(record.id.clone());
    draft.effect(Effect::DeleteMachine(id));
    draft.wait_as_usual(Some(draft.settings.machine_poll));
}

fn machine_gone(draft: &mut Draft<'_>) {
    let id = draft
        .status
        .old_machine
        .as_ref()
        .map(|record| record.id.clone())
        .unwrap_or_default();
    let message = format!("machine {id} is gone");
    draft.advance(
        TaskStep::Forget,
        Milestone {
            condition: OLD_DELETED,
            reason: "MachineGone",
            message,
        },
    );
}

/// Entered when the old machine is gone. Left when its Node object is gone too. Asks for the
/// object's deletion.
pub(super) fn forget(draft: &mut Draft<'_>) {
    match draft.look(&own_node(draft), "whether the old Node is left") {
        Err(Unclear) => {}
        Ok(None) => draft.enter(TaskStep::Release),
        Ok(Some(node)) => {
            if !node.deleting {
                draft.effect(Effect::DeleteNode(node_target(draft, &node)));
            }
            draft.wait_as_usual(None);
        }
    }
}

/// Entered when the work is over, well or badly. Left when slot and lock are given back.
pub(super) fn release(draft: &mut Draft<'_>) {
    let Ok(slot) = draft.look(&draft.snapshot.slot, "whether the slot is free") else {
        return;
    };
    let Ok(lock) = draft.look(&draft.snapshot.lock, "whether the lock is free") else {
        return;
    };
    let spec = &draft.snapshot.task.spec;
    let is_locked = lock.is_some_and(|lock| lock.operation == operation(draft));
    if slot.is_some() {
        let task = task_key(draft);
        draft.effect(Effect::ReleaseSlot {
            node_uid: spec.node_uid.clone(),
            task,
        });
    }
    if is_locked {
        let operation = operation(draft).to_owned();
        draft.effect(Effect::ReleaseLock {
            node: spec.node_name.clone(),
            operation,
        });
    }
    if slot.is_some() || is_locked {
        draft.look_again();
    } else {
        end(draft);
    }
}

fn end(draft: &mut Draft<'_>) {
    if draft.has_failed() {
        let error = draft.status.last_error.take();
        draft.enter(TaskStep::Failed);
        draft.status.last_error = error;
    } else {
        let message = format!("node {} was replaced", draft.snapshot.task.spec.node_name);
        draft.advance(
            TaskStep::Done,
            Milestone {
                condition: SUCCEEDED,
                reason: "NodeReplaced",
                message,
            },
        );
    }
}

fn drained(message: String) -> Milestone {
    Milestone {
        condition: DRAINED,
        reason: "NodeDrained",
        message,
    }
}
