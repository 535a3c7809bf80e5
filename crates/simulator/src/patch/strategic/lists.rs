//! Lists in strategic merge patches.
//!
//! Owns the merging of items and the order they end up in. Must not look at fields of items other
//! than the merge key and the directive.

use serde_json::Value;

use super::{DIRECTIVE, Fields, bad_directive, merged, printed};
use crate::{
    apply::types::{TypeId, Types},
    patch::PatchError,
};

/// Both lists of scalars, each value once.
pub(super) fn scalars(live: &[Value], patch: &[Value]) -> Result<Vec<Value>, PatchError> {
    if live.iter().chain(patch).any(Value::is_array) {
        return Err(PatchError::Unprocessable(
            "lists of lists are not supported".to_owned(),
        ));
    }
    let mut both: Vec<Value> = Vec::new();
    for item in live.iter().chain(patch) {
        if !both.contains(item) {
            both.push(item.clone());
        }
    }
    Ok(ordered(both, patch, live, None))
}

/// A list whose items are merged when they agree on a key.
pub(super) struct Keyed<'a> {
    pub(super) types: &'a Types,
    pub(super) item: TypeId,
    pub(super) key: &'a str,
}

impl Keyed<'_> {
    pub(super) fn merged(
        &self,
        mut live: Vec<Value>,
        patch: Vec<Value>,
    ) -> Result<Vec<Value>, PatchError> {
        let mut given: Vec<Fields> = Vec::new();
        let mut is_replaced = false;
        for item in patch {
            let Value::Object(item) = item else {
                return Err(PatchError::Internal(
                    "list element types are not identical".to_owned(),
                ));
            };
            match item.get(DIRECTIVE).map(Value::as_str) {
                None => given.push(item),
                Some(Some("delete")) => {
                    let gone = self.key_of(&item)?;
                    live.retain(|kept| kept.get(self.key) != Some(&gone));
                }
                Some(Some("replace")) => is_replaced = true,
                Some(Some("merge")) => {
                    return Err(PatchError::Internal(
                        "merging lists cannot yet be specified in the patch".to_owned(),
                    ));
                }
                Some(_) => {
                    let directive = item.get(DIRECTIVE).cloned().unwrap_or_default();
                    return Err(bad_directive(&directive, &item));
                }
            }
        }
        if is_replaced {
            return Ok(given.into_iter().map(Value::Object).collect());
        }
        let wanted: Vec<Value> = given.iter().cloned().map(Value::Object).collect();
        let mut all = live.clone();
        for item in given {
            let key = self.key_of(&item)?;
            let found = all.iter_mut().find(|kept| kept.get(self.key) == Some(&key));
            match found {
                Some(Value::Object(kept)) => {
                    *kept = merged(self.types, self.item, std::mem::take(kept), item)?;
                }
                _ => all.push(Value::Object(item)),
            }
        }
        Ok(ordered(all, &wanted, &live, Some(self.key)))
    }

    fn key_of(&self, item: &Fields) -> Result<Value, PatchError> {
        item.get(self.key).cloned().ok_or_else(|| {
            PatchError::Internal(format!(
                "map: {} does not contain declared merge key: {}",
                printed(&Value::Object(item.clone())),
                self.key
            ))
        })
    }
}

fn position(list: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    let tag = |value: &Value| match key {
        Some(key) => value.get(key).cloned(),
        None => Some(value.clone()),
    };
    let wanted = tag(item);
    list.iter().position(|other| tag(other) == wanted)
}

/// The items in an order that keeps the wanted one among the items it names, and the live one among
/// the others, which come before a named item only when they did so in the live list.
pub(super) fn ordered(
    items: Vec<Value>,
    wanted: &[Value],
    live: &[Value],
    key: Option<&str>,
) -> Vec<Value> {
    let (mut named, mut others): (Vec<Value>, Vec<Value>) = items
        .into_iter()
        .partition(|item| position(wanted, item, key).is_some());
    named.sort_by_key(|item| position(wanted, item, key));
    others.sort_by_key(|item| position(live, item, key).unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for item in named {
        let at = position(live, &item, key);
        while let Some(other) = others.peek() {
            let is_before = match (position(live, other, key), at) {
                (Some(other), Some(at)) => other < at,
                _ => false,
            };
            if !is_before {
                break;
            }
            out.extend(others.next());
        }
        out.push(item);
    }
    out.extend(others);
    out
}

/// Refuses a patch whose items stand in another order than the one it asks for.
pub(super) fn check_order(
    patch: &[Value],
    wanted: &[Value],
    key: Option<&str>,
) -> Result<(), PatchError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let mut left = wanted;
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        match position(left, item, key) {
            Some(at) => left = left.get(at + 1..).unwrap_or_default(),
            None => {
                return Err(PatchError::Internal(format!(
                    "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                    printed(&patch.into()),
                    printed(&wanted.into())
                )));
            }
        }
    }
    Ok(())
}
