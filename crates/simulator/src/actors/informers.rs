//! The caches that the actors of the control plane share.
//!
//! Owns one store per kind, each fed by one watch. Kubelets have their own, narrower ones.

use std::fmt::Debug;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::objects::{controller_of, node_of};
use super::store::{Index, IndexValue, Store};

/// Everything the control plane's actors look at.
#[derive(Clone)]
pub(crate) struct Informers {
    pub(crate) pods: Store<Pod>,
    pub(crate) nodes: Store<Node>,
    pub(crate) leases: Store<Lease>,
    pub(crate) replica_sets: Store<ReplicaSet>,
    pub(crate) deployments: Store<Deployment>,
    pub(crate) stateful_sets: Store<StatefulSet>,
    pub(crate) daemon_sets: Store<DaemonSet>,
    pub(crate) jobs: Store<Job>,
    pub(crate) budgets: Store<PodDisruptionBudget>,
    pub(crate) claims: Store<PersistentVolumeClaim>,
    pub(crate) attachments: Store<VolumeAttachment>,
}

impl Informers {
    pub(crate) fn new() -> Self {
        Self {
            pods: Store::indexed(vec![
                (Index::Node, node_or_none as IndexValue<Pod>),
                (Index::Owner, owner_uid as IndexValue<Pod>),
            ]),
            nodes: Store::new(),
            leases: Store::new(),
            replica_sets: Store::new(),
            deployments: Store::new(),
            stateful_sets: Store::new(),
            daemon_sets: Store::new(),
            jobs: Store::new(),
            budgets: Store::new(),
            claims: Store::new(),
            attachments: Store::new(),
        }
    }

    /// Starts the watches.
    pub(crate) fn start(&self, client: &Client, tasks: &mut JoinSet<()>) {
        follow(&self.pods, client, tasks);
        follow(&self.nodes, client, tasks);
        follow(&self.leases, client, tasks);
        follow(&self.replica_sets, client, tasks);
        follow(&self.deployments, client, tasks);
        follow(&self.stateful_sets, client, tasks);
        follow(&self.daemon_sets, client, tasks);
        follow(&self.jobs, client, tasks);
        follow(&self.budgets, client, tasks);
        follow(&self.claims, client, tasks);
        follow(&self.attachments, client, tasks);
    }

    /// Waits until every store has its first complete list.
    pub(crate) async fn synced(&self) {
        self.pods.synced().await;
        self.nodes.synced().await;
        self.leases.synced().await;
        self.replica_sets.synced().await;
        self.deployments.synced().await;
        self.stateful_sets.synced().await;
        self.daemon_sets.synced().await;
        self.jobs.synced().await;
        self.budgets.synced().await;
        self.claims.synced().await;
        self.attachments.synced().await;
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a value of an index may be missing, this one never is"
)]
fn node_or_none(pod: &Pod) -> Option<&str> {
    Some(node_of(pod).unwrap_or_default())
}

fn owner_uid(pod: &Pod) -> Option<&str> {
    controller_of(pod).map(|owner| owner.uid.as_str())
}

fn follow<K>(store: &Store<K>, client: &Client, tasks: &mut JoinSet<()>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    tasks.spawn(store.clone().follow(Api::all(client.clone()), None));
}
