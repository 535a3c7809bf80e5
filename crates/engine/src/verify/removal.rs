//! The removal of a node that has failed: by whom it is removed, and when it must not be.
//!
//! Owns the order of targets, the budget of removals and the stop when many fail alike. Must not remove a
//! node that carries work or that another operation holds, and must not take "no answer" for "not there":
//! where nobody could ask, nothing is removed.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, Taint, Toleration};
use serde::{Deserialize, Serialize};
use shipshape_api::{Verification, VerificationEvidence, VerificationFinding};

use super::settings::DeletionBudget;
use crate::drain::is_daemon;
use crate::ledger::Role;
use crate::machine::MachineId;
use crate::view::{NodeView, Observed, PodView};

/// The time over which removals are counted.
const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// How many removals are remembered past that, and how much of each: so all fit into one object.
const REMEMBERED: usize = 64;
const KEPT_LINES: usize = 6;
const KEPT_BYTES: usize = 256;
/// Labels by which autoscalers and clouds say which group a node is of; the first that is there counts.
const GROUP_LABELS: [&str; 6] = [
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "node.cluster.x-k8s.io/group",
    "embedded.shipshape.dev/group",
];

/// The latest removals, as they were read live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removals {
    /// Version of the object that was read; `None` when it does not exist yet.
    pub resource_version: Option<String>,
    /// Removals by the UID of the node.
    pub nodes: BTreeMap<String, RemovedNode>,
}

/// One node that was removed because it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedNode {
    /// Name of the node.
    pub node: String,
    /// Its group.
    pub group: String,
    /// The check that failed first.
    pub cause: String,
    /// When its removal was decided on.
    pub at: Timestamp,
    /// What failed, the first few, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// The network as the node saw it, the beginning of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<VerificationEvidence>,
}

impl RemovedNode {
    /// What is kept of a node that goes: its record goes with it.
    fn of(node: &NodeView, told: &Verification, now: Timestamp) -> Self {
        let failures = told.findings.iter().filter(|one| !one.ok);
        let sentence = |one: &VerificationFinding| {
            let phase = one
                .phase
                .as_deref()
                .map_or_else(String::new, |phase| format!(" at {phase}"));
            beginning(&format!(
                "{} of {}{phase}: {}",
                one.check, one.target, one.message
            ))
        };
        Self {
            node: node.name.clone(),
            group: group_of(node),
            cause: told.first_failing_check.clone().unwrap_or_default(),
            at: now,
            failures: failures.take(KEPT_LINES).map(sentence).collect(),
            evidence: told.evidence.as_ref().map(|seen| VerificationEvidence {
                resolv_conf: beginning(&seen.resolv_conf),
                addresses: seen
                    .addresses
                    .iter()
                    .take(KEPT_LINES)
                    .map(|one| beginning(one))
                    .collect(),
                routes: seen
                    .routes
                    .iter()
                    .take(KEPT_LINES)
                    .map(|one| beginning(one))
                    .collect(),
            }),
        }
    }
}

fn beginning(text: &str) -> String {
    let end = text.floor_char_boundary(KEPT_BYTES.min(text.len()));
    text.get(..end).unwrap_or_default().to_owned()
}

/// An object of an API that is not ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignObject {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Its name in paths.
    pub plural: String,
    /// Namespace, if it has one.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// A machine of the configured cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudMachine {
    /// The cloud's name of it.
    pub id: MachineId,
    /// Whether it is on its way out.
    pub ending: bool,
}

/// What must be known before a node is removed; each part is read live.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RemovalView {
    /// Karpenter's claim of the node.
    pub claim: Observed<ForeignObject>,
    /// Cluster API's machine of the node.
    pub machine: Observed<ForeignObject>,
    /// The machine of the node in the configured cloud; absent where no cloud is configured.
    pub cloud: Observed<CloudMachine>,
    /// Names of other nodes that claim the same provider id; absent where there are none. A kubelet chooses its own
    /// when it registers, so it may be that of another's machine.
    pub claimants: Observed<Vec<String>>,
    /// Who holds the node: its lock, or a task about it.
    pub holder: Observed<String>,
    /// Pods on the node that came while the gate was open, as `namespace/name`.
    pub work: Observed<Vec<String>>,
    /// The latest removals.
    pub removals: Observed<Removals>,
    /// How many nodes the group has.
    pub group_size: usize,
    /// UIDs of other nodes that have failed by the same check and still stand.
    pub alike: BTreeSet<String>,
}

