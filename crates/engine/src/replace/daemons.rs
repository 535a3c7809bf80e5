//! The daemons that a node must have to count.
//!
//! Owns the look for them, on the new node while it joins, and on the old one before that is taken out
//! of service where its machine goes first: a daemon that runs on no old node would never run on the new
//! one, and by then the old one would be gone. Must not ask for effects.

use shipshape_api::selectors::PodSelector;

use super::draft::Draft;
use super::facts::own_node;
use super::{member, order, unseen};
use crate::admit;
use crate::selector::UnknownOperator;
use crate::view::{NodeView, PodView};

/// The reason of a park because a required daemon does not run on the old node.
pub(super) const MISSING: &str = "RequiredDaemonMissing";

/// What a look for the required daemons came to.
pub(super) enum Daemons {
    /// Each has a pod.
    Complete,
    /// This one has none.
    Lacking(usize),
    /// This selector cannot be read.
    Unreadable(usize, UnknownOperator),
}

/// Looks for one pod of each selector; one that goes does not count.
pub(super) fn look_for<'a>(
    wanted: &[PodSelector],
    pods: impl IntoIterator<Item = &'a PodView>,
) -> Daemons {
    let pods = pods.into_iter().filter(|pod| !pod.terminating);
    let pods: Vec<PodView> = pods.cloned().collect();
    for (index, one) in wanted.iter().enumerate() {
        match admit::is_important(std::slice::from_ref(one), &pods) {
            Ok(true) => {}
            Ok(false) => return Daemons::Lacking(index),
            Err(error) => return Daemons::Unreadable(index, error),
        }
    }
    Daemons::Complete
}

/// Gives the task up: a selector of its spec cannot be read.
pub(super) fn refuse(draft: &mut Draft<'_>, index: usize, error: &UnknownOperator) {
    let message = format!("spec.requiredNodeDaemonPodSelectors[{index}]: {error}");
    draft.fail("InvalidSelector", message);
}

/// Whether the old node may be taken out of service as far as daemons go; if not, what follows is decided
/// on. Asked only where its machine goes first.
pub(super) fn may_go_first(draft: &mut Draft<'_>, node: &NodeView) -> bool {
    if !is_asked_for(draft) {
        return true;
    }
    let about = "which daemons the old node has";
    let Ok(pods) = draft.look(&draft.snapshot.pods, about) else {
        return false;
    };
    let wanted = &draft.snapshot.task.spec.required_node_daemon_pod_selectors;
    match on_old_node(wanted, node, &pods.unwrap_or_default()) {
        Daemons::Complete => return true,
        Daemons::Lacking(index) => {
            let reason = format!(
                "a pod of requiredNodeDaemonPodSelectors[{index}] on node {}: its machine goes first, \
                 and a daemon that does not run there would not run on the new node either",
                node.name
            );
            draft.wait(reason, None);
        }
        Daemons::Unreadable(index, error) => refuse(draft, index, &error),
    }
    false
}

/// Whether a daemon is what the old node lacks to be taken out of service.
pub(super) fn is_lacking(draft: &Draft<'_>) -> bool {
    let wanted = &draft.snapshot.task.spec.required_node_daemon_pod_selectors;
    let node = own_node(draft);
    let found = node.present().zip(draft.snapshot.pods.present());
    is_asked_for(draft)
        && found.is_some_and(|(node, pods)| {
            !matches!(on_old_node(wanted, node, pods), Daemons::Complete)
        })
}

fn is_asked_for(draft: &Draft<'_>) -> bool {
    let wanted = &draft.snapshot.task.spec.required_node_daemon_pod_selectors;
    !wanted.is_empty()
        && order::is_terminate_first(draft)
        && !order::is_old_gone(draft)
        && !member::is_old_leaving(draft)
        && !unseen::may_be_ending(&draft.status)
}

/// On a node that is not ready no pod is: there it is enough that one was placed.
fn on_old_node(wanted: &[PodSelector], node: &NodeView, pods: &[PodView]) -> Daemons {
    look_for(wanted, pods.iter().filter(|pod| pod.ready || !node.ready))
}
