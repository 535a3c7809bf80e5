//! Which change wakes the gate.
//!
//! Owns the mapping from nodes, records and workers to nodes at the gate. A heartbeat wakes nobody.

use kube::Api;
use shipshape_api::{PendingNode, VerificationVerdict, names};
use shipshape_cluster::queue::Queue;
use shipshape_cluster::store::{Following, Settings};
use shipshape_cluster::{Change, Key, Store};
use shipshape_engine::verify::outcome::WorkerView;
use shipshape_engine::view::NodeView;

use crate::context::Context;

/// Begins to follow worker pods, where the gate is on.
pub(super) fn start(context: &Context, queue: &Queue<Key>) -> Option<Following> {
    let gate = context.gate.as_ref()?;
    let namespace = gate.worker.namespace.as_deref().unwrap_or_default();
    let settings = Settings {
        labels: Some(names::LABEL_WORKER.to_owned()),
        ..Settings::default()
    };
    let (pending, queue) = (context.stores.pending.clone(), queue.clone());
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

/// A record wakes its node when it comes, goes or is changed, by whomever.
pub(super) fn wake_for_record(queue: &Queue<Key>, change: &Change<PendingNode>) {
    let spec = &change.object().spec;
    if let (Some(_), Some(node)) = (&spec.node_uid, &spec.node_name) {
        queue.add(Key::cluster(node));
    }
}

/// A node wakes itself by all that the gate reads of it.
pub(super) fn wake_for_node(queue: &Queue<Key>, change: &Change<NodeView>) {
    let read = |node: &NodeView| NodeView {
        resource_version: String::new(),
        ..node.clone()
    };
    let is_news = match change {
        Change::Applied {
            old: Some(old),
            new,
        } => read(old) != read(new),
        Change::Applied { old: None, .. } | Change::Deleted { .. } => true,
    };
    if is_news {
        queue.add(Key::cluster(&change.object().name));
    }
}
