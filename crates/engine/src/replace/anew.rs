//! A Node that was registered anew: the machine of the task's node is in the cluster under another UID.
//!
//! Owns what follows when somebody has deleted the old Node while its machine lives and the kubelet has
//! brought another. That one is a stranger: pods may run there, and it is neither ours to close nor to
//! empty. So the machine stays, and the task ends like one whose node has left; the run finds the Node
//! again among those that joined late. Must not end anything.

use jiff::{SignedDuration, Timestamp};
use shipshape_api::conditions::DRAINED;
use shipshape_api::node_patch_task::TaskStep;

use super::draft::{Draft, Unclear};
use super::facts::node_left;
use super::{member, step_of, unseen};
use crate::condition::Truth;
use crate::machine::ProviderId;
use crate::sweep::is_load;
use crate::view::{NodeView, Observed, PodView};

/// The reason of a drain that no longer counts, because the machine is a node again.
const CAME_BACK: &str = "NodeCameBack";

/// Whether the own Node is gone and another of its name runs on the old machine; if so, what follows is
/// decided on. Asked before anything is begun that cannot be taken back.
pub(super) fn has_come_back(draft: &mut Draft<'_>) -> bool {
    let Observed::Present(node) = &draft.snapshot.old_node else {
        return false;
    };
    let is_own = node.uid == draft.snapshot.task.spec.node_uid;
    if is_own || member::is_old_leaving(draft) || unseen::is_showing(draft) {
        return false;
    }
    let Some(id) = &node.provider_id else {
        let reason = format!(
            "node {}, which was registered anew, to say which machine it runs on",
            node.name
        );
        draft.wait(reason, Some(draft.settings.machine_poll));
        return true;
    };
    let old = draft.status.old_machine.as_ref();
    let old = old.and_then(|machine| machine.provider_id.as_deref());
    if old != Some(id.as_str()) {
        return false;
    }
    if unseen::may_be_ending(&draft.status) {
        wait_for_cloud(draft, node, draft.settings.machine_poll);
    } else {
        put_back(draft, node);
    }
    true
}

/// Whether no other Node speaks against the old machine's end; if one does, what follows is decided on.
/// One that is closed and empty does not.
pub(super) fn is_out_of_service(draft: &mut Draft<'_>) -> bool {
    let about = "whether the old machine was registered anew";
    let Ok(found) = draft.look(&draft.snapshot.anew, about) else {
        return false;
    };
    let Some(node) = found else {
        return true;
    };
    match occupants(draft, &node) {
        Err(Unclear) => {}
        Ok(0) if node.unschedulable => return true,
        Ok(count) => keep_machine(draft, &node, count),
    }
    false
}

fn occupants(draft: &mut Draft<'_>, node: &NodeView) -> Result<usize, Unclear> {
    let about = format!("which pods node {} has", node.name);
    let pods: Vec<PodView> = draft
        .look(&draft.snapshot.anew_pods, &about)?
        .unwrap_or_default();
    Ok(pods.iter().filter(|pod| is_load(pod)).count())
}

/// The machine stays. Where its end may have been asked for, the cloud gets the time to show it: what
/// was made in its place is not put back before.
fn keep_machine(draft: &mut Draft<'_>, node: &NodeView, count: usize) {
    if member::is_old_leaving(draft) {
        let reason = format!(
            "somebody to cordon and drain node {}, which was registered anew with {count} pod(s) and \
             has no member of etcd any more",
            node.name
        );
        return draft.wait(reason, Some(draft.settings.machine_poll));
    }
    let may_be_ending = unseen::may_be_ending(&draft.status);
    if step_of(draft.snapshot) != TaskStep::Remove && !may_be_ending {
        return put_back(draft, node);
    }
    match sure_at(draft) {
        Some(at) if at <= draft.now => put_back(draft, node),
        Some(at) => wait_for_cloud(draft, node, at.duration_since(draft.now)),
        None => {
            draft.claim(DRAINED, Truth::False, CAME_BACK, sentence(node));
            draft.enter(TaskStep::Remove);
            draft.look_again();
        }
    }
}

fn wait_for_cloud(draft: &mut Draft<'_>, node: &NodeView, again: SignedDuration) {
    let reason = format!(
        "the cloud to show whether the machine of node {} is ending",
        node.name
    );
    draft.wait(reason, Some(again));
}

/// When the cloud surely shows an end that was asked for before the Node was seen.
fn sure_at(draft: &Draft<'_>) -> Option<Timestamp> {
    if !is_noted(draft) {
        return None;
    }
    let since = draft.status.step.as_ref()?.since.0;
    since.checked_add(draft.settings.cloud_lag).ok()
}

fn is_noted(draft: &Draft<'_>) -> bool {
    let mut conditions = draft.status.conditions.iter();
    conditions.any(|one| one.type_ == DRAINED && one.reason == CAME_BACK)
}

/// The Node that was registered anew is closed and empty, or gone: the drain counts again.
pub(super) fn note_end(draft: &mut Draft<'_>) {
    if is_noted(draft) {
        let node = &draft.snapshot.task.spec.node_name;
        let message = format!("node {node} has no more pods to move");
        draft.claim(DRAINED, Truth::True, "NodeDrained", message);
    }
}

fn put_back(draft: &mut Draft<'_>, node: &NodeView) {
    let message = format!(
        "{}; it may be in service, so its machine stays and the replacement is put back",
        sentence(node)
    );
    node_left(draft, message);
}

fn sentence(node: &NodeView) -> String {
    let id = node.provider_id.as_ref();
    format!(
        "somebody has deleted the Node of machine {}, and it was registered anew as {}",
        id.map(ProviderId::as_str).unwrap_or_default(),
        node.name
    )
}
