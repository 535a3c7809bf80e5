//! Reading and writing fields of objects kept as JSON.
//!
//! Owns paths and metadata access. Must not know any kind.

use serde_json::{Map, Value};

/// The value at a path of keys.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(*key))
}

/// The text at a path; empty when it is not there.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a path.
pub(crate) fn number(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).and_then(Value::as_i64)
}

/// The elements of the list at a path; none when it is not there.
pub(crate) fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// A field of the metadata, as text.
pub(crate) fn meta_text<'a>(value: &'a Value, key: &str) -> &'a str {
    text(value, &["metadata", key])
}

/// The map at a key, made when it is not there or is no map.
pub(crate) fn map_at<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = map
        .entry(key)
        .or_insert_with(|| Value::Object(Map::default()));
    as_map(slot)
}

/// The value as a map; whatever else it was is lost.
pub(crate) fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::default());
    }
    let Value::Object(map) = value else {
        unreachable!("made a map above");
    };
    map
}

/// The metadata of an object, made when it is not there.
pub(crate) fn metadata(value: &mut Value) -> &mut Map<String, Value> {
    map_at(as_map(value), "metadata")
}

/// The spec of an object, made when it is not there.
pub(crate) fn spec(value: &mut Value) -> &mut Map<String, Value> {
    map_at(as_map(value), "spec")
}

/// Sets a field of the metadata, or removes it when there is nothing to set.
pub(crate) fn set_meta(value: &mut Value, key: &str, field: Option<Value>) {
    put(metadata(value), key, field);
}

/// Sets a key of a map, or removes it when there is nothing to set.
pub(crate) fn put(map: &mut Map<String, Value>, key: &str, field: Option<Value>) {
    match field {
        Some(field) => {
            map.insert(key.to_owned(), field);
        }
        None => {
            map.remove(key);
        }
    }
}

/// Sets a key of a map when nothing is there.
pub(crate) fn default_to(map: &mut Map<String, Value>, key: &str, field: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), field.into());
    }
}

/// Whether the object is on its way out.
pub(crate) fn is_deleting(value: &Value) -> bool {
    at(value, &["metadata", "deletionTimestamp"]).is_some_and(|at| !at.is_null())
}

/// The finalizers of an object.
pub(crate) fn finalizers(value: &Value) -> impl Iterator<Item = &str> {
    items(value, &["metadata", "finalizers"])
        .iter()
        .filter_map(Value::as_str)
}

/// The time in the form of `metav1.Time`.
pub(crate) fn time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
