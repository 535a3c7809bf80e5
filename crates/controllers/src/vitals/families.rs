//! The metrics themselves: names, help texts, labels and buckets.
//!
//! Owns the registration. Every set of labels that is known beforehand exists from the start with the
//! value 0, so that a rate over the first event is not lost.

use std::borrow::Cow;
use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use shipshape_api::conditions::{HELD, OVERDUE};
use shipshape_api::{
    NodePatchRun, NodePatchTask, PendingNode, PendingNodeGoal, RunState, TaskStep,
};
use shipshape_engine::condition;
use shipshape_engine::ledger::Usage;
use shipshape_engine::run::state;

use super::progress::Mark;

/// A step takes from a second to hours.
const STEP_SECONDS: [f64; 13] = [
    1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0,
];

/// A call of a cloud takes from a few milliseconds to its time limit.
const CALL_SECONDS: [f64; 11] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// What a run can be at.
const RUN_STATES: [(RunState, &str); 6] = [
    (RunState::Active, "active"),
    (RunState::Paused, "paused"),
    (RunState::Ending, "ending"),
    (RunState::Completed, "completed"),
    (RunState::Aborted, "aborted"),
    (RunState::Refused, "refused"),
];

/// What can come of an eviction.
pub(super) const EVICTIONS: [&str; 5] = ["accepted", "blocked", "refused", "gone", "error"];

pub(super) type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];

/// All metrics of one process.
pub(super) struct Families {
    leader: Gauge,
    replaced: Counter,
    failed: Counter,
    parked: Counter,
    attempts_failed: Family<Labels<1>, Counter>,
    step_seconds: Family<Labels<1>, Histogram>,
    evictions: Family<Labels<1>, Counter>,
    slots_taken: Family<Labels<1>, Gauge>,
    slots_allowed: Family<Labels<1>, Gauge>,
    queue_depth: Family<Labels<1>, Gauge>,
    passes: Family<Labels<2>, Counter>,
    requests: Family<Labels<3>, Counter>,
    provider_calls: Family<Labels<3>, Counter>,
    provider_seconds: Family<Labels<2>, Histogram>,
    runs: Family<Labels<1>, Gauge>,
    tasks: Family<Labels<1>, Gauge>,
    pending_nodes: Family<Labels<1>, Gauge>,
    blocked_pods: Gauge,
    overdue: Gauge,
    autoscaler_held: Gauge,
    settings_read: Family<Labels<1>, Counter>,
    settings_stale: Gauge,
}

