//! What stores keep, and of which fields that is made.
//!
//! Owns the list of fields for each view. Must list every field that the view's reading touches: one that is
//! missing here reads as if nobody had set it; the tests compare views of objects that have every field set.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use shipshape_api::{NodePatchRun, NodePatchTask, PendingNode};
use shipshape_engine::ledger::Ledger;
use shipshape_engine::verify::outcome::WorkerView;
use shipshape_engine::view::{AttachmentView, NodeView, PodView};

pub use super::spare::Fields;

/// What a store keeps of each object.
pub trait Kept {
    /// Of which structs only some fields are read, and which; nothing of `managedFields` ever is.
    const FIELDS: Fields = &[];
}

macro_rules! whole {
    ($($kind:ty),*) => { $(impl Kept for $kind {})* };
}

whole!(
    ConfigMap,
    DaemonSet,
    Deployment,
    Lease,
    Node,
    NodePatchRun,
    NodePatchTask,
    PendingNode,
    Pod,
    PodDisruptionBudget,
    VolumeAttachment
);

/// Only that the object exists.
impl Kept for () {
    const FIELDS: Fields = &[("DaemonSet", &["apiVersion", "kind", "metadata"])];
}

// A single fact, of whatever fields.
whole!(bool, String);

impl Kept for NodeView {
    const FIELDS: Fields = &[
        ("NodeSpec", &["providerID", "taints", "unschedulable"]),
        ("NodeStatus", &["conditions", "nodeInfo"]),
    ];
}

impl Kept for PodView {
    const FIELDS: Fields = &[
        ("PodSpec", &["nodeName", "priority", "volumes"]),
        ("PodStatus", &["conditions", "phase", "podIP"]),
    ];
}

impl Kept for AttachmentView {
    const FIELDS: Fields = &[(
        "VolumeAttachment",
        &["apiVersion", "kind", "metadata", "spec"],
    )];
}

impl Kept for WorkerView {}

impl Kept for Ledger {}

#[cfg(test)]
mod tests;
