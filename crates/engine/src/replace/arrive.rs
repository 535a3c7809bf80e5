//! The first half of a replacement: lock the old node, bring the new one in.
//!
//! Each function says when its step is entered, when it is left and what it may ask for. Nothing
//! here touches the old node: everything up to the cordon can be undone by removing a machine.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::conditions::{LOCKED, NEW_NODE_READY, REPLACEMENT_ENSURED};
use shipshape_api::gates::ReplacementMode;
use shipshape_api::names;
use shipshape_api::node_patch_task::{CordonRecord, LabelRecord, ReplacementRecord, TaskStep};
use shipshape_api::{CspState, PendingNodeGoal};

use super::daemons::Daemons;
use super::draft::{Draft, Milestone};
use super::facts::{
    group_or_fail, is_ending, lock_request, machine_record, node_left, node_target,
    note_protection, old_machine_or_fail, old_node_or_fail, operation, own_node, provider_details,
    takes_pods, task_key,
};
use super::undo::gave_up;
use super::{daemons, member, order, park, passage};
use crate::condition::Truth;
use crate::decision::{Effect, Marks, NodeTarget, Notice};
use crate::machine::{Group, GroupId, MachineId, ReplacementRequest, Token};
use crate::naming::replacement_token;
use crate::snapshot::{LockView, PendingView};
use crate::transfer;
use crate::view::NodeView;

/// What a replacement carries until its run ends.
const REPLACEMENT_MARKS: Marks = Marks {
    outdated: None,
    held: true,
};

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
        Some(lock) if lock.is_abandoned => take_over(draft, &node, &lock),
        Some(lock) => {
            let reason = format!("node {} is locked by {}", node.name, lock.holder);
            draft.wait(reason, Some(draft.settings.machine_poll));
        }
        None => {
            draft.effect(Effect::AcquireLock(lock_request(draft, &node)));
            draft.look_again();
        }
    }
}

/// The lock's holder is surely gone: what it left on the node is put back, then the lock is free. A node
/// whose machine ends takes no pods any more.
fn take_over(draft: &mut Draft<'_>, node: &NodeView, lock: &LockView) {
    let about = "which machine is behind the node";
    let Ok(machine) = draft.look(&draft.snapshot.old_machine, about) else {
        return;
    };
    let is_ours = node.cordoned_by.as_ref() == Some(&lock.operation);
    if is_ours && machine.is_some_and(|machine| !is_ending(&machine)) {
        draft.effect(Effect::EnsureUncordoned(NodeTarget {
            operation: lock.operation.clone(),
            ..node_target(draft, node)
        }));
    }
    draft.effect(Effect::ReleaseLock {
        node: node.name.clone(),
        operation: lock.operation.clone(),
    });
    draft.look_again();
}

/// Writes down which machine will be asked for, and which labels it will get, before anything is
/// asked for.
fn record_intent(draft: &mut Draft<'_>, node: &NodeView) {
    if node.provider_id.is_none() {
        let name = &node.name;
        let message = format!(
            "node {name} has no provider id, so nobody can tell which machine it is; to help: see why the \
             cloud controller manager gives it none, or exclude the node"
        );
        return park::park(draft, park::NO_PROVIDER_ID, message);
    }
    let Some(machine) = old_machine_or_fail(draft) else {
        return;
    };
    if is_ending(&machine) {
        let name = &node.name;
        let message = format!(
            "machine {} of node {name} is on its way out already",
            machine.id
        );
        return node_left(draft, message);
    }
    let Some(group) = group_or_fail(draft) else {
        return;
    };
    if member::record(draft, node).is_err() {
        return;
    }
    draft.status.replacement = Some(intent(draft, &group, machine.zone.clone()));
    draft.status.old_machine = Some(machine_record(draft, &machine));
    draft.status.provider_details = provider_details(draft, &machine, &group);
    let spec = &draft.snapshot.task.spec;
    draft.status.labels = spec.label_transfer.as_ref().map(|lists| LabelRecord {
        add: transfer::selected(lists, &node.labels),
    });
    if spec.replacement == Some(ReplacementMode::TerminateFirst) {
        draft.status.terminate_first = Some(true);
    }
    let next = order::after_intent(draft);
    if next != TaskStep::Provision {
        record_cordon(draft, Some(node));
    }
    // The event about the machine tells of the lock too.
    let message = format!("node {} is locked for this task", node.name);
    draft.claim(LOCKED, Truth::True, "LockTaken", message);
    draft.enter(next);
}

