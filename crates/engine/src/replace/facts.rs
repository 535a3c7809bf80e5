//! Facts that several steps of a replacement ask for, and what it means when they are missing.
//!
//! Owns the reading of a task's snapshot. Must not ask for effects.

use shipshape_api::PendingNodeGoal;
use shipshape_api::node_patch_task::{
    AwsDetails, MachineRecord, ProviderDetails, TaskStep, UndoNext, UndoRecord,
};
use shipshape_api::reasons::NODE_LEFT;

use super::draft::{Draft, Unclear};
use super::order::{is_old_gone, is_terminate_first};
use super::{member, passage, unseen};
use crate::decision::{LockRequest, NodeTarget};
use crate::machine::{Group, Machine, MachineState};
use crate::startup::{NOT_READY, startup_taint};
use crate::view::{NodeView, Observed};

/// The node this task is about, or `None` after having decided what its absence means.
pub(super) fn old_node_or_fail(draft: &mut Draft<'_>) -> Option<NodeView> {
    let found = draft.look(&own_node(draft), "how the node fares").ok()?;
    if found.is_none() {
        left_before_replacement(draft);
    }
    found
}

/// The old node has left, and nothing was made in its place yet.
pub(super) fn left_before_replacement(draft: &mut Draft<'_>) {
    let name = &draft.snapshot.task.spec.node_name;
    let message = format!("node {name} has left before its replacement began");
    node_left(draft, message);
}

/// Nothing is left to replace.
pub(super) fn node_left(draft: &mut Draft<'_>, message: String) {
    draft.begin_undo(UndoRecord {
        reason: NODE_LEFT.to_owned(),
        message,
        next: UndoNext::Leave,
        keeps_machine: false,
    });
}

/// The old node as it is; a node of the same name with another UID is a stranger and counts as
/// absent.
pub(super) fn own_node(draft: &Draft<'_>) -> Observed<NodeView> {
    match &draft.snapshot.old_node {
        Observed::Present(node) if node.uid != draft.snapshot.task.spec.node_uid => {
            Observed::Absent
        }
        Observed::NotAsked | Observed::Unknown(_) | Observed::Absent | Observed::Present(_) => {
            draft.snapshot.old_node.clone()
        }
    }
}

/// Whether the replacement is still ready, or will only come later; if not, the wait is already
/// decided on.
pub(super) fn is_replacement_ready(draft: &mut Draft<'_>) -> bool {
    if is_terminate_first(draft) {
        return true;
    }
    recorded_new_node(draft).is_some()
}

/// The new node as the status names it, if it is there and ready; if not, the wait is already decided
/// on.
pub(super) fn recorded_new_node(draft: &mut Draft<'_>) -> Option<NodeView> {
    let name = draft.status.new_node_name.clone().unwrap_or_default();
    let uid = draft.status.new_node_uid.clone().unwrap_or_default();
    match draft.look(&draft.snapshot.new_node, "whether the replacement is ready") {
        Ok(Some(node)) if node.uid == uid && node.ready => {
            return passage::is_still_open(draft).then_some(node);
        }
        Ok(Some(_)) => draft.wait(format!("node {name} to be ready again"), None),
        Ok(None) => draft.wait(format!("node {name}, which has disappeared"), None),
        Err(Unclear) => {}
    }
    None
}

/// Whether a ready node takes pods, as far as those go who lift a taint when they have done their part; if not, the
/// wait is already decided on. A pod that is evicted before would land on another node and move twice. Asked before
/// pods are moved and not after: by then it would only hold up what cannot be undone.
pub(super) fn takes_pods(draft: &mut Draft<'_>, node: &NodeView) -> bool {
    match startup_taint(node) {
        None => return true,
        // Every new node has it for a moment: to name it would cost each of them a write.
        Some(NOT_READY) if draft.status.step_name() == TaskStep::Join => draft.wait_as_usual(None),
        Some(taint) => draft.wait(format!("taint {taint} of node {} to go", node.name), None),
    }
    false
}

/// The machine behind the old node, or `None` after having decided what its absence means.
pub(super) fn old_machine_or_fail(draft: &mut Draft<'_>) -> Option<Machine> {
    let found = draft
        .look(
            &draft.snapshot.old_machine,
            "which machine is behind the node",
        )
        .ok()?;
    if found.is_none() {
        let message = "the cloud does not know the machine behind the node".to_owned();
        draft.fail("MachineUnknown", message);
    }
    found
}

/// Whether somebody has asked for the machine's end: its group, a person, or a task that was removed by
/// force and has seen to the replacement.
pub(super) fn is_ending(machine: &Machine) -> bool {
    matches!(
        machine.state,
        MachineState::Terminating | MachineState::Terminated
    )
}

