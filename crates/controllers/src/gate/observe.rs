//! Observe: a node at the gate, its record, its worker and what the rest of the cluster says, by reads only.
//!
//! Owns which facts are read live: a verified node whose label seems to be missing, a failed one that has it, and all that speaks for
//! or against a removal, the node's taint and boot among it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use shipshape_api::{PendingNode, Verification, VerificationVerdict};
use shipshape_cluster::Key;
use shipshape_engine::verify::control::{ControlView, Place, tells_of};
use shipshape_engine::verify::neighbours::Neighbours;
use shipshape_engine::verify::outcome::{WorkerState, WorkerView};
use shipshape_engine::verify::settings::{GateSettings, Mode};
use shipshape_engine::verify::{
    GateSnapshot, has_failed, is_compared, is_gated, is_in_service, is_label_missing,
    is_late_daemon, is_name_server, is_new_to_us, is_run_due, is_wanted_again, record, worker,
};
use shipshape_engine::view::{NodeView, Observed};

use super::neighbours::{self, Stage};
use super::removal;
use crate::context::{Context, PODS_BY_NODE, WORKERS_BY_NODE, WORKERS_OF_CONTROL};
use crate::error::PassError;

/// Looks at one node; `None` when it is gone or the gate has nothing to do with it. The time is the one to
/// decide by: by another, what was not looked at might be wanted.
pub(super) async fn observe(
    context: &Context,
    settings: &GateSettings,
    key: &Key,
) -> Result<Option<(GateSnapshot, Timestamp)>, PassError> {
    let stores = &context.stores;
    stores.nodes.wait_for(key).await?;
    let Some(mut node) = stores.nodes.get(key) else {
        return Ok(None);
    };
    let known = record_of(context, &node).await?;
    if let Some(record) = &known
        && (is_label_missing(&node, record, settings)
            || is_wanted_again(&node, record, settings)
            || is_removal_wanted(&node, record, settings))
    {
        let Some(live) = stores.nodes.refetch(key).await? else {
            return Ok(None);
        };
        // Another node under this name has a record of its own, which the next pass finds.
        if live.uid != node.uid {
            return Ok(None);
        }
        node = live;
    }
    let Some(record) = known else {
        let is_new = is_new_to_us(&node, settings);
        let snapshot = || GateSnapshot {
            node: node.as_ref().clone(),
            record: Observed::Absent,
            worker: Observed::NotAsked,
            leftovers: Vec::new(),
            name_servers: Vec::new(),
            daemons: Vec::new(),
            control: ControlView::default(),
            removal: Observed::NotAsked,
            neighbours: Neighbours::default(),
        };
        return Ok(is_new.then(|| (snapshot(), context.clock.now())));
    };
    let attempt = open_attempt(&record, &node);
    let name = attempt.map(|attempt| worker::worker_name(&node, attempt));
    let current = match &name {
        Some(name) => worker_of(context, settings, name).await?,
        None => Observed::NotAsked,
    };
    let mut snapshot = GateSnapshot {
        leftovers: leftovers(context, &node, name.as_deref()),
        name_servers: Vec::new(),
        daemons: if attempt.is_none() {
            late_daemons(context, &node)
        } else {
            Vec::new()
        },
        control: ControlView::default(),
        removal: removal(context, settings, &node, &record).await,
        neighbours: neighbours::look(context, settings, &node, stage(&record, &node, &current))
            .await,
        worker: current,
        record: Observed::Present(record.as_ref().clone()),
        node: node.as_ref().clone(),
    };
    let now = context.clock.now();
    if is_compared(&snapshot, settings, now) {
        snapshot.control = control(context, settings, &node, now);
    }
    if settings.verification.dns_endpoints && is_run_due(&snapshot, settings, now) {
        snapshot.name_servers = name_servers(context, settings);
    }
    Ok(Some((snapshot, now)))
}

/// Daemons on the node that its network may hang on and that are not ready.
fn late_daemons(context: &Context, node: &NodeView) -> Vec<String> {
    let pods = context.stores.pods.by_index(PODS_BY_NODE, &node.name);
    let late = pods.iter().filter(|pod| is_late_daemon(pod));
    late.map(|pod| format!("{}/{}", pod.namespace, pod.name))
        .collect()
}

/// The object that remembers this very node.
async fn record_of(
    context: &Context,
    node: &NodeView,
) -> Result<Option<Arc<PendingNode>>, PassError> {
    let key = Key::cluster(record::record_name(node));
    let store = &context.stores.pending;
    store.wait_for(&key).await?;
    let is_its = |record: &Arc<PendingNode>| record.spec.node_uid.as_ref() == Some(&node.uid);
    Ok(store.get(&key).filter(is_its))
}

fn told(record: &PendingNode) -> Option<&Verification> {
    record.status.as_ref()?.verification.as_ref()
}

/// The attempt that is under way on this boot.
fn open_attempt(record: &PendingNode, node: &NodeView) -> Option<i32> {
    let told = told(record)?;
    let is_of_now = told.boot_id.as_ref() == Some(&node.boot_id);
    let is_open = told.attempt_started_at.is_some();
    told.attempt.filter(|_| is_of_now && is_open)
}

