//! Which change wakes which pass.
//!
//! Owns the mapping from objects to keys. Must not leave out a change that a decision may turn upon: waking
//! once too often is cheap, once too seldom is a hang. What no decision of a step reads is left out where
//! there is much of it (`of_pods`).

mod at_gate;
mod of_pods;
mod of_slots;

use std::sync::Arc;

use kube::Api;
use shipshape_api::{NodePatchRun, NodePatchTask, NodePatchTaskStatus, PendingNode};
use shipshape_cluster::queue::Queue;
use shipshape_cluster::store::{Following, Settings};
use shipshape_cluster::{Change, Key, Store};
use shipshape_engine::closing::is_taking_back;
use shipshape_engine::drain::is_guarded;
use shipshape_engine::run::{is_braked, is_over};
use shipshape_engine::view::{BudgetView, NodeView, is_kept};

use crate::context::{
    Context, PENDING_BY_MACHINE, PENDING_BY_TASK, Standing, Stores, TASKS_BY_NODE,
    TASKS_BY_REPLACEMENT, TASKS_BY_RUN, TASKS_BY_STEP, run_term, standing_of,
};
use crate::drain;
use crate::kept::KeptBudget;
use crate::relics::has_let_go;
use of_pods::{is_as_asked, note_leaving, wake_drain, wake_for_homeless, wake_for_pod};

/// The queues of all controllers.
#[derive(Clone)]
pub(crate) struct Queues {
    pub(crate) runs: Queue<Key>,
    pub(crate) tasks: Queue<Key>,
    pub(crate) pending: Queue<Key>,
    /// Nodes by name, and runs on nodes in service by namespace and name.
    pub(crate) gate: Queue<Key>,
}

/// Begins to follow every kind; ends when the returned values are dropped.
pub(crate) fn start(context: &Context, queues: &Queues) -> Vec<Following> {
    context.evictions.wake_through(queues.tasks.clone());
    let mut following = start_own(context, queues);
    following.extend(start_around(context, queues));
    following.push(of_slots::start(context, &queues.runs));
    following.extend(at_gate::start(context, &queues.gate));
    following
}

/// Our own kinds, and nodes.
fn start_own(context: &Context, queues: &Queues) -> Vec<Following> {
    let stores = &context.stores;
    let client = || context.client.clone();
    vec![
        stores.runs.start(Api::all(client()), Settings::default(), {
            let (tasks, queues) = (stores.tasks.clone(), queues.clone());
            let orphaned = Arc::clone(&context.orphaned);
            move |change| {
                queues.runs.add(Key::of(change.object().as_ref()));
                wake_for_run(&tasks, &queues.tasks, &change);
                if has_gone(&change) {
                    orphaned.notify_one();
                }
            }
        }),
        stores
            .tasks
            .start(Api::all(client()), Settings::default(), {
                let (stores, queues) = (stores.clone(), queues.clone());
                let orphaned = Arc::clone(&context.orphaned);
                move |change| {
                    if is_removed_at_work(&change) || is_last_of_its_run(&stores.runs, &change) {
                        orphaned.notify_one();
                    }
                    wake_for_task(&stores.runs, &queues, &change);
                    wake_machines(&stores.pending, &queues.pending, &change);
                }
            }),
        stores
            .pending
            .start(Api::all(client()), Settings::default(), {
                let (stores, queues) = (stores.clone(), queues.clone());
                let is_gated = context.gate.is_some();
                move |change| {
                    wake_for_pending(&queues, &change);
                    if is_gated {
                        at_gate::wake_for_record(&stores, &queues, &change);
                    }
                }
            }),
        stores
            .nodes
            .start(Api::all(client()), Settings::default(), {
                let (stores, queues) = (stores.clone(), queues.clone());
                let is_gated = context.gate.is_some();
                move |change| {
                    wake_for_node(&stores, &queues, &change);
                    if is_gated {
                        at_gate::wake_for_node(&queues.gate, &change);
                    }
                }
            }),
    ]
}

/// What runs on nodes and what guards it.
fn start_around(context: &Context, queues: &Queues) -> Vec<Following> {
    let stores = &context.stores;
    let client = || context.client.clone();
    vec![
        stores.pods.start(Api::all(client()), Settings::default(), {
            let (stores, queues) = (stores.clone(), queues.clone());
            let (evictions, clock) = (context.evictions.clone(), context.clock);
            let is_gated = context.gate.is_some();
            move |change| {
                if is_gated {
                    at_gate::wake_for_daemon(&queues.gate, &change);
                }
                let is_as_asked = is_as_asked(&evictions, &change, clock.now());
                note_leaving(&evictions, &change);
                wake_for_pod(&stores, &queues.tasks, &change, is_as_asked);
                wake_for_homeless(&stores.runs, &queues.runs, &change);
            }
        }),
        stores
            .budgets
            .start(Api::all(client()), Settings::default(), {
                let (context, queue) = (context.clone(), queues.tasks.clone());
                move |change| wake_for_budget(&context, &queue, &change)
            }),
        stores
            .claims
            .start(Api::all(client()), Settings::default(), |_| ()),
        stores
            .attachments
            .start(Api::all(client()), Settings::default(), {
                let (tasks, queue) = (stores.tasks.clone(), queues.tasks.clone());
                move |change| wake_drain(&tasks, &queue, &change.object().node)
            }),
        stores
            .daemon_sets
            .start(Api::all(client()), Settings::default(), |_| ()),
    ]
}

