//! The sweep for relics: holds, marks, cordons and locks whose run or task is gone.
//!
//! Owns where they are looked for and the live reads that prove a holder gone; what follows is
//! `engine::relic`'s. The leader looks when its term begins, so that what a dead operator held is
//! lifted by the next one; when a run or a task goes without having been put back; and now and then.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, ResourceExt};
use shipshape_api::names::{LABEL_HELD_BY, run_annotation};
use shipshape_api::{NodePatchRun, NodePatchTask, PendingNodeGoal};
use shipshape_cluster::Key;
use shipshape_cluster::deployment;
use shipshape_cluster::error::in_full;
use shipshape_cluster::lock::Holding;
use shipshape_cluster::node::Live;
use shipshape_cluster::store::spare;
use shipshape_engine::decision::Effect;
use shipshape_engine::ledger::Slot;
use shipshape_engine::relic::{self, Holder};
use shipshape_engine::run::is_over;
use shipshape_engine::snapshot::LockView;
use shipshape_engine::view::{NodeView, Observed, is_kept};

use crate::answer::answer;
use crate::context::{
    Context, PENDING_BY_MACHINE, Standing, TASKS_BY_NODE, TASKS_BY_RUN, run_term, standing_of,
};
use crate::error::PassError;
use crate::perform::perform;
use crate::run::autoscalers;
use crate::slots;

