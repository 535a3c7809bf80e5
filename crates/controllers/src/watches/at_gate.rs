//! Which change wakes the gate.
//!
//! Owns the mapping from nodes, records and workers to nodes at the gate. A heartbeat wakes nobody.

use kube::Api;
use shipshape_api::{PendingNode, VerificationVerdict, names};
use shipshape_cluster::queue::Queue;
use shipshape_cluster::store::{Following, Settings};
use shipshape_cluster::{Change, Key, Store};
use shipshape_engine::verify::is_vital_daemon;
use shipshape_engine::verify::outcome::WorkerView;
use shipshape_engine::view::{NodeView, PodView};

use super::of_pods::is_readiness_news;
use super::{Queues, is_node_news, wake_all};
use crate::context::{Context, Stores, TASKS_BY_REPLACEMENT};

/// Begins to follow worker pods, where the gate is on.
pub(super) fn start(context: &Context, queue: &Queue<Key>) -> Option<Following> {
    let gate = context.gate.as_ref()?;
    let namespace = gate.worker.namespace.as_deref().unwrap_or_default();
    let settings = Settings {
        labels: Some(names::LABEL_WORKER.to_owned()),
        ..Settings::default()
    };
    let (pending, queue) = (context.stores.pending.clone(), queue.clone());
    context.own_runs.wake_through({
        let (pending, queue) = (pending.clone(), queue.clone());
        move || wake_comparing(&pending, &queue)
    });
    let api = Api::namespaced(context.client.clone(), namespace);
    Some(context.stores.workers.start(api, settings, move |change| {
        wake_for_worker(&pending, &queue, &change);
    }))
}

/// A worker wakes its node; one on a node in service wakes itself and all that wait for a comparison.
fn wake_for_worker(pending: &Store<PendingNode>, queue: &Queue<Key>, change: &Change<WorkerView>) {
    let worker = change.object();
    if !worker.is_control {
        return queue.add(Key::cluster(&worker.node));
    }
    queue.add(Key::new(&worker.namespace, &worker.name));
    wake_comparing(pending, queue);
}

/// Wakes every node that waits for a comparison.
fn wake_comparing(pending: &Store<PendingNode>, queue: &Queue<Key>) {
    for record in pending.list() {
        if waits_for_others(&record)
            && let Some(node) = &record.spec.node_name
        {
            queue.add(Key::cluster(node));
        }
    }
}

fn waits_for_others(record: &PendingNode) -> bool {
    let told = record
        .status
        .as_ref()
        .and_then(|it| it.verification.as_ref());
    told.is_some_and(|told| {
        told.attempt_started_at.is_some() || told.verdict == Some(VerificationVerdict::Inconclusive)
    })
}

/// A record wakes its node when it comes, goes or is changed, by whomever; and the task that has brought
/// the node by another verdict.
pub(super) fn wake_for_record(stores: &Stores, queues: &Queues, change: &Change<PendingNode>) {
    let spec = &change.object().spec;
    let (Some(_), Some(node)) = (&spec.node_uid, &spec.node_name) else {
        return;
    };
    queues.gate.add(Key::cluster(node));
    let is_news = match change {
        Change::Applied {
            old: Some(old),
            new,
        } => standing(old) != standing(new),
        Change::Applied { old: None, .. } | Change::Deleted { .. } => true,
    };
    let node = stores.nodes.get(&Key::cluster(node)).filter(|_| is_news);
    if let Some(id) = node.and_then(|node| node.provider_id.clone()) {
        let waiting = stores.tasks.by_index(TASKS_BY_REPLACEMENT, id.as_str());
        wake_all(&queues.tasks, waiting);
    }
}

/// What a task reads of its new node's record.
fn standing(record: &PendingNode) -> Option<(Option<&String>, Option<VerificationVerdict>, bool)> {
    let told = record.status.as_ref()?.verification.as_ref()?;
    Some((
        told.boot_id.as_ref(),
        told.verdict,
        told.started_at.is_some(),
    ))
}

/// A daemon that gets ready may be what its node waits for.
pub(super) fn wake_for_daemon(queue: &Queue<Key>, change: &Change<PodView>) {
    let pod = change.object();
    if is_vital_daemon(pod) && !pod.node.is_empty() && is_readiness_news(change) {
        queue.add(Key::cluster(&pod.node));
    }
}

/// A node wakes itself by all that the gate reads of it.
pub(super) fn wake_for_node(queue: &Queue<Key>, change: &Change<NodeView>) {
    if is_node_news(change) {
        queue.add(Key::cluster(&change.object().name));
    }
}
