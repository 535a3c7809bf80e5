//! The operator: all controllers, run while this process leads.
//!
//! Owns the one list of controllers, the order of start and stop, and leadership around them. Must
//! not know what any of them does. Called by the binary and by the simulator's world.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Client;
use shipshape_api::names;
use shipshape_cluster::leader::{self, Ended, Leader};
use shipshape_cluster::queue::{self, Pace, Queue};
use shipshape_cluster::{Clock, Key, Shutdown};
use shipshape_provider::ProviderSource;

use crate::context::{Context, Surroundings};
use crate::etcd::EtcdAccess;
use crate::gate::own::OwnChecks;
use crate::tuning::{LiveTuning, Tuning};
use crate::vitals::Vitals;
use crate::{gate, pending, relics, run, sweep, task, watches};

/// Tasks, machines, and nodes at the gate, that are looked at at once: a pass mostly waits for answers, and a slow one must
/// not hold up the nodes behind it.
const PASSES_AT_ONCE: usize = 32;

/// Clouds by the type that a manifest names.
pub type Providers = BTreeMap<String, Arc<dyn ProviderSource>>;

/// Where the operator keeps its own objects, and who it is.
#[derive(Clone, Debug)]
pub struct Places {
    /// Namespace of the ledger and of the leader's lease.
    pub namespace: String,
    /// Namespace of the node locks.
    pub lock_namespace: String,
    /// Name of this process, unique among the replicas.
    pub identity: String,
}

impl Places {
    /// Everything in the default namespace.
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            namespace: names::DEFAULT_NAMESPACE.to_owned(),
            lock_namespace: names::DEFAULT_NAMESPACE.to_owned(),
            identity: identity.into(),
        }
    }
}

/// All controllers of one process.
#[derive(Clone)]
pub struct Operator {
    /// The way to the cluster.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// What decisions go by; it may change.
    pub tuning: LiveTuning,
    /// The clouds.
    pub providers: Providers,
    /// The way to etcd, where control planes with a member may be replaced.
    pub etcd: Option<EtcdAccess>,
    /// How this process runs the checks of a worker itself, where it is in the cluster's network.
    pub own_checks: Option<Arc<dyn OwnChecks>>,
    /// Where and who.
    pub places: Places,
    /// How leadership is held; `None` when only one process can exist.
    pub election: Option<leader::Settings>,
    /// What this process shows of itself.
    pub vitals: Vitals,
}

impl Operator {
    /// Works, while it leads, until shutdown begins. A lost term starts over with nothing but what
    /// the cluster knows.
    pub async fn run(&self, shutdown: &Shutdown) {
        let Some(election) = &self.election else {
            return Box::pin(self.lead(shutdown)).await;
        };
        let leader = Leader::new(self.client.clone(), self.clock, election.clone());
        while !shutdown.has_begun() {
            match leader.run(shutdown, Box::pin(self.lead(shutdown))).await {
                Ended::Finished(()) | Ended::Stopped => return,
                Ended::Lost => {}
            }
        }
    }

    /// One term, with whatever tuning there is meanwhile.
    async fn lead(&self, shutdown: &Shutdown) {
        let work = |tuning, end| async move { Box::pin(self.work(tuning, &end)).await };
        self.tuning.follow(shutdown, work).await;
    }

    /// Stores first, then the controllers.
    async fn work(&self, tuning: Tuning, shutdown: &Shutdown) {
        let context = Context::new(
            self.client.clone(),
            self.clock,
            tuning.settings,
            self.providers.clone(),
            Surroundings {
                places: &self.places,
                etcd: self.etcd.clone(),
                gate: tuning.gate,
                own_checks: self.own_checks.clone(),
                vitals: self.vitals.clone(),
            },
        );
        let queues = watches::Queues {
            runs: Queue::<Key>::new(self.clock),
            tasks: Queue::<Key>::new(self.clock),
            pending: Queue::<Key>::new(self.clock),
            gate: Queue::<Key>::new(self.clock),
        };
        let term = self.vitals.begin_term(&context.stores, &queues);
        let _following = watches::start(&context, &queues);
        tokio::select! {
            biased;
            () = shutdown.begun() => return,
            () = watches::synced(&context) => term.filled(),
        }
        let runs = queue::run(
            &queues.runs,
            Pace {
                concurrency: 1,
                ..Pace::default()
            },
            |key| run::reconcile(&context, key),
        );
        let many = Pace {
            concurrency: PASSES_AT_ONCE,
            ..Pace::default()
        };
        let tasks = queue::run(&queues.tasks, many, |key| task::reconcile(&context, key));
        let machines = queue::run(&queues.pending, many, |key| {
            pending::reconcile(&context, key)
        });
        let gate = queue::run(&queues.gate, many, |key| gate::reconcile(&context, key));
        let stop = async {
            shutdown.begun().await;
            queues.runs.close();
            queues.tasks.close();
            queues.pending.close();
            queues.gate.close();
        };
        let sweep = async {
            tokio::select! {
                biased;
                () = shutdown.begun() => {}
                () = sweep::sweep(&context) => {}
                () = relics::sweep(&context) => {}
            }
        };
        futures::join!(runs, tasks, machines, gate, sweep, stop);
    }
}
