//! Which slot that comes free wakes whom.
//!
//! Owns the mapping from the ledger to runs. A task that is set aside frees its slot once its node is open
//! again, and a run frees those of tasks that have ended: neither shows in any other object, and whoever
//! looked before would wait for the next resync. Only wakes: what is free is read live.

use shipshape_api::names::LEDGER_NAME;
use shipshape_api::{NodePatchRun, NodePatchTask};
use shipshape_cluster::queue::Queue;
use shipshape_cluster::store::{Following, Settings};
use shipshape_cluster::{Change, Key, Store};
use shipshape_engine::ledger::{Ledger, Slot};

use super::is_waiting;
use crate::context::{Context, Standing, standing_of};

/// Begins to follow the ledger.
pub(super) fn start(context: &Context, queue: &Queue<Key>) -> Following {
    let settings = Settings {
        fields: Some(format!("metadata.name={LEDGER_NAME}")),
        ..Settings::default()
    };
    let api = context.ledger.api().clone();
    let (runs, tasks) = (context.stores.runs.clone(), context.stores.tasks.clone());
    let queue = queue.clone();
    context.stores.ledger.start(api, settings, move |change| {
        wake_for_ledger(&runs, &tasks, &queue, &change);
    })
}

/// A slot that is free wakes the runs that may have waited for it. A run that has freed it itself, because
/// its task has ended, knows.
fn wake_for_ledger(
    runs: &Store<NodePatchRun>,
    tasks: &Store<NodePatchTask>,
    queue: &Queue<Key>,
    change: &Change<Ledger>,
) {
    let freed = freed(change);
    if freed.is_empty() {
        return;
    }
    let knows = |run: &NodePatchRun, slot: &Slot| {
        run.metadata.uid.as_ref() == Some(&slot.owner) && !is_set_aside(tasks, &slot.task)
    };
    for run in runs.list().iter().filter(|run| is_waiting(run)) {
        if freed.iter().any(|slot| !knows(run, slot)) {
            queue.add(Key::of(run.as_ref()));
        }
    }
}

/// The slots that were there and are not.
fn freed(change: &Change<Ledger>) -> Vec<Slot> {
    let Change::Applied {
        old: Some(old),
        new,
    } = change
    else {
        return Vec::new();
    };
    let slots = old.slots.iter();
    let gone = slots.filter(|(node_uid, _)| !new.slots.contains_key(*node_uid));
    gone.map(|(_, slot)| slot.clone()).collect()
}

/// Whether the task of a slot, `namespace/name`, goes on without one.
fn is_set_aside(tasks: &Store<NodePatchTask>, task: &str) -> bool {
    let (namespace, name) = task.split_once('/').unwrap_or(("", task));
    let task = tasks.get(&Key::new(namespace, name));
    task.is_some_and(|task| standing_of(&task) == Standing::Parked)
}
