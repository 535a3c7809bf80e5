//! What runs on the cloud's machines: a kubelet for each that has booted.
//!
//! Owns the kubelets' lives and, in the role of a cloud controller, removes the Node of a machine
//! that is gone. Must not change the cloud.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use shipshape_cluster::Clock;
use shipshape_engine::machine::MachineId;
use tokio::task::{AbortHandle, JoinSet};

use super::Clients;
use super::delays::Delays;
use super::kubelet::{Kubelet, KubeletControl};
use super::work::unless_overtaken;
use crate::cloud::{Cloud, MachineEvent, node_name};
use crate::seed::Seed;

/// Handles to the kubelets that run, by Node name.
#[derive(Clone, Default)]
pub struct Kubelets(Arc<Mutex<BTreeMap<String, KubeletControl>>>);

impl Kubelets {
    /// The kubelet of a Node, while its machine runs.
    pub fn get(&self, node: &str) -> Option<KubeletControl> {
        self.all().get(node).cloned()
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, KubeletControl>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Machines {
    pub(crate) clients: Clients,
    pub(crate) clock: Clock,
    pub(crate) cloud: Cloud,
    pub(crate) delays: Delays,
    pub(crate) seed: Seed,
    pub(crate) controls: Kubelets,
}

impl Machines {
    /// Follows the cloud until dropped; all kubelets end with it.
    pub(crate) async fn run(mut self) {
        let mut events = self.cloud.subscribe();
        let mut tasks = JoinSet::new();
        let mut kubelets: BTreeMap<MachineId, AbortHandle> = BTreeMap::new();
        while let Some(event) = events.recv().await {
            match event {
                MachineEvent::Booted(id) => {
                    if let Some(boot) = self.boot(&id) {
                        kubelets.insert(id, tasks.spawn(boot));
                    }
                }
                MachineEvent::Ended(id) => {
                    if let Some(kubelet) = kubelets.remove(&id) {
                        kubelet.abort();
                    }
                    self.controls.all().remove(&node_name(&id));
                }
                MachineEvent::Gone(id) => {
                    if let Some(wait) = self.delays.node_removal {
                        let client = (self.clients)("cloud-controller");
                        let cloud = self.cloud.clone();
                        tasks.spawn(async move {
                            tokio::time::sleep(wait).await;
                            remove_node(client, &cloud, &id).await;
                        });
                    }
                }
            }
        }
    }

    /// The software of a machine, from its boot on; none for a machine that never joins.
    fn boot(&mut self, id: &MachineId) -> Option<impl Future<Output = ()> + use<>> {
        let facts = self.cloud.facts(id).filter(|facts| facts.joins)?;
        let name = node_name(id);
        let join = self
            .seed
            .fork(&name)
            .jitter(self.delays.join, self.delays.jitter);
        let client = (self.clients)("kubelet");
        let kubelet = Kubelet::new(
            client,
            self.clock,
            (self.cloud.clone(), facts),
            self.delays.clone(),
            &self.seed,
        );
        let control = kubelet.control();
        let controls = self.controls.clone();
        Some(async move {
            tokio::time::sleep(join).await;
            controls.all().insert(name, control);
            kubelet.run().await;
        })
    }
}

/// Deletes the Node of a machine that is gone, unless somebody already did or the name now belongs
/// to another machine.
async fn remove_node(client: Client, cloud: &Cloud, id: &MachineId) {
    let Some(facts) = cloud.facts(id) else { return };
    let nodes: Api<Node> = Api::all(client);
    let name = node_name(id);
    loop {
        let result = async {
            let Some(node) = nodes.get_opt(&name).await? else {
                return Ok(());
            };
            let provider_id = node
                .spec
                .as_ref()
                .and_then(|spec| spec.provider_id.as_deref());
            if provider_id != Some(facts.machine.provider_id.as_str()) {
                return Ok(());
            }
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: node.uid(),
                    resource_version: None,
                }),
                ..DeleteParams::default()
            };
            unless_overtaken(nodes.delete(&name, &params).await).map(|_| ())
        };
        match result.await {
            Ok(()) => return,
            Err(error) => {
                tracing::debug!(%error, name, "removing a Node failed");
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        }
    }
}
