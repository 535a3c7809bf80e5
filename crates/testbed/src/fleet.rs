//! Nodes for the machines of a cloud, kept alive by kwok instead of kubelets of ours.
//!
//! Owns the Node that a machine registers with. Must not remove any: that is the operator's work.
//! Called by the benchmarks and by the large test on the real control plane.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use shipshape_simulator::cloud::{Cloud, MachineEvent, node_name};
use tokio::task::JoinSet;

/// What a new Node says of its machine.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Name of the Node.
    pub name: String,
    /// The machine behind it.
    pub provider_id: String,
    /// Its zone.
    pub zone: String,
    /// Further labels.
    pub labels: BTreeMap<String, String>,
    /// Taints that it comes with.
    pub taints: Vec<Taint>,
}

/// Registers one machine: 16 cores, 64 GiB.
pub async fn register(client: &Client, registration: &Registration) -> Result<()> {
    let Registration {
        name,
        provider_id,
        zone,
        labels,
        taints,
    } = registration;
    let mut all = labels.clone();
    let own = [
        ("kubernetes.io/hostname", name),
        ("topology.kubernetes.io/zone", zone),
    ];
    all.extend(own.map(|(key, value)| (key.to_owned(), value.clone())));
    let size = json!({ "cpu": "16", "memory": "64Gi", "pods": "110" });
    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": all },
        "spec": { "providerID": provider_id, "taints": taints },
        "status": { "capacity": size, "allocatable": size },
    }))?;
    let nodes: Api<Node> = Api::all(client.clone());
    let made = nodes.create(&PostParams::default(), &node).await;
    made.with_context(|| format!("registering {name}"))?;
    Ok(())
}

/// The embedded cloud with a Node for each machine that has booted; it ends when dropped.
pub struct Fleet {
    _tasks: JoinSet<()>,
}

impl Fleet {
    /// Begins with the machines that run already.
    pub fn start(client: Client, cloud: &Cloud) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(cloud.clone().run());
        tasks.spawn(follow(client, cloud.clone()));
        Self { _tasks: tasks }
    }
}

async fn follow(client: Client, cloud: Cloud) {
    let mut events = cloud.subscribe();
    let mut registering = JoinSet::new();
    while let Some(event) = events.recv().await {
        let MachineEvent::Booted(id) = event else {
            continue;
        };
        let Some(facts) = cloud.facts(&id) else {
            continue;
        };
        let registration = Registration {
            name: node_name(&id),
            provider_id: facts.machine.provider_id.0.clone(),
            zone: facts.machine.zone.clone(),
            labels: facts.labels,
            taints: facts.taints,
        };
        let client = client.clone();
        registering.spawn(async move {
            if let Err(error) = register(&client, &registration).await {
                tracing::warn!(%error, "a machine could not join");
            }
        });
        while registering.try_join_next().is_some() {}
    }
}
