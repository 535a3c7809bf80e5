//! Between the stored form of an object and the versions it is served in.
//!
//! Owns the one built-in case, Events, which two groups serve under different field names. Custom
//! kinds differ in `apiVersion` alone, which is not stored.

use serde_json::{Map, Value};

use super::{
    kinds::{BuiltIn, Kind},
    meta,
};

/// Names in the core group, then in `events.k8s.io`.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Whether the kind is served under other field names than it is stored.
pub(crate) fn is_renamed(kind: &Kind) -> bool {
    kind.is(BuiltIn::Event) && kind.group == "events.k8s.io"
}

/// The served form of a stored object, when it differs.
pub(crate) fn served(kind: &Kind, stored: &Value) -> Option<Value> {
    if !is_renamed(kind) {
        return None;
    }
    let mut value = stored.clone();
    let map = meta::as_map(&mut value);
    for (stored, served) in EVENT_FIELDS {
        rename(map, stored, served);
    }
    for optional in ["reportingController", "reportingInstance"] {
        if map.get(optional) == Some(&Value::String(String::new())) {
            map.remove(optional);
        }
    }
    Some(value)
}

/// The stored form of what a client sent.
pub(crate) fn stored(kind: &Kind, mut value: Value) -> Value {
    if is_renamed(kind) {
        let map = meta::as_map(&mut value);
        for (stored, served) in EVENT_FIELDS {
            rename(map, served, stored);
        }
        meta::default_to(map, "source", Value::Object(Map::default()));
        meta::default_to(map, "involvedObject", Value::Object(Map::default()));
    }
    value
}

fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to.to_owned(), value);
    }
}
