//! A whole cluster on the current runtime: API, cloud and actors, from one seed.
//!
//! Owns how the parts are put together. Must not contain behaviour of its own. Tests, the demo and
//! scenarios start one; dropping it ends every task in it.

mod manifests;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;
use shipshape_cluster::Clock;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub use manifests::{budget, daemon_set, deployment, job, stateful_set};

use crate::ApiServer;
use crate::actors::{
    Actors, Cast, Clients, Delays, KubeletControl, Kubelets, Store, first_members, is_node_ready,
};
use crate::cloud::{Cloud, CloudSpec, GroupSpec, MachineSize};
use crate::etcd::EtcdModel;
use crate::seed::Seed;
use crate::trace;

/// What a world is made from.
#[derive(Clone, Debug)]
pub struct WorldSpec {
    /// Drives every chance in it.
    pub seed: u64,
    /// The date on which it begins.
    pub start: Timestamp,
    /// Its groups and the cloud's habits.
    pub cloud: CloudSpec,
    /// How long things take.
    pub delays: Delays,
    /// Objects created before the world is handed over, in this order.
    pub objects: Vec<Value>,
    /// How long the first nodes may take to be Ready.
    pub patience: Duration,
}

impl WorldSpec {
    /// One group of `nodes` machines over three zones, one image behind its template.
    pub fn small(seed: u64, nodes: u32) -> Self {
        let mut group = GroupSpec::new("workers", "image-2", nodes);
        group.running_image = Some("image-1".to_owned());
        Self {
            seed,
            start: Timestamp::from_second(1_767_225_600).unwrap_or_default(),
            cloud: CloudSpec {
                region: "north".to_owned(),
                groups: vec![group],
                ..CloudSpec::default()
            },
            delays: Delays::default(),
            objects: Vec::new(),
            patience: Duration::from_mins(10),
        }
    }

    /// The same world with these objects in it.
    pub fn with(mut self, objects: impl IntoIterator<Item = Value>) -> Self {
        self.objects.extend(objects);
        self
    }
}

impl GroupSpec {
    /// A group over the zones `a`, `b` and `c`, with room to double.
    pub fn new(id: &str, image: &str, desired: u32) -> Self {
        Self {
            id: id.to_owned(),
            image: image.to_owned(),
            running_image: None,
            zones: ["a", "b", "c"].map(str::to_owned).to_vec(),
            min: 0,
            max: desired.saturating_mul(2).max(1),
            desired,
            labels: std::collections::BTreeMap::new(),
            taints: Vec::new(),
            size: MachineSize::default(),
        }
    }
}

/// Why a world did not start.
#[derive(Debug, Error)]
pub enum WorldError {
    /// The API refused an object.
    #[error("the API refused {what}")]
    Refused {
        /// The object, kind and name.
        what: String,
        /// What the API said.
        source: Box<kube::Error>,
    },
    /// An object has no apiVersion or kind, or cannot be read.
    #[error("object {index} cannot be read: {message}")]
    Unreadable {
        /// Its place in the list.
        index: usize,
        /// What is wrong with it.
        message: String,
    },
    /// The nodes did not become Ready.
    #[error("{ready} of {wanted} nodes were Ready after {waited:?}")]
    NotReady {
        /// Nodes that are Ready.
        ready: usize,
        /// Nodes asked for.
        wanted: usize,
        /// How long the world waited.
        waited: Duration,
    },
}

/// A running world.
pub struct World {
    api: ApiServer,
    cloud: Cloud,
    etcd: EtcdModel,
    clock: Clock,
    start: Timestamp,
    actors: Actors,
}

impl World {
    /// Builds a world on this runtime and waits until its nodes are Ready.
    pub async fn start(spec: WorldSpec) -> Result<Self, WorldError> {
        let clock = Clock::starting_at(spec.start);
        Self::start_at(spec, clock).await
    }

