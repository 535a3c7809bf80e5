//! Uniqueness in lists of the set and map types.
//!
//! Owns the duplicate check. Must not look at anything else. Called by `Schema::validate`.

use serde_json::{Map, Value};

use super::field_error::{FieldError, FieldErrorKind};
use super::node::{Additional, ListType, Node};
use super::validate::join;

/// Duplicates anywhere below `value`.
pub(crate) fn check(node: &Node, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_value(node, value, "", &mut errors);
    errors
}

fn check_value(node: &Node, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Array(items) => {
            check_list(node, items, path, errors);
            if let Some(child) = node.items.as_deref() {
                for (index, item) in items.iter().enumerate() {
                    check_value(child, item, &format!("{path}[{index}]"), errors);
                }
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                if let Some(child) = node.properties.get(name) {
                    check_value(child, value, &join(path, name), errors);
                } else if let Additional::Node(child) = &node.additional {
                    check_value(child, value, &format!("{path}[{name}]"), errors);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_list(node: &Node, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    match &node.list_type {
        ListType::Atomic => {}
        ListType::Set => {
            for (index, item) in repeated(items) {
                errors.push(duplicate(path, index, item));
            }
        }
        ListType::Map(keys) => {
            let stray = items
                .iter()
                .enumerate()
                .find(|(_, item)| !item.is_object() && !item.is_null());
            if let Some((index, item)) = stray {
                let detail = "must be an object for an array of list-type map";
                errors.push(FieldError::invalid(
                    &format!("{path}[{index}]"),
                    item,
                    detail,
                ));
                return;
            }
            let identities: Vec<Value> = items.iter().map(|item| identity(item, keys)).collect();
            for (index, item) in repeated(&identities) {
                errors.push(duplicate(path, index, item));
            }
        }
    }
}

fn identity(item: &Value, keys: &[String]) -> Value {
    let members = keys
        .iter()
        .filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
    Value::Object(members.collect::<Map<String, Value>>())
}

/// Items that occur a second time; a third occurrence is not named again.
fn repeated(items: &[Value]) -> Vec<(usize, &Value)> {
    let mut found: Vec<(usize, &Value)> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let is_repeat = items.iter().take(index).any(|earlier| earlier == item);
        if is_repeat && !found.iter().any(|(_, known)| *known == item) {
            found.push((index, item));
        }
    }
    found
}

fn duplicate(path: &str, index: usize, item: &Value) -> FieldError {
    FieldError::of_value(
        FieldErrorKind::Duplicate,
        &format!("{path}[{index}]"),
        item,
        "",
    )
}
