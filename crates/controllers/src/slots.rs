//! Observe: the ledger of slots, the tasks at work that it knows nothing of, and the nodes that are down.
//!
//! Owns the order of the looks: tasks, then the ledger, then live the tasks that have no slot in it. A slot is
//! written before its task and taken away after its end, so only a task that is at work before and after, and
//! has no slot in between, has lost it. A store alone may be old: a slot for a task that is over would stay.
//! Must not write.

use kube::Api;
use shipshape_api::gates::ReplacementMode;
use shipshape_api::{NodePatchRun, NodePatchRunSpec, NodePatchTask};
use shipshape_cluster::Key;
use shipshape_cluster::error::{call, in_full};
use shipshape_cluster::node::Live;
use shipshape_engine::admit::Down;
use shipshape_engine::decision::Effect;
use shipshape_engine::ledger::{Ledger, Role, Slot, Slotless};
use shipshape_engine::plan;
use shipshape_engine::relic;
use shipshape_engine::view::{NodeView, Observed};

use crate::answer::answer;
use crate::context::{
    Context, NODES_DOWN, NODES_OPEN, TASKS_AT_WORK, TASKS_BY_REPLACEMENT, standing_of,
};
use crate::error::PassError;
use crate::relics::view_of;

/// The ledger, read live, and what it lacks.
pub(crate) async fn look(context: &Context) -> (Observed<Ledger>, Slotless) {
    let tasks = &context.stores.tasks;
    let before = tasks.by_index(TASKS_AT_WORK, "");
    let ledger = match context.ledger.read().await {
        Ok(ledger) => ledger,
        Err(error) => return (Observed::Unknown(in_full(&error)), Slotless::default()),
    };
    context.vitals.saw_ledger(&ledger);
    let mut still = Vec::new();
    for task in before {
        if ledger.slots.contains_key(&task.spec.node_uid) {
            continue;
        }
        match tasks.refetch(&Key::of(task.as_ref())).await {
            Ok(now) => still.extend(now.filter(|now| now.metadata.uid == task.metadata.uid)),
            Err(error) => return (Observed::Unknown(in_full(&error)), Slotless::default()),
        }
    }
    let slotless = Slotless::among(
        still.iter().map(AsRef::as_ref),
        &ledger,
        |task| role_of(context, task),
        context.clock.now(),
    );
    (Observed::Present(ledger), slotless)
}

/// Whether effects that begin nodes may be carried out: nobody has changed the run's spec since it was read, or deleted
/// it. A limit that somebody has lowered, a pause or an end binds the next node, however late the watch is. Only the
/// metadata are asked for, because a run is as long as its plan. If somebody has, the store has the run as it is now.
pub(crate) async fn may_begin(
    context: &Context,
    run: &Key,
    (uid, generation): (Option<&str>, Option<i64>),
    effects: &[Effect],
) -> Result<bool, PassError> {
    let begins =
        |effect: &Effect| matches!(effect, Effect::GrantSlots { slots, .. } if !slots.is_empty());
    if !effects.iter().any(begins) {
        return Ok(true);
    }
    let api: Api<NodePatchRun> = Api::namespaced(context.client.clone(), &run.namespace);
    let object = format!("NodePatchRun {run}");
    let live = call("get", object, api.get_metadata_opt(&run.name)).await?;
    let is_same = live.is_some_and(|live| {
        live.metadata.uid.as_deref() == uid && live.metadata.generation == generation
    });
    if !is_same {
        context.stores.runs.refetch(run).await?;
    }
    Ok(is_same)
}

/// What is taken, whether the ledger knows or not.
pub(crate) fn taken(ledger: &Observed<Ledger>, slotless: &Slotless) -> Observed<Ledger> {
    match ledger {
        Observed::Present(ledger) => Observed::Present(ledger.with(&slotless.slots)),
        Observed::Absent | Observed::NotAsked | Observed::Unknown(_) => ledger.clone(),
    }
}

/// Whether what a task that is gone has done to its node still stands, read live: its slot is taken until
/// the sweep for relics has put that back, or another task of the node has.
pub(crate) async fn is_kept(context: &Context, node_uid: &str, slot: &Slot) -> bool {
    let held = context.locks.holder(&slot.node).await;
    let lock = answer(held.map(|held| held.map(|holding| view_of(&holding, true))));
    let node = match context.nodes.live(&slot.node, node_uid).await {
        Ok(Live::Here(node)) => Observed::Present(NodeView::of(&node)),
        Ok(Live::Gone | Live::Replaced { .. }) => Observed::Absent,
        Err(error) => Observed::Unknown(in_full(&error)),
    };
    relic::keeps_slot(node_uid, slot, &lock, &node)
}

/// Nodes of a run that are down and that no task works on.
pub(crate) fn down(context: &Context, run: &NodePatchRunSpec, taken: &Ledger) -> Vec<Down> {
    let nodes = context.stores.nodes.by_index(NODES_DOWN, "");
    let ours = nodes
        .iter()
        .filter(|node| plan::is_candidate(run, node).unwrap_or(true));
    ours.filter(|node| !taken.slots.contains_key(&node.uid) && !is_joining(context, node))
        .map(|node| Down {
            node: node.name.clone(),
            zone: node.zone.clone(),
            role: node.role(),
        })
        .collect()
}

/// Nodes, by UID, that are open to any pod and that nobody works on, more than so many as wait if there are. Asked
/// for only where old machines go first.
pub(crate) fn left_open(
    context: &Context,
    run: &NodePatchRunSpec,
    taken: &Ledger,
    waiting: usize,
) -> Vec<String> {
    if run.replacement != Some(ReplacementMode::TerminateFirst) {
        return Vec::new();
    }
    let most = taken.slots.len() + waiting + 1;
    let nodes = &context.stores.nodes;
    let open = nodes.first_by_index(NODES_OPEN, "", most);
    let free = open
        .iter()
        .filter(|node| !taken.slots.contains_key(&node.uid));
    free.map(|node| node.uid.clone()).collect()
}

/// Whether a node is the replacement of a task that is under way.
fn is_joining(context: &Context, node: &NodeView) -> bool {
    let Some(id) = &node.provider_id else {
        return false;
    };
    let tasks = &context.stores.tasks;
    let mut bringing = tasks
        .by_index(TASKS_BY_REPLACEMENT, id.as_str())
        .into_iter();
    bringing.any(|task| standing_of(&task).is_under_way())
}

/// A node that has left is no control plane any more.
fn role_of(context: &Context, task: &NodePatchTask) -> Role {
    let node = Key::cluster(&task.spec.node_name);
    let node = context.stores.nodes.get(&node);
    node.map_or(Role::Worker, |node| node.role())
}
