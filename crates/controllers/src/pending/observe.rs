//! Observe: the machine, its node, and who waits for it, by reads only.
//!
//! Owns which facts are read live: the node of a machine that shall leave with its pods, and a task
//! that the store does not have. A failed read is `Unknown`, never `Absent`.

use kube::Api;
use shipshape_api::{NodePatchTask, PendingNode, PendingNodeGoal, TaskStep};
use shipshape_cluster::Key;
use shipshape_cluster::error::in_full;
use shipshape_cluster::store::spare;
use shipshape_engine::machine::{Machine, MachineState, ProviderId};
use shipshape_engine::pending::{Asker, PendingSnapshot};
use shipshape_engine::view::{NodeView, Observed, PodView};

use crate::answer::{answer, found};
use crate::context::{Context, NODES_BY_PROVIDER_ID};
use crate::drain;
use crate::error::PassError;

/// Looks at one machine; `None` when its object is gone.
pub(super) async fn observe(
    context: &Context,
    key: &Key,
) -> Result<Option<PendingSnapshot>, PassError> {
    let store = &context.stores.pending;
    store.wait_for(key).await?;
    let Some(pending) = store.get(key) else {
        return Ok(None);
    };
    // What the gate remembers of a node is no machine on its way.
    if pending.metadata.deletion_timestamp.is_some() || pending.spec.node_uid.is_some() {
        return Ok(None);
    }
    let known = known_node(context, &pending);
    let id = machine_id(&pending, &known);
    let asker = asker(context, &pending).await;
    let machine = machine(context, &pending, id.as_ref()).await;
    let (node, pods) = match pending.spec.goal {
        PendingNodeGoal::Join => (known, Observed::NotAsked),
        PendingNodeGoal::Leave => {
            let node = live(context, &pending, known, &machine).await;
            let pods = pods(context, &asker, &node).await;
            (node, pods)
        }
    };
    Ok(Some(PendingSnapshot {
        machine,
        node,
        pods,
        asker,
        pending: pending.as_ref().clone(),
    }))
}

/// The node as the store has it: by the machine's id, or by its name where that is all there is.
fn known_node(context: &Context, pending: &PendingNode) -> Observed<NodeView> {
    let nodes = &context.stores.nodes;
    let Some(id) = &pending.spec.provider_id else {
        let name = pending.spec.node_name.clone().unwrap_or_default();
        let node = nodes.get(&Key::cluster(name));
        return node.map(|node| node.as_ref().clone()).into();
    };
    match nodes.by_index(NODES_BY_PROVIDER_ID, id).as_slice() {
        [] => Observed::Absent,
        [node] => Observed::Present(node.as_ref().clone()),
        many => Observed::Unknown(format!("{} nodes claim provider id {id}", many.len())),
    }
}

/// The machine's node as it is now: the one that the store knows, or one that has been registered anew
/// under its name and that the store does not know yet. A stranger on another machine counts as absent.
async fn live(
    context: &Context,
    pending: &PendingNode,
    known: Observed<NodeView>,
    machine: &Observed<Machine>,
) -> Observed<NodeView> {
    let name = match &known {
        Observed::Present(node) => Some(&node.name),
        Observed::Absent if may_be_ended(machine) => pending.spec.node_name.as_ref(),
        Observed::Absent | Observed::Unknown(_) | Observed::NotAsked => None,
    };
    let Some(name) = name else {
        return known;
    };
    let api: Api<k8s_openapi::api::core::v1::Node> = Api::all(context.client.clone());
    let now = spare::get_opt::<_, NodeView>(&api, name).await;
    let now = answer(now.map(|node| node.as_ref().map(NodeView::of)));
    match (machine_id(pending, &known), now.present()) {
        (_, Some(node)) if known.present().is_some_and(|known| known.uid == node.uid) => now,
        (Some(id), _) => now.on_machine(&id),
        (None, _) => now,
    }
}

/// Whether the machine's end is still to be asked for.
fn may_be_ended(machine: &Observed<Machine>) -> bool {
    machine.present().is_some_and(|machine| {
        !matches!(
            machine.state,
            MachineState::Terminating | MachineState::Terminated
        )
    })
}

/// What runs on a node whose machine shall leave; a task that lives has emptied it itself.
async fn pods(
    context: &Context,
    asker: &Asker,
    node: &Observed<NodeView>,
) -> Observed<Vec<PodView>> {
    match (asker, node) {
        (Asker::Nobody | Asker::Gone, Observed::Present(node)) => {
            drain::live_pods(context, &node.name).await
        }
        (
            Asker::Nobody | Asker::Gone | Asker::Waiting | Asker::Satisfied | Asker::Unknown(_),
            _,
        ) => Observed::NotAsked,
    }
}

fn machine_id(pending: &PendingNode, known: &Observed<NodeView>) -> Option<ProviderId> {
    match &pending.spec.provider_id {
        Some(id) => Some(ProviderId(id.clone())),
        None => known.present().and_then(|node| node.provider_id.clone()),
    }
}

async fn machine(
    context: &Context,
    pending: &PendingNode,
    id: Option<&ProviderId>,
) -> Observed<Machine> {
    let Some(id) = id else {
        return Observed::Unknown("neither spec nor node says which machine it is".to_owned());
    };
    match context.provider(pending.spec.provider.as_ref()).await {
        Ok(provider) => found(provider.resolve(id).await),
        Err(error) => Observed::Unknown(in_full(&error)),
    }
}

/// The task that waits, if it still does. One that the store does not have is asked for live before
/// anything is removed because of it.
async fn asker(context: &Context, pending: &PendingNode) -> Asker {
    let Some(wanted) = &pending.spec.task_ref else {
        return Asker::Nobody;
    };
    let key = Key::new(&wanted.namespace, &wanted.name);
    let is_it = |task: &NodePatchTask| task.metadata.uid.as_deref() == Some(wanted.uid.as_str());
    let tasks = &context.stores.tasks;
    let task = match tasks.get(&key).filter(|task| is_it(task)) {
        Some(task) => Some(task),
        None => match tasks.refetch(&key).await {
            Ok(task) => task.filter(|task| is_it(task)),
            Err(error) => return Asker::Unknown(in_full(&error)),
        },
    };
    match task {
        None => Asker::Gone,
        Some(task) if waits(&task, pending) => Asker::Waiting,
        Some(_) => Asker::Satisfied,
    }
}

/// Whether the task still needs its new machine to be followed in.
fn waits(task: &NodePatchTask, pending: &PendingNode) -> bool {
    let Some(status) = &task.status else {
        return false;
    };
    let is_at_it = matches!(
        status.step_name(),
        TaskStep::Provision | TaskStep::Join | TaskStep::Undo
    );
    let machine = status.new_machine.as_ref();
    is_at_it && machine.and_then(|it| it.provider_id.as_ref()) == pending.spec.provider_id.as_ref()
}
