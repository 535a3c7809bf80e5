//! What a story must not leave behind: locks, slots, marks, protection, machines.
//!
//! Owns the last look at the world, from outside: at the objects and at the cloud, not at any status.
//! Called once, after the rest, when the story has ended.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use shipshape_api::{NodePatchTask, PendingNode, names};
use shipshape_engine::machine::{Machine, MachineState};
use shipshape_engine::view::NodeView;

use super::own::{Own, is_at_work, left_aside};
use super::{StoryError, refused};
use crate::observer::Observer;
use crate::stage::Stage;

/// One thing that was left behind: the invariant that forbids it, and a sentence.
pub(super) type Leftover = (&'static str, String);

/// What the last look came to.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What should have been put back.
    pub(super) leftovers: Vec<Leftover>,
    /// What others have brought and is not judged.
    pub(super) left_aside: Vec<String>,
}

/// Looks for everything that should have been put back. `machines` is how many there were at first.
pub(super) async fn find(
    stage: &Stage,
    own: &Own,
    observer: &Observer,
    machines: usize,
) -> Result<Found, StoryError> {
    let mut found = Found {
        leftovers: open_tasks(&own.tasks(observer)),
        left_aside: Vec::new(),
    };
    let guests = own.guests(observer);
    found
        .left_aside
        .extend(guests.iter().map(|run| left_aside(run)));
    pending(stage, own, observer, &mut found).await?;
    // What a guest holds cannot be told from what the story has left.
    if !guests.iter().any(|run| is_at_work(run)) {
        let held = held(stage, observer, machines).await?;
        found.leftovers.extend(held);
    }
    Ok(found)
}

/// Machines on their way, which a quiet cluster has none of.
async fn pending(
    stage: &Stage,
    own: &Own,
    observer: &Observer,
    found: &mut Found,
) -> Result<(), StoryError> {
    let machines_on_their_way: Api<PendingNode> = Api::all(stage.client("story"));
    let pending = machines_on_their_way
        .list(&ListParams::default())
        .await
        .map_err(|source| refused("the list of PendingNodes", source))?;
    // What the gate remembers of a node stays with that node.
    let of_machines = pending
        .into_iter()
        .filter(|one| one.spec.node_uid.is_none());
    for one in of_machines {
        let name = one.name_any();
        if own.has_pending(&one, observer) {
            let text = format!("PendingNode {name} is left");
            found.leftovers.push(("I4", text));
        } else {
            let text = format!("PendingNode {name}, which is of no machine of this story");
            found.left_aside.push(text);
        }
    }
    Ok(())
}

/// Locks, slots, marks and machines, whosever they are.
async fn held(
    stage: &Stage,
    observer: &Observer,
    machines: usize,
) -> Result<Vec<Leftover>, StoryError> {
    let client = stage.client("story");
    let mut found = Vec::new();
    let leases: Api<Lease> = Api::namespaced(client.clone(), names::DEFAULT_NAMESPACE);
    let leases = leases
        .list(&ListParams::default())
        .await
        .map_err(|source| refused("the list of leases", source))?;
    for lease in leases {
        if lease
            .annotations()
            .contains_key(names::ANNOTATION_OPERATION)
        {
            found.push(("I26", format!("lock {} is left", lease.name_any())));
        }
    }
    let ledgers: Api<ConfigMap> = Api::namespaced(client.clone(), names::DEFAULT_NAMESPACE);
    let ledger = ledgers
        .get_opt(names::LEDGER_NAME)
        .await
        .map_err(|source| refused("the ledger", source))?;
    for slot in ledger.and_then(|ledger| ledger.data).unwrap_or_default() {
        found.push(("I26", format!("slot {} is left", slot.1)));
    }
    let nodes: Api<Node> = Api::all(client);
    let nodes = nodes
        .list(&ListParams::default())
        .await
        .map_err(|source| refused("the list of nodes", source))?;
    let mut ready = BTreeSet::new();
    for node in nodes {
        let view = NodeView::of(&node);
        ready.extend(view.provider_id.filter(|_| view.ready).map(|id| id.0));
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        let mut taints = taints.into_iter().flatten();
        if taints.any(|taint| taint.key == names::TAINT_OUTDATED) {
            let text = format!("node {} is still marked as outdated", node.name_any());
            found.push(("I11", text));
        }
    }
    let more = observer.with_witness(|witness| witness.machines_more());
    found.extend(of_cloud(&stage.cloud.machines(), machines + more));
    found.extend(orphans(&stage.cloud.machines(), &ready));
    Ok(found)
}

/// Tasks that are neither over nor set aside with a reason.
fn open_tasks(tasks: &[Arc<NodePatchTask>]) -> Vec<Leftover> {
    let open = tasks.iter().filter(|task| {
        let status = task.status.as_ref();
        !status.is_some_and(|status| status.step_name().is_final() || status.parked.is_some())
    });
    open.map(|task| ("I5", format!("task {} is left under way", task.name_any())))
        .collect()
}

/// Machines of ours that are no ready node and that nobody will take away.
fn orphans(all: &[Machine], ready: &BTreeSet<String>) -> Vec<Leftover> {
    let ours = all.iter().filter(|machine| {
        machine.tags.contains_key(names::TAG_TASK)
            && !matches!(
                machine.state,
                MachineState::Terminating | MachineState::Terminated
            )
    });
    ours.filter(|machine| !ready.contains(&machine.provider_id.0))
        .map(|machine| {
            (
                "I4",
                format!("machine {} is ours and no ready node", machine.id),
            )
        })
        .collect()
}

fn of_cloud(all: &[Machine], at_first: usize) -> Vec<Leftover> {
    let mut found = Vec::new();
    let is_alive = |machine: &&Machine| {
        !matches!(
            machine.state,
            MachineState::Terminating | MachineState::Terminated
        )
    };
    let alive: Vec<&Machine> = all.iter().filter(is_alive).collect();
    if alive.len() > at_first {
        let text = format!("{} machines, {at_first} at first", alive.len());
        found.push(("I4", text));
    }
    for machine in alive.iter().filter(|machine| machine.protected) {
        found.push(("I4", format!("machine {} is still protected", machine.id)));
    }
    found
}