/// Looks for as long as it is polled.
pub(crate) async fn sweep(context: &Context) {
    let pause = Duration::try_from(context.settings.sweep.every).unwrap_or(Duration::MAX);
    loop {
        for (what, outcome) in [
            ("deployments", deployments(context).await),
            ("nodes", nodes(context).await),
            ("locks", locks(context).await),
            ("cordons", cordons(context).await),
            ("slots", slots(context).await),
        ] {
            if let Err(error) = outcome {
                tracing::warn!(what, error = in_full(&error), "sweep for relics failed");
            }
        }
        tokio::select! {
            biased;
            () = context.orphaned.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn lift(context: &Context, what: &str, effects: &[Effect]) -> Result<(), PassError> {
    for effect in effects {
        tracing::warn!(
            effect = effect.name(),
            what,
            "left by who is gone: put back"
        );
    }
    perform(context, None, effects).await
}

/// Deployments that carry the label of a hold.
async fn deployments(context: &Context) -> Result<(), PassError> {
    let held = deployment::find(context.client.clone(), None, LABEL_HELD_BY).await?;
    for one in held {
        let view = autoscalers::view(&one);
        let Some(uid) = view.held_by.clone() else {
            continue;
        };
        let run = one.annotations().get(&run_annotation(&uid));
        let holder = run_holder(context, &uid, run).await;
        let is_shared = autoscalers::held_by_others(context, &uid)
            .contains(&(view.namespace.clone(), view.name.clone()));
        let effect = relic::of_deployment(&view, &holder, is_shared);
        let what = format!("Deployment {}/{}", view.namespace, view.name);
        lift(context, &what, effect.as_slice()).await?;
    }
    Ok(())
}

/// Nodes that carry marks of runs which the store does not have, or which have ended.
async fn nodes(context: &Context) -> Result<(), PassError> {
    let alive = runs_at_work(context);
    for known in context.stores.nodes.list() {
        let suspects: BTreeSet<String> = known
            .marked_by()
            .filter(|uid| !alive.contains(*uid))
            .cloned()
            .collect();
        for uid in suspects {
            let Live::Here(live) = context.nodes.live(&known.name, &known.uid).await? else {
                continue;
            };
            let run = live.annotations().get(&run_annotation(&uid));
            let holder = run_holder(context, &uid, run).await;
            let run = run.map(String::as_str).unwrap_or_default();
            let effect = relic::of_node(&NodeView::of(&live), &uid, run, &holder);
            lift(context, &format!("node {}", known.name), effect.as_slice()).await?;
        }
    }
    Ok(())
}

/// Locks of tasks that the store does not have.
async fn locks(context: &Context) -> Result<(), PassError> {
    for (node_name, holding) in context.locks.all().await? {
        let Some((namespace, name)) = holding.by.split_once('/') else {
            continue;
        };
        let key = Key::new(namespace, name);
        let is_it = |uid: Option<String>| uid.as_ref() == Some(&holding.operation);
        let known = context.stores.tasks.get(&key);
        if known.is_some_and(|task| is_it(task.uid())) {
            continue;
        }
        let api: Api<NodePatchTask> = Api::namespaced(context.client.clone(), namespace);
        let is_abandoned = match answer(spare::get_opt::<_, NodePatchTask>(&api, name).await) {
            Observed::Absent => true,
            Observed::Present(task) => !is_it(task.uid()),
            Observed::Unknown(_) | Observed::NotAsked => false,
        };
        let lock = view_of(&holding, is_abandoned);
        let node = match context.nodes.live(&node_name, &lock.node_uid).await {
            Ok(Live::Here(node)) => Observed::Present(NodeView::of(&node)),
            Ok(Live::Gone | Live::Replaced { .. }) => Observed::Absent,
            Err(error) => Observed::Unknown(in_full(&error)),
        };
        let is_leaving = node.present().is_some_and(|node| is_leaving(context, node));
        let effects = relic::of_lock(&lock, &node_name, &node, is_leaving);
        lift(context, &format!("lock of node {node_name}"), &effects).await?;
    }
    Ok(())
}

/// Nodes that bear the name of a task which has closed them and is not at work on them, as far as the store knows.
async fn cordons(context: &Context) -> Result<(), PassError> {
    for known in context.stores.nodes.list() {
        let Some(uid) = &known.cordoned_by else {
            continue;
        };
        let tasks = context.stores.tasks.by_index(TASKS_BY_NODE, &known.name);
        let task = tasks
            .iter()
            .find(|task| task.metadata.uid.as_ref() == Some(uid));
        if task.is_some_and(|task| standing_of(task).is_under_way()) {
            continue;
        }
        let found = match task {
            Some(task) => {
                let namespace = task.namespace().unwrap_or_default();
                let api: Api<NodePatchTask> = Api::namespaced(context.client.clone(), &namespace);
                let found = spare::get_opt::<_, NodePatchTask>(&api, &task.name_any()).await;
                let found = answer(found);
                keep_if(found, |task| task.metadata.uid.as_ref() == Some(uid))
            }
            None => task_of_uid(context, uid).await,
        };
        let Live::Here(live) = context.nodes.live(&known.name, &known.uid).await? else {
            continue;
        };
        let live = NodeView::of(&live);
        let effect = relic::of_cordon(&live, &found, is_leaving(context, &live));
        lift(context, &format!("node {}", known.name), effect.as_slice()).await?;
    }
    Ok(())
}

/// Slots of tasks that are gone and of which no run speaks any more; a run at work looks after its own.
async fn slots(context: &Context) -> Result<(), PassError> {
    let at_work = runs_at_work(context);
    let is_suspect = |slot: &Slot| {
        // A store that is old may not have the run yet that has just asked for it.
        let age = context.clock.now().duration_since(slot.granted_at);
        !at_work.contains(&slot.owner) && age >= context.settings.resync
    };
    let stored = context.stores.ledger.list();
    let mut known = stored.iter().flat_map(|ledger| ledger.slots.values());
    if !known.any(is_suspect) {
        return Ok(());
    }
    let ledger = context.ledger.read().await?;
    for (node_uid, slot) in ledger.slots.iter().filter(|(_, slot)| is_suspect(slot)) {
        let Some((namespace, name)) = slot.task.split_once('/') else {
            continue;
        };
        let tasks = &context.stores.tasks;
        if tasks.refetch(&Key::new(namespace, name)).await?.is_some() {
            continue;
        }
        if !slots::is_kept(context, node_uid, slot).await {
            let effect = Effect::ReleaseSlot {
                node_uid: node_uid.clone(),
                task: slot.task.clone(),
            };
            lift(context, &format!("slot of node {}", slot.node), &[effect]).await?;
        }
    }
    Ok(())
}

/// Whether the end of a node's machine is seen to.
fn is_leaving(context: &Context, node: &NodeView) -> bool {
    let pending = &context.stores.pending;
    let id = node.provider_id.as_ref();
    let seen_to = id.map(|id| pending.by_index(PENDING_BY_MACHINE, id.as_str()));
    let mut seen_to = seen_to.into_iter().flatten();
    seen_to.any(|one| one.spec.goal == PendingNodeGoal::Leave)
}

/// The task of that UID, among all there are: the cordon does not tell its name.
async fn task_of_uid(context: &Context, uid: &str) -> Observed<NodePatchTask> {
    let api: Api<NodePatchTask> = Api::all(context.client.clone());
    match spare::list::<_, NodePatchTask>(&api, &ListParams::default()).await {
        Ok((all, has_more)) => {
            let mut all = all.into_iter();
            match all.find(|task| task.metadata.uid.as_deref() == Some(uid)) {
                None if has_more => Observed::Unknown("the list of tasks was cut short".to_owned()),
                found => found.into(),
            }
        }
        Err(error) => Observed::Unknown(error.to_string()),
    }
}

fn keep_if<T>(found: Observed<T>, is_it: impl FnOnce(&T) -> bool) -> Observed<T> {
    match &found {
        Observed::Present(one) if !is_it(one) => Observed::Absent,
        Observed::Present(_) | Observed::Absent | Observed::NotAsked | Observed::Unknown(_) => {
            found
        }
    }
}

pub(crate) fn view_of(holding: &Holding, is_abandoned: bool) -> LockView {
    LockView {
        operation: holding.operation.clone(),
        holder: holding.by.clone(),
        node_uid: holding.node_uid.clone(),
        renewed: holding.renewed,
        is_abandoned,
        goes_with_node: holding.goes_with_node,
    }
}

/// Runs, by UID, that still have something to do or to put back.
fn runs_at_work(context: &Context) -> BTreeSet<String> {
    let runs = context.stores.runs.list();
    let at_work = runs.iter().filter(|run| !has_let_go(run));
    at_work.filter_map(|run| run.metadata.uid.clone()).collect()
}

/// Whether a run has ended and keeps nothing any more.
pub(crate) fn has_let_go(run: &NodePatchRun) -> bool {
    run.status.as_ref().is_some_and(is_over) && !is_kept(&run.metadata)
}

/// Whether the run that has left its name is still there. `named` is what the mark says it is called.
async fn run_holder(context: &Context, uid: &str, named: Option<&String>) -> Holder {
    if runs_at_work(context).contains(uid) {
        return Holder::Alive;
    }
    let (namespace, name) = match relic::run_key(named) {
        Ok(key) => key,
        Err(why) => {
            tracing::warn!(run = uid, why, "a mark cannot be traced");
            return Holder::Unclear(why);
        }
    };
    let tasks = &context.stores.tasks;
    let open: usize = [Standing::Open, Standing::Parked]
        .into_iter()
        .map(|standing| tasks.by_index(TASKS_BY_RUN, &run_term(uid, standing)).len())
        .sum();
    let api: Api<NodePatchRun> = Api::namespaced(context.client.clone(), namespace);
    let run = spare::get_opt::<_, NodePatchRun>(&api, name).await;
    relic::run_holder(uid, &answer(run), open)
}