/// Waits until every kind has been listed once.
pub(crate) async fn synced(context: &Context) {
    let stores = &context.stores;
    stores.runs.synced().await;
    stores.tasks.synced().await;
    stores.pending.synced().await;
    stores.nodes.synced().await;
    stores.pods.synced().await;
    stores.budgets.synced().await;
    stores.claims.synced().await;
    stores.attachments.synced().await;
    stores.daemon_sets.synced().await;
    if context.gate.is_some() {
        stores.workers.synced().await;
    }
}

/// A task wakes itself, and its run when it comes, goes or ends, or has pods to take back. Any run may wait for its node; for its
/// slot they are woken when that is free.
fn wake_for_task(runs: &Store<NodePatchRun>, queues: &Queues, change: &Change<NodePatchTask>) {
    let task = change.object();
    queues.tasks.add(Key::of(task.as_ref()));
    let (is_news, is_at_work) = match change {
        Change::Applied { old, new } => {
            let standing = standing_of(new);
            let was = old.as_ref().map(|old| standing_of(old));
            let took_back = old.as_ref().is_some_and(|old| is_taking_back(old));
            let is_news = was != Some(standing) || took_back != is_taking_back(new);
            (is_news, standing == Standing::Open)
        }
        Change::Deleted { .. } => (true, false),
    };
    if !is_news {
        return;
    }
    let namespace = task.metadata.namespace.clone().unwrap_or_default();
    let own = Key::new(namespace, task.spec.run_name.clone());
    queues.runs.add(own);
    if !is_at_work {
        for run in runs.list().iter().filter(|run| is_waiting(run)) {
            queues.runs.add(Key::of(run.as_ref()));
        }
    }
}

/// Whether somebody has removed a task by force: one that goes by itself has ended before. What it has
/// left on its node keeps a slot taken and is put back now.
fn is_removed_at_work(change: &Change<NodePatchTask>) -> bool {
    match change {
        Change::Applied { .. } => false,
        Change::Deleted { .. } => standing_of(change.object()).is_under_way(),
    }
}

/// Whether a task has come to its end, or gone, whose run is not there: what the run has left may be
/// put back now.
fn is_last_of_its_run(runs: &Store<NodePatchRun>, change: &Change<NodePatchTask>) -> bool {
    let task = change.object();
    let has_ended = match change {
        Change::Applied { new, .. } => {
            matches!(standing_of(new), Standing::Succeeded | Standing::Failed)
        }
        Change::Deleted { .. } => true,
    };
    let namespace = task.metadata.namespace.clone().unwrap_or_default();
    has_ended
        && runs
            .get(&Key::new(namespace, task.spec.run_name.clone()))
            .is_none()
}

/// Whether a run has gone, or has ended and let go. What a leader whose copy was old has held once more
/// after the end is put back as soon as its copy tells of that end.
fn has_gone(change: &Change<NodePatchRun>) -> bool {
    match change {
        Change::Applied { old, new } => {
            let had = old.as_ref().is_some_and(|old| has_let_go(old));
            has_let_go(new) && !had
        }
        Change::Deleted { .. } => true,
    }
}

fn is_waiting(run: &NodePatchRun) -> bool {
    !run.status.as_ref().is_some_and(is_over)
}

/// A machine wakes itself when it is made or turned, not by its own status; and its task by all that
/// changes for it.
fn wake_for_pending(queues: &Queues, change: &Change<PendingNode>) {
    let pending = change.object();
    let told = |one: &PendingNode| (one.spec.goal, one.status.as_ref().map(|it| it.csp_state));
    let (is_turned, is_news) = match change {
        Change::Applied {
            old: Some(old),
            new,
        } => (old.spec != new.spec, told(old) != told(new)),
        Change::Applied { old: None, .. } | Change::Deleted { .. } => (true, true),
    };
    if is_turned {
        queues.pending.add(Key::of(pending.as_ref()));
    }
    if let Some(task) = pending.spec.task_ref.as_ref().filter(|_| is_news) {
        queues.tasks.add(Key::new(&task.namespace, &task.name));
    }
}

/// A task that enters another step, or goes, may wait for its machines no more.
fn wake_machines(pending: &Store<PendingNode>, queue: &Queue<Key>, change: &Change<NodePatchTask>) {
    let step = |task: &NodePatchTask| task.status.as_ref().map(NodePatchTaskStatus::step_name);
    let is_news = match change {
        Change::Applied {
            old: Some(old),
            new,
        } => step(old) != step(new),
        Change::Applied { old: None, .. } | Change::Deleted { .. } => true,
    };
    let uid = change.object().metadata.uid.as_deref().unwrap_or_default();
    if is_news {
        for one in pending.by_index(PENDING_BY_TASK, uid) {
            queue.add(Key::of(one.as_ref()));
        }
    }
}

