//! Sets of fields, as `managedFields` records them.
//!
//! Owns the algebra of sets and their wire form (FieldsV1). Must not know objects or kinds. A path
//! is a list of element names in their wire form: `f:spec`, `k:{"name":"a"}`, `v:"x"`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A tree of fields: a node is a member itself, or on the way to members, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    member: bool,
    children: BTreeMap<String, Self>,
}

impl FieldSet {
    /// Whether there is no member at all.
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.values().all(Self::is_empty)
    }

    /// Adds one field. The object itself (the empty path) is never a member.
    pub(super) fn insert(&mut self, path: &[String]) {
        if path.is_empty() {
            return;
        }
        let mut node = self;
        for name in path {
            node = node.children.entry(name.clone()).or_default();
        }
        node.member = true;
    }

    /// Adds all members of the other set.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.member |= other.member;
        for (name, child) in &other.children {
            self.children.entry(name.clone()).or_default().absorb(child);
        }
    }

    /// Takes out the members of the other set, and nothing below them.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.member &= !other.member;
        for (name, gone) in &other.children {
            if let Some(child) = self.children.get_mut(name) {
                child.subtract(gone);
                if child.is_empty() {
                    self.children.remove(name);
                }
            }
        }
    }

    /// Takes out a field and everything below it.
    pub(super) fn prune(&mut self, path: &[String]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        if rest.is_empty() {
            self.children.remove(first);
        } else if let Some(child) = self.children.get_mut(first) {
            child.prune(rest);
            if child.is_empty() {
                self.children.remove(first);
            }
        }
    }

    /// Takes out one field, keeping what is below it.
    pub(super) fn remove(&mut self, path: &[String]) {
        let mut single = Self::default();
        single.insert(path);
        self.subtract(&single);
    }

    /// The members that both have.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let shared = self.children.iter().filter_map(|(name, child)| {
            let both = child.intersection(other.children.get(name)?);
            (!both.is_empty()).then(|| (name.clone(), both))
        });
        Self {
            member: self.member && other.member,
            children: shared.collect(),
        }
    }

    /// The part below one element.
    pub(super) fn below(&self, name: &str) -> Option<&Self> {
        self.children.get(name)
    }

    /// Whether this node is a member.
    pub(super) fn is_member(&self) -> bool {
        self.member
    }

    /// Makes this node a member.
    pub(super) fn mark(&mut self) {
        self.member = true;
    }

    /// The elements below this node.
    pub(super) fn children_mut(&mut self) -> impl Iterator<Item = (&String, &mut Self)> {
        self.children.iter_mut()
    }

    /// All members: those of a level before those below it.
    pub(super) fn paths(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    fn collect(&self, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
        for (name, child) in &self.children {
            if child.member {
                found.push(path.iter().chain([name]).cloned().collect());
            }
        }
        for (name, child) in &self.children {
            path.push(name.clone());
            child.collect(path, found);
            path.pop();
        }
    }

    /// Reads FieldsV1; elements of unknown sorts are dropped.
    pub(super) fn read(wire: &Value) -> Self {
        let mut set = Self::default();
        for (name, below) in wire.as_object().into_iter().flatten() {
            if is_element(name) {
                set.children.insert(name.clone(), Self::read_node(below));
            }
        }
        set
    }

    fn read_node(wire: &Value) -> Self {
        let mut node = Self::read(wire);
        node.member = node.children.is_empty() || wire.get(".").is_some();
        node
    }

    /// Writes FieldsV1.
    pub(super) fn write(&self) -> Value {
        let mut wire: Map<String, Value> = self
            .children
            .iter()
            .filter(|(_, child)| !child.is_empty())
            .map(|(name, child)| (name.clone(), child.write()))
            .collect();
        if self.member && !wire.is_empty() {
            wire.insert(".".to_owned(), Value::Object(Map::new()));
        }
        Value::Object(wire)
    }

    /// Whether the set on the wire has a member of this one.
    pub(super) fn touches(&self, wire: &Value) -> bool {
        self.children.iter().any(|(name, child)| {
            wire.get(name)
                .is_some_and(|below| (child.member && is_member(below)) || child.touches(below))
        })
    }

    /// Whether the set on the wire has all members of this one.
    pub(super) fn is_covered(&self, wire: &Value) -> bool {
        self.children
            .iter()
            .all(|(name, child)| match wire.get(name) {
                Some(below) => (!child.member || is_member(below)) && child.is_covered(below),
                None => child.is_empty(),
            })
    }
}

fn is_element(name: &str) -> bool {
    ["f:", "k:", "v:", "i:"]
        .iter()
        .any(|sort| name.starts_with(sort))
}

fn is_member(wire: &Value) -> bool {
    wire.as_object()
        .is_some_and(|below| below.is_empty() || below.contains_key("."))
}

/// A path as messages show it: `.spec.containers[name="a"].image`.
pub(super) fn display(path: &[String]) -> String {
    path.iter().map(|name| display_element(name)).collect()
}

fn display_element(name: &str) -> String {
    match name.split_once(':') {
        Some(("f", field)) => format!(".{field}"),
        Some(("v", value)) => format!("[={value}]"),
        Some(("i", index)) => format!("[{index}]"),
        Some(("k", keys)) => {
            let keys: BTreeMap<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let shown: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
            format!("[{}]", shown.join(","))
        }
        _ => name.to_owned(),
    }
}
