//! Vitals: what a process shows of itself to the outside, as metrics and as readiness.
//!
//! Owns the names of all metrics and which labels they have: of ours none grows with the cluster, so there is
//! neither a node nor a run among them; those that kube-node-ready promises for each node go with the node.
//! Must not be read by a decision. Written by the operator and its passes; read by whoever serves `/metrics`
//! and `/readyz`. `docs/controller.md` lists the names.

mod families;
mod gate;
mod per_node;
mod progress;
#[cfg(test)]
mod tests;
mod verification;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use shipshape_api::{NodePatchTaskStatus, Verification};
use shipshape_cluster::queue::Outcome;
use shipshape_engine::ledger::Ledger;

use crate::context::Stores;
use crate::watches::Queues;
use families::{Families, number};
use gate::GateFamilies;
use per_node::PerNode;

/// Whether a process can do its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// No API server has answered yet.
    Unreached,
    /// Another process leads; this one would take over.
    Standby,
    /// It leads, and its copies of the cluster's objects are not complete yet.
    Filling,
    /// It leads and works.
    Leading,
}

impl Readiness {
    /// Whether a service may count on the process.
    pub fn is_ready(self) -> bool {
        matches!(self, Self::Standby | Self::Leading)
    }

    /// The state in words.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Unreached => "the API server has not answered yet",
            Self::Standby => "standing by, another process leads",
            Self::Filling => "leading, the first lists are being read",
            Self::Leading => "leading",
        }
    }
}

/// A handle on the vitals of one process; clones share them.
#[derive(Clone)]
pub struct Vitals {
    shared: Arc<Shared>,
}

struct Shared {
    registry: Registry,
    families: Families,
    gate: GateFamilies,
    has_answer: AtomicBool,
    term: Arc<Mutex<Option<TermView>>>,
}

/// What is looked at when somebody asks, while this process leads.
struct TermView {
    stores: Stores,
    queues: Queues,
    is_filled: bool,
}

impl Default for Vitals {
    fn default() -> Self {
        let mut registry = Registry::default();
        let families = Families::register(registry.sub_registry_with_prefix("shipshape"));
        let gate = GateFamilies::register(&mut registry);
        let term = Arc::new(Mutex::new(None));
        registry.register_collector(Box::new(PerNode(Arc::clone(&term))));
        Self {
            shared: Arc::new(Shared {
                registry,
                families,
                gate,
                has_answer: AtomicBool::new(false),
                term,
            }),
        }
    }
}

impl Vitals {
    /// Everything in the text form of OpenMetrics, which Prometheus reads.
    pub fn metrics(&self) -> Result<String, std::fmt::Error> {
        self.look();
        let mut text = String::new();
        encode(&mut text, &self.shared.registry)?;
        Ok(text)
    }

    /// Whether this process can do its part.
    pub fn readiness(&self) -> Readiness {
        let has_answer = self.shared.has_answer.load(Ordering::Relaxed);
        match self.term().as_ref() {
            Some(term) if term.is_filled => Readiness::Leading,
            Some(_) => Readiness::Filling,
            None if has_answer => Readiness::Standby,
            None => Readiness::Unreached,
        }
    }

    /// Counts one request to the API server. `code` is 0 when no answer came.
    pub fn saw_request(&self, verb: &'static str, resource: String, code: u16) {
        if code != 0 {
            self.shared.has_answer.store(true, Ordering::Relaxed);
        }
        self.families().request(verb, resource, code);
    }

    /// A term has begun; it is over when the returned value is dropped.
    pub(crate) fn begin_term(&self, stores: &Stores, queues: &Queues) -> Term {
        *self.term() = Some(TermView {
            stores: stores.clone(),
            queues: queues.clone(),
            is_filled: false,
        });
        Term {
            vitals: self.clone(),
        }
    }

    /// A call of a cloud, what came of it in one word, and how long it took.
    pub(crate) fn saw_provider_call(
        &self,
        provider: &str,
        call: &'static str,
        outcome: &'static str,
        seconds: f64,
    ) {
        self.families()
            .provider_call(provider, call, outcome, seconds);
    }

    /// An answer to an eviction, in one word.
    pub(crate) fn saw_eviction(&self, outcome: &'static str) {
        self.families().eviction(outcome);
    }

    /// The ledger, as it was last read or written.
    pub(crate) fn saw_ledger(&self, ledger: &Ledger) {
        self.families().slots_taken(&ledger.usage());
    }

    /// One pass over one object.
    pub(crate) fn saw_pass(&self, kind: &'static str, outcome: &Outcome) {
        let word = match outcome {
            Outcome::Done { .. } => "done".to_owned(),
            Outcome::Retry { class } => class.to_string(),
        };
        self.families().pass(kind, word);
        if kind == "gate" && matches!(outcome, Outcome::Retry { .. }) {
            self.shared.gate.error();
        }
    }

    /// What a task's status said before and says now.
    pub(crate) fn saw_task(&self, old: Option<&NodePatchTaskStatus>, new: &NodePatchTaskStatus) {
        for mark in progress::between(old, new) {
            self.families().progress(&mark);
        }
    }

    /// What the record of a node at the gate said before and says now.
    pub(crate) fn saw_verification(
        &self,
        node: &str,
        old: Option<&Verification>,
        new: Option<&Verification>,
    ) {
        if let Some(new) = new {
            self.shared.gate.progress(node, old, new);
        }
    }

    /// The gate has opened for a new node, so many seconds after its creation.
    pub(crate) fn saw_opening(&self, seconds: f64) {
        self.shared.gate.opened(seconds);
    }

    /// A node is gone, and what was counted for it alone.
    pub(crate) fn saw_node_go(&self, node: &str) {
        self.shared.gate.drop_node(node);
    }

    /// What came of a look at settings that have changed, and whether what is on disk is not what is applied.
    pub fn saw_settings(&self, outcome: &'static str, is_stale: bool) {
        self.families().settings(outcome, is_stale);
    }

    /// Sets what is counted afresh whenever somebody asks.
    fn look(&self) {
        self.shared.gate.is_healthy(self.readiness().is_ready());
        let term = self.term();
        let families = self.families();
        families.leads(term.is_some());
        let Some(term) = term.as_ref() else {
            self.shared.gate.forget();
            return families.forget();
        };
        self.shared.gate.look(&term.stores);
        families.queue("runs", number(term.queues.runs.len()));
        families.queue("tasks", number(term.queues.tasks.len()));
        families.queue("pending", number(term.queues.pending.len()));
        families.queue("gate", number(term.queues.gate.len()));
        families.runs(&term.stores.runs.list());
        families.tasks(&term.stores.tasks.list());
        families.pending_nodes(&term.stores.pending.list());
    }

    fn families(&self) -> &Families {
        &self.shared.families
    }

    fn term(&self) -> MutexGuard<'_, Option<TermView>> {
        let term = &self.shared.term;
        term.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time in which this process leads.
pub(crate) struct Term {
    vitals: Vitals,
}

impl Term {
    /// All copies of the cluster's objects are complete.
    pub(crate) fn filled(&self) {
        if let Some(term) = self.vitals.term().as_mut() {
            term.is_filled = true;
        }
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        *self.vitals.term() = None;
        self.vitals.shared.gate.forget();
    }
}
