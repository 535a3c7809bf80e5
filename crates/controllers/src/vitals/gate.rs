//! Metrics of the gate: names that users of kube-node-ready know, and a few of our own.
//!
//! Owns their registration. Labels are words of the program, except for `node` in the counter of failed
//! checks, whose series go with their node. What a worker reports is written by the node itself, so none of
//! its texts becomes a label. `per_node` has what is read from records.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use shipshape_api::{Verification, VerificationFinding, VerificationVerdict};

use super::families::{Labels, number};
use super::per_node::{STATES, state_of};
use super::verification::{Mark, between};
use crate::context::Stores;
use shipshape_engine::verify::kind::{KINDS, kind_of};
use shipshape_engine::verify::outcome::WorkerState;

/// A node takes from seconds to an hour to be verified.
const VERIFIED_SECONDS: [f64; 11] = [
    5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0,
];
/// A check takes from a millisecond to its time limit.
const CHECK_SECONDS: [f64; 9] = [0.002, 0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0];

/// All metrics of the gate that are counted as things happen.
pub(super) struct GateFamilies {
    healthy: Gauge,
    errors: Counter,
    verifications: Family<Labels<1>, Counter>,
    workers: Family<Labels<1>, Gauge>,
    node_failures: Family<Labels<2>, Counter>,
    nodes: Family<Labels<1>, Gauge>,
    created_to_verified: Histogram,
    failed: Family<Labels<1>, Counter>,
    results: Family<Labels<2>, Counter>,
    check_seconds: Family<Labels<1>, Histogram>,
}

