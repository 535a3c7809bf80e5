//! How a node stands at the gate, in words: which attempt, since when, until when, what failed, what follows.
//!
//! Owns the reading of a node's record for people. Whoever calls says with which settings, and whether those
//! are the controller's own or only assumed. Must not promise more than `verify` decides.

use jiff::Timestamp;
use shipshape_api::{PendingNode, Verification, VerificationFinding, VerificationVerdict};

use super::{Explanation, name_of};
use crate::verify::settings::{GateSettings, Mode};
use crate::verify::{failures_in_words, is_gated, is_labelled, is_new_to_us};
use crate::view::NodeView;

/// The gate, as far as whoever asks knows it.
#[derive(Clone, Copy, Debug)]
pub struct GateScene<'a> {
    /// All PendingNodes.
    pub records: &'a [PendingNode],
    /// The gate's settings.
    pub settings: &'a GateSettings,
    /// Whether they were only assumed.
    pub is_assumed: bool,
}

impl GateScene<'_> {
    /// The record of a node, by its UID where the node is there.
    fn record(&self, name: &str, live: Option<&NodeView>) -> Option<&PendingNode> {
        let of_gate = |one: &&PendingNode| one.spec.node_uid.is_some();
        let mut records = self.records.iter().filter(of_gate);
        match live {
            Some(live) => records.find(|one| one.spec.node_uid.as_ref() == Some(&live.uid)),
            None => records.find(|one| one.spec.node_name.as_deref() == Some(name)),
        }
    }

    /// Whether anything shows that a controller keeps a gate here.
    fn is_seen(&self) -> bool {
        let mut records = self.records.iter();
        !self.is_assumed || records.any(|one| one.spec.node_uid.is_some())
    }
}

/// Explains a node at the gate; `None` when the gate has nothing to say of it.
pub fn at_gate(name: &str, live: Option<&NodeView>, gate: &GateScene<'_>) -> Option<Explanation> {
    let settings = gate.settings;
    let record = gate.record(name, live);
    let mut told = match (record, live) {
        (Some(record), _) => of_record(record, live, settings),
        (None, Some(live)) => of_stranger(live, gate)?,
        (None, None) => return None,
    };
    told.object = format!("node {name}");
    if gate.is_assumed {
        let note = "the gate's settings are assumed to be the defaults; --config FILE of the controller's file tells better";
        told.notes.push(note.to_owned());
    }
    Some(told)
}

/// Whether the gate is what a node waits for, or has had the last word on it.
pub fn is_at_gate(name: &str, live: Option<&NodeView>, gate: &GateScene<'_>) -> bool {
    let told = gate.record(name, live).map(verification);
    let is_through = matches!(
        told,
        Some(Some(told)) if told.verdict == Some(VerificationVerdict::Verified)
    );
    let is_shut = live.is_some_and(|live| is_gated(live, gate.settings));
    is_shut || (told.is_some() && !is_through)
}

/// Explains a PendingNode by its name.
pub fn pending(record: &PendingNode, live: Option<&NodeView>, gate: &GateScene<'_>) -> Explanation {
    let name = record.spec.node_name.as_deref().unwrap_or_default();
    let own = match live {
        Some(live) => Some(&live.uid) == record.spec.node_uid.as_ref(),
        None => true,
    };
    let mut told = if record.spec.node_uid.is_some() {
        of_record(record, live.filter(|_| own), gate.settings)
    } else {
        of_machine(record)
    };
    told.object = format!("PendingNode {} of node {name}", name_of(&record.metadata));
    if !own {
        let note = "another node has that name now; this record goes with the node it was about";
        told.notes.push(note.to_owned());
    }
    told
}

fn of_machine(record: &PendingNode) -> Explanation {
    let (spec, status) = (&record.spec, record.status.as_ref());
    let state = status.and_then(|status| status.csp_state);
    let state = state.map_or("not known yet".to_owned(), |state| format!("{state:?}"));
    Explanation {
        state: format!(
            "a machine that shall {:?}; the cloud says: {state}",
            spec.goal
        ),
        waits_for: status.and_then(|status| status.waiting_for.clone()),
        since: status.and_then(|it| Some(it.csp_state_since.as_ref()?.0)),
        until: spec.deadline.as_ref().map(|time| time.0),
        ..Explanation::default()
    }
}

fn verification(record: &PendingNode) -> Option<&Verification> {
    record.status.as_ref()?.verification.as_ref()
}