impl Families {
    /// Makes all metrics known to the registry.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let families = Self {
            leader: Gauge::default(),
            replaced: Counter::default(),
            failed: Counter::default(),
            parked: Counter::default(),
            attempts_failed: Family::default(),
            step_seconds: Family::new_with_constructor(|| Histogram::new(STEP_SECONDS)),
            evictions: Family::default(),
            slots_taken: Family::default(),
            slots_allowed: Family::default(),
            queue_depth: Family::default(),
            passes: Family::default(),
            requests: Family::default(),
            provider_calls: Family::default(),
            provider_seconds: Family::new_with_constructor(|| Histogram::new(CALL_SECONDS)),
            runs: Family::default(),
            tasks: Family::default(),
            pending_nodes: Family::default(),
            blocked_pods: Gauge::default(),
            overdue: Gauge::default(),
            autoscaler_held: Gauge::default(),
            settings_read: Family::default(),
            settings_stale: Gauge::default(),
        };
        families.register_work(registry);
        families.register_process(registry);
        for step in TaskStep::ALL {
            drop(families.attempts_failed.get_or_create(&step_label(step)));
            drop(families.step_seconds.get_or_create(&step_label(step)));
        }
        for outcome in EVICTIONS {
            let labels = [("outcome", outcome.into())];
            drop(families.evictions.get_or_create(&labels));
        }
        for outcome in ["applied", "unchanged", "refused"] {
            let labels = [("outcome", outcome.into())];
            drop(families.settings_read.get_or_create(&labels));
        }
        families.forget();
        families
    }

    fn register_work(&self, registry: &mut Registry) {
        let help = "Nodes that were replaced by a new machine";
        registry.register("nodes_replaced", help, self.replaced.clone());
        let help = "Nodes that were given up after their last attempt";
        registry.register("nodes_failed", help, self.failed.clone());
        let help = "How often a node was set aside because it could not go on";
        registry.register("nodes_parked", help, self.parked.clone());
        let help = "Attempts that were given up, by the step they had come to";
        registry.register("attempts_failed", help, self.attempts_failed.clone());
        let help = "How long steps of tasks took";
        registry.register("step_duration_seconds", help, self.step_seconds.clone());
        let help = "Eviction calls by what came of them";
        registry.register("evictions", help, self.evictions.clone());
        let help = "Slots of the ledger that are taken, by whomever";
        registry.register("slots_taken", help, self.slots_taken.clone());
        let help = "Slots that the active run with the largest batches may take";
        registry.register("slots_allowed", help, self.slots_allowed.clone());
        let help = "NodePatchRuns by state";
        registry.register("runs", help, self.runs.clone());
        let help = "NodePatchTasks by step";
        registry.register("tasks", help, self.tasks.clone());
        let help = "Machines on their way in or out, by goal";
        registry.register("pending_nodes", help, self.pending_nodes.clone());
        let help = "Pods that cannot leave a node now, as tasks name them";
        registry.register("blocked_pods", help, self.blocked_pods.clone());
        let help = "Tasks that are past a deadline and go on waiting";
        registry.register("tasks_overdue", help, self.overdue.clone());
        let help = "NodePatchRuns that hold the cluster autoscaler off";
        registry.register("autoscaler_held", help, self.autoscaler_held.clone());
    }

    fn register_process(&self, registry: &mut Registry) {
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version of this process", build);
        let help = "Whether this process leads";
        registry.register("leader", help, self.leader.clone());
        let help = "Changes of the configuration file by what came of them";
        registry.register("settings_read", help, self.settings_read.clone());
        let help = "Whether the configuration file is wrong or needs a restart";
        registry.register("settings_stale", help, self.settings_stale.clone());
        let help = "Keys that wait for a pass, due or not";
        registry.register("queue_depth", help, self.queue_depth.clone());
        let help = "Passes over objects by how they ended";
        registry.register("passes", help, self.passes.clone());
        let help = "Requests to the API server; code 0 means that no answer came";
        registry.register("api_requests", help, self.requests.clone());
        let help = "Calls of clouds by what came of them";
        registry.register("provider_requests", help, self.provider_calls.clone());
        let help = "How long calls of clouds took, their retries included";
        let family = self.provider_seconds.clone();
        registry.register("provider_request_duration_seconds", help, family);
    }

    pub(super) fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    pub(super) fn request(&self, verb: &'static str, resource: String, code: u16) {
        let code = code.to_string();
        let labels = [
            ("verb", verb.into()),
            ("resource", resource.into()),
            ("code", code.into()),
        ];
        self.requests.get_or_create(&labels).inc();
    }

    pub(super) fn provider_call(
        &self,
        provider: &str,
        call: &'static str,
        outcome: &'static str,
        seconds: f64,
    ) {
        let provider = || ("provider", Cow::from(provider.to_owned()));
        let call = || ("call", Cow::from(call));
        let labels = [provider(), call(), ("outcome", outcome.into())];
        self.provider_calls.get_or_create(&labels).inc();
        let labels = [provider(), call()];
        self.provider_seconds
            .get_or_create(&labels)
            .observe(seconds);
    }

    pub(super) fn settings(&self, outcome: &'static str, is_stale: bool) {
        let labels = [("outcome", outcome.into())];
        self.settings_read.get_or_create(&labels).inc();
        self.settings_stale.set(i64::from(is_stale));
    }

    pub(super) fn eviction(&self, outcome: &'static str) {
        let labels = [("outcome", outcome.into())];
        self.evictions.get_or_create(&labels).inc();
    }

    pub(super) fn pass(&self, kind: &'static str, outcome: String) {
        let labels = [("kind", kind.into()), ("outcome", outcome.into())];
        self.passes.get_or_create(&labels).inc();
    }

    pub(super) fn queue(&self, name: &'static str, depth: i64) {
        self.queue_depth
            .get_or_create(&[("queue", name.into())])
            .set(depth);
    }

    pub(super) fn progress(&self, mark: &Mark) {
        match mark {
            Mark::StepOver(step, took) => {
                let family = &self.step_seconds;
                family
                    .get_or_create(&step_label(*step))
                    .observe(took.as_secs_f64());
            }
            Mark::AttemptFailed(step) => {
                self.attempts_failed.get_or_create(&step_label(*step)).inc();
            }
            Mark::Replaced => {
                self.replaced.inc();
            }
            Mark::Failed => {
                self.failed.inc();
            }
            Mark::Parked => {
                self.parked.inc();
            }
        }
    }

    pub(super) fn slots_taken(&self, usage: &Usage) {
        let set = |class, count| set(&self.slots_taken, "class", class, number(count));
        set("important", usage.important);
        set("other", usage.non_important);
    }

    /// Counts runs by state, and what the active ones allow.
    pub(super) fn runs(&self, runs: &[Arc<NodePatchRun>]) {
        let (mut important, mut others) = (0, 0);
        for (one, word) in RUN_STATES {
            let count = runs.iter().filter(|run| state(run) == one).count();
            set(&self.runs, "state", word, number(count));
        }
        for run in runs.iter().filter(|run| state(run) == RunState::Active) {
            important = important.max(run.spec.batch_size_important());
            others = others.max(run.spec.batch_size_non_important());
        }
        set(&self.slots_allowed, "class", "important", important.into());
        set(&self.slots_allowed, "class", "other", others.into());
        let holders = runs.iter().filter_map(|run| run.status.as_ref());
        let holders = holders.filter(|status| condition::is_true(&status.conditions, HELD));
        self.autoscaler_held.set(number(holders.count()));
    }

    /// Counts tasks by step, and what is in their way.
    pub(super) fn tasks(&self, tasks: &[Arc<NodePatchTask>]) {
        for step in TaskStep::ALL {
            let at = |task: &&Arc<NodePatchTask>| step_of(task) == step;
            let count = tasks.iter().filter(at).count();
            self.tasks
                .get_or_create(&step_label(step))
                .set(number(count));
        }
        let open = || {
            let open = tasks.iter().filter(|task| !step_of(task).is_final());
            open.filter_map(|task| task.status.as_ref())
        };
        let drains = open().filter_map(|status| status.drain.as_ref());
        let blocked: usize = drains.map(|drain| drain.blocked.len()).sum();
        self.blocked_pods.set(number(blocked));
        let is_overdue = |conditions| condition::is_true(conditions, OVERDUE);
        let overdue = open().filter(|status| is_overdue(&status.conditions));
        self.overdue.set(number(overdue.count()));
    }

    /// Counts machines on their way by their goal. What the gate remembers of nodes is not among them.
    pub(super) fn pending_nodes(&self, all: &[Arc<PendingNode>]) {
        let machines = || all.iter().filter(|one| one.spec.node_uid.is_none());
        for (goal, word) in [
            (PendingNodeGoal::Join, "Join"),
            (PendingNodeGoal::Leave, "Leave"),
        ] {
            let count = machines().filter(|one| one.spec.goal == goal).count();
            set(&self.pending_nodes, "goal", word, number(count));
        }
    }

    /// A process that does not lead knows none of these.
    pub(super) fn forget(&self) {
        self.slots_taken(&Usage::default());
        self.runs(&[]);
        self.tasks(&[]);
        self.pending_nodes(&[]);
        self.queue("runs", 0);
        self.queue("tasks", 0);
        self.queue("pending", 0);
        self.queue("gate", 0);
    }
}

fn set(family: &Family<Labels<1>, Gauge>, label: &'static str, value: &'static str, count: i64) {
    family.get_or_create(&[(label, value.into())]).set(count);
}

fn step_label(step: TaskStep) -> Labels<1> {
    [("step", format!("{step:?}").into())]
}

fn step_of(task: &NodePatchTask) -> TaskStep {
    let status = task.status.as_ref();
    status
        .map(shipshape_api::NodePatchTaskStatus::step_name)
        .unwrap_or_default()
}

/// A count, as metrics have it.
pub(super) fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