fn intent(draft: &Draft<'_>, group: &Group, zone: String) -> ReplacementRecord {
    let node_uid = &draft.snapshot.task.spec.node_uid;
    let attempt = draft.status.attempt.unwrap_or(1);
    // A record that no undo has cleared may stand for a machine that the cloud has made and not shown
    // yet: under its token that one is found, under another it would be a second one.
    let token = match &draft.status.replacement {
        Some(record) => record.token.clone(),
        None => replacement_token(operation(draft), node_uid, attempt).0,
    };
    ReplacementRecord {
        token,
        group_id: group.id.0.clone(),
        zone,
        image: Some(group.image.0.clone()),
        requested_at: Time(draft.now),
        no_room: None,
    }
}

/// Writes down the next attempt's machine when the old one is gone already and cannot be asked.
pub(super) fn renew_intent(draft: &mut Draft<'_>) {
    let zone = draft
        .status
        .old_machine
        .as_ref()
        .and_then(|machine| machine.location.get("zone").cloned())
        .unwrap_or_default();
    let Some(group) = group_or_fail(draft) else {
        return;
    };
    draft.status.replacement = Some(intent(draft, &group, zone));
    draft.enter(TaskStep::Provision);
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
        note_protection(draft, machine.protected);
        let message = format!(
            "machine {} was created in zone {} for node {}, which is locked",
            machine.id, machine.zone, draft.snapshot.task.spec.node_name
        );
        draft.advance_quietly(
            TaskStep::Join,
            Milestone {
                condition: REPLACEMENT_ENSURED,
                reason: "MachineCreated",
                message,
            },
        );
    } else if let Some(request) = replacement_request(draft) {
        ask_for_machine(draft, request);
    } else {
        draft.fail(
            "IntentMissing",
            "the status has lost the replacement's record".to_owned(),
        );
    }
}