fn of_record(
    record: &PendingNode,
    live: Option<&NodeView>,
    settings: &GateSettings,
) -> Explanation {
    let mut told = Explanation::default();
    let status = record.status.as_ref();
    told.waits_for = status.and_then(|status| status.waiting_for.clone());
    let none = Verification::default();
    let known = verification(record).unwrap_or(&none);
    match known.verdict {
        Some(VerificationVerdict::Verified) => verified(&mut told, known, live, settings),
        Some(VerificationVerdict::Failed) => failed(&mut told, record, known, live, settings),
        Some(VerificationVerdict::Inconclusive) => inconclusive(&mut told, record, known),
        None => under_way(&mut told, record, known, live, settings),
    }
    if live.is_some_and(|live| known.boot_id.as_ref().is_some_and(|id| *id != live.boot_id)) {
        let note = "the node has booted since; another verification begins";
        told.notes.push(note.to_owned());
    }
    match settings.verification.mode {
        Mode::Gate => {}
        Mode::PublishOnly => told.notes.push(
            "the gate only writes the condition NetworkVerified; whoever owns the taint lifts it"
                .to_owned(),
        ),
        Mode::DryRun => told
            .notes
            .push("the gate only looks: it changes no node".to_owned()),
    }
    told
}

fn verified(
    told: &mut Explanation,
    known: &Verification,
    live: Option<&NodeView>,
    settings: &GateSettings,
) {
    told.state = format!("its network is verified, in attempt {}", attempt(known));
    told.since = time(known.verdict_at.as_ref());
    if live.is_some_and(|live| is_gated(live, settings)) {
        let usual = "its taint to be lifted";
        told.waits_for.get_or_insert_with(|| usual.to_owned());
    }
}

fn failed(
    told: &mut Explanation,
    record: &PendingNode,
    known: &Verification,
    live: Option<&NodeView>,
    settings: &GateSettings,
) {
    told.state = format!(
        "it has failed its verification: {}",
        failures_in_words(
            known.failed_attempts.unwrap_or_default(),
            settings.reconciliation.most_failures()
        )
    );
    told.since = time(known.verdict_at.as_ref());
    tell_failure(told, record, known);
    told.notes.push(after_failure(live, settings));
    if live.is_some_and(|live| !is_gated(live, settings)) {
        told.help(
            "pods go on landing on it; keep new ones off with kubectl cordon, if need be"
                .to_owned(),
        );
    }
    told.help(format!(
        "when that is mended, have it tried again: kubectl delete pendingnode {}",
        name_of(&record.metadata)
    ));
}

fn inconclusive(told: &mut Explanation, record: &PendingNode, known: &Verification) {
    told.state = format!(
        "attempt {} was inconclusive: what failed here fails on nodes in service too, so nothing is counted",
        attempt(known)
    );
    told.since = time(known.verdict_at.as_ref());
    tell_failure(told, record, known);
    told.help("mend it for the whole cluster; the node is then tried again by itself".to_owned());
}

fn under_way(
    told: &mut Explanation,
    record: &PendingNode,
    known: &Verification,
    live: Option<&NodeView>,
    settings: &GateSettings,
) {
    let most = settings.reconciliation.most_failures();
    let failures = known.failed_attempts.unwrap_or_default();
    if known.attempt.is_none() {
        "its network is not verified yet: no attempt has begun".clone_into(&mut told.state);
        told.since = time(record.metadata.creation_timestamp.as_ref());
        let usual = "the node to be ready";
        told.waits_for.get_or_insert_with(|| usual.to_owned());
        return;
    }
    told.state = format!(
        "its network is being verified: attempt {}, {}",
        attempt(known),
        failures_in_words(failures, most)
    );
    told.since = time(
        known
            .attempt_started_at
            .as_ref()
            .or(known.last_attempt_at.as_ref()),
    );
    let whole = time(known.started_at.as_ref());
    let whole = whole.and_then(|began| began.checked_add(settings.deadline()).ok());
    match time(known.next_attempt_at.as_ref()) {
        Some(next) => {
            told.until = Some(next);
            told.then = Some(format!("attempt {} begins", attempt(known) + 1));
        }
        None => {
            told.until = whole;
            told.then = Some(after_failure(live, settings));
        }
    }
    if failures > 0 {
        tell_failure(told, record, known);
        // An attempt under way may fail where the limit was lowered behind it.
        let left = (most - failures).max(1);
        told.notes.push(format!(
            "{left} more may fail; then {}",
            after_failure(live, settings)
        ));
    }
}

