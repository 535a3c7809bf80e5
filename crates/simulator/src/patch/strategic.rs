//! Strategic merge patches: merge patches that know the lists of the core kinds.
//!
//! Owns the directives `$patch`, `$retainKeys`, `$setElementOrder/…` and
//! `$deleteFromPrimitiveList/…`. The lists themselves are merged in `lists`. Must not know kinds:
//! the shape says which list is merged by which key.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::PatchError;
use crate::apply::types::{ListPatch, TypeId, Types};

mod lists;

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_ITEMS: &str = "$deleteFromPrimitiveList/";

type Fields = Map<String, Value>;

/// The object after the patch.
pub(super) fn patched(
    types: &Types,
    root: TypeId,
    live: Value,
    patch: Value,
) -> Result<Value, PatchError> {
    let (Value::Object(live), Value::Object(patch)) = (live, patch) else {
        return Err(PatchError::BadRequest("invalid JSON document".to_owned()));
    };
    merged(types, root, live, patch).map(Value::Object)
}

/// Lays a patch over a structure or map.
fn merged(
    types: &Types,
    id: TypeId,
    mut live: Fields,
    mut patch: Fields,
) -> Result<Fields, PatchError> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Fields::new()),
            _ => Err(bad_directive(&directive, &patch)),
        };
    }
    retain(&mut live, &mut patch)?;
    order(types, id, &mut live, &mut patch)?;
    for (name, value) in patch {
        if let Some(name) = name.strip_prefix(DELETE_ITEMS) {
            delete_items(&mut live, name, &value);
        } else if name.starts_with("$deleteFromPrimitiveList") {
            return Err(PatchError::BadRequest(
                "invalid patch format of primitive list".to_owned(),
            ));
        } else if value.is_null() {
            live.remove(&name);
        } else {
            let (of, _) = types.field(id, &name);
            let before = live.remove(&name);
            if let Some(after) = merged_value(types, of, before, value)? {
                live.insert(name, after);
            }
        }
    }
    Ok(live)
}

fn merged_value(
    types: &Types,
    id: TypeId,
    live: Option<Value>,
    patch: Value,
) -> Result<Option<Value>, PatchError> {
    match (live, patch) {
        (Some(Value::Object(_)), Value::Object(patch)) if types.is_replaced(id) => {
            Ok(Some(Value::Object(patch)))
        }
        (Some(Value::Object(live)), Value::Object(patch)) => {
            merged(types, id, live, patch).map(|fields| Some(Value::Object(fields)))
        }
        (Some(Value::Array(live)), Value::Array(patch)) => {
            list_merged(types, id, live, patch).map(|items| Some(Value::Array(items)))
        }
        (_, patch) => Ok(without_directives(patch)),
    }
}

fn list_merged(
    types: &Types,
    id: TypeId,
    live: Vec<Value>,
    patch: Vec<Value>,
) -> Result<Vec<Value>, PatchError> {
    match types.list_patch(id) {
        ListPatch::Replace => Ok(patch),
        ListPatch::Merge => lists::scalars(&live, &patch),
        ListPatch::MergeBy(key) => lists::Keyed {
            types,
            item: types.item(id),
            key,
        }
        .merged(live, patch),
    }
}

fn bad_directive(directive: &Value, patch: &Fields) -> PatchError {
    let mut whole = patch.clone();
    whole.insert(DIRECTIVE.to_owned(), directive.clone());
    PatchError::Internal(format!(
        "unknown patch type: {} in map: {}",
        printed(directive),
        printed(&Value::Object(whole))
    ))
}

/// A value as the real server prints it in such messages.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(printed).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, field)| format!("{name}:{}", printed(field)))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// `$retainKeys`: fields that the list does not name are dropped from the live object.
fn retain(live: &mut Fields, patch: &mut Fields) -> Result<(), PatchError> {
    let malformed = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let Some(listed) = patch.remove(RETAIN) else {
        return Ok(());
    };
    let listed = listed.as_array().ok_or_else(malformed)?;
    let names: BTreeSet<&str> = listed.iter().filter_map(Value::as_str).collect();
    let is_stranger = |(name, value): (&String, &Value)| {
        !(value.is_null()
            || name.starts_with("$deleteFromPrimitiveList")
            || name.starts_with("$setElementOrder")
            || names.contains(name.as_str()))
    };
    if patch.iter().any(is_stranger) {
        return Err(malformed());
    }
    live.retain(|name, _| names.contains(name.as_str()));
    Ok(())
}

/// `$setElementOrder/LIST`: the list is merged, then its items follow the given order.
fn order(
    types: &Types,
    id: TypeId,
    live: &mut Fields,
    patch: &mut Fields,
) -> Result<(), PatchError> {
    let orders: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with("$setElementOrder"))
        .cloned()
        .collect();
    for directive in orders {
        let malformed =
            || PatchError::BadRequest("invalid patch format of setElementOrder list".to_owned());
        let name = directive.strip_prefix(ORDER).ok_or_else(malformed)?;
        let Some(Value::Array(wanted)) = patch.remove(&directive) else {
            return Err(malformed());
        };
        let given = as_list(patch.remove(name)).map_err(|()| malformed())?;
        let before = as_list(live.get(name).cloned()).map_err(|()| malformed())?;
        let (of, _) = types.field(id, name);
        let key = match types.list_patch(of) {
            ListPatch::MergeBy(key) => Some(key.as_str()),
            ListPatch::Merge | ListPatch::Replace => None,
        };
        lists::check_order(given.as_deref().unwrap_or_default(), &wanted, key)?;
        let merged = match (before.clone(), given) {
            (None, None) => continue,
            (Some(before), None) => before,
            (None, Some(given)) => given.into_iter().filter_map(without_directives).collect(),
            (Some(before), Some(given)) => list_merged(types, of, before, given)?,
        };
        let ordered = lists::ordered(merged, &wanted, &before.unwrap_or_default(), key);
        live.insert(name.to_owned(), Value::Array(ordered));
    }
    Ok(())
}

fn as_list(value: Option<Value>) -> Result<Option<Vec<Value>>, ()> {
    match value {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(_) => Err(()),
    }
}

/// `$deleteFromPrimitiveList/LIST`: the scalars named are taken out.
fn delete_items(live: &mut Fields, name: &str, gone: &Value) {
    let gone = gone.as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(items) = live.get_mut(name).and_then(Value::as_array_mut) {
        items.retain(|item| !gone.contains(item));
    }
}

/// A new value as it is stored: without nulls, and without parts that carry a directive.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => Some(Value::Object(
            fields
                .into_iter()
                .filter(|(_, field)| !field.is_null())
                .filter_map(|(name, field)| Some((name, without_directives(field)?)))
                .collect(),
        )),
        Value::Array(items) => Some(Value::Array(
            items.into_iter().filter_map(without_directives).collect(),
        )),
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            Some(scalar)
        }
    }
}
