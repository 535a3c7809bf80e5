//! What kubeadm does on a control plane: its member of etcd, and the pod that shows it.
//!
//! Owns when members start, vote and stop. Must not take one out of etcd: a machine that ends leaves
//! that to others, as a real one does.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use shipshape_api::names::LABEL_CONTROL_PLANE;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::informers::Informers;
use super::objects::node_ready;
use crate::cloud::{Cloud, MachineEvent, node_name};
use crate::etcd::{EtcdModel, address};

/// From a member's start to its vote.
const CATCH_UP: Duration = Duration::from_secs(5);
/// Pause before a pod that was not made is tried again.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) struct ControlPlanes {
    client: Client,
    etcd: EtcdModel,
    /// Nodes that etcd begins with.
    first: BTreeSet<String>,
    begun: BTreeSet<String>,
    tasks: JoinSet<()>,
}

impl ControlPlanes {
    /// Follows nodes and machines until dropped.
    pub(crate) async fn run(client: Client, cloud: Cloud, etcd: EtcdModel, informers: Informers) {
        let mut events = cloud.subscribe();
        let (sender, mut nodes) = mpsc::unbounded_channel();
        informers.nodes.on_change(move |_, node: Option<&Node>| {
            if let Some(node) = node.filter(|node| is_ready_control_plane(node)) {
                // Nobody listens any more once this actor has ended.
                drop(sender.send(node.clone()));
            }
        });
        let mut planes = Self {
            client,
            etcd,
            first: first(&cloud),
            begun: BTreeSet::new(),
            tasks: JoinSet::new(),
        };
        loop {
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    Some(MachineEvent::Ended(id)) => planes.etcd.stop_member(&node_name(&id)),
                    Some(MachineEvent::Booted(_) | MachineEvent::Gone(_)) => {}
                    None => return,
                },
                Some(node) = nodes.recv() => planes.begin(&node),
            }
        }
    }

    /// The first members have their vote at once, others listen first.
    fn begin(&mut self, node: &Node) {
        let name = node.name_any();
        if !self.begun.insert(name.clone()) {
            return;
        }
        let (client, etcd) = (self.client.clone(), self.etcd.clone());
        let is_first = self.first.contains(&name);
        let pod = mirror_pod(node);
        self.tasks.spawn(async move {
            let pods: Api<Pod> = Api::namespaced(client, "kube-system");
            while let Err(error) = pods.create(&PostParams::default(), &pod).await {
                tracing::debug!(%error, name, "making the pod of etcd failed");
                tokio::time::sleep(PAUSE).await;
            }
            etcd.start_member(&name, !is_first);
            if !is_first {
                tokio::time::sleep(CATCH_UP).await;
                etcd.promote(&name);
            }
        });
    }
}

/// The nodes of the control planes that run already.
pub(crate) fn first(cloud: &Cloud) -> BTreeSet<String> {
    let machines = cloud.machines();
    let is_one =
        |facts: &crate::cloud::MachineFacts| facts.labels.contains_key(LABEL_CONTROL_PLANE);
    machines
        .iter()
        .filter(|machine| cloud.facts(&machine.id).is_some_and(|facts| is_one(&facts)))
        .map(|machine| node_name(&machine.id))
        .collect()
}

fn is_ready_control_plane(node: &Node) -> bool {
    node.labels().contains_key(LABEL_CONTROL_PLANE) && node_ready(node) == Some("True")
}

/// The pod by which a kubelet shows that it runs etcd from a file.
fn mirror_pod(node: &Node) -> Pod {
    let name = node.name_any();
    let pod = json!({
        "metadata": {
            "name": format!("etcd-{name}"),
            "labels": { "component": "etcd", "tier": "control-plane" },
            "annotations": {
                "kubernetes.io/config.mirror": "from-a-file",
                "kubeadm.kubernetes.io/etcd.advertise-client-urls": address(&name),
            },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": name,
                "uid": node.uid().unwrap_or_default(), "controller": true,
            }],
        },
        "spec": {
            "nodeName": name,
            "hostNetwork": true,
            "priorityClassName": "system-node-critical",
            "tolerations": [{ "operator": "Exists", "effect": "NoExecute" }],
            "containers": [{ "name": "etcd", "image": "registry.k8s.io/etcd:3.6.6-0" }],
        },
    });
    serde_json::from_value(pod).unwrap_or_default()
}