/// What becomes of a node that has failed.
fn after_failure(live: Option<&NodeView>, settings: &GateSettings) -> String {
    let management = &settings.node_management;
    if live.is_some_and(|live| !is_gated(live, settings)) {
        return "it counts as failed, loses its label, and stays in service: no taint keeps pods off it, so it is never removed for this"
            .to_owned();
    }
    if settings.verification.mode != Mode::Gate || !management.delete_failed_nodes {
        return "it counts as failed and stays, with its taint, until a person sees to it"
            .to_owned();
    }
    let is_karpenters = live.is_some_and(|live| live.labels.contains_key("karpenter.sh/nodepool"));
    let by = match &management.provider {
        _ if is_karpenters => "the NodeClaim of Karpenter".to_owned(),
        Some(cloud) => format!(
            "its NodeClaim or Machine, where it has one, else its machine in cloud {}",
            cloud.r#type
        ),
        None => "its NodeClaim or Machine, where it has one, else the Node object alone".to_owned(),
    };
    format!("it counts as failed and is removed, as the deletion budget allows: {by} is deleted")
}

fn tell_failure(told: &mut Explanation, record: &PendingNode, known: &Verification) {
    let first = known.first_failing_check.as_deref();
    let failures = || known.findings.iter().filter(|one| !one.ok);
    let found = failures().find(|one| Some(one.check.as_str()) == first);
    let Some(found) = found.or_else(|| failures().next()) else {
        let check = first.unwrap_or("a check");
        return told.notes.push(format!("first failing check: {check}"));
    };
    let at = match &found.phase {
        Some(phase) => format!(" failed at {phase}"),
        None => " failed".to_owned(),
    };
    let (check, target) = (&found.check, &found.target);
    told.notes.push(format!(
        "first failing check: {check} of {target}{at}: {}",
        found.message
    ));
    let others = failures().count() - 1;
    if others > 0 {
        told.notes.push(format!(
            "{others} more findings failed, see status.verification.findings"
        ));
    }
    let node = record.spec.node_name.as_deref().unwrap_or_default();
    told.help(hint(found, node));
}

/// Where to look, by the kind of the check and the phase it failed in.
fn hint(finding: &VerificationFinding, node: &str) -> String {
    let target = &finding.target;
    let kind = finding.check.split('-').next().unwrap_or_default();
    match (kind, finding.check.as_str(), finding.phase.as_deref()) {
        ("dns", _, _) => format!("see that port 53, UDP and TCP, gets from pods of this node to {target}"),
        (_, "api-clock", _) => "set the node's clock: its time service is out of order".to_owned(),
        ("api", _, Some("tls")) => format!("see whether large packets are lost on the way to {target} (path MTU), and whose certificate answers there"),
        (_, "worker-image", _) => format!("see that the node can pull {target}: registry, credentials, mirror"),
        (_, "worker-sandbox", _) => format!("see whether the CNI plugin runs on the node: kubectl get pods -A -o wide --field-selector spec.nodeName={node}"),
        (_, "worker-schedule", _) => "see what the scheduler says of the worker pod, and whether worker.resources fit on the node".to_owned(),
        ("peer" | "udp", _, _) => "see that peers reach pods of this node at TCP and UDP ports 47299 to 47399, and the other way round: routes, security groups, network policies".to_owned(),
        ("worker", _, _) => "see the events of the worker pod and the kubelet's log".to_owned(),
        (_, _, Some("dns")) => format!("see that {target} resolves on this node"),
        _ => format!("see that {target} can be reached from pods of this node: routes, kube-proxy, network policies"),
    }
}

/// Why a node has no record.
fn of_stranger(node: &NodeView, gate: &GateScene<'_>) -> Option<Explanation> {
    let settings = gate.settings;
    let mut told = Explanation::default();
    if is_new_to_us(node, settings) {
        "it waits at the gate, and no controller has taken note of it".clone_into(&mut told.state);
        told.waits_for = Some("its PendingNode".to_owned());
        let help = if gate.is_seen() {
            "see that a controller leads (shipshape status) and what its log says of this node"
        } else {
            "nothing shows that a gate is kept here: give the controller a worker block, or let all nodes go: shipshape release-nodes"
        };
        told.help(help.to_owned());
        return Some(told);
    }
    if !gate.is_seen() || node.deleting {
        return None;
    }
    if is_labelled(node, settings) {
        "it is through the gate, by its label, and has no PendingNode any more"
            .clone_into(&mut told.state);
        return Some(told);
    }
    let taint = settings.node_management.taints.first()?;
    let taint = format!(
        "{}={}:{}",
        taint.key,
        taint.value.as_deref().unwrap_or_default(),
        taint.effect
    );
    told.state = format!("the gate has nothing to do with it: it does not carry the taint {taint}");
    told.help(format!(
        "have it verified all the same, with nothing new landing on it meanwhile: kubectl taint node {} {taint}",
        node.name
    ));
    told.help("let new nodes register with it: kubelet --register-with-taints, or startupTaints of Karpenter".to_owned());
    Some(told)
}

fn attempt(known: &Verification) -> i32 {
    known.attempt.unwrap_or_default()
}

fn time(at: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>) -> Option<Timestamp> {
    at.map(|at| at.0)
}
