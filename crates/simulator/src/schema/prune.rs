//! Dropping what a schema does not know, and naming it.
//!
//! Owns pruning of unknown fields. Must not check values. Called for every object that is written,
//! before defaults are checked; the names feed strict field validation.

use serde_json::Value;

use super::builtin::object_meta;
use super::node::{Additional, Node};

/// Fields of every Kubernetes object, which a schema need not declare.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes unknown fields from an object that follows `root`; returns their paths, sorted.
pub(crate) fn prune_object(object: &mut Value, root: &Node) -> Vec<String> {
    let mut pruning = Pruning::default();
    pruning.value(object, Some(root), true, "");
    pruning.unknown.sort();
    pruning.unknown
}

/// As `prune_object`, for a value inside of an object.
pub(crate) fn prune_value(value: &mut Value, node: &Node) -> Vec<String> {
    let mut pruning = Pruning::default();
    pruning.value(value, Some(node), false, "");
    pruning.unknown
}

#[derive(Default)]
struct Pruning {
    unknown: Vec<String>,
}

impl Pruning {
    fn value(&mut self, value: &mut Value, node: Option<&Node>, is_root: bool, path: &str) {
        match value {
            Value::Object(members) => {
                let names: Vec<String> = members.keys().cloned().collect();
                for name in names {
                    if self.drops(members, node, is_root, (path, &name)) {
                        members.remove(&name);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(node) = node
                    && node.preserve_unknown
                    && node.items.is_none()
                {
                    return;
                }
                let item_node = node.and_then(|node| node.items.as_deref());
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(item, item_node, false, &format!("{path}[{index}]"));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Prunes below one member; true when the member itself is unknown.
    fn drops(
        &mut self,
        members: &mut serde_json::Map<String, Value>,
        node: Option<&Node>,
        is_root: bool,
        (path, name): (&str, &str),
    ) -> bool {
        let below = join(path, name);
        let Some(node) = node else {
            self.unknown.push(below);
            return true;
        };
        if (is_root || node.embedded) && META_FIELDS.contains(&name) {
            if let Some(metadata) = members.get_mut("metadata").filter(|_| name == "metadata") {
                self.value(metadata, Some(object_meta()), false, &below);
            }
            return false;
        }
        if let Some(child) = node.member(name) {
            if let Some(value) = members.get_mut(name) {
                self.value(value, Some(child), false, &below);
            }
            return false;
        }
        if node.preserve_unknown {
            return false;
        }
        if matches!(node.additional, Additional::Any) {
            if let Some(value) = members.get_mut(name) {
                self.value(value, None, false, &below);
            }
            return false;
        }
        self.unknown.push(below);
        true
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
