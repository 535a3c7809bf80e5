//! Dropping what a schema does not know, and naming it.
//!
//! Owns pruning of unknown fields. Must not check values. Called for every object that is written,
//! before defaults are checked; the names feed field validation.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::builtin::object_meta;
use super::node::{Additional, Node};

/// Fields of every Kubernetes object, which a schema need not declare.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes unknown fields from an object that follows `root`; returns their paths, sorted.
pub(crate) fn prune_object(object: &mut Value, root: &Node) -> Vec<String> {
    let mut pruning = Pruning::default();
    pruning.value(object, Some(root), true);
    pruning.unknown.sort();
    pruning.unknown
}

/// As `prune_object`, for a value inside of an object.
pub(crate) fn prune_value(value: &mut Value, node: &Node) -> Vec<String> {
    let mut pruning = Pruning::default();
    pruning.value(value, Some(node), false);
    pruning.unknown
}

/// The walk; the path is one buffer, because nearly always nothing is unknown.
#[derive(Default)]
struct Pruning {
    path: String,
    unknown: Vec<String>,
}

impl Pruning {
    fn value(&mut self, value: &mut Value, node: Option<&Node>, is_root: bool) {
        match value {
            Value::Object(members) => self.members(members, node, is_root),
            Value::Array(items) => {
                let kept_whole = node.is_some_and(|n| n.preserve_unknown && n.items.is_none());
                if kept_whole {
                    return;
                }
                let item_node = node.and_then(|node| node.items.as_deref());
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.path.len();
                    if write!(self.path, "[{index}]").is_ok() {
                        self.value(item, item_node, false);
                    }
                    self.path.truncate(length);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn members(&mut self, members: &mut Map<String, Value>, node: Option<&Node>, is_root: bool) {
        members.retain(|name, value| {
            let length = self.path.len();
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
            let known = self.keeps(name, value, node, is_root);
            if !known {
                self.unknown.push(self.path.clone());
            }
            self.path.truncate(length);
            known
        });
    }

    /// Prunes below one member; false when the member itself is unknown.
    fn keeps(&mut self, name: &str, value: &mut Value, node: Option<&Node>, is_root: bool) -> bool {
        let Some(node) = node else {
            return false;
        };
        if (is_root || node.embedded) && META_FIELDS.contains(&name) {
            if name == "metadata" {
                self.value(value, Some(object_meta()), false);
            }
            return true;
        }
        if let Some(child) = node.member(name) {
            self.value(value, Some(child), false);
            return true;
        }
        if !node.preserve_unknown && matches!(node.additional, Additional::Any) {
            self.value(value, None, false);
            return true;
        }
        node.preserve_unknown
    }
}
