//! The entries of a store and their indexes, as plain data.
//!
//! Owns what is remembered and how a list or an event changes it. Must not wait, talk to anybody or
//! decide what a change means. Driven by the store's follower and by live repairs.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use kube::{Resource, ResourceExt};

use super::{Change, Key, Version};

/// Names the terms under which an object shall be found.
pub type Terms<V> = fn(&V) -> Vec<String>;

/// One object as it is taken in: which it is, in which state, and what is kept of it.
pub(super) struct Entry<V> {
    pub(super) key: Key,
    stamp: Stamp,
    /// Where it will stay, so that a long list costs no second copy.
    value: Arc<V>,
}

impl<V> Entry<V> {
    /// The entry for an object of which `keep` says what is kept.
    pub(super) fn of<K: Resource>(object: K, keep: impl FnOnce(K) -> V) -> Self {
        let mut hasher = DefaultHasher::new();
        object.meta().uid.hash(&mut hasher);
        Self {
            key: Key::of(&object),
            stamp: Stamp {
                version: object.resource_version().unwrap_or_default().into(),
                uid: hasher.finish(),
            },
            value: Arc::new(keep(object)),
        }
    }

    /// The version of the object, as the server wrote it.
    pub(super) fn version(&self) -> &str {
        &self.stamp.version
    }
}

/// The state of an object, small enough to be kept for each. The UID is only compared, so a digest of
/// it will do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    version: Box<str>,
    uid: u64,
}

impl Stamp {
    fn place(&self) -> Option<Version> {
        Version::parse(&self.version)
    }

    fn is_newer(&self, other: &Self) -> bool {
        match (self.place(), other.place()) {
            (Some(one), Some(other)) => one > other,
            _ => false,
        }
    }
}

struct Held<V> {
    stamp: Stamp,
    value: Arc<V>,
}

pub(super) struct Table<V> {
    entries: BTreeMap<Arc<Key>, Held<V>>,
    indexes: BTreeMap<&'static str, Index<V>>,
    /// Everything that happened up to this version has been told to us.
    seen: Option<Version>,
}

struct Index<V> {
    terms: Terms<V>,
    members: BTreeMap<String, BTreeSet<Arc<Key>>>,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            indexes: BTreeMap::new(),
            seen: None,
        }
    }
}

impl<V> Table<V> {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<V>> {
        self.entries.get(key).map(|held| Arc::clone(&held.value))
    }

    /// The version of an object that is known.
    pub(super) fn version_of(&self, key: &Key) -> Option<Version> {
        self.entries.get(key)?.stamp.place()
    }

