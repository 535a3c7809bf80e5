//! The parts of an object that a write leaves as they are stored.
//!
//! Owns which parts can be told apart from the rest: a built-in kind's spec and status do not depend
//! on each other, and the record of field owners depends on nothing. Custom kinds keep their parts:
//! their schema may have changed since they were stored.

use serde_json::Value;

use crate::server::{
    convert,
    kinds::{BuiltIn, Kind},
    meta,
};

const OWNERS: &str = "managedFields";

/// What was taken off an object.
pub(super) struct Aside {
    parts: Vec<(&'static str, Value)>,
    owners: Option<Value>,
}

/// Takes the unchanged parts off a new state of an object.
pub(super) fn take(kind: &Kind, old: &Value, value: &mut Value) -> Aside {
    let stored = meta::at(old, &["metadata", OWNERS]);
    let is_kept = stored.is_some() && meta::at(value, &["metadata", OWNERS]) == stored;
    let owners = is_kept
        .then(|| meta::metadata(value).remove(OWNERS))
        .flatten();
    let mut parts = Vec::new();
    if has_separate_parts(kind) {
        for part in ["spec", "status"] {
            let is_kept = old.get(part).is_some() && value.get(part) == old.get(part);
            let taken = is_kept.then(|| meta::as_map(value).remove(part)).flatten();
            parts.extend(taken.map(|taken| (part, taken)));
        }
    }
    Aside { parts, owners }
}

/// A job's labels come from its spec, and a definition is kept as it was sent.
fn has_separate_parts(kind: &Kind) -> bool {
    kind.built_in()
        .is_some_and(|which| !matches!(which, BuiltIn::Job | BuiltIn::CustomResourceDefinition))
        && !convert::is_renamed(kind)
}

impl Aside {
    /// Puts everything back in its place.
    pub(super) fn put_back(self, value: &mut Value) {
        for (part, taken) in self.parts {
            meta::as_map(value).insert(part.to_owned(), taken);
        }
        if let Some(owners) = self.owners {
            meta::set_meta(value, OWNERS, Some(owners));
        }
    }
}
