//! Reading fields of an object for cells.
//!
//! Owns small lookups by JSON pointer. Must not format times. Called by the built-in layouts.

use serde_json::Value;

/// A text, empty when absent.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A text, or what stands for its absence.
pub(crate) fn text_or<'a>(object: &'a Value, pointer: &str, absent: &'a str) -> &'a str {
    match text(object, pointer) {
        "" => absent,
        text => text,
    }
}

/// A whole number, 0 when absent.
pub(crate) fn number(object: &Value, pointer: &str) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// A flag, false when absent.
pub(crate) fn flag(object: &Value, pointer: &str) -> bool {
    object
        .pointer(pointer)
        .and_then(Value::as_bool)
        .unwrap_or_default()
}

/// The items of a list, none when absent.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The number of members of an object.
pub(crate) fn count(object: &Value, pointer: &str) -> usize {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> Value {
    Value::from(text(object, "/metadata/name"))
}

/// Whether a condition is there and true.
pub(crate) fn is_true(object: &Value, condition: &str) -> bool {
    list(object, "/status/conditions")
        .iter()
        .find(|entry| text(entry, "/type") == condition)
        .is_some_and(|entry| text(entry, "/status") == "True")
}

/// Labels as `a=b,c=d`, `<none>` when there are none.
pub(crate) fn labels(object: &Value, pointer: &str) -> String {
    let members = object.pointer(pointer).and_then(Value::as_object);
    let parts: Vec<String> = members
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if parts.is_empty() {
        "<none>".to_owned()
    } else {
        parts.join(",")
    }
}

/// A label selector as text.
pub(crate) fn selector(object: &Value, pointer: &str) -> String {
    let Some(selector) = object.pointer(pointer) else {
        return "<none>".to_owned();
    };
    let mut parts: Vec<String> = Vec::new();
    if count(selector, "/matchLabels") > 0 {
        parts.push(labels(selector, "/matchLabels"));
    }
    for requirement in list(selector, "/matchExpressions") {
        let key = text(requirement, "/key");
        let values: Vec<&str> = list(requirement, "/values")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let values = values.join(",");
        parts.push(match text(requirement, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    if parts.is_empty() {
        "<none>".to_owned()
    } else {
        parts.join(",")
    }
}

/// Names and images of the containers of a pod template, each comma-separated.
pub(crate) fn containers(object: &Value) -> [Value; 2] {
    let containers = list(object, "/spec/template/spec/containers");
    ["/name", "/image"].map(|field| {
        let parts: Vec<&str> = containers.iter().map(|c| text(c, field)).collect();
        Value::from(parts.join(","))
    })
}