/// By whom a node is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovalTarget {
    /// Karpenter, or Cluster API: by the end of this object.
    Object(ForeignObject),
    /// The cloud: by the end of the machine.
    Machine(MachineId),
    /// Nobody: only the Node object goes.
    Node,
}

/// What comes of the wish to remove a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It goes, by this target; the removals as they are with it, unless they had it before.
    Go(RemovalTarget, Option<Removals>),
    /// It is on its way out, by whoever brought it.
    UnderWay(String),
    /// Not now, and why.
    Wait(String),
}

/// The group of a node, or the empty string.
pub fn group_of(node: &NodeView) -> String {
    let mut groups = GROUP_LABELS.iter().filter_map(|key| node.labels.get(*key));
    groups.next().cloned().unwrap_or_default()
}

/// Pods among these that do not tolerate what the gate keeps pods off with, so that they must have come
/// while it was open: before a taint that was put on late, or between two. What ends by itself or with the
/// node does not count.
pub fn work_on(pods: &[Pod], gates: &[Taint]) -> Vec<String> {
    let counts = |pod: &&Pod| {
        let view = PodView::of(pod);
        let spec = pod.spec.as_ref();
        let tolerations = spec.and_then(|spec| spec.tolerations.as_deref());
        let is_driven_off = |gate: &&Taint| {
            let mut tolerations = tolerations.unwrap_or_default().iter();
            !tolerations.any(|one| tolerates(one, gate))
        };
        !view.mirror
            && !view.finished
            && !is_daemon(&view)
            && gates.iter().any(|gate| is_driven_off(&gate))
    };
    let pods = pods.iter().filter(counts);
    let name = |pod: &Pod| {
        let view = PodView::of(pod);
        format!("{}/{}", view.namespace, view.name)
    };
    pods.map(name).collect()
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let is_blank = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
    let is_effect =
        is_blank(&toleration.effect) || toleration.effect.as_deref() == Some(taint.effect.as_str());
    let is_key = is_blank(&toleration.key) || toleration.key.as_deref() == Some(taint.key.as_str());
    let is_value = toleration.operator.as_deref() == Some("Exists")
        || (!is_blank(&toleration.key) && toleration.value == taint.value);
    is_effect && is_key && is_value
}

/// Decides whether and how a failed node goes.
pub fn decide(
    node: &NodeView,
    told: &Verification,
    view: &RemovalView,
    budget: &DeletionBudget,
    now: Timestamp,
) -> Removal {
    if let Some(why) = obstacle(node, view) {
        return Removal::Wait(why);
    }
    let target = match target(view) {
        Ok(target) => target,
        Err(why) => return Removal::Wait(why),
    };
    if let RemovalTarget::Object(object) = &target
        && object.deleting
    {
        return Removal::UnderWay(format!("{} {} to be gone", object.kind, object.name));
    }
    if let Observed::Present(machine) = &view.cloud
        && target == RemovalTarget::Machine(machine.id.clone())
        && machine.ending
    {
        return Removal::UnderWay(format!("machine {} to be gone", machine.id));
    }
    let removals = match &view.removals {
        Observed::Present(removals) => removals,
        Observed::Absent => &Removals::default(),
        unclear @ (Observed::Unknown(_) | Observed::NotAsked) => {
            return Removal::Wait(unknown("the count of removals", unclear));
        }
    };
    let mut counted = removals.clone();
    counted.nodes.retain(|_, one| counts(one, now));
    // Its removal was decided on before: a repeat after a crash costs nothing.
    if counted.nodes.contains_key(&node.uid) {
        return Removal::Go(target, None);
    }
    let cause = told.first_failing_check.as_deref().unwrap_or_default();
    if let Some(why) = over_budget(node, cause, view, &counted, budget) {
        return Removal::Wait(why);
    }
    let mut removals = bounded(removals, now);
    let removed = RemovedNode::of(node, told, now);
    removals.nodes.insert(node.uid.clone(), removed);
    Removal::Go(target, Some(removals))
}