    /// Like `start`, with a clock of the caller's.
    pub async fn start_at(spec: WorldSpec, clock: Clock) -> Result<Self, WorldError> {
        let api = ApiServer::new(clock);
        api.reseed(spec.seed);
        let seed = Seed::new(spec.seed);
        let cloud = Cloud::new(&spec.cloud, clock, &seed);
        let client = api.client("world");
        for crd in shipshape_api::crds() {
            let name = crd.name_any();
            let crds = Api::all(client.clone());
            let created = crds.create(&PostParams::default(), &crd).await;
            created
                .map_err(|source| refused(&format!("CustomResourceDefinition {name}"), source))?;
        }
        let clients: Clients = {
            let api = api.clone();
            Arc::new(move |name: &str| api.client(name))
        };
        let etcd = EtcdModel::new(clock);
        let members = first_members(&cloud);
        let cast = Cast {
            clients,
            clock,
            cloud: cloud.clone(),
            delays: spec.delays.clone(),
            seed,
        };
        let actors = Actors::for_embedded_cluster(&cast, &etcd);
        let wanted = spec
            .cloud
            .groups
            .iter()
            .map(|group| group.desired as usize)
            .sum();
        wait_for_nodes(&client, wanted, spec.patience).await?;
        while etcd.names().len() < members {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let world = Self {
            api,
            cloud,
            etcd,
            clock,
            start: spec.start,
            actors,
        };
        for (index, object) in spec.objects.iter().enumerate() {
            world.create(index, object).await?;
        }
        Ok(world)
    }

    async fn create(&self, index: usize, object: &Value) -> Result<(), WorldError> {
        let unreadable = |message: &str| WorldError::Unreadable {
            index,
            message: message.to_owned(),
        };
        let object: DynamicObject = serde_json::from_value(object.clone())
            .map_err(|error| unreadable(&error.to_string()))?;
        let types = object
            .types
            .clone()
            .ok_or_else(|| unreadable("no apiVersion and kind"))?;
        let kind =
            GroupVersionKind::try_from(types).map_err(|error| unreadable(&error.to_string()))?;
        let resource = ApiResource::from_gvk(&kind);
        let client = self.api.client("world");
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client, &namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        let what = format!("{} {}", kind.kind, object.name_any());
        api.create(&PostParams::default(), &object)
            .await
            .map_err(|source| refused(&what, source))?;
        Ok(())
    }

    /// The API of this world.
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// The cloud of this world.
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// The etcd of this world's control planes.
    pub fn etcd(&self) -> &EtcdModel {
        &self.etcd
    }

    /// What time it is in this world.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// A client that the request log knows as `user_agent`.
    pub fn client(&self, user_agent: &str) -> Client {
        self.api.client(user_agent)
    }

    /// The handle to disturb the kubelet of a Node, while its machine runs.
    pub fn kubelet(&self, node: &str) -> Option<KubeletControl> {
        self.actors.kubelet(node)
    }

    /// The handles of all kubelets, as machines come and go.
    pub fn kubelets(&self) -> Kubelets {
        self.actors.kubelets()
    }

    /// The hash of everything that happened so far.
    pub fn trace_hash(&self) -> String {
        trace::hash(&self.api, &self.cloud, &self.etcd, self.start)
    }
}

fn refused(what: &str, source: kube::Error) -> WorldError {
    WorldError::Refused {
        what: what.to_owned(),
        source: Box::new(source),
    }
}

/// Waits until that many nodes are Ready.
pub async fn wait_for_nodes(
    client: &Client,
    wanted: usize,
    patience: Duration,
) -> Result<(), WorldError> {
    let nodes: Store<Node> = Store::new();
    let changed = Arc::new(Notify::new());
    let wake = Arc::clone(&changed);
    nodes.on_change(move |_, _| wake.notify_one());
    let mut tasks = JoinSet::new();
    tasks.spawn(nodes.clone().follow(Api::all(client.clone()), None));
    let ready = || {
        nodes
            .all()
            .iter()
            .filter(|node| is_node_ready(node) && !is_marked_unready(node))
            .count()
    };
    let wait = async {
        while ready() < wanted {
            changed.notified().await;
        }
    };
    tokio::time::timeout(patience, wait)
        .await
        .map_err(|_| WorldError::NotReady {
            ready: ready(),
            wanted,
            waited: patience,
        })
}

/// A real control plane takes this mark off some time after the kubelet reports ready; a workload
/// that comes before would crowd on the first node that is rid of it.
fn is_marked_unready(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints
        .into_iter()
        .flatten()
        .any(|taint| taint.key == "node.kubernetes.io/not-ready")
}
