//! What a decision needs to know of a Node, a Pod or a disruption budget, and nothing else.
//!
//! Owns the reading of Kubernetes objects into small values, so that decisions and their tests speak
//! of facts and not of nested options. Must not judge: a view says what is, a decision says what
//! follows. Built by `observe`, read by every `decide`.

mod budget;
mod volume;

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSpec, Pod, PodCondition, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use shipshape_api::conditions::NETWORK_VERIFIED;
use shipshape_api::gates::OutdatedTaintEffect;
use shipshape_api::names;

pub use budget::{BudgetLimit, BudgetView};
pub use volume::AttachmentView;

use crate::decision::Marks;
use crate::labels::Labels;
use crate::ledger::Role;
use crate::machine::ProviderId;

/// The annotation that marks a static pod's mirror; such a pod cannot be evicted.
pub(crate) const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";
/// `system-node-critical` and `system-cluster-critical` begin here.
const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// What is known of one thing that was looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Observed<T> {
    /// Not needed in this step, so nobody looked.
    #[default]
    NotAsked,
    /// Looked for without a clear answer; the text says why. Nothing may be concluded from it.
    Unknown(String),
    /// Surely not there.
    Absent,
    /// There, as it is.
    Present(T),
}

impl<T> Observed<T> {
    /// The thing, if it is surely there.
    pub fn present(&self) -> Option<&T> {
        match self {
            Self::Present(value) => Some(value),
            Self::NotAsked | Self::Unknown(_) | Self::Absent => None,
        }
    }

    /// Whether it is surely not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl Observed<NodeView> {
    /// The Node that was found under some name, if it is that of this machine. A kubelet registers before
    /// anybody has said which machine it runs on: until then nothing is known.
    #[must_use]
    pub fn on_machine(self, id: &ProviderId) -> Self {
        match self {
            Self::Present(node) => match &node.provider_id {
                Some(other) if other != id => Self::Absent,
                Some(_) => Self::Present(node),
                None => Self::Unknown(format!(
                    "node {} does not say yet which machine it runs on",
                    node.name
                )),
            },
            unclear @ (Self::NotAsked | Self::Unknown(_) | Self::Absent) => unclear,
        }
    }
}

/// Whether an object carries our finalizer: it stays until what it changed is put back.
pub fn is_kept(meta: &ObjectMeta) -> bool {
    let mut finalizers = meta.finalizers.iter().flatten();
    finalizers.any(|one| one == names::FINALIZER)
}

impl<T> From<Option<T>> for Observed<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Self::Present)
    }
}

/// A node. Thousands of these are remembered, so a fact that no decision reads has no place here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Name.
    pub name: String,
    /// UID: a node of the same name with another one is a stranger.
    pub uid: String,
    /// Version that was read, for guarded writes.
    pub resource_version: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Zone, or the empty string.
    pub zone: String,
    /// The machine behind it.
    pub provider_id: Option<ProviderId>,
    /// Whether the kubelet says it is ready.
    pub ready: bool,
    /// Whether pods may be scheduled onto it.
    pub unschedulable: bool,
    /// Operation that cordoned it, if it was one of ours.
    pub cordoned_by: Option<String>,
    /// Runs, by UID, whose mark of an outdated node it carries.
    pub marks: Vec<String>,
    /// When such marks were renewed, of those that ever were, by the UID of their run.
    pub renewed_marks: BTreeMap<String, Timestamp>,
    /// Whether a cluster autoscaler may remove it.
    pub scale_down: ScaleDown,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Taints.
    pub taints: Vec<TaintView>,
    /// The boot that its kubelet tells of, or the empty string.
    pub boot_id: String,
    /// What its conditions say of its network.
    pub network: NetworkView,
}

/// What the conditions of a node say of its network. A kubelet may have written them itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkView {
    /// Whether it is said to be missing.
    pub unavailable: bool,
    /// What the condition of a verified network says, if there is one.
    pub verified: Option<String>,
}

/// What keeps pods off a node. Values are left out: keys and effects tell taints apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaintView {
    /// Key.
    pub key: String,
    /// Effect.
    pub effect: String,
}

/// Whether a cluster autoscaler may remove a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ScaleDown {
    /// Nobody has said anything about it.
    #[default]
    Unsaid,
    /// Somebody else has, one way or the other.
    Foreign,
    /// A run, by UID, forbids it.
    HeldBy(String),
}