/// A node wakes the tasks about it that are not over. A heartbeat is no news.
fn wake_for_node(stores: &Stores, queues: &Queues, change: &Change<NodeView>) {
    if !is_node_news(change) {
        return;
    }
    let node = change.object();
    let mut tasks = stores.tasks.by_index(TASKS_BY_NODE, &node.name);
    if let Some(id) = &node.provider_id {
        tasks.extend(stores.tasks.by_index(TASKS_BY_REPLACEMENT, id.as_str()));
    }
    tasks.retain(|task| standing_of(task).is_under_way() || is_kept(&task.metadata));
    wake_all(&queues.tasks, tasks);
    if let Some(id) = &node.provider_id {
        for one in stores.pending.by_index(PENDING_BY_MACHINE, id.as_str()) {
            queues.pending.add(Key::of(one.as_ref()));
        }
    }
}

/// What a run tells its tasks: that they are called off, held back, or in the last round.
fn wake_for_run(tasks: &Store<NodePatchTask>, queue: &Queue<Key>, change: &Change<NodePatchRun>) {
    let told = |run: &NodePatchRun| {
        let status = run.status.as_ref();
        (
            run.metadata.deletion_timestamp.is_some(),
            run.spec.abort(),
            (run.spec.paused(), is_braked(run)),
            run.spec.drain.clone(),
            status.and_then(|status| status.last_round),
        )
    };
    let is_news = match change {
        Change::Applied {
            old: Some(old),
            new,
        } => told(old) != told(new),
        Change::Applied { old: None, .. } | Change::Deleted { .. } => true,
    };
    let uid = change.object().metadata.uid.clone().unwrap_or_default();
    if is_news {
        wake_all(
            queue,
            tasks.by_index(TASKS_BY_RUN, &run_term(&uid, Standing::Open)),
        );
        wake_all(
            queue,
            tasks.by_index(TASKS_BY_RUN, &run_term(&uid, Standing::Parked)),
        );
    }
}

/// Whether more than the version of a node has changed.
fn is_node_news(change: &Change<NodeView>) -> bool {
    match change {
        Change::Applied {
            old: Some(old),
            new,
        } => !old.says_the_same(new),
        Change::Applied { old: None, .. } | Change::Deleted { .. } => true,
    }
}

/// Whether pods may go that a budget's room says nothing about: those that are not healthy may once it
/// is satisfied. A pod that ceases to be healthy wakes its own task.
fn is_newly_satisfied(before: Option<&BudgetView>, now: &BudgetView) -> bool {
    now.is_satisfied() && !before.is_some_and(BudgetView::is_satisfied)
}

/// A budget with room wakes as many of the tasks that wait for it as can use it; one that guards other
/// pods than before wakes those whose pods it guards now. A budget that only lost room wakes nobody:
/// each eviction has its budget written several times, and many tasks may wait for it.
fn wake_for_budget(context: &Context, queue: &Queue<Key>, change: &Change<KeptBudget>) {
    let key = change.object().key();
    let (old, new) = match change {
        Change::Deleted { .. } => return context.evictions.lost_budget(&key),
        Change::Applied { old, new } => (old.as_deref(), new.as_ref()),
    };
    context.evictions.saw_budget(new);
    let has_new_rules = old.is_none_or(|old| new.has_other_rules(old));
    let (before, view) = (old.map(|old| &old.view), &new.view);
    if has_new_rules || is_newly_satisfied(before, view) {
        context.evictions.call_all(&key);
    }
    if has_new_rules {
        let steps = ["Drain", "Undo", "Parked"].into_iter();
        let draining = steps.flat_map(|step| context.stores.tasks.by_index(TASKS_BY_STEP, step));
        let newly_guarded = draining.filter(|task| {
            let pods = drain::pods_as_stored(context, &task.spec.node_name);
            pods.iter().any(|pod| is_guarded(pod, view).unwrap_or(true))
        });
        wake_all(queue, newly_guarded.collect());
    }
}

fn wake_all(queue: &Queue<Key>, tasks: Vec<Arc<NodePatchTask>>) {
    for task in tasks {
        queue.add(Key::of(task.as_ref()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_calls_everyone_when_it_comes_to_be_satisfied_and_not_while_it_stays_so() {
        let budget = |healthy| BudgetView {
            healthy,
            desired: 48,
            ..BudgetView::default()
        };
        let table = [
            (Some(budget(47)), budget(48), true),
            (Some(budget(48)), budget(49), false),
            (Some(budget(49)), budget(47), false),
            (None, budget(48), true),
            (None, budget(47), false),
        ];
        for (before, now, calls) in table {
            let says = is_newly_satisfied(before.as_ref(), &now);
            assert_eq!(says, calls, "{before:?} {now:?}");
        }
    }
}
