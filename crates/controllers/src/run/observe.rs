//! Observe: everything that a run's decision needs, by reads only.
//!
//! Owns which store answers what. The ledger is read live, and only while nodes wait; everything
//! else says where to look and may be a moment old.

use std::collections::BTreeMap;

use shipshape_api::conditions::COMPLETED;
use shipshape_api::node_patch_run::Candidate;
use shipshape_api::{NodePatchRun, NodePatchTask};
use shipshape_cluster::Key;
use shipshape_cluster::error::in_full;
use shipshape_engine::admit::Waiting;
use shipshape_engine::condition;
use shipshape_engine::naming::{WorkId, task_name};
use shipshape_engine::snapshot::RunSnapshot;
use shipshape_engine::view::{NodeView, Observed, PodView};

use crate::context::{Context, PODS_BY_NODE, Standing, TASKS_BY_RUN, run_term};
use crate::error::PassError;

/// More waiting nodes than this are not looked at in one pass: enough to fill the batches of any
/// sensible run, and the cost of a pass does not grow with the cluster.
const WINDOW_SPARE: usize = 8;

/// Looks at one run; `None` when it does not exist or is being deleted.
pub(super) async fn observe(
    context: &Context,
    key: &Key,
) -> Result<Option<RunSnapshot>, PassError> {
    let stores = &context.stores;
    stores.runs.wait_for(key).await?;
    let Some(run) = stores.runs.get(key) else {
        return Ok(None);
    };
    if run.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let uid = run.metadata.uid.clone().unwrap_or_default();
    let by_standing = |standing| {
        stores
            .tasks
            .by_index(TASKS_BY_RUN, &run_term(&uid, standing))
    };
    let open: Vec<NodePatchTask> = by_standing(Standing::Open)
        .iter()
        .map(|task| task.as_ref().clone())
        .collect();
    let has_plan = run
        .status
        .as_ref()
        .is_some_and(|status| status.plan.is_some());
    let waiting = waiting(context, &run);
    let ledger = if waiting.is_empty() {
        Observed::NotAsked
    } else {
        match context.ledger.read().await {
            Ok(ledger) => Observed::Present(ledger),
            Err(error) => Observed::Unknown(in_full(&error)),
        }
    };
    Ok(Some(RunSnapshot {
        known_providers: context.provider_types(),
        nodes: if has_plan {
            Observed::NotAsked
        } else {
            Observed::Present(all_nodes(context))
        },
        waiting,
        succeeded: by_standing(Standing::Succeeded).len(),
        failed: by_standing(Standing::Failed).len(),
        others: others(context, &run),
        open,
        ledger,
        run: run.as_ref().clone(),
    }))
}

/// Other runs in the same cloud that have not ended.
fn others(context: &Context, run: &NodePatchRun) -> usize {
    let runs = context.stores.runs.list();
    let others = runs.iter().filter(|other| {
        other.metadata.uid != run.metadata.uid
            && other.spec.provider.r#type == run.spec.provider.r#type
    });
    let at_work = others.filter(|other| {
        let status = other.status.as_ref();
        status.is_some_and(|status| {
            status.plan.is_some() && !condition::is_true(&status.conditions, COMPLETED)
        })
    });
    at_work.count()
}

fn all_nodes(context: &Context) -> Vec<NodeView> {
    context
        .stores
        .nodes
        .list()
        .iter()
        .map(|node| NodeView::of(node))
        .collect()
}

/// The first nodes of the current partition that have no task yet. A node that has left, or whose
/// name now belongs to another, is not waited for.
fn waiting(context: &Context, run: &NodePatchRun) -> Vec<Waiting> {
    let Some((plan, iteration)) = run.status.as_ref().and_then(|status| {
        let iteration = usize::try_from(status.current_iteration?).ok()?;
        Some((status.plan.as_ref()?, iteration))
    }) else {
        return Vec::new();
    };
    let Some(partition) = plan.partitions.get(iteration) else {
        return Vec::new();
    };
    let candidates: BTreeMap<&str, &Candidate> = plan
        .candidates
        .iter()
        .map(|one| (one.name.as_str(), one))
        .collect();
    partition
        .nodes
        .iter()
        .filter_map(|name| candidates.get(name.as_str()))
        .filter_map(|candidate| waiting_node(context, run, iteration, candidate))
        .take(window(run))
        .collect()
}

fn waiting_node(
    context: &Context,
    run: &NodePatchRun,
    iteration: usize,
    candidate: &Candidate,
) -> Option<Waiting> {
    let stores = &context.stores;
    let namespace = run.metadata.namespace.clone().unwrap_or_default();
    let name = task_name(WorkId {
        run_name: run.metadata.name.as_deref().unwrap_or_default(),
        run_uid: run.metadata.uid.as_deref().unwrap_or_default(),
        iteration,
        node_name: &candidate.name,
        node_uid: &candidate.uid,
    });
    if stores.tasks.get(&Key::new(&namespace, &name)).is_some() {
        return None;
    }
    let node = stores.nodes.get(&Key::cluster(&candidate.name))?;
    let node = NodeView::of(&node);
    if node.uid != candidate.uid {
        return None;
    }
    let pods = stores.pods.by_index(PODS_BY_NODE, &node.name);
    Some(Waiting {
        pods: pods.iter().map(|pod| PodView::clone(pod)).collect(),
        task: format!("{namespace}/{name}"),
        node,
    })
}

fn window(run: &NodePatchRun) -> usize {
    let spec = &run.spec;
    let batches = spec
        .batch_size_important()
        .saturating_add(spec.batch_size_non_important());
    usize::try_from(batches)
        .unwrap_or_default()
        .saturating_add(WINDOW_SPARE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_batches_give_a_window_and_no_overflow() {
        let mut run = NodePatchRun::default();
        run.spec.batch_size_important = Some(i32::MAX);
        run.spec.batch_size_non_important = Some(i32::MAX);
        assert!(window(&run) > WINDOW_SPARE);
    }
}
