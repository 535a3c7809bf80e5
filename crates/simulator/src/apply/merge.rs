//! The merge of an applied configuration into an object.
//!
//! Owns the order of merged lists. Must not decide what is taken out again: `prune` does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::types::{Layout, ListKind, TypeId, Types, item_name};

/// The object with the configuration laid over it, part by part.
pub(super) fn merged(types: &Types, id: TypeId, old: Option<&Value>, new: Option<&Value>) -> Value {
    let (Some(before), Some(after)) = (old, new) else {
        return new.or(old).cloned().unwrap_or_default();
    };
    let telling = if after.is_null() { before } else { after };
    match (types.layout(id, telling), before, after) {
        (Layout::Fields, Value::Object(olds), Value::Object(news)) => fields(types, id, olds, news),
        (Layout::Items(of, kind), Value::Array(olds), Value::Array(news)) => Value::Array(
            Lists {
                types,
                of,
                olds: named(kind, olds),
                news: named(kind, news),
            }
            .merged(),
        ),
        (Layout::Fields | Layout::Items(..), _, Value::Null) if !is_empty(before) => before.clone(),
        _ => after.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn fields(
    types: &Types,
    id: TypeId,
    olds: &Map<String, Value>,
    news: &Map<String, Value>,
) -> Value {
    let mut out = olds.clone();
    for (name, after) in news {
        let (of, _) = types.field(id, name);
        let value = merged(types, of, olds.get(name), Some(after));
        out.insert(name.clone(), value);
    }
    Value::Object(out)
}

/// Items with their names; an item without a usable name keeps its place and is never matched.
fn named<'v>(kind: &ListKind, list: &'v [Value]) -> Vec<(String, &'v Value)> {
    list.iter()
        .enumerate()
        .map(|(at, item)| {
            let name = item_name(kind, item).unwrap_or_else(|_| format!("i:{at}"));
            (name, item)
        })
        .collect()
}

struct Lists<'v> {
    types: &'v Types,
    of: TypeId,
    olds: Vec<(String, &'v Value)>,
    news: Vec<(String, &'v Value)>,
}

impl Lists<'_> {
    /// The items of the configuration in its order; items that only the object has stay where they
    /// stand between those that both have.
    fn merged(&self) -> Vec<Value> {
        let mut of_old: BTreeMap<&str, Option<&Value>> = BTreeMap::new();
        for (name, item) in &self.olds {
            // Of items that share a name none is merged with the new one.
            of_old
                .entry(name)
                .and_modify(|seen| *seen = None)
                .or_insert(Some(item));
        }
        let in_new: BTreeSet<&str> = self.news.iter().map(|(name, _)| name.as_str()).collect();
        let mut shared: VecDeque<&str> = self
            .news
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| of_old.contains_key(name))
            .collect();
        let mut done: BTreeSet<&str> = BTreeSet::new();
        let mut out = Vec::new();
        let mut old = self.olds.iter().peekable();
        let mut new = self.news.iter().peekable();
        while old.peek().is_some() || new.peek().is_some() {
            if let Some((name, item)) = old.peek() {
                let is_shared = in_new.contains(name.as_str());
                let is_due = shared.front().is_none_or(|due| due == name);
                if !is_shared {
                    out.push((*item).clone());
                    old.next();
                    continue;
                }
                if done.contains(name.as_str()) || !is_due {
                    old.next();
                    continue;
                }
            }
            let Some((name, item)) = new.next() else {
                continue;
            };
            let partner = of_old.get(name.as_str()).copied().flatten();
            out.push(merged(self.types, self.of, partner, Some(item)));
            done.insert(name);
            if shared.front() == Some(&name.as_str()) {
                shared.pop_front();
            }
        }
        out
    }
}
