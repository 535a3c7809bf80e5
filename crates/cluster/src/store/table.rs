//! The entries of a store and their indexes, as plain data.
//!
//! Owns what is remembered and how a list or an event changes it. Must not wait, talk to anybody or
//! decide what a change means. Driven by the store's follower and by live repairs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::{Resource, ResourceExt};

use super::{Change, Key, Version};

/// Names the terms under which an object shall be found.
pub type Terms<K> = fn(&K) -> Vec<String>;

pub(super) struct Table<K> {
    entries: BTreeMap<Key, Arc<K>>,
    indexes: BTreeMap<&'static str, Index<K>>,
    /// Everything that happened up to this version has been told to us.
    seen: Option<Version>,
}

struct Index<K> {
    terms: Terms<K>,
    members: BTreeMap<String, BTreeSet<Key>>,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            indexes: BTreeMap::new(),
            seen: None,
        }
    }
}

impl<K: Resource> Table<K> {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.entries.get(key).cloned()
    }

    pub(super) fn list(&self) -> Vec<Arc<K>> {
        self.entries.values().cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn add_index(&mut self, name: &'static str, terms: Terms<K>) {
        let mut index = Index {
            terms,
            members: BTreeMap::new(),
        };
        for (key, object) in &self.entries {
            index.insert(key, object);
        }
        self.indexes.insert(name, index);
    }

    pub(super) fn by_index(&self, name: &str, term: &str) -> Option<Vec<Arc<K>>> {
        let members = self.indexes.get(name)?.members.get(term);
        let found = members.into_iter().flatten();
        Some(found.filter_map(|key| self.get(key)).collect())
    }

    pub(super) fn has_seen(&self, version: &Version) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen >= version)
    }

    /// Notes that everything up to `version` has been told.
    pub(super) fn advance(&mut self, version: &str) {
        if let Some(version) = Version::parse(version) {
            self.seen = Some(version);
        }
    }

    /// Takes in one object, unless a newer state of it is known already.
    pub(super) fn apply(&mut self, object: K) -> Option<Change<K>> {
        let key = Key::of(&object);
        let old = self.get(&key);
        if let Some(old) = &old
            && (same_version(old.as_ref(), &object) || is_newer(old.as_ref(), &object))
        {
            return None;
        }
        Some(self.put(&key, Arc::new(object)))
    }

    /// Takes out one object, unless what is known was made after that deletion.
    pub(super) fn delete(&mut self, last: &K) -> Option<Change<K>> {
        let key = Key::of(last);
        if self
            .entries
            .get(&key)
            .is_some_and(|old| is_newer(old.as_ref(), last))
        {
            return None;
        }
        self.remove(&key)
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Change<K>> {
        let old = self.entries.remove(key)?;
        for index in self.indexes.values_mut() {
            index.remove(key, &old);
        }
        Some(Change::Deleted { old })
    }

    /// Takes in a whole list, and tells only the differences, in the order of keys.
    ///
    /// What a live repair has brought in after the list was taken stays, unless the versions went
    /// backwards: then the history was restored from a backup, and the list is all there is.
    pub(super) fn replace(&mut self, objects: Vec<K>, version: &str) -> Vec<Change<K>> {
        let listed_at = Version::parse(version);
        let went_back = match (&listed_at, &self.seen) {
            (Some(listed_at), Some(seen)) => listed_at < seen,
            _ => false,
        };
        let listed: BTreeMap<Key, K> = objects
            .into_iter()
            .map(|object| (Key::of(&object), object))
            .collect();
        let is_missing = |(key, old): &(&Key, &Arc<K>)| {
            let made_later = version_of(old.as_ref()) > listed_at;
            !listed.contains_key(*key) && (went_back || listed_at.is_none() || !made_later)
        };
        let missing: Vec<Key> = self
            .entries
            .iter()
            .filter(is_missing)
            .map(|(key, _)| key.clone())
            .collect();
        let mut changes: Vec<_> = missing.iter().filter_map(|key| self.remove(key)).collect();
        for (key, object) in listed {
            if went_back
                && !self
                    .get(&key)
                    .is_some_and(|old| same_version(old.as_ref(), &object))
            {
                changes.push(self.put(&key, Arc::new(object)));
            } else {
                changes.extend(self.apply(object));
            }
        }
        self.seen = listed_at;
        changes
    }

    fn put(&mut self, key: &Key, new: Arc<K>) -> Change<K> {
        let old = self.entries.insert(key.clone(), Arc::clone(&new));
        for index in self.indexes.values_mut() {
            if let Some(old) = &old {
                index.remove(key, old);
            }
            index.insert(key, &new);
        }
        Change::Applied { old, new }
    }
}

impl<K> Index<K> {
    fn insert(&mut self, key: &Key, object: &K) {
        for term in (self.terms)(object) {
            self.members.entry(term).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &Key, object: &K) {
        for term in (self.terms)(object) {
            if let Some(members) = self.members.get_mut(&term) {
                members.remove(key);
                if members.is_empty() {
                    self.members.remove(&term);
                }
            }
        }
    }
}

pub(super) fn version_of<K: Resource>(object: &K) -> Option<Version> {
    Version::parse(&object.resource_version()?)
}

fn same_version<K: Resource>(one: &K, other: &K) -> bool {
    one.meta().resource_version == other.meta().resource_version
        && one.meta().uid == other.meta().uid
}

fn is_newer<K: Resource>(one: &K, other: &K) -> bool {
    match (version_of(one), version_of(other)) {
        (Some(one), Some(other)) => one > other,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
