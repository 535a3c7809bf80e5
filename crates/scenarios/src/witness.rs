//! The witness: sees what happens from outside and checks the invariants after every event.
//!
//! Owns the checks and the counts of a report. Must not believe the operator's own status: it looks
//! at nodes, pods, requests and cloud calls only. Fed with facts by a stage; a pure state machine, so
//! that each check has a test that breaks it.

mod checks;
mod moves;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use shipshape_api::names::LEADER_LEASE;
use shipshape_engine::view::{NodeView, PodView};

use crate::report::{EvictionCount, PodCount, RequestCount, Violation};
use moves::Moves;

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Fact {
    /// A node is there, or has changed.
    Node(NodeView),
    /// A node is gone, by name.
    NodeGone(String),
    /// A pod is there, or has changed.
    Pod(PodView),
    /// A pod is gone, by UID.
    PodGone(String),
    /// A volume is attached to a node.
    Attached {
        /// Name of the attachment.
        name: String,
        /// The node.
        node: String,
        /// The volume.
        volume: String,
    },
    /// An attachment is gone, by name.
    Detached(String),
    /// The operator asked the API for something.
    Request(Request),
    /// The operator asked the cloud for something, and it took place.
    Call(Call),
}

/// A request of the operator.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The verb, as in an audit log.
    pub verb: String,
    /// The resource in plural.
    pub resource: String,
    /// The subresource, or the empty string.
    pub subresource: String,
    /// `namespace/name`.
    pub object: String,
    /// UID of the object, where the log has it.
    pub uid: String,
    /// The answer's code.
    pub code: u16,
    /// Whether it was a dry run.
    pub dry_run: bool,
}

/// A cloud call that took place.
#[derive(Clone, Debug)]
pub enum Call {
    /// A machine was created in place of another.
    Created {
        /// The new machine.
        machine: String,
        /// What its kubelet will register as provider id.
        provider_id: String,
        /// The machine it replaces.
        replaces: String,
    },
    /// A machine's end was asked for.
    Deleted {
        /// The machine.
        machine: String,
        /// What its kubelet registered as provider id.
        provider_id: String,
    },
}

/// What was promised: the limits that the checks compare with.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    /// Most nodes that may be out of service at once.
    pub disrupted_max: usize,
    /// Whether old machines may go before their replacements come.
    pub terminate_first: bool,
}

/// The witness.
#[derive(Debug, Default)]
pub struct Witness {
    promises: Promises,
    /// Volumes by node, with the name of each attachment.
    attached: BTreeMap<String, (String, String)>,
    nodes: BTreeMap<String, NodeView>,
    pods: BTreeMap<String, PodView>,
    /// Nodes that others had cordoned.
    foreign_cordons: BTreeSet<String>,
    /// Nodes whose cordon others are about to lift.
    foreign_uncordons: BTreeSet<String>,
    /// New machine and its provider id, by the machine it replaces.
    replacements: BTreeMap<String, Vec<(String, String)>>,
    /// From when on nothing is left to do.
    at_rest_since: Option<Timestamp>,
    moves: Moves,
    requests: RequestCount,
    evictions: EvictionCount,
    violations: Vec<Violation>,
}

impl Witness {
    /// A witness that has seen nothing.
    pub fn new(promises: Promises) -> Self {
        Self {
            promises,
            ..Self::default()
        }
    }

    /// Somebody else than the operator is about to cordon, or has cordoned, this node.
    pub fn expect_foreign_cordon(&mut self, node: &str) {
        self.foreign_cordons.insert(node.to_owned());
    }

    /// Somebody else than the operator is about to lift the cordon of this node.
    pub fn expect_foreign_uncordon(&mut self, node: &str) {
        self.foreign_uncordons.insert(node.to_owned());
    }

    /// Takes a fact in and checks what it could have broken.
    pub fn see(&mut self, at: Timestamp, fact: Fact) {
        match fact {
            Fact::Node(node) => {
                self.check_foreign_cordon(at, &node);
                self.nodes.insert(node.name.clone(), node);
                self.check_disruption(at);
            }
            Fact::NodeGone(name) => {
                self.nodes.remove(&name);
                self.foreign_cordons.remove(&name);
            }
            Fact::Pod(pod) => {
                self.moves.saw(&pod);
                self.pods.insert(pod.uid.clone(), pod);
            }
            Fact::PodGone(uid) => {
                self.pods.remove(&uid);
            }
            Fact::Attached { name, node, volume } => {
                self.attached.insert(name, (node, volume));
            }
            Fact::Detached(name) => {
                self.attached.remove(&name);
            }
            Fact::Request(request) => self.take_request(at, &request),
            Fact::Call(call) => self.take_call(at, call),
        }
    }

    fn take_request(&mut self, at: Timestamp, request: &Request) {
        // A leader renews its lease all the time, whether it works or not.
        if request.object.ends_with(LEADER_LEASE) {
            return;
        }
        self.requests.total += 1;
        if !matches!(request.verb.as_str(), "get" | "list" | "watch") && !request.dry_run {
            self.requests.writes += 1;
            let kind = kind_of(request);
            *self.requests.writes_by_kind.entry(kind).or_default() += 1;
            self.check_rest(at, request);
        }
        if request.resource != "pods" {
            return;
        }
        if request.subresource == "eviction" && !request.dry_run {
            self.evictions.calls += 1;
            match request.code {
                200..=299 => self.moves.evicted(&request.uid, &request.object),
                429 => self.evictions.refused += 1,
                _ => {}
            }
        }
        self.check_pod_removal(at, request);
    }

    fn take_call(&mut self, at: Timestamp, call: Call) {
        match call {
            Call::Created {
                machine,
                provider_id,
                replaces,
            } => {
                let made = self.replacements.entry(replaces.clone()).or_default();
                if !made.iter().any(|(known, _)| *known == machine) {
                    made.push((machine, provider_id));
                }
                self.check_single_replacement(at, &replaces);
            }
            Call::Deleted {
                machine,
                provider_id,
            } => {
                self.check_removal(at, &machine, &provider_id);
                for made in self.replacements.values_mut() {
                    made.retain(|(known, _)| *known != machine);
                }
            }
        }
    }

    /// From now on nothing is left to do.
    pub fn begin_rest(&mut self, now: Timestamp) {
        self.at_rest_since = Some(now);
    }

    /// Checks what must hold once everything has come to rest.
    pub fn rest(&mut self, at: Timestamp) {
        self.check_no_cordon_left(at);
    }

    /// Takes in what somebody else has found to be broken.
    pub fn found(&mut self, invariant: &'static str, at: Timestamp, text: String) {
        self.violated(invariant, at, text);
    }

    /// What was broken.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Pods and their moves.
    pub fn pod_count(&self) -> PodCount {
        let total = self
            .pods
            .values()
            .filter(|pod| !checks::is_daemon(pod))
            .count();
        self.moves.count(total)
    }

    /// Eviction calls.
    pub fn eviction_count(&self) -> EvictionCount {
        self.evictions
    }

    /// Requests, counted per replaced node.
    pub fn request_count(&self, replaced: usize) -> RequestCount {
        let per_node = as_float(self.requests.writes) / as_float(replaced.max(1));
        RequestCount {
            writes_per_node: per_node,
            ..self.requests.clone()
        }
    }
}

/// What a request does, and to which kind of object.
fn kind_of(request: &Request) -> String {
    match request.subresource.as_str() {
        "" => format!("{} {}", request.verb, request.resource),
        part => format!("{} {}/{part}", request.verb, request.resource),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn as_float(count: usize) -> f64 {
    count as f64
}
