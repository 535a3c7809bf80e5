//! The PendingNode of a node under verification: its name and its words.
//!
//! Owns the making of the object. Must not decide when one is needed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use shipshape_api::{PendingNode, PendingNodeGoal, PendingNodeSpec, names};

use crate::naming::hex;
use crate::view::NodeView;

/// Digits of the hash that ends a name.
const HASH_DIGITS: usize = 8;

/// Name of the object that remembers the verification of a node. It ends in a hash of the node's UID: a new
/// node under an old name is a stranger.
pub fn record_name(node: &NodeView) -> String {
    let readable = names::bounded(
        &format!("node-{}", node.name),
        names::NAME_MAX - HASH_DIGITS - 1,
    );
    format!("{readable}-{}", hex(&[&node.uid], HASH_DIGITS))
}

/// The object. It goes with its node.
pub fn of_node(node: &NodeView) -> PendingNode {
    let mut record = PendingNode::new(
        &record_name(node),
        PendingNodeSpec {
            provider_id: node.provider_id.as_ref().map(|id| id.0.clone()),
            node_name: Some(node.name.clone()),
            node_uid: Some(node.uid.clone()),
            goal: PendingNodeGoal::Join,
            ..PendingNodeSpec::default()
        },
    );
    record.metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: node.name.clone(),
        uid: node.uid.clone(),
        ..OwnerReference::default()
    }]);
    record
}
