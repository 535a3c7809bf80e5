//! Filling in what was left out.
//!
//! Owns defaults and the fate of nulls. Must not check values. Called for every object that is
//! written, before unknown fields are pruned.

use serde_json::Value;

use super::node::{Additional, Node};

/// Drops nulls that are not values, then fills in defaults, from the top down.
pub(crate) fn fill(object: &mut Value, root: &Node) {
    make_whole(object);
    drop_nulls(object, Some(root));
    apply(object, root);
}

/// The API server writes `1.0` as `1`, so that is what the next reader gets.
fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let text = number.to_string();
            let whole = text.strip_suffix(".0").and_then(|text| text.parse().ok());
            if let Some(whole) = whole {
                *value = Value::Number(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(members) => members.values_mut().for_each(make_whole),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A null for a field that is not nullable counts as left out; where a default exists it is left
/// for `apply` to replace.
fn drop_nulls(value: &mut Value, node: Option<&Node>) {
    match value {
        Value::Object(members) => {
            members.retain(|name, value| {
                let child = node.and_then(|node| node.member(name));
                let dropped = value.is_null()
                    && child.is_some_and(|child| !child.nullable && child.default.is_none());
                if !dropped {
                    drop_nulls(value, child);
                }
                !dropped
            });
        }
        Value::Array(items) => {
            let child = node.and_then(|node| node.items.as_deref());
            for item in items {
                drop_nulls(item, child);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn apply(value: &mut Value, node: &Node) {
    match value {
        Value::Object(members) => {
            for (name, child) in &node.properties {
                let Some(default) = &child.default else {
                    continue;
                };
                let missing = match members.get(name) {
                    None => true,
                    Some(value) => value.is_null() && !child.nullable,
                };
                if missing {
                    members.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in members.iter_mut() {
                if let Some(child) = node.properties.get(name) {
                    apply(value, child);
                } else if let Additional::Node(child) = &node.additional {
                    replace_null(value, child);
                    apply(value, child);
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = node.items.as_deref() else {
                return;
            };
            for item in items {
                replace_null(item, child);
                apply(item, child);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn replace_null(value: &mut Value, node: &Node) {
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
}
