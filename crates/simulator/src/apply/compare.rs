//! What changed between two objects, as sets of fields.
//!
//! Owns the walk over both. Must not know managers: `track` and `apply` draw the conclusions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    fields::FieldSet,
    types::{KindShape, Layout, ListKind, TypeId, Types, item_name},
};

/// Fields of the metadata that belong to the server and are never owned.
const UNOWNED: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// The fields that differ.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// In the old object only.
    pub(super) removed: FieldSet,
    /// In both, with different values.
    pub(super) modified: FieldSet,
    /// In the new object only.
    pub(super) added: FieldSet,
}

impl Comparison {
    /// Fields that the writer set: added or modified.
    pub(super) fn taken(&self) -> FieldSet {
        let mut taken = self.added.clone();
        taken.absorb(&self.modified);
        taken
    }
}

/// Compares two objects of a kind, leaving out what nobody owns and what a write through this
/// subresource cannot touch.
pub(super) fn compare(kind: &KindShape, subresource: &str, old: &Value, new: &Value) -> Comparison {
    let mut walk = Walk {
        types: &kind.types,
        reset: kind.reset_fields(subresource),
        path: Vec::new(),
        found: Comparison::default(),
    };
    walk.pair(kind.root, Some(old), Some(new));
    walk.found
}

/// Takes out of a set what nobody owns and what a write through this subresource cannot touch.
pub(super) fn strip(kind: &KindShape, subresource: &str, set: &mut FieldSet) {
    let field = |name: &str| format!("f:{name}");
    for name in ["apiVersion", "kind"] {
        set.prune(&[field(name)]);
    }
    set.remove(&[field("metadata")]);
    for name in UNOWNED {
        set.prune(&[field("metadata"), field(name)]);
    }
    for path in kind.reset_fields(subresource) {
        let path: Vec<String> = path.iter().map(|name| field(name)).collect();
        set.prune(&path);
    }
}

struct Walk<'a> {
    types: &'a Types,
    reset: &'a [Vec<String>],
    path: Vec<String>,
    found: Comparison,
}

impl Walk<'_> {
    /// Compares two values of a type. A value that turns into one of another sort counts itself and
    /// the parts of both.
    fn pair(&mut self, id: TypeId, old: Option<&Value>, new: Option<&Value>) {
        if old == new {
            return;
        }
        if let (Some(before), Some(after)) = (old, new)
            && !before.is_null()
            && !after.is_null()
            && std::mem::discriminant(before) != std::mem::discriminant(after)
        {
            self.found.modified.insert(&self.path);
            self.parts(id, old, None);
            self.parts(id, None, new);
            return;
        }
        let is_bare = is_bare(old) && is_bare(new);
        if is_bare || !self.parts(id, old, new) {
            self.leaf(old, new);
        } else {
            self.whole(old, new);
        }
    }

    /// Compares the parts of two values, when there are any to compare.
    fn parts(&mut self, id: TypeId, old: Option<&Value>, new: Option<&Value>) -> bool {
        let telling = new.filter(|v| !v.is_null()).or(old);
        let types = self.types;
        match types.layout(id, telling.unwrap_or(&Value::Null)) {
            Layout::Leaf => return false,
            Layout::Fields => self.fields(id, old, new),
            Layout::Items(of, kind) => self.items(of, kind, old, new),
        }
        true
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            _ => self.found.modified.insert(&self.path),
        }
    }

    /// A value with parts counts itself only when it comes or goes.
    fn whole(&mut self, old: Option<&Value>, new: Option<&Value>) {
        if matches!(self.path.as_slice(), [only] if only == "f:metadata") {
            return;
        }
        if old.is_none() {
            self.found.added.insert(&self.path);
        } else if new.is_none() {
            self.found.removed.insert(&self.path);
        }
    }

    fn fields(&mut self, id: TypeId, old: Option<&Value>, new: Option<&Value>) {
        let olds = old.and_then(Value::as_object);
        let news = new.and_then(Value::as_object);
        let names: BTreeSet<&String> = olds
            .into_iter()
            .chain(news)
            .flat_map(serde_json::Map::keys)
            .collect();
        for name in names {
            let before = olds.and_then(|m| m.get(name));
            let after = news.and_then(|m| m.get(name));
            if before == after || self.is_left_out(name) {
                continue;
            }
            let (of, _) = self.types.field(id, name);
            self.path.push(format!("f:{name}"));
            self.pair(of, before, after);
            self.path.pop();
        }
    }

    fn is_left_out(&self, name: &str) -> bool {
        let is_unowned = match self.path.as_slice() {
            [] => name == "apiVersion" || name == "kind",
            [only] => only == "f:metadata" && UNOWNED.contains(&name),
            _ => false,
        };
        is_unowned || self.reset.iter().any(|path| self.is_at(path, name))
    }

    fn is_at(&self, path: &[String], name: &str) -> bool {
        path.split_last().is_some_and(|(last, above)| {
            last == name
                && above.len() == self.path.len()
                && above
                    .iter()
                    .zip(&self.path)
                    .all(|(a, b)| b.strip_prefix("f:") == Some(a))
        })
    }

    fn items(&mut self, of: TypeId, kind: &ListKind, old: Option<&Value>, new: Option<&Value>) {
        let olds = by_name(kind, old);
        let news = by_name(kind, new);
        let names: BTreeSet<&String> = olds.keys().chain(news.keys()).collect();
        for name in names {
            let none = Vec::new();
            let before = olds.get(name).unwrap_or(&none);
            let after = news.get(name).unwrap_or(&none);
            self.path.push(name.clone());
            self.item(of, before, after);
            self.path.pop();
        }
    }

    /// Items that share a name are taken together as one value.
    fn item(&mut self, of: TypeId, before: &[&Value], after: &[&Value]) {
        match (before, after) {
            ([_, _, ..], [_, _, ..]) => {
                if before != after {
                    self.found.modified.insert(&self.path);
                }
            }
            ([_, _, ..], _) => {
                self.pair(of, None, after.first().copied());
                self.found.removed.insert(&self.path);
            }
            (_, [_, _, ..]) => {
                self.pair(of, before.first().copied(), None);
                self.found.added.insert(&self.path);
            }
            _ => self.pair(of, before.first().copied(), after.first().copied()),
        }
    }
}

/// Absent, null or empty: such a pair is compared as a whole.
fn is_bare(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(_) => false,
    }
}

fn by_name<'v>(kind: &ListKind, list: Option<&'v Value>) -> BTreeMap<String, Vec<&'v Value>> {
    let mut found: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for item in list.and_then(Value::as_array).into_iter().flatten() {
        if let Ok(name) = item_name(kind, item) {
            found.entry(name).or_default().push(item);
        }
    }
    found
}