impl NodeView {
    /// Reads a Node.
    pub fn of(node: &Node) -> Self {
        let meta = &node.metadata;
        let spec = node.spec.as_ref();
        let labels = meta.labels.clone().unwrap_or_default();
        Self {
            name: text(meta.name.as_ref()),
            uid: text(meta.uid.as_ref()),
            resource_version: text(meta.resource_version.as_ref()),
            zone: labels.get(names::LABEL_ZONE).cloned().unwrap_or_default(),
            provider_id: spec
                .and_then(|spec| spec.provider_id.as_deref())
                .filter(|id| !id.is_empty())
                .map(ProviderId::from),
            ready: is_node_ready(node),
            unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or_default(),
            cordoned_by: annotation(meta, names::ANNOTATION_CORDONED_BY),
            marks: spec.map(marks_of).unwrap_or_default(),
            renewed_marks: spec.map(renewed_marks).unwrap_or_default(),
            scale_down: scale_down_of(meta),
            deleting: meta.deletion_timestamp.is_some(),
            taints: spec.map(taints_of).unwrap_or_default(),
            boot_id: node
                .status
                .as_ref()
                .and_then(|status| status.node_info.as_ref())
                .map(|info| info.boot_id.clone())
                .unwrap_or_default(),
            network: NetworkView {
                unavailable: condition(node, "NetworkUnavailable") == Some("True"),
                verified: condition(node, NETWORK_VERIFIED).map(str::to_owned),
            },
            labels,
        }
    }

    /// Whether another reading of the node says the same: only its version may differ.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let other = Self {
            resource_version: self.resource_version.clone(),
            ..other.clone()
        };
        *self == other
    }

    /// Runs, by UID, that have put something on it: their mark, or their hold. One that has put both
    /// is named twice.
    pub fn marked_by(&self) -> impl Iterator<Item = &String> {
        let holder = match &self.scale_down {
            ScaleDown::HeldBy(run) => Some(run),
            ScaleDown::Unsaid | ScaleDown::Foreign => None,
        };
        self.marks.iter().chain(holder)
    }

    /// Whether something is missing of what the nodes of a plan carry.
    pub fn lacks(&self, wanted: Marks) -> bool {
        (wanted.outdated.is_some() && !self.is_marked())
            || (wanted.held && self.scale_down == ScaleDown::Unsaid)
    }

    /// Whether somebody has marked it as outdated: a run, or a person, whose taint may have no value. No
    /// other mark is put on such a node.
    fn is_marked(&self) -> bool {
        let mut taints = self.taints.iter();
        !self.marks.is_empty() || taints.any(|taint| taint.key == names::TAINT_OUTDATED)
    }

    /// Whether any pod may come to it: it is ready and open, and only a run of ours may keep some away.
    pub fn is_open(&self) -> bool {
        let bars = |taint: &TaintView| {
            taint.effect != "PreferNoSchedule" && taint.key != names::TAINT_OUTDATED
        };
        self.ready && !self.unschedulable && !self.taints.iter().any(bars)
    }

    /// Whether the mark of a run closes the node to new pods.
    pub fn is_closed_by(&self, run: &str) -> bool {
        let hard = OutdatedTaintEffect::NoSchedule.as_str();
        let mut taints = self.taints.iter();
        self.marks.iter().any(|mark| mark == run)
            && taints.any(|taint| taint.key == names::TAINT_OUTDATED && taint.effect == hard)
    }

    /// The role that budgets tell apart.
    pub fn role(&self) -> Role {
        if names::CONTROL_PLANE_LABELS
            .iter()
            .any(|key| self.labels.contains_key(*key))
        {
            Role::ControlPlane
        } else {
            Role::Worker
        }
    }
}

fn scale_down_of(meta: &ObjectMeta) -> ScaleDown {
    let said = annotation(meta, names::ANNOTATION_SCALE_DOWN_DISABLED);
    match (annotation(meta, names::ANNOTATION_SCALE_DOWN_HELD_BY), said) {
        (Some(run), _) => ScaleDown::HeldBy(run),
        (None, Some(_)) => ScaleDown::Foreign,
        (None, None) => ScaleDown::Unsaid,
    }
}

fn marks_of(spec: &NodeSpec) -> Vec<String> {
    let taints = spec.taints.iter().flatten();
    taints
        .filter(|taint| taint.key == names::TAINT_OUTDATED)
        .filter_map(|taint| taint.value.clone())
        .collect()
}

fn renewed_marks(spec: &NodeSpec) -> BTreeMap<String, Timestamp> {
    let taints = spec.taints.iter().flatten();
    taints
        .filter(|taint| taint.key == names::TAINT_OUTDATED)
        .filter_map(|taint| Some((taint.value.clone()?, taint.time_added.as_ref()?.0)))
        .collect()
}

fn taints_of(spec: &NodeSpec) -> Vec<TaintView> {
    let taints = spec.taints.iter().flatten();
    taints
        .map(|taint| TaintView {
            key: taint.key.clone(),
            effect: taint.effect.clone(),
        })
        .collect()
}

fn is_node_ready(node: &Node) -> bool {
    condition(node, "Ready") == Some("True")
}

/// What a condition of a node says.
fn condition<'a>(node: &'a Node, kind: &str) -> Option<&'a str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let found = conditions.iter().find(|one| one.type_ == kind)?;
    Some(found.status.as_str())
}

