//! What an applier gave up, taken out of the merged object.
//!
//! Owns the rule: a field goes when its manager applied it last time, does not apply it now, and
//! nobody else owns it. Also yields the fields of a configuration. Must not touch `managedFields`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    fields::FieldSet,
    types::{KindShape, Layout, Membership, TypeId, Types, item_name},
};

/// The fields that a configuration sets.
pub(super) fn fields_of(kind: &KindShape, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    collect(&kind.types, kind.root, value, &mut Vec::new(), &mut set);
    set
}

fn collect(types: &Types, id: TypeId, value: &Value, path: &mut Vec<String>, set: &mut FieldSet) {
    match (types.layout(id, value), value) {
        (Layout::Fields, Value::Object(fields)) => {
            for (name, field) in fields {
                let (of, membership) = types.field(id, name);
                path.push(format!("f:{name}"));
                collect(types, of, field, path, set);
                let is_bare = field.is_null() || field.as_object().is_some_and(Map::is_empty);
                if is_bare || membership == Membership::Free {
                    set.insert(path);
                }
                path.pop();
            }
        }
        (Layout::Items(of, kind), Value::Array(items)) => {
            let mut seen = BTreeSet::new();
            for item in items {
                let Ok(name) = item_name(kind, item) else {
                    continue;
                };
                path.push(name.clone());
                if seen.insert(name) {
                    collect(types, of, item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        (Layout::Leaf, _) => set.insert(path),
        (Layout::Fields | Layout::Items(..), _) => {}
    }
}

/// The merged object without what the applier gave up. `last` is what it applied before, `owned`
/// what all managers own now, the applier's new configuration included.
pub(super) fn pruned(kind: &KindShape, merged: &Value, last: &FieldSet, owned: &FieldSet) -> Value {
    let types = &kind.types;
    let named = |set: &FieldSet| with_structures(types, kind.root, set.clone());
    let without = |set: &FieldSet| removed(types, kind.root, merged, set);
    let all = named(&fields_of(kind, merged));
    let last = named(last);

    // Everything the applier had goes, then what somebody still owns comes back, then what the
    // applier never had: a structure may have taken such fields along.
    let bare = without(&last);
    let mut kept = named(&fields_of(kind, &bare));
    kept.absorb(&named(owned));
    let mut given_up = all.clone();
    given_up.subtract(&kept);
    let owned_only = without(&given_up);

    let mut gone = all;
    gone.subtract(&named(&fields_of(kind, &owned_only)));
    without(&gone.intersection(&last))
}

/// The set with every structure on the way to a member made a member, too.
fn with_structures(types: &Types, id: TypeId, mut set: FieldSet) -> FieldSet {
    mark_structures(types, id, &mut set);
    set
}

fn mark_structures(types: &Types, id: TypeId, set: &mut FieldSet) {
    for (name, child) in set.children_mut() {
        let below = if let Some(field) = name.strip_prefix("f:") {
            let (of, membership) = types.field(id, field);
            if membership == Membership::Named {
                child.mark();
            }
            of
        } else {
            types.item(id)
        };
        mark_structures(types, below, child);
    }
}

/// The value without the members of the set.
fn removed(types: &Types, id: TypeId, value: &Value, set: &FieldSet) -> Value {
    match (types.layout(id, value), value) {
        (Layout::Fields, Value::Object(fields)) => {
            let mut out = Map::new();
            for (name, field) in fields {
                let (of, _) = types.field(id, name);
                if let Some(kept) = kept(types, of, field, set.below(&format!("f:{name}"))) {
                    out.insert(name.clone(), kept);
                }
            }
            Value::Object(out)
        }
        (Layout::Items(of, kind), Value::Array(items)) => {
            let left = items.iter().filter_map(|item| {
                let below = item_name(kind, item).ok().and_then(|name| set.below(&name));
                kept(types, of, item, below)
            });
            Value::Array(left.collect())
        }
        _ => value.clone(),
    }
}

/// What remains of a part; nothing when it is a member. A part that lost all of its own parts is
/// left as a null, as the real server does: kinds that are compiled in drop it, schemas refuse it.
fn kept(types: &Types, id: TypeId, value: &Value, below: Option<&FieldSet>) -> Option<Value> {
    let Some(below) = below else {
        return Some(value.clone());
    };
    if below.is_member() {
        return None;
    }
    let left = removed(types, id, value, below);
    let is_hollow =
        left.as_object().is_some_and(Map::is_empty) || left.as_array().is_some_and(Vec::is_empty);
    Some(if is_hollow { Value::Null } else { left })
}
