//! Verify: the next move of the gate at one node.
//!
//! Owns which nodes are verified, the course of attempts, the verdict and what follows from it. A verdict is
//! about one boot of one Node object. The taint is what counts: a label or a condition that a kubelet may
//! have set itself opens nothing. Must not open the gate, count a failure or remove a node on a guess: what
//! could not be seen is waited for, and a failure that shows elsewhere too is inconclusive.

mod attempt;
pub mod control;
mod draft;
pub mod effect;
pub mod kind;
pub mod neighbours;
pub mod outcome;
pub mod passage;
pub mod record;
pub mod refusal;
pub mod removal;
pub mod settings;
#[cfg(test)]
mod tests;
mod verdict;
pub mod worker;

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use shipshape_api::{PendingNode, PendingNodeStatus, VerificationVerdict};

use crate::decision::{Decision, Effect, PodTarget};
use crate::view::{NodeView, Observed, PodView};
use control::ControlView;
use draft::Draft;
use effect::GateEffect;
use neighbours::Neighbours;
use outcome::WorkerView;
use removal::RemovalView;
use settings::{GateSettings, Mode};

/// What the gate sees of one node.
#[derive(Clone, Debug)]
pub struct GateSnapshot {
    /// The node; read live when its label is missing though it was verified.
    pub node: NodeView,
    /// The object that remembers its verification.
    pub record: Observed<PendingNode>,
    /// The pod of the latest attempt.
    pub worker: Observed<WorkerView>,
    /// Pods of earlier attempts at the node.
    pub leftovers: Vec<PodTarget>,
    /// What the rest of the cluster says; looked at only where `is_compared` says so.
    pub control: ControlView,
    /// Addresses of ready name servers, looked for where a worker may be made.
    pub name_servers: Vec<IpAddr>,
    /// Pods of daemons on the node that its network may hang on and that are not ready, as namespace/name; looked
    /// for where an attempt may begin.
    pub daemons: Vec<String>,
    /// What must be known before the node is removed; asked for only when that is wanted.
    pub removal: Observed<RemovalView>,
    /// Others who have a say in the gate's taints; asked only when it matters.
    pub neighbours: Neighbours,
}

/// Decides what one look at a node leads to.
pub fn decide(
    snapshot: &GateSnapshot,
    settings: &GateSettings,
    now: Timestamp,
) -> Decision<PendingNodeStatus> {
    let node = &snapshot.node;
    let record = match &snapshot.record {
        Observed::Present(record) => record,
        Observed::Absent if is_new_to_us(node, settings) => {
            let mut decision = Decision::rest(PendingNodeStatus::default());
            let record = record::of_node(node);
            decision
                .effects
                .push(Effect::EnsurePending(Box::new(record)));
            return decision;
        }
        Observed::Absent | Observed::Unknown(_) | Observed::NotAsked => {
            return Decision::rest(PendingNodeStatus::default());
        }
    };
    let mut draft = Draft::new(snapshot, record, settings, now);
    if node.deleting || record.metadata.deletion_timestamp.is_some() {
        return draft.unchanged();
    }
    draft.tidy_up();
    match draft.verification.verdict {
        Some(VerificationVerdict::Verified) => draft.verified(),
        Some(VerificationVerdict::Failed) => draft.failed(),
        Some(VerificationVerdict::Inconclusive) => draft.inconclusive(),
        None if draft.verification.attempt_started_at.is_some() => draft.attempt(),
        None => draft.begin_when_due(),
    }
    draft.finish()
}

/// Whether a failure at the node is to be compared, so that the rest of the cluster must be looked at. With
/// the same snapshot and time, `decide` reads `control` only if this is so: a look at a node that does well
/// costs the same in every cluster.
pub fn is_compared(snapshot: &GateSnapshot, settings: &GateSettings, now: Timestamp) -> bool {
    let Observed::Present(record) = &snapshot.record else {
        return false;
    };
    let draft = Draft::new(snapshot, record, settings, now);
    match draft.verification.verdict {
        Some(VerificationVerdict::Inconclusive) => true,
        Some(VerificationVerdict::Verified | VerificationVerdict::Failed) => false,
        None => draft.has_just_failed(),
    }
}

/// Whether checks are to be run, on the node or elsewhere, so that the name servers must be looked for: a look
/// through all pods is not for every pass. They change nothing in what is decided.
pub fn is_run_due(snapshot: &GateSnapshot, settings: &GateSettings, now: Timestamp) -> bool {
    let runs_checks = |effect: &Effect| {
        matches!(
            effect,
            Effect::Gate(GateEffect::EnsureWorker(_) | GateEffect::CheckFromHere(_))
        )
    };
    let mut effects = decide(snapshot, settings, now).effects.into_iter();
    effects.any(|effect| runs_checks(&effect))
}

