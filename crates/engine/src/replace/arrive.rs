//! The first half of a replacement: lock the old node, bring the new one in.
//!
//! Each function says when its step is entered, when it is left and what it may ask for. Nothing
//! here touches the old node: everything up to the cordon can be undone by removing a machine.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::conditions::{LOCKED, NEW_NODE_READY, REPLACEMENT_ENSURED};
use shipshape_api::names;
use shipshape_api::node_patch_task::{CordonRecord, ReplacementRecord, TaskStep};

use super::draft::{Draft, Milestone};
use super::facts::{
    group_or_fail, machine_record, old_machine_or_fail, old_node_or_fail, operation, task_key,
};
use crate::decision::{Effect, LockRequest};
use crate::machine::{GroupId, MachineId, MachineState, ReplacementRequest, Token};
use crate::naming::replacement_token;
use crate::view::NodeView;

/// Entered with the task. Left when the node's lock is ours and the replacement's intent is worked
/// out. Asks for the lock only.
pub(super) fn lock(draft: &mut Draft<'_>) {
    let Some(node) = old_node_or_fail(draft) else {
        return;
    };
    let Ok(lock) = draft.look(&draft.snapshot.lock, "who holds the node's lock") else {
        return;
    };
    match lock {
        Some(lock) if lock.operation == operation(draft) => record_intent(draft, &node),
        Some(lock) => {
            let reason = format!("node {} is locked by {}", node.name, lock.holder);
            draft.wait(reason, Some(draft.settings.machine_poll));
        }
        None => {
            draft.effect(Effect::AcquireLock(LockRequest {
                node: node.name.clone(),
                node_uid: node.uid.clone(),
                operation: operation(draft).to_owned(),
                holder: task_key(draft),
            }));
            draft.look_again();
        }
    }
}

/// Writes down which machine will be asked for, before it is asked for.
fn record_intent(draft: &mut Draft<'_>, node: &NodeView) {
    let Some(machine) = old_machine_or_fail(draft) else {
        return;
    };
    let Some(group) = group_or_fail(draft) else {
        return;
    };
    let spec = &draft.snapshot.task.spec;
    let attempt = draft.status.attempt.unwrap_or(1);
    draft.status.replacement = Some(ReplacementRecord {
        token: replacement_token(&spec.run_uid, &spec.node_uid, attempt).0,
        group_id: group.id.0,
        zone: machine.zone.clone(),
        image: Some(group.image.0),
        requested_at: Time(draft.now),
    });
    draft.status.old_machine = Some(machine_record(draft, &machine));
    let message = format!("node {} is locked for this task", node.name);
    draft.advance(
        TaskStep::Provision,
        Milestone {
            condition: LOCKED,
            reason: "LockTaken",
            message,
        },
    );
}

/// Entered with the intent recorded. Left when a machine with its token exists. Asks for that
/// machine.
pub(super) fn provision(draft: &mut Draft<'_>) {
    let about = "whether the replacement exists";
    let Ok(found) = draft.look(&draft.snapshot.new_machine, about) else {
        return;
    };
    if let Some(machine) = found {
        draft.status.new_machine = Some(machine_record(draft, &machine));
        let message = format!(
            "machine {} was created in zone {}",
            machine.id, machine.zone
        );
        draft.advance(
            TaskStep::Join,
            Milestone {
                condition: REPLACEMENT_ENSURED,
                reason: "MachineCreated",
                message,
            },
        );
    } else if let Some(request) = replacement_request(draft) {
        draft.effect(Effect::EnsureReplacement(request));
        draft.wait_as_usual(Some(draft.settings.machine_poll));
    } else {
        draft.fail(
            "IntentMissing",
            "the status has lost the replacement's record".to_owned(),
        );
    }
}

fn replacement_request(draft: &Draft<'_>) -> Option<ReplacementRequest> {
    let record = draft.status.replacement.as_ref()?;
    let replaces = draft.status.old_machine.as_ref()?;
    let tags = [
        (names::TAG_RUN_UID, draft.snapshot.task.spec.run_uid.clone()),
        (names::TAG_TASK, task_key(draft)),
        (names::TAG_REPLACES, replaces.id.clone()),
        (names::TAG_TOKEN, record.token.clone()),
    ];
    Some(ReplacementRequest {
        token: Token(record.token.clone()),
        group: GroupId(record.group_id.clone()),
        zone: record.zone.clone(),
        replaces: MachineId(replaces.id.clone()),
        tags: tags
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
    })
}

/// Entered when the machine exists. Left when its Node is ready. Asks for nothing.
pub(super) fn join(draft: &mut Draft<'_>) {
    let about = "how the replacement fares";
    let Ok(machine) = draft.look(&draft.snapshot.new_machine, about) else {
        return;
    };
    let Some(machine) = machine else {
        return replacement_lost(draft, "the cloud does not know it");
    };
    let Ok(node) = draft.look(
        &draft.snapshot.new_node,
        "whether the replacement has joined",
    ) else {
        return;
    };
    match (machine.state, node) {
        (MachineState::Failed | MachineState::Terminating | MachineState::Terminated, _) => {
            replacement_lost(draft, "the cloud has ended it");
        }
        (_, Some(node)) if node.ready => enter_cordon(draft, &node),
        (MachineState::Ready, None) | (_, Some(_)) => {
            draft.wait(
                format!("machine {} to join as a ready node", machine.id),
                None,
            );
        }
        (MachineState::Unknown | MachineState::Creating | MachineState::Stopped, None) => {
            draft.wait_as_usual(Some(draft.settings.machine_poll));
        }
    }
}

fn replacement_lost(draft: &mut Draft<'_>, why: &str) {
    let id = draft
        .status
        .new_machine
        .as_ref()
        .map(|record| record.id.clone())
        .unwrap_or_default();
    draft.fail(
        "ReplacementLost",
        format!("replacement {id} is lost: {why}; the old node stays"),
    );
}

/// Records, before the cordon, whether it will be ours to lift.
fn enter_cordon(draft: &mut Draft<'_>, replacement: &NodeView) {
    let Ok(old) = draft.look(&draft.snapshot.old_node, "whether the node is cordoned") else {
        return;
    };
    let is_foreign_cordon = old.is_some_and(|node| {
        node.unschedulable && node.cordoned_by.as_deref() != Some(operation(draft))
    });
    if draft.status.cordon.is_none() {
        draft.status.cordon = Some(CordonRecord {
            ours: !is_foreign_cordon,
            at: Time(draft.now),
        });
    }
    draft.status.new_node_name = Some(replacement.name.clone());
    draft.status.new_node_uid = Some(replacement.uid.clone());
    let message = format!("node {} has joined and is ready", replacement.name);
    draft.advance(
        TaskStep::Cordon,
        Milestone {
            condition: NEW_NODE_READY,
            reason: "NodeReady",
            message,
        },
    );
}