/// A pod. A hundred thousand of these are remembered, so a fact that no decision reads has no place
/// here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, not a state"
)]
pub struct PodView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Labels.
    pub labels: Labels,
    /// Node it is bound to, or the empty string.
    pub node: String,
    /// Kind and name of the controller that owns it, if any.
    pub owner: Option<(String, String)>,
    /// Names of the PersistentVolumeClaims that it uses.
    pub claims: Vec<String>,
    /// What must be done before it can go, known of a pod that is being deleted.
    pub finalizers: Vec<String>,
    /// When a pod that is being deleted should be gone: its grace is over then.
    pub gone_by: Option<Timestamp>,
    /// Whether it mirrors a static pod.
    pub mirror: bool,
    /// Whether it has ended, well or badly.
    pub finished: bool,
    /// Whether it runs and is ready.
    pub ready: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether its priority is one of the system's own.
    pub critical: bool,
    /// Whether it has not begun to run: no budget guards such a pod.
    pub pending: bool,
    /// Whether it keeps data in an emptyDir volume, lost with the pod.
    pub local_data: bool,
    /// Whether it describes a disk itself, which is attached to its node without a claim.
    pub describes_disk: bool,
    /// Since when the scheduler has had no place for it.
    pub homeless_since: Option<Timestamp>,
    /// Its address.
    pub address: Option<IpAddr>,
}

impl PodView {
    /// Reads a Pod.
    pub fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let spec = pod.spec.as_ref();
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        Self {
            namespace: text(meta.namespace.as_ref()),
            name: text(meta.name.as_ref()),
            uid: text(meta.uid.as_ref()),
            labels: meta.labels.as_ref().map(Labels::from).unwrap_or_default(),
            node: spec
                .and_then(|spec| spec.node_name.clone())
                .unwrap_or_default(),
            owner: controller_of(meta).map(|owner| (owner.kind.clone(), owner.name.clone())),
            mirror: annotation(meta, MIRROR_ANNOTATION).is_some(),
            finished: matches!(phase, Some("Succeeded" | "Failed")),
            ready: phase == Some("Running") && is_pod_ready(pod),
            terminating: meta.deletion_timestamp.is_some(),
            gone_by: meta.deletion_timestamp.as_ref().map(|time| time.0),
            finalizers: meta
                .deletion_timestamp
                .as_ref()
                .and(meta.finalizers.clone())
                .unwrap_or_default(),
            critical: spec
                .and_then(|spec| spec.priority)
                .is_some_and(|priority| priority >= CRITICAL_PRIORITY),
            pending: phase == Some("Pending"),
            claims: claims_of(pod),
            local_data: volumes_of(pod).any(|volume| volume.empty_dir.is_some()),
            describes_disk: volumes_of(pod).any(is_disk),
            homeless_since: homeless_since(pod),
            address: pod
                .status
                .as_ref()
                .and_then(|status| status.pod_ip.as_deref()?.parse().ok()),
        }
    }
}

impl PodView {
    /// Whether volumes must be detached from its node once it has left.
    pub fn has_volumes(&self) -> bool {
        self.describes_disk || !self.claims.is_empty()
    }
}

/// Whether the volume is a cloud's disk that the pod names itself. What a driver makes for the pod alone (`csi`) is never
/// attached.
fn is_disk(volume: &Volume) -> bool {
    volume.aws_elastic_block_store.is_some()
        || volume.azure_disk.is_some()
        || volume.cinder.is_some()
        || volume.gce_persistent_disk.is_some()
        || volume.portworx_volume.is_some()
        || volume.vsphere_volume.is_some()
}

fn volumes_of(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten())
}

/// A generic ephemeral volume has a claim too, named after pod and volume.
fn claims_of(pod: &Pod) -> Vec<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let claim = |volume: &Volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some(claim.claim_name.clone()),
        (None, Some(_)) => Some(format!("{name}-{}", volume.name)),
        (None, None) => None,
    };
    volumes_of(pod).filter_map(claim).collect()
}

fn is_pod_ready(pod: &Pod) -> bool {
    pod.status
        .as_ref()
        .and_then(|status| status.conditions.as_ref())
        .is_some_and(|all| {
            all.iter()
                .any(|one| one.type_ == "Ready" && one.status == "True")
        })
}

fn homeless_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let is_it = |one: &&PodCondition| {
        one.type_ == "PodScheduled"
            && one.status == "False"
            && one.reason.as_deref() == Some("Unschedulable")
    };
    let condition = conditions.iter().find(is_it)?;
    condition.last_transition_time.as_ref().map(|time| time.0)
}

fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
}

fn annotation(meta: &ObjectMeta, key: &str) -> Option<String> {
    meta.annotations
        .as_ref()
        .and_then(|all| all.get(key))
        .cloned()
}

pub(crate) fn text(value: Option<&String>) -> String {
    value.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests;
