//! Which change wakes which pass.
//!
//! Owns the mapping from objects to keys. Must not filter by what a decision would say: waking once
//! too often is cheap, once too seldom is a hang.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use shipshape_api::{NodePatchTask, TaskStep};
use shipshape_cluster::queue::Queue;
use shipshape_cluster::store::{Following, Settings};
use shipshape_cluster::{Change, Key, Store};

use crate::context::{Context, TASKS_BY_NODE, TASKS_BY_REPLACEMENT, TASKS_BY_STEP, standing_of};

/// The queues of all controllers.
#[derive(Clone)]
pub(crate) struct Queues {
    pub(crate) runs: Queue<Key>,
    pub(crate) tasks: Queue<Key>,
}

/// Begins to follow every kind; ends when the returned values are dropped.
pub(crate) fn start(context: &Context, queues: &Queues) -> Vec<Following> {
    let stores = &context.stores;
    let client = || context.client.clone();
    vec![
        stores.runs.start(Api::all(client()), Settings::default(), {
            let runs = queues.runs.clone();
            move |change| runs.add(Key::of(change.object().as_ref()))
        }),
        stores
            .tasks
            .start(Api::all(client()), Settings::default(), {
                let queues = queues.clone();
                move |change| wake_for_task(&queues, &change)
            }),
        stores
            .nodes
            .start(Api::all(client()), Settings::default(), {
                let (tasks, queue) = (stores.tasks.clone(), queues.tasks.clone());
                move |change| wake_for_node(&tasks, &queue, change.object())
            }),
        stores.pods.start(Api::all(client()), Settings::default(), {
            let (tasks, queue) = (stores.tasks.clone(), queues.tasks.clone());
            move |change| wake_for_pod(&tasks, &queue, change.object())
        }),
        stores
            .budgets
            .start(Api::all(client()), Settings::default(), {
                let (tasks, queue) = (stores.tasks.clone(), queues.tasks.clone());
                move |_| wake_all(&queue, tasks.by_index(TASKS_BY_STEP, "Drain"))
            }),
    ]
}

/// Waits until every kind has been listed once.
pub(crate) async fn synced(context: &Context) {
    let stores = &context.stores;
    stores.runs.synced().await;
    stores.tasks.synced().await;
    stores.nodes.synced().await;
    stores.pods.synced().await;
    stores.budgets.synced().await;
}

/// A task wakes itself, and its run when it comes, goes or ends.
fn wake_for_task(queues: &Queues, change: &Change<NodePatchTask>) {
    let task = change.object();
    queues.tasks.add(Key::of(task.as_ref()));
    let is_news = match change {
        Change::Applied {
            old: Some(old),
            new,
        } => standing_of(old) != standing_of(new),
        Change::Applied { old: None, .. } | Change::Deleted { .. } => true,
    };
    if is_news {
        let namespace = task.metadata.namespace.clone().unwrap_or_default();
        queues
            .runs
            .add(Key::new(namespace, task.spec.run_name.clone()));
    }
}

fn wake_for_node(tasks: &Store<NodePatchTask>, queue: &Queue<Key>, node: &Node) {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    wake_all(queue, tasks.by_index(TASKS_BY_NODE, name));
    if let Some(id) = node
        .spec
        .as_ref()
        .and_then(|spec| spec.provider_id.as_deref())
    {
        wake_all(queue, tasks.by_index(TASKS_BY_REPLACEMENT, id));
    }
}

/// Only a drain waits for pods.
fn wake_for_pod(tasks: &Store<NodePatchTask>, queue: &Queue<Key>, pod: &Pod) {
    let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else {
        return;
    };
    let mut waiting = tasks.by_index(TASKS_BY_NODE, node);
    waiting.retain(|task| {
        task.status
            .as_ref()
            .is_some_and(|status| status.step_name() == TaskStep::Drain)
    });
    wake_all(queue, waiting);
}

fn wake_all(queue: &Queue<Key>, tasks: Vec<Arc<NodePatchTask>>) {
    for task in tasks {
        queue.add(Key::of(task.as_ref()));
    }
}