impl GateFamilies {
    /// Makes the metrics known: those of others to a registry without a prefix, our own to ours.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let families = Self {
            healthy: Gauge::default(),
            errors: Counter::default(),
            verifications: Family::default(),
            workers: Family::default(),
            node_failures: Family::default(),
            nodes: Family::default(),
            created_to_verified: Histogram::new(VERIFIED_SECONDS),
            failed: Family::default(),
            results: Family::default(),
            check_seconds: Family::new_with_constructor(|| Histogram::new(CHECK_SECONDS)),
        };
        families.register_known(registry);
        families.register_own(registry.sub_registry_with_prefix("shipshape"));
        families.begin();
        families
    }

    fn register_known(&self, registry: &mut Registry) {
        let help = "Failed checks of a node, by kind";
        registry.register("node_check_failures", help, self.node_failures.clone());
        let registry = registry.sub_registry_with_prefix("kube_node_ready");
        let help = "Verdicts on nodes";
        registry.register("verifications", help, self.verifications.clone());
        let help = "Worker pods at work now, and those that this process saw end";
        registry.register("worker_pods", help, self.workers.clone());
        let help = "Whether this process can do its part";
        registry.register("controller_healthy", help, self.healthy.clone());
        let help = "Looks at nodes that ended in an error";
        registry.register("controller_reconcile_errors", help, self.errors.clone());
    }

    fn register_own(&self, registry: &mut Registry) {
        let help = "From the creation of a Node until the gate opened for it";
        let histogram = self.created_to_verified.clone();
        registry.register("node_created_to_verified_seconds", help, histogram);
        let help = "Nodes that failed their verification, by the kind of their first failing check";
        registry.register("verifications_failed", help, self.failed.clone());
        let help = "What checks on new nodes came to, by kind";
        registry.register("check_results", help, self.results.clone());
        let help = "How long checks on new nodes took, by kind";
        registry.register("check_duration_seconds", help, self.check_seconds.clone());
        let help = "Nodes that the gate remembers, by how they stand";
        registry.register("gate_nodes", help, self.nodes.clone());
    }

    /// A rate over the first event must not be lost.
    fn begin(&self) {
        for status in ["success", "failed", "inconclusive"] {
            drop(self.verifications.get_or_create(&one("status", status)));
        }
        for kind in KINDS {
            drop(self.failed.get_or_create(&one("check", kind)));
            drop(self.check_seconds.get_or_create(&one("check", kind)));
            for result in ["passed", "failed"] {
                drop(self.results.get_or_create(&result_of(kind, result)));
            }
        }
        for status in ["running", "succeeded", "failed"] {
            drop(self.workers.get_or_create(&one("status", status)));
        }
        self.forget();
    }

    pub(super) fn is_healthy(&self, is_healthy: bool) {
        self.healthy.set(i64::from(is_healthy));
    }

    pub(super) fn error(&self) {
        self.errors.inc();
    }

    /// The gate has opened for a new node, so many seconds after its creation.
    pub(super) fn opened(&self, seconds: f64) {
        self.created_to_verified.observe(seconds);
    }

    /// What a record said before and says now.
    pub(super) fn progress(&self, node: &str, old: Option<&Verification>, new: &Verification) {
        for mark in between(old, new) {
            match mark {
                Mark::AttemptOver => self.attempt_over(node, new),
                Mark::Verdict(verdict) => self.verdict(verdict, new),
            }
        }
    }

    fn attempt_over(&self, node: &str, told: &Verification) {
        let has_passed = told.verdict == Some(VerificationVerdict::Verified);
        let status = if has_passed { "succeeded" } else { "failed" };
        self.workers.get_or_create(&one("status", status)).inc();
        for finding in &told.findings {
            let kind = kind_of(&finding.check);
            let result = if finding.ok { "passed" } else { "failed" };
            self.results.get_or_create(&result_of(kind, result)).inc();
            let seconds = self.check_seconds.get_or_create(&one("check", kind));
            seconds.observe(seconds_of(finding));
            drop(seconds);
            if !finding.ok {
                let labels = [("node", node.to_owned().into()), ("check", kind.into())];
                self.node_failures.get_or_create(&labels).inc();
            }
        }
    }

    fn verdict(&self, verdict: VerificationVerdict, told: &Verification) {
        let status = match verdict {
            VerificationVerdict::Verified => "success",
            VerificationVerdict::Failed => "failed",
            VerificationVerdict::Inconclusive => "inconclusive",
        };
        let status = one("status", status);
        self.verifications.get_or_create(&status).inc();
        if verdict == VerificationVerdict::Failed {
            let kind = kind_of(told.first_failing_check.as_deref().unwrap_or_default());
            self.failed.get_or_create(&one("check", kind)).inc();
        }
    }

    /// Counts what the stores hold.
    pub(super) fn look(&self, stores: &Stores) {
        let workers = stores.workers.list();
        let at_work = |state: &WorkerState| !matches!(state, WorkerState::Ended(_));
        let running = workers.iter().filter(|one| at_work(&one.state)).count();
        let gauge = self.workers.get_or_create(&one("status", "running"));
        gauge.set(number(running));
        drop(gauge);
        let records = stores.pending.list();
        for state in STATES {
            let mut count = 0;
            for record in &records {
                count += i64::from(state_of(record) == Some(state));
            }
            self.nodes.get_or_create(&one("state", state)).set(count);
        }
    }

    /// The node is gone, and its series with it.
    pub(super) fn drop_node(&self, node: &str) {
        for kind in KINDS {
            let labels = [("node", node.to_owned().into()), ("check", kind.into())];
            self.node_failures.remove(&labels);
        }
    }

    /// A process that does not lead knows no nodes.
    pub(super) fn forget(&self) {
        self.node_failures.clear();
        let running = one("status", "running");
        self.workers.get_or_create(&running).set(0);
        for state in STATES {
            self.nodes.get_or_create(&one("state", state)).set(0);
        }
    }
}

fn one(label: &'static str, value: &'static str) -> Labels<1> {
    [(label, value.into())]
}

fn result_of(kind: &'static str, result: &'static str) -> Labels<2> {
    [("check", kind.into()), ("result", result.into())]
}

/// How long a check took.
pub(super) fn seconds_of(finding: &VerificationFinding) -> f64 {
    let span = jiff::SignedDuration::from_millis(finding.milliseconds);
    span.as_secs_f64()
}
