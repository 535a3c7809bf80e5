//! What the real server leaves out when it writes an object: nulls, and zero values of fields that
//! are not always written.
//!
//! Owns that rule. The published schemas say which fields are always written and which are maps;
//! whether an optional number tells zero from nothing they do not say, so that is a list here.

use serde_json::{Map, Value};

use crate::schema::{Node, node::Additional};

/// Optional numbers and flags for which zero is the same as nothing.
const ZERO_IS_NOTHING: &[&str] = &[
    "active",
    "availableReplicas",
    "collisionCount",
    "count",
    "failed",
    "fullyLabeledReplicas",
    "globalDefault",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostPort",
    "initialDelaySeconds",
    "minReadySeconds",
    "nodePort",
    "numberAvailable",
    "numberUnavailable",
    "observedGeneration",
    "paused",
    "publishNotReadyAddresses",
    "readOnly",
    "readyReplicas",
    "replicasUnavailable",
    "stdin",
    "stdinOnce",
    "succeeded",
    "tty",
    "unavailableReplicas",
    "unschedulable",
    "updatedNumberScheduled",
    "updatedReplicas",
    "generation",
];

/// Optional texts that tell empty from nothing.
const EMPTY_IS_TEXT: &[&str] = &["storageClassName", "volumeAttributesClassName"];

/// Drops from an object what would not be written.
pub(super) fn omit(value: &mut Value, node: &Node) {
    match value {
        Value::Object(map) => omit_members(map, node),
        Value::Array(items) => {
            if let Some(node) = node.items.as_deref() {
                for item in items {
                    omit(item, node);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn omit_members(map: &mut Map<String, Value>, node: &Node) {
    if node.properties.is_empty() {
        return;
    }
    map.retain(|name, member| {
        let child = node.member(name);
        if let Some(child) = child {
            omit(member, child);
        }
        node.limits.required.contains(name) || !is_nothing(name, member, child)
    });
}

fn is_nothing(name: &str, value: &Value, node: Option<&Node>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag && ZERO_IS_NOTHING.contains(&name),
        Value::Number(number) => number.as_f64() == Some(0.0) && ZERO_IS_NOTHING.contains(&name),
        Value::String(text) => text.is_empty() && !EMPTY_IS_TEXT.contains(&name),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => {
            let is_map = node.is_some_and(|node| matches!(node.additional, Additional::Node(_)));
            map.is_empty() && is_map
        }
    }
}