/// What keeps a failed node from being removed, whoever would do it.
fn obstacle(node: &NodeView, view: &RemovalView) -> Option<String> {
    match &view.holder {
        Observed::Absent => {}
        Observed::Present(holder) => {
            return Some(format!("{holder} to be done with the node"));
        }
        unclear @ (Observed::Unknown(_) | Observed::NotAsked) => {
            return Some(unknown("who holds the node", unclear));
        }
    }
    if node.role() == Role::ControlPlane {
        return Some("a person: a control plane is never removed for this".to_owned());
    }
    match &view.work {
        Observed::Present(pods) if pods.is_empty() => {}
        Observed::Absent => {}
        Observed::Present(pods) => {
            let first = pods.first().map(String::as_str).unwrap_or_default();
            let count = pods.len();
            return Some(format!(
                "{count} pod(s) to leave the node that do not tolerate the gate's taint, such as {first}"
            ));
        }
        unclear @ (Observed::Unknown(_) | Observed::NotAsked) => {
            return Some(unknown("the node's pods", unclear));
        }
    }
    match &view.claimants {
        Observed::Absent => None,
        Observed::Present(others) => Some(format!(
            "a person: node {} claims the same provider id, so nobody can tell whose machine would go",
            others.join(", ")
        )),
        unclear @ (Observed::Unknown(_) | Observed::NotAsked) => Some(unknown(
            "whether another node claims the same provider id",
            unclear,
        )),
    }
}

fn counts(removed: &RemovedNode, now: Timestamp) -> bool {
    now.duration_since(removed.at) < HOUR
}

/// All that count, and the newest of the rest. Of more than are remembered only the count is kept.
fn bounded(removals: &Removals, now: Timestamp) -> Removals {
    let mut newest: Vec<(String, RemovedNode)> = removals.nodes.clone().into_iter().collect();
    newest.sort_by_key(|(_, one)| std::cmp::Reverse(one.at));
    let kept = newest
        .into_iter()
        .enumerate()
        .filter_map(|(place, (uid, mut one))| {
            let is_remembered = place + 1 < REMEMBERED;
            if !is_remembered {
                one.failures.clear();
                one.evidence = None;
            }
            (is_remembered || counts(&one, now)).then_some((uid, one))
        });
    Removals {
        resource_version: removals.resource_version.clone(),
        nodes: kept.collect(),
    }
}

/// Whoever brought the node must end it, else it would bring it back or leave its machine running. Where
/// that is not known, what is waited for.
fn target(view: &RemovalView) -> Result<RemovalTarget, String> {
    for (what, found) in [
        ("Karpenter's NodeClaims", &view.claim),
        ("Cluster API's Machines", &view.machine),
    ] {
        match found {
            Observed::Present(object) => return Ok(RemovalTarget::Object(object.clone())),
            Observed::Absent => {}
            unclear @ (Observed::Unknown(_) | Observed::NotAsked) => {
                return Err(unknown(what, unclear));
            }
        }
    }
    match &view.cloud {
        Observed::Present(machine) => Ok(RemovalTarget::Machine(machine.id.clone())),
        Observed::Absent => Ok(RemovalTarget::Node),
        unclear @ (Observed::Unknown(_) | Observed::NotAsked) => {
            Err(unknown("the cloud's machine", unclear))
        }
    }
}

fn over_budget(
    node: &NodeView,
    cause: &str,
    view: &RemovalView,
    removals: &Removals,
    budget: &DeletionBudget,
) -> Option<String> {
    // A removed node may stand for a while: it counts once.
    let gone = removals.nodes.iter().filter(|(_, one)| one.cause == cause);
    let alike: BTreeSet<&String> = gone.map(|(uid, _)| uid).chain(&view.alike).collect();
    let alike = alike.len() + 1;
    if alike >= budget.storm_threshold.max(1) {
        return Some(format!(
            "a person: {alike} nodes failed by {cause}, removed within an hour or still there, so the nodes are \
             hardly at fault (nodeManagement.deletionBudget.stormThreshold)"
        ));
    }
    let group = group_of(node);
    let removed = removals.nodes.values().filter(|one| one.group == group);
    let removed = removed.count();
    let share = (view.group_size * budget.max_percent_per_hour / 100).max(1);
    let most = budget.max_per_hour.min(share);
    (removed >= most).then(|| {
        format!(
            "the budget: {removed} of at most {most} nodes of group {group:?} were removed within the hour \
             (nodeManagement.deletionBudget)"
        )
    })
}

fn unknown<T>(what: &str, observed: &Observed<T>) -> String {
    let why = match observed {
        Observed::Unknown(why) => why.as_str(),
        Observed::NotAsked | Observed::Absent | Observed::Present(_) => "nobody has asked",
    };
    format!("an answer about {what}: {why}")
}
