//! What a drain has to know, gathered from the stores.
//!
//! Owns how pods, budgets, volumes and DaemonSets are brought together, and what this process itself
//! has done a moment ago and cannot see yet. Must not decide. Called by whoever observes a node that
//! is being emptied.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use shipshape_cluster::Key;
use shipshape_cluster::error::in_full;
use shipshape_cluster::store::spare;
use shipshape_engine::drain::{Around, is_guarded};
use shipshape_engine::view::{AttachmentView, BudgetView, Observed, PodView};

use crate::context::{
    ATTACHMENTS_BY_NODE, BUDGETS_BY_NAMESPACE, CLAIMS_BY_VOLUME, Context, PODS_BY_NODE,
};

/// The pods on a node. One that was asked to leave counts as leaving before the watch says so.
pub(crate) fn pods(context: &Context, node: &str) -> Vec<PodView> {
    let now = context.clock.now();
    let mut pods = pods_as_stored(context, node);
    for pod in &mut pods {
        pod.terminating |= context.evictions.is_asked(&pod.uid, now);
    }
    pods
}

/// The pods on a node, as the watch brought them.
pub(crate) fn pods_as_stored(context: &Context, node: &str) -> Vec<PodView> {
    let pods = context.stores.pods.by_index(PODS_BY_NODE, node);
    pods.iter().map(|pod| PodView::clone(pod)).collect()
}

/// The pods on a node as they are now; nothing may be removed because of a store alone.
pub(crate) async fn live_pods(context: &Context, node: &str) -> Observed<Vec<PodView>> {
    let api: Api<Pod> = Api::all(context.client.clone());
    // Not by pages: a node may keep a thousand pods that have ended, and a page is read past the server's cache.
    let params = ListParams::default().fields(&format!("spec.nodeName={node}"));
    match spare::list::<_, PodView>(&api, &params).await {
        Ok((pods, false)) => {
            let listed = pods.iter().map(PodView::of).collect();
            confirmed(listed, &pods_as_stored(context, node))
        }
        Ok((_, true)) => {
            Observed::Unknown(format!("the list of pods of node {node} was cut short"))
        }
        Err(error) => Observed::Unknown(in_full(&error)),
    }
}

/// The pods that a list shows, if it can be believed. One that lacks a pod which the watch still has is
/// old, cut short or empty by mistake; in a moment one of the two will tell the other's news. One that has ended counts
/// for nothing either way, and nobody is woken when it goes.
fn confirmed(listed: Vec<PodView>, stored: &[PodView]) -> Observed<Vec<PodView>> {
    let lacks = |known: &&PodView| !listed.iter().any(|pod| pod.uid == known.uid);
    match stored.iter().filter(|pod| !pod.finished).find(lacks) {
        Some(pod) => Observed::Unknown(format!(
            "the list of pods lacks {}/{}, which the watch still has",
            pod.namespace, pod.name
        )),
        None => Observed::Present(listed),
    }
}

/// The budgets in the namespaces of these pods, with the room that this process has not taken yet.
pub(crate) fn budgets<'a>(
    context: &Context,
    pods: impl IntoIterator<Item = &'a PodView>,
) -> Vec<BudgetView> {
    let now = context.clock.now();
    let stored = budgets_as_stored(context, pods).into_iter();
    stored
        .map(|budget| context.evictions.seen_through(budget, now))
        .collect()
}

/// The budgets in the namespaces of these pods, as the watch brought them.
pub(crate) fn budgets_as_stored<'a>(
    context: &Context,
    pods: impl IntoIterator<Item = &'a PodView>,
) -> Vec<BudgetView> {
    let namespaces: BTreeSet<&str> = pods.into_iter().map(|pod| pod.namespace.as_str()).collect();
    let stored = &context.stores.budgets;
    namespaces
        .into_iter()
        .flat_map(|namespace| stored.by_index(BUDGETS_BY_NAMESPACE, namespace))
        .map(|budget| budget.view.clone())
        .collect()
}

