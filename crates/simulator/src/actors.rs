//! Everybody in a cluster but the API and the operator.
//!
//! Owns the tasks of kubelets, control planes, scheduler, workload controllers, budgets, node lifecycle,
//! garbage collector and volumes. Each speaks to the API through a `kube::Client` and nothing else, is
//! driven by watches and timers, and keeps its state sorted: so the kubelets and the cloud also
//! serve a real control plane, and one seed always gives one story.

mod budgets;
mod collector;
mod control_planes;
mod delays;
mod informers;
mod kubelet;
mod machines;
mod node_lifecycle;
mod objects;
mod placement;
mod queue;
mod scheduler;
mod storage_driver;
mod store;
mod volumes;
mod work;
mod workloads;

use std::sync::Arc;

use kube::Client;
use shipshape_cluster::Clock;
use tokio::task::JoinSet;

pub use delays::Delays;
pub use kubelet::{KubeletControl, checked};
pub use machines::Kubelets;

pub(crate) use store::Store;

use crate::cloud::Cloud;
use crate::etcd::EtcdModel;
use crate::seed::Seed;
use informers::Informers;
use machines::Machines;

/// Gives a client for a user agent: each actor has its own, so that logs can tell them apart.
pub type Clients = Arc<dyn Fn(&str) -> Client + Send + Sync>;

/// What actors are made of.
#[derive(Clone)]
pub struct Cast {
    /// The way to the API.
    pub clients: Clients,
    /// What time it is.
    pub clock: Clock,
    /// Where machines come from.
    pub cloud: Cloud,
    /// How long things take.
    pub delays: Delays,
    /// Where chance comes from.
    pub seed: Seed,
}

/// The actors at work; dropping them ends them all at once.
pub struct Actors {
    tasks: JoinSet<()>,
    controls: Kubelets,
}

impl Actors {
    /// Only what a real control plane lacks: machines, kubelets, the cloud's own controller and a
    /// storage driver.
    pub fn for_real_cluster(cast: &Cast) -> Self {
        let mut actors = Self::of_machines(cast);
        let client = (cast.clients)("storage-driver");
        let driver = storage_driver::StorageDriver::run(client, cast.delays.detach);
        actors.tasks.spawn(driver);
        actors
    }

    fn of_machines(cast: &Cast) -> Self {
        let controls = Kubelets::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(cast.cloud.clone().run());
        let machines = Machines {
            clients: Arc::clone(&cast.clients),
            clock: cast.clock,
            cloud: cast.cloud.clone(),
            delays: cast.delays.clone(),
            seed: cast.seed.clone(),
            controls: controls.clone(),
        };
        tasks.spawn(machines.run());
        Self { tasks, controls }
    }

    /// Everybody.
    pub fn for_embedded_cluster(cast: &Cast, etcd: &EtcdModel) -> Self {
        let mut actors = Self::of_machines(cast);
        let informers = Informers::new();
        let client = |name: &str| (cast.clients)(name);
        let (clock, tasks) = (cast.clock, &mut actors.tasks);
        informers.start(&client("informers"), tasks);
        let shared = || informers.clone();
        tasks.spawn(scheduler::Scheduler::run(
            client("scheduler"),
            clock,
            shared(),
        ));
        tasks.spawn(workloads::deployment::Deployments::run(
            client("deployment-controller"),
            clock,
            shared(),
        ));
        tasks.spawn(workloads::replica_set::ReplicaSets::run(
            client("replicaset-controller"),
            shared(),
            cast.seed.clone(),
        ));
        tasks.spawn(workloads::stateful_set::StatefulSets::run(
            client("statefulset-controller"),
            shared(),
        ));
        tasks.spawn(workloads::daemon_set::DaemonSets::run(
            client("daemonset-controller"),
            shared(),
            cast.seed.clone(),
        ));
        let jobs =
            workloads::job::Jobs::run(client("job-controller"), clock, shared(), cast.seed.clone());
        tasks.spawn(jobs);
        tasks.spawn(budgets::Budgets::run(
            client("disruption-controller"),
            clock,
            shared(),
        ));
        tasks.spawn(node_lifecycle::NodeLifecycle::run(
            client("node-lifecycle-controller"),
            clock,
            shared(),
        ));
        tasks.spawn(volumes::Volumes::run(
            client("volume-controller"),
            shared(),
            cast.delays.detach,
        ));
        tasks.spawn(control_planes::ControlPlanes::run(
            client("kubeadm"),
            cast.cloud.clone(),
            etcd.clone(),
            shared(),
        ));
        tasks.spawn(collector::Collector::run(
            client("garbage-collector"),
            shared(),
        ));
        actors
    }

    /// The handle to disturb the kubelet of a Node, while its machine runs.
    pub fn kubelet(&self, node: &str) -> Option<KubeletControl> {
        self.controls.get(node)
    }

    /// The handles of all kubelets, as machines come and go.
    pub fn kubelets(&self) -> Kubelets {
        self.controls.clone()
    }
}

/// How many members etcd begins with: one for each control plane that runs already.
pub(crate) fn first_members(cloud: &Cloud) -> usize {
    control_planes::first(cloud).len()
}

/// Whether a Node says that it is Ready.
pub(crate) fn is_node_ready(node: &k8s_openapi::api::core::v1::Node) -> bool {
    objects::node_ready(node) == Some("True")
}
