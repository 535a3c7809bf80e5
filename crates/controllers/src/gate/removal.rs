//! What speaks for or against the removal of a failed node, read live.
//!
//! Owns the questions to Karpenter, Cluster API, the cloud, the locks and the count of removals. A question
//! without an answer is `Unknown`, never "nobody".

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use shipshape_api::VerificationVerdict;
use shipshape_cluster::error::{call, in_full};
use shipshape_cluster::foreign::{self, Sought};
use shipshape_cluster::node::Live;
use shipshape_engine::machine::{MachineState, ProviderId};
use shipshape_engine::verify::removal::{CloudMachine, RemovalView, group_of, work_on};
use shipshape_engine::verify::settings::GateSettings;
use shipshape_engine::view::{NodeView, Observed};

use crate::answer::{answer, found};
use crate::context::{
    Context, NODES_BY_PROVIDER_ID, TASKS_BY_NODE, TASKS_BY_REPLACEMENT, standing_of,
};

/// Asks everybody.
pub(super) async fn look(
    context: &Context,
    settings: &GateSettings,
    node: &NodeView,
    cause: &str,
) -> RemovalView {
    let sought = Sought {
        name: &node.name,
        provider_id: node.provider_id.as_ref().map(ProviderId::as_str),
    };
    let nodes = context.stores.nodes.list();
    let group = group_of(node);
    RemovalView {
        holder: holder(context, node).await,
        claim: answer(foreign::claim(&context.client, &sought).await),
        claimants: claimants(context, node),
        machine: machine(context, node).await,
        cloud: cloud(context, settings, node).await,
        work: work(context, settings, node).await,
        removals: match context.removals.read().await {
            Ok(removals) => Observed::Present(removals),
            Err(error) => Observed::Unknown(in_full(&error)),
        },
        group_size: nodes.iter().filter(|one| group_of(one) == group).count(),
        alike: alike(context, node, cause),
    }
}

/// A task that works on the node or waits for it, or whoever has its lock.
async fn holder(context: &Context, node: &NodeView) -> Observed<String> {
    let tasks = &context.stores.tasks;
    let mut about = tasks.by_index(TASKS_BY_NODE, &node.name);
    if let Some(id) = &node.provider_id {
        about.extend(tasks.by_index(TASKS_BY_REPLACEMENT, id.as_str()));
    }
    let at_work = about.iter().find(|task| standing_of(task).is_under_way());
    if let Some(task) = at_work {
        let name = task.metadata.name.as_deref().unwrap_or_default();
        return Observed::Present(format!("task {name}"));
    }
    let lock = context.locks.holder(&node.name).await;
    answer(lock.map(|held| held.map(|held| format!("operation {}", held.operation))))
}

/// Other nodes that claim the node's provider id. From the store: a live list would cost each failed node a look at
/// all others, again and again, and whose machine it is has been known for as long as its attempts took.
fn claimants(context: &Context, node: &NodeView) -> Observed<Vec<String>> {
    let Some(id) = &node.provider_id else {
        return Observed::Absent;
    };
    let claiming = &context.stores.nodes;
    let claiming = claiming.by_index(NODES_BY_PROVIDER_ID, id.as_str());
    let others = claiming.iter().filter(|one| one.uid != node.uid);
    let names: Vec<String> = others.map(|one| one.name.clone()).collect();
    (!names.is_empty()).then_some(names).into()
}

/// Pods that would be lost with the node, in a live list: a copy may not have the latest.
async fn work(
    context: &Context,
    settings: &GateSettings,
    node: &NodeView,
) -> Observed<Vec<String>> {
    let api: Api<Pod> = Api::all(context.client.clone());
    let params = ListParams::default().fields(&format!("spec.nodeName={}", node.name));
    match call("list", "pods of the node", api.list(&params)).await {
        Ok(pods) => Observed::Present(work_on(&pods.items, &settings.node_management.taints)),
        Err(error) => Observed::Unknown(in_full(&error)),
    }
}

async fn machine(
    context: &Context,
    node: &NodeView,
) -> Observed<shipshape_engine::verify::removal::ForeignObject> {
    match context.nodes.live(&node.name, &node.uid).await {
        Ok(Live::Here(live)) => answer(foreign::machine(&context.client, &live).await),
        Ok(Live::Gone | Live::Replaced { .. }) => {
            Observed::Unknown("the node is gone meanwhile".to_owned())
        }
        Err(error) => Observed::Unknown(in_full(&error)),
    }
}

async fn cloud(
    context: &Context,
    settings: &GateSettings,
    node: &NodeView,
) -> Observed<CloudMachine> {
    let (Some(block), Some(id)) = (&settings.node_management.provider, &node.provider_id) else {
        return Observed::Absent;
    };
    let provider = match context.provider(Some(block)).await {
        Ok(provider) => provider,
        Err(error) => return Observed::Unknown(in_full(&error)),
    };
    let machine = found(provider.resolve(id).await);
    match machine {
        Observed::Present(machine) if machine.state == MachineState::Terminated => Observed::Absent,
        Observed::Present(machine) => Observed::Present(CloudMachine {
            ending: machine.state == MachineState::Terminating,
            id: machine.id,
        }),
        Observed::Absent => Observed::Absent,
        Observed::Unknown(why) => Observed::Unknown(why),
        Observed::NotAsked => Observed::NotAsked,
    }
}

/// Other nodes that failed by the same check and still stand.
fn alike(context: &Context, node: &NodeView, cause: &str) -> BTreeSet<String> {
    let records = context.stores.pending.list();
    let others = records.iter().filter(|record| {
        let told = record
            .status
            .as_ref()
            .and_then(|it| it.verification.as_ref());
        record
            .spec
            .node_uid
            .as_ref()
            .is_some_and(|uid| *uid != node.uid)
            && told.is_some_and(|told| {
                told.verdict == Some(VerificationVerdict::Failed)
                    && told.first_failing_check.as_deref() == Some(cause)
            })
    });
    let uids = others.filter_map(|record| record.spec.node_uid.clone());
    uids.collect()
}