/// What else is around the pods of these nodes.
pub(crate) fn around<'a>(
    context: &Context,
    nodes: impl IntoIterator<Item = &'a str>,
    pods: impl IntoIterator<Item = &'a PodView>,
) -> Around {
    let now = context.clock.now();
    let mut around = Around::default();
    for node in nodes {
        let attached = context
            .stores
            .attachments
            .by_index(ATTACHMENTS_BY_NODE, node);
        around
            .attachments
            .extend(attached.iter().map(|one| with_claim(context, one)));
    }
    for pod in pods {
        if is_orphan(context, pod) {
            around.orphans.insert(pod.uid.clone());
        }
        if let Some(refusal) = context.evictions.refusal(&pod.uid, now) {
            around.refusals.insert(pod.uid.clone(), refusal);
        }
    }
    around
}

/// Reads live what the store still shows as attached to a node. A node that is empty has no more than
/// that, and mostly nothing: volumes come only with pods.
pub(crate) async fn recall_attachments(
    context: &Context,
    node: &str,
) -> shipshape_cluster::error::Result<()> {
    let attachments = &context.stores.attachments;
    for one in attachments.by_index(ATTACHMENTS_BY_NODE, node) {
        attachments.refetch(&Key::cluster(&one.name)).await?;
    }
    Ok(())
}

fn with_claim(context: &Context, attachment: &AttachmentView) -> AttachmentView {
    let claims = &context.stores.claims;
    let claims = claims.by_index(CLAIMS_BY_VOLUME, &attachment.volume);
    let claim = claims
        .first()
        .map(|claim| (claim.key.namespace.clone(), claim.key.name.clone()));
    AttachmentView {
        claim,
        ..attachment.clone()
    }
}

fn is_orphan(context: &Context, pod: &PodView) -> bool {
    let Some((kind, name)) = &pod.owner else {
        return false;
    };
    let key = Key::new(&pod.namespace, name);
    kind == "DaemonSet" && context.stores.daemon_sets.get(&key).is_none()
}

/// The budgets around these pods, with the task woken from now on when one of them changes that guards
/// one of the pods. Whoever waits is noted before the budgets are read: a change in between is not
/// lost.
pub(crate) fn budgets_for(context: &Context, task: &Key, pods: &[PodView]) -> Vec<BudgetView> {
    wait_for_budgets(context, task, pods, &budgets(context, pods));
    budgets(context, pods)
}

fn wait_for_budgets(context: &Context, task: &Key, pods: &[PodView], budgets: &[BudgetView]) {
    let staying = pods.iter().filter(|pod| !pod.terminating && !pod.finished);
    let guards = staying.flat_map(|pod| {
        let guarding = move |budget: &&BudgetView| is_guarded(pod, budget).unwrap_or(true);
        budgets.iter().filter(guarding)
    });
    let keys = guards.map(|budget| Key::new(&budget.namespace, &budget.name));
    context.evictions.wait(task, keys.collect());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str) -> PodView {
        PodView {
            uid: uid.to_owned(),
            ..PodView::default()
        }
    }

    #[test]
    fn a_list_that_lacks_a_pod_of_the_watch_is_not_believed() {
        for listed in [vec![], vec![pod("b")]] {
            let seen = confirmed(listed, &[pod("a"), pod("b")]);
            assert!(matches!(seen, Observed::Unknown(_)), "{seen:?}");
        }
    }

    #[test]
    fn a_list_that_knows_more_than_the_watch_is_believed() {
        for stored in [vec![], vec![pod("a")]] {
            let seen = confirmed(vec![pod("a")], &stored);
            assert_eq!(seen.present().map(Vec::len), Some(1));
        }
        assert_eq!(confirmed(vec![], &[]).present().map(Vec::len), Some(0));
    }

    #[test]
    fn a_list_may_lack_a_pod_that_has_ended() {
        let ended = PodView {
            finished: true,
            ..pod("a")
        };
        assert!(confirmed(vec![], &[ended]).present().is_some());
    }
}