    pub(super) fn list(&self) -> Vec<Arc<V>> {
        let held = self.entries.values();
        held.map(|held| Arc::clone(&held.value)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn add_index(&mut self, name: &'static str, terms: Terms<V>) {
        let mut index = Index {
            terms,
            members: BTreeMap::new(),
        };
        for (key, held) in &self.entries {
            index.insert(key, &held.value);
        }
        self.indexes.insert(name, index);
    }

    pub(super) fn by_index(&self, name: &str, term: &str) -> Option<Vec<Arc<V>>> {
        let members = self.indexes.get(name)?.members.get(term);
        let found = members.into_iter().flatten();
        Some(found.filter_map(|key| self.get(key)).collect())
    }

    pub(super) fn first_by_index(&self, name: &str, term: &str, most: usize) -> Vec<Arc<V>> {
        let members = self.indexes.get(name).and_then(|it| it.members.get(term));
        let found = members.into_iter().flatten().take(most);
        found.filter_map(|key| self.get(key)).collect()
    }

    pub(super) fn count(&self, name: &str, term: &str) -> usize {
        let members = self.indexes.get(name).and_then(|it| it.members.get(term));
        members.map_or(0, BTreeSet::len)
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
    pub(super) fn apply(&mut self, entry: Entry<V>) -> Option<Change<V>> {
        if let Some(old) = self.entries.get(&entry.key)
            && (old.stamp == entry.stamp || old.stamp.is_newer(&entry.stamp))
        {
            return None;
        }
        Some(self.put(entry))
    }

    /// Takes in what a write has made. What the history is past already and does not have is deleted by
    /// now.
    pub(super) fn learn(&mut self, entry: Entry<V>) -> Option<Change<V>> {
        let is_known = self.entries.contains_key(&entry.key);
        let is_past = entry.stamp.place().is_none_or(|made| self.has_seen(&made));
        if is_past && !is_known {
            return None;
        }
        self.apply(entry)
    }

    /// Takes out one object, unless what is known was made after that deletion.
    pub(super) fn delete(&mut self, last: &Entry<V>) -> Option<Change<V>> {
        if self
            .entries
            .get(&last.key)
            .is_some_and(|old| old.stamp.is_newer(&last.stamp))
        {
            return None;
        }
        self.remove(&last.key)
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Change<V>> {
        let old = self.entries.remove(key)?.value;
        for index in self.indexes.values_mut() {
            index.remove(key, &old);
        }
        Some(Change::Deleted { old })
    }

    /// Takes in a whole list, and tells only the differences, in the order of keys.
    ///
    /// What a live repair has brought in after the list was taken stays, unless the versions went
    /// backwards: then the history was restored from a backup, and the list is all there is.
    pub(super) fn replace(&mut self, mut entries: Vec<Entry<V>>, version: &str) -> Vec<Change<V>> {
        let listed_at = Version::parse(version);
        let went_back = match (&listed_at, &self.seen) {
            (Some(listed_at), Some(seen)) => listed_at < seen,
            _ => false,
        };
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        let missing = self.missing(&entries, listed_at.as_ref().filter(|_| !went_back));
        let mut changes: Vec<_> = missing.iter().filter_map(|key| self.remove(key)).collect();
        for entry in entries {
            let known = self.entries.get(&entry.key);
            if went_back && known.is_none_or(|old| old.stamp != entry.stamp) {
                changes.push(self.put(entry));
            } else {
                changes.extend(self.apply(entry));
            }
        }
        self.seen = listed_at;
        changes
    }

    /// What is known and not in the sorted list, but for what was made after the list was taken.
    fn missing(&self, listed: &[Entry<V>], listed_at: Option<&Version>) -> Vec<Arc<Key>> {
        let is_missing = |(key, old): &(&Arc<Key>, &Held<V>)| {
            let is_listed = listed.binary_search_by(|entry| entry.key.cmp(key)).is_ok();
            let made_later =
                listed_at.is_some_and(|at| old.stamp.place().is_some_and(|made| made > *at));
            !is_listed && !made_later
        };
        let missing = self.entries.iter().filter(is_missing);
        missing.map(|(key, _)| Arc::clone(key)).collect()
    }

    fn put(&mut self, entry: Entry<V>) -> Change<V> {
        let known = self.entries.get_key_value(&entry.key);
        let key = known.map_or_else(|| Arc::new(entry.key), |(key, _)| Arc::clone(key));
        let new = entry.value;
        let held = Held {
            stamp: entry.stamp,
            value: Arc::clone(&new),
        };
        let old = self.entries.insert(Arc::clone(&key), held);
        let old = old.map(|held| held.value);
        for index in self.indexes.values_mut() {
            if let Some(old) = &old {
                index.remove(&key, old);
            }
            index.insert(&key, &new);
        }
        Change::Applied { old, new }
    }
}

impl<V> Index<V> {
    fn insert(&mut self, key: &Arc<Key>, value: &V) {
        for term in (self.terms)(value) {
            let members = self.members.entry(term).or_default();
            members.insert(Arc::clone(key));
        }
    }

    fn remove(&mut self, key: &Key, value: &V) {
        for term in (self.terms)(value) {
            if let Some(members) = self.members.get_mut(&term) {
                members.remove(key);
                if members.is_empty() {
                    self.members.remove(&term);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