/// The group that launches the replacement, or `None` after having decided what its absence means.
pub(super) fn group_or_fail(draft: &mut Draft<'_>) -> Option<Group> {
    let name = group_name(draft);
    let about = match &name {
        Some(name) => format!("whether group {name} can launch the replacement"),
        None => "which group launches the replacement".to_owned(),
    };
    let found = draft.look(&draft.snapshot.group, &about).ok()?;
    if found.is_none() {
        let what = match name {
            Some(name) => format!("group {name} is not there"),
            None => "the machine belongs to no group".to_owned(),
        };
        let message = format!("{what}, so nothing can launch its replacement");
        draft.fail("GroupUnknown", message);
    }
    found
}

/// The group of the old machine, as the cloud has just said or the status has kept it.
fn group_name(draft: &Draft<'_>) -> Option<String> {
    let seen = draft.snapshot.old_machine.present();
    let seen = seen.and_then(|machine| Some(machine.group.as_ref()?.0.clone()));
    let kept = draft.status.old_machine.as_ref();
    seen.or_else(|| kept.and_then(|machine| machine.location.get("group").cloned()))
}

/// Whether the old machine may go as far as its group is concerned; if not, what follows is decided on. Where it goes
/// first, without the group nobody could ever make the new one.
pub(super) fn is_group_there(draft: &mut Draft<'_>) -> bool {
    let is_asked = is_terminate_first(draft)
        && !is_old_gone(draft)
        && !member::is_old_leaving(draft)
        && !unseen::may_be_ending(&draft.status);
    !is_asked || group_or_fail(draft).is_some()
}

/// Whether the machine that this step waits for is followed on its way out already: its object is told
/// by the cloud when it is gone, and goes then. Without a clear answer the wait is decided on.
pub(super) fn is_followed_out(draft: &mut Draft<'_>) -> Result<bool, Unclear> {
    let about = "whether the machine is on its way out";
    let pending = draft.look(&draft.snapshot.pending, about)?;
    Ok(pending.is_some_and(|pending| pending.goal == PendingNodeGoal::Leave))
}

/// What the status keeps of a machine.
pub(super) fn machine_record(draft: &Draft<'_>, machine: &Machine) -> MachineRecord {
    MachineRecord {
        provider: draft.snapshot.task.spec.provider_type().to_owned(),
        id: machine.id.0.clone(),
        location: std::iter::once(("zone".to_owned(), machine.zone.clone()))
            .chain(
                machine
                    .group
                    .as_ref()
                    .map(|group| ("group".to_owned(), group.0.clone())),
            )
            .collect(),
        provider_id: Some(machine.provider_id.0.clone()),
    }
}

/// What only Amazon Web Services knows: where the old machine is and what the new one is made from.
pub(super) fn provider_details(
    draft: &Draft<'_>,
    machine: &Machine,
    group: &Group,
) -> Option<ProviderDetails> {
    let block = draft.snapshot.task.spec.provider.as_ref()?.aws.as_ref()?;
    let template = group.template.as_ref();
    Some(ProviderDetails {
        aws: Some(AwsDetails {
            region: Some(block.region.clone()),
            asg_name: Some(group.id.0.clone()),
            subnet_id: machine.subnet.clone(),
            launch_template_id: template.map(|template| template.id.clone()),
            launch_template_version: template.map(|template| template.version.clone()),
            new_protected: None,
        }),
    })
}

/// Notes whether the new machine was last seen protected, where there is a place for it.
pub(super) fn note_protection(draft: &mut Draft<'_>, protected: bool) {
    let details = draft.status.provider_details.as_mut();
    if let Some(aws) = details.and_then(|details| details.aws.as_mut()) {
        aws.new_protected = Some(protected);
    }
}

/// The node as an effect must name it.
pub(super) fn node_target(draft: &Draft<'_>, node: &NodeView) -> NodeTarget {
    NodeTarget {
        name: node.name.clone(),
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        operation: operation(draft).to_owned(),
    }
}

/// The node's lock as this task asks for it.
pub(super) fn lock_request(draft: &Draft<'_>, node: &NodeView) -> LockRequest {
    LockRequest {
        node: node.name.clone(),
        node_uid: node.uid.clone(),
        operation: operation(draft).to_owned(),
        holder: task_key(draft),
    }
}

/// The operation's id: the UID of the task.
pub(super) fn operation<'a>(draft: &Draft<'a>) -> &'a str {
    draft
        .snapshot
        .task
        .metadata
        .uid
        .as_deref()
        .unwrap_or_default()
}

/// The task as `namespace/name`.
pub(super) fn task_key(draft: &Draft<'_>) -> String {
    let meta = &draft.snapshot.task.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", meta.name.as_deref().unwrap_or_default())
}