/// Whether a node that nobody remembers must be verified. Its label says nothing while a taint of the gate
/// is there: a kubelet may have set it. One whose condition says that its network is not verified had a record
/// that somebody has deleted, to have it verified again.
pub fn is_new_to_us(node: &NodeView, settings: &GateSettings) -> bool {
    let is_open = settings.node_management.taints.is_empty();
    let unlabelled = !is_labelled(node, settings);
    let condition = node.network.verified.as_deref();
    let is_left = condition.is_some_and(|truth| truth != "True") && unlabelled;
    !node.deleting && (is_gated(node, settings) || (is_open && unlabelled) || is_left)
}

/// How many attempts failed, and how many may. The limit may have been lowered behind them.
pub(crate) fn failures_in_words(failures: i32, most: i32) -> String {
    if failures > most {
        return format!("{failures} attempts failed, {most} allowed");
    }
    format!("{failures} of {most} attempts failed")
}

/// Whether the node carries a taint of the gate.
pub fn is_gated(node: &NodeView, settings: &GateSettings) -> bool {
    carries_any(node, &settings.node_management.taints)
}

/// Whether the node carries one of these taints.
pub fn carries_any(node: &NodeView, gates: &[Taint]) -> bool {
    gates.iter().any(|gate| carries(node, gate))
}

/// Whether the node carries this taint.
pub fn carries(node: &NodeView, gate: &Taint) -> bool {
    let mut taints = node.taints.iter();
    taints.any(|taint| is_same_taint(gate, &taint.key, &taint.effect))
}

/// Whether a taint is this one: key and effect tell, as the API server has it, and the value does not.
pub fn is_same_taint(gate: &Taint, key: &str, effect: &str) -> bool {
    gate.key == key && gate.effect == effect
}

/// Whether a pod is a daemon that a node's network may hang on, as kube-proxy and CNI agents are, and is not ready.
pub fn is_late_daemon(pod: &PodView) -> bool {
    is_vital_daemon(pod) && !pod.ready && !pod.terminating && !pod.finished
}

/// Whether a pod is a daemon with the system's own priority.
pub fn is_vital_daemon(pod: &PodView) -> bool {
    let owner = pod.owner.as_ref().map(|(kind, _)| kind.as_str());
    pod.critical && owner == Some("DaemonSet")
}

/// Whether a pod is a name server that answers. One in another namespace may be anybody's, and a kubelet may make
/// mirror pods, with any label.
pub fn is_name_server(pod: &PodView, settings: &GateSettings) -> bool {
    let wanted = &settings.verification;
    let has = |key: &str, value: &str| pod.labels.iter().any(|one| one == (key, value));
    pod.ready
        && !pod.terminating
        && !pod.mirror
        && pod.namespace == wanted.dns_namespace
        && wanted.dns_pods.iter().all(|(key, value)| has(key, value))
}

/// Whether the node carries the label of a verified one.
pub fn is_labelled(node: &NodeView, settings: &GateSettings) -> bool {
    let label = &settings.node_management.verified_label;
    node.labels.get(&label.key) == Some(&label.value)
}

/// Whether the node is in service, as far as the gate knows, so that checks on it can serve as comparison.
pub fn is_in_service(node: &NodeView, settings: &GateSettings) -> bool {
    let is_open = settings.node_management.taints.is_empty();
    node.ready
        && !node.deleting
        && !is_gated(node, settings)
        && (!is_open || is_labelled(node, settings))
}

/// Whether the node has failed on this boot: what does not work there says nothing of the cluster.
pub fn has_failed(node: &NodeView, record: &PendingNode) -> bool {
    let told = record.status.as_ref();
    let told = told.and_then(|status| status.verification.as_ref());
    record.spec.node_uid.as_ref() == Some(&node.uid)
        && verdict_of(record) == Some(VerificationVerdict::Failed)
        && told.is_some_and(|told| told.boot_id.as_ref() == Some(&node.boot_id))
}

/// Whether a verified node lacks its label, so that it must be verified again. Whoever finds this in a copy
/// looks at the node live before anything follows.
pub fn is_label_missing(node: &NodeView, record: &PendingNode, settings: &GateSettings) -> bool {
    settings.verification.mode == Mode::Gate
        && verdict_of(record) == Some(VerificationVerdict::Verified)
        && !is_labelled(node, settings)
}

/// Whether somebody has put the label on a node that failed in service, to have it verified again. Behind a
/// taint a kubelet may have done that. Whoever finds this in a copy looks at the node live.
pub fn is_wanted_again(node: &NodeView, record: &PendingNode, settings: &GateSettings) -> bool {
    settings.verification.mode == Mode::Gate
        && verdict_of(record) == Some(VerificationVerdict::Failed)
        && is_labelled(node, settings)
        && !is_gated(node, settings)
}

fn verdict_of(record: &PendingNode) -> Option<VerificationVerdict> {
    record.status.as_ref()?.verification.as_ref()?.verdict
}