/// How far the node is, as far as others have a say in it.
fn stage(record: &PendingNode, node: &NodeView, current: &Observed<WorkerView>) -> Stage {
    let told = told(record).filter(|told| told.boot_id.as_ref() == Some(&node.boot_id));
    let has_ended = |worker: &WorkerView| matches!(worker.state, WorkerState::Ended(_));
    let verdict = told.and_then(|told| told.verdict);
    if told.is_none_or(|told| told.attempt.is_none()) {
        Stage::Before
    } else if verdict == Some(VerificationVerdict::Verified)
        || current.present().is_some_and(has_ended)
    {
        Stage::After
    } else {
        Stage::UnderWay
    }
}

async fn worker_of(
    context: &Context,
    settings: &GateSettings,
    name: &str,
) -> Result<Observed<WorkerView>, PassError> {
    let namespace = settings.worker.namespace.clone().unwrap_or_default();
    let key = Key::new(namespace, name);
    context.stores.workers.wait_for(&key).await?;
    let found = context.stores.workers.get(&key);
    Ok(found.map(|worker| worker.as_ref().clone()).into())
}

/// Pods of attempts at the node that are over.
fn leftovers(
    context: &Context,
    node: &NodeView,
    current: Option<&str>,
) -> Vec<shipshape_engine::decision::PodTarget> {
    let workers = context.stores.workers.by_index(WORKERS_BY_NODE, &node.name);
    let over = workers.iter().filter(|worker| {
        !worker.is_control && !worker.terminating && current != Some(worker.name.as_str())
    });
    over.map(|worker| worker.target()).collect()
}

/// What the rest of the cluster says.
fn control(
    context: &Context,
    settings: &GateSettings,
    node: &NodeView,
    now: Timestamp,
) -> ControlView {
    let runs = context.stores.workers.by_index(WORKERS_OF_CONTROL, "");
    let nodes = context.stores.nodes.list();
    let failed = failed_nodes(context);
    let mut candidates: Vec<&Arc<NodeView>> = nodes
        .iter()
        .filter(|one| one.uid != node.uid && is_in_service(one, settings))
        .filter(|one| !failed.contains(&one.name))
        .collect();
    // One that is being emptied may go in the middle of a run.
    if candidates.iter().any(|one| !one.unschedulable) {
        candidates.retain(|one| !one.unschedulable);
    }
    // In turn, so that one bad node among those in service does not tell for all.
    let turn = now.as_second() / settings.interval().as_secs().max(1);
    let turn = usize::try_from(turn).unwrap_or_default();
    let candidate = turn
        .checked_rem(candidates.len())
        .and_then(|turn| candidates.get(turn));
    let own = &context.own_runs;
    let here = own.can_run().then_some(Place::Controller);
    let there = candidate.map(|node| Place::Node(Box::new(node.as_ref().clone())));
    let runs = runs.iter().filter(|run| tells_of(run, node));
    let runs = runs.filter(|run| !failed.contains(&run.node));
    let runs = runs.map(|run| run.as_ref().clone());
    ControlView {
        runs: runs.chain(own.runs()).collect(),
        has_dns: there.is_some() || has_dns(context, settings),
        candidate: there.or(here),
    }
}

/// Nodes that have failed and may be in service all the same: somebody took their label off, and not the pods.
fn failed_nodes(context: &Context) -> BTreeSet<String> {
    let nodes = &context.stores.nodes;
    let records = context.stores.pending.list();
    let names = records.iter().filter_map(|record| {
        let node = nodes.get(&Key::cluster(record.spec.node_name.as_deref()?))?;
        has_failed(&node, record).then(|| node.name.clone())
    });
    names.collect()
}

/// Whether any name server is ready.
fn has_dns(context: &Context, settings: &GateSettings) -> bool {
    let pods = context.stores.pods.list();
    pods.iter().any(|pod| is_name_server(pod, settings))
}

/// Addresses of ready name servers, in an order that does not change from look to look.
fn name_servers(context: &Context, settings: &GateSettings) -> Vec<IpAddr> {
    let pods = context.stores.pods.list();
    let servers = pods.iter().filter(|pod| is_name_server(pod, settings));
    let mut addresses: Vec<IpAddr> = servers.filter_map(|pod| pod.address).collect();
    addresses.sort_unstable();
    addresses.truncate(worker::NAME_SERVERS_MAX);
    addresses
}

/// Whether the node has failed, on this boot, and shall go for that. Its taint may have been lifted a moment
/// ago, so whoever finds this in a copy looks at the node live.
fn is_removal_wanted(node: &NodeView, record: &PendingNode, settings: &GateSettings) -> bool {
    settings.node_management.delete_failed_nodes
        && settings.verification.mode == Mode::Gate
        && has_failed(node, record)
        && is_gated(node, settings)
}

async fn removal(
    context: &Context,
    settings: &GateSettings,
    node: &NodeView,
    record: &PendingNode,
) -> Observed<shipshape_engine::verify::removal::RemovalView> {
    if !is_removal_wanted(node, record, settings) {
        return Observed::NotAsked;
    }
    let cause = told(record).and_then(|told| told.first_failing_check.as_deref());
    let view = removal::look(context, settings, node, cause.unwrap_or_default()).await;
    Observed::Present(view)
}