/// Asks, unless the cloud had no room and the run lets the old machine go first in that case.
fn ask_for_machine(draft: &mut Draft<'_>, request: ReplacementRequest) {
    let no_room = draft
        .status
        .replacement
        .as_ref()
        .and_then(|record| record.no_room.clone());
    let may_fall_back = draft.snapshot.task.spec.replacement
        == Some(ReplacementMode::SurgeElseTerminateFirst)
        && !order::is_terminate_first(draft);
    match no_room {
        Some(said) if may_fall_back => {
            let message = format!("the old machine goes first, because {said}");
            draft.notice(Notice::warning("TerminateFirst", message));
            draft.status.terminate_first = Some(true);
            draft.enter(order::before_drain(draft));
        }
        Some(said) => {
            draft.effect(Effect::EnsureReplacement(request));
            draft.wait(said, Some(draft.settings.machine_poll));
        }
        None => {
            draft.effect(Effect::EnsureReplacement(request));
            draft.wait_as_usual(Some(draft.soon()));
        }
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

/// Entered when the machine exists. Left when its Node is ready and through the gate, with its daemons, and
/// for a control plane with its member of etcd. Asks for the object that follows the machine; that one
/// protects it and asks the cloud.
pub(super) fn join(draft: &mut Draft<'_>) {
    let about = "how the replacement fares";
    let Ok(pending) = draft.look(&draft.snapshot.pending, about) else {
        return;
    };
    if let Some(why) = pending.and_then(lost) {
        return replacement_lost(draft, why);
    }
    let Ok(node) = draft.look(
        &draft.snapshot.new_node,
        "whether the replacement has joined",
    ) else {
        return;
    };
    if let Some(node) = &node {
        member::note_new(draft, node);
    }
    if let Some(node) = node.as_ref().filter(|node| is_hold_due(draft, node)) {
        return hold_scale_down(draft, node);
    }
    if let Some(node) = node.filter(|node| node.ready) {
        if passage::has_passed(draft) && takes_pods(draft, &node) {
            wait_for_daemons(draft, &node);
        }
        return;
    }
    if pending.is_none() {
        draft.follow_new(PendingNodeGoal::Join);
    }
    draft.wait_as_usual(None);
}

/// Whether the new node must be held before it counts: it is nearly empty, and that is what an
/// autoscaler looks for.
fn is_hold_due(draft: &Draft<'_>, node: &NodeView) -> bool {
    let run = draft.snapshot.run.spec.as_ref();
    run.is_some_and(|run| run.forbids_scale_down()) && node.lacks(REPLACEMENT_MARKS)
}

fn hold_scale_down(draft: &mut Draft<'_>, node: &NodeView) {
    let task = &draft.snapshot.task;
    let namespace = task.metadata.namespace.as_deref().unwrap_or_default();
    draft.effect(Effect::MarkNode {
        node: NodeTarget {
            operation: task.spec.run_uid.clone(),
            ..node_target(draft, node)
        },
        run: format!("{namespace}/{}", task.spec.run_name),
        marks: REPLACEMENT_MARKS,
    });
    draft.look_again();
}

/// Why the machine will never join, if that is sure.
fn lost(pending: PendingView) -> Option<&'static str> {
    match (pending.goal, pending.state) {
        (PendingNodeGoal::Leave, _) => Some("somebody has sent it away"),
        (PendingNodeGoal::Join, Some(CspState::Failed | CspState::Terminating)) => {
            Some("the cloud has ended it")
        }
        (PendingNodeGoal::Join, Some(CspState::Terminated)) => {
            Some("the cloud has ended it, or does not know it")
        }
        (
            PendingNodeGoal::Join,
            None
            | Some(CspState::Unknown | CspState::Creating | CspState::Ready | CspState::Stopped),
        ) => None,
    }
}

/// Each selector needs one running and ready pod on the new node.
fn wait_for_daemons(draft: &mut Draft<'_>, node: &NodeView) {
    let wanted = &draft.snapshot.task.spec.required_node_daemon_pod_selectors;
    if wanted.is_empty() {
        return joined(draft, node);
    }
    let Ok(pods) = draft.look(&draft.snapshot.new_pods, "which pods the new node has") else {
        return;
    };
    let pods = pods.unwrap_or_default();
    match daemons::look_for(wanted, pods.iter().filter(|pod| pod.ready)) {
        Daemons::Complete => joined(draft, node),
        Daemons::Lacking(index) => {
            let reason = format!(
                "a ready pod of requiredNodeDaemonPodSelectors[{index}] on node {}",
                node.name
            );
            draft.wait(reason, None);
        }
        Daemons::Unreadable(index, error) => daemons::refuse(draft, index, &error),
    }
}

fn replacement_lost(draft: &mut Draft<'_>, why: &str) {
    let id = draft
        .status
        .new_machine
        .as_ref()
        .map(|record| record.id.clone())
        .unwrap_or_default();
    let message = format!("replacement {id} is lost: {why}");
    let record = gave_up(draft, "ReplacementLost", &message);
    draft.begin_undo(record);
}

/// The replacement counts. Records, before the cordon, whether that will be ours to lift.
fn joined(draft: &mut Draft<'_>, replacement: &NodeView) {
    if !member::has_joined(draft, replacement) {
        return;
    }
    let Ok(old) = draft.look(&own_node(draft), "whether the node is cordoned") else {
        return;
    };
    if !order::is_old_gone(draft) {
        record_cordon(draft, old.as_ref());
    }
    draft.status.new_node_name = Some(replacement.name.clone());
    draft.status.new_node_uid = Some(replacement.uid.clone());
    let message = format!("node {} has joined and is ready", replacement.name);
    let next = order::after_join(draft);
    draft.advance_from(
        REPLACEMENT_ENSURED,
        next,
        Milestone {
            condition: NEW_NODE_READY,
            reason: "NodeReady",
            message,
        },
    );
}

/// Writes down, once, whether the cordon that is to come is ours to lift.
pub(super) fn record_cordon(draft: &mut Draft<'_>, old: Option<&NodeView>) {
    let is_foreign = old.is_some_and(|node| {
        node.unschedulable && node.cordoned_by.as_deref() != Some(operation(draft))
    });
    let at = Time(draft.now);
    draft.status.cordon.get_or_insert(CordonRecord {
        ours: !is_foreign,
        at,
    });
}
