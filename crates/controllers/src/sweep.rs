//! The sweep: machines of ours that nobody speaks of, looked for now and then by the leader.
//!
//! Owns the order of the reads: the cloud is listed first, then what may refer to each suspect is
//! asked for live. Must not end a machine: an orphan gets a PendingNode that sees it out. What it
//! remembers is only since when a machine has been alone; a restart begins to count anew.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube::Api;
use shipshape_api::{
    NodePatchTask, PendingNode, PendingNodeGoal, PendingNodeSpec, ProviderRef, names,
};
use shipshape_cluster::error::in_full;
use shipshape_cluster::store::spare;
use shipshape_engine::decision::Effect;
use shipshape_engine::machine::{Machine, MachineId};
use shipshape_engine::naming::pending_name;
use shipshape_engine::sweep::{COMPLETED, Stray, Verdict, is_suspect, judge};
use shipshape_engine::view::Observed;

use crate::answer::answer;
use crate::context::{Context, NODES_BY_PROVIDER_ID};
use crate::drain;
use crate::error::PassError;
use crate::perform::perform;

/// A tag of this length may have been longer.
const TAG_MAX: usize = 250;

/// Since when each machine has been alone.
type Alone = BTreeMap<MachineId, Timestamp>;

/// Sweeps for as long as it is polled.
pub(crate) async fn sweep(context: &Context) {
    let pause = Duration::try_from(context.settings.sweep.every).unwrap_or(Duration::MAX);
    let mut alone = Alone::new();
    // Kept for as long as this leader lives: the last run of a cloud may go, and leave a machine there.
    let mut blocks = Vec::new();
    loop {
        note_blocks(context, &mut blocks);
        tokio::time::sleep(pause).await;
        note_blocks(context, &mut blocks);
        for block in &blocks {
            if let Err(error) = sweep_one(context, block, &mut alone).await {
                tracing::warn!(
                    provider = block.r#type,
                    error = in_full(&error),
                    "sweep failed"
                );
            }
        }
    }
}

/// Adds the clouds that a run, or a machine on its way, speaks of now.
fn note_blocks(context: &Context, blocks: &mut Vec<ProviderRef>) {
    let runs = context.stores.runs.list();
    let pending = context.stores.pending.list();
    let of_runs = runs.iter().map(|run| &run.spec.provider);
    let of_machines = pending.iter().filter_map(|one| one.spec.provider.as_ref());
    for block in of_runs.chain(of_machines) {
        if !blocks.contains(block) {
            blocks.push(block.clone());
        }
    }
}

async fn sweep_one(
    context: &Context,
    block: &ProviderRef,
    alone: &mut Alone,
) -> Result<(), PassError> {
    let listed = context.provider(Some(block)).await?.owned().await?;
    let now = context.clock.now();
    for machine in listed.into_iter().filter(is_suspect) {
        let id = machine.id.clone();
        let since = *alone.entry(id.clone()).or_insert(now);
        let stray = look(context, machine, since).await;
        match judge(&stray, &context.settings.sweep, now) {
            Verdict::Watch => continue,
            Verdict::Leave(reason) => tracing::debug!(machine = %id, ?reason, "left alone"),
            Verdict::Adopt => {
                tracing::info!(machine = %id, "an orphan in service becomes an ordinary member");
                perform(context, Some(block), &adoption(&id)).await?;
            }
            Verdict::Remove => {
                tracing::warn!(machine = %id, "an orphan is removed");
                let leaving = leaving(&stray.machine, block);
                perform(context, Some(block), &[leaving]).await?;
            }
        }
        alone.remove(&id);
    }
    Ok(())
}

/// Everything that could speak of a machine, asked for after the cloud's list.
async fn look(context: &Context, machine: Machine, since: Timestamp) -> Stray {
    let id = machine.provider_id.as_str();
    let nodes = context.stores.nodes.by_index(NODES_BY_PROVIDER_ID, id);
    let node = match nodes.as_slice() {
        [] => Observed::Absent,
        [node] => Observed::Present(node.as_ref().clone()),
        many => Observed::Unknown(format!("{} nodes claim provider id {id}", many.len())),
    };
    let pods = node
        .present()
        .map(|node| drain::pods_as_stored(context, &node.name));
    let pending = context.pending.api();
    Stray {
        task: task_of(context, &machine).await,
        pending: answer(spare::get_opt::<_, PendingNode>(pending, &pending_name(id)).await),
        pods: pods.unwrap_or_default(),
        node,
        since,
        machine,
    }
}

async fn task_of(context: &Context, machine: &Machine) -> Observed<NodePatchTask> {
    let key = machine.tags.get(names::TAG_TASK);
    // A cloud may have cut a long name; then no task can be found by it.
    let whole = key.filter(|key| key.len() < TAG_MAX);
    let Some((namespace, name)) = whole.and_then(|key| key.split_once('/')) else {
        return Observed::Unknown("its tag names no task in full".to_owned());
    };
    let api: Api<NodePatchTask> = Api::namespaced(context.client.clone(), namespace);
    answer(spare::get_opt::<_, NodePatchTask>(&api, name).await)
}

fn adoption(id: &MachineId) -> [Effect; 2] {
    [
        Effect::ProtectMachine {
            id: id.clone(),
            protected: false,
        },
        Effect::TagMachine {
            id: id.clone(),
            state: COMPLETED,
        },
    ]
}

fn leaving(machine: &Machine, block: &ProviderRef) -> Effect {
    let id = machine.provider_id.as_str();
    let spec = PendingNodeSpec {
        provider_id: Some(id.to_owned()),
        group_id: machine.group.as_ref().map(|group| group.0.clone()),
        goal: PendingNodeGoal::Leave,
        provider: Some(block.clone()),
        ..PendingNodeSpec::default()
    };
    Effect::EnsurePending(Box::new(PendingNode::new(&pending_name(id), spec)))
}
