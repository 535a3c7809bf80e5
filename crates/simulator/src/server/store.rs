//! The objects, their versions, and the recent past that watches replay.
//!
//! Owns resourceVersions and history. Must not judge what is stored: the verbs do.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{kinds::Storage, meta, watch::Watchers};

/// How long a change can be replayed at least; the real server compacts every five minutes.
const HISTORY: SignedDuration = SignedDuration::from_mins(5);

/// One stored state of an object, without `apiVersion` and `kind`.
#[derive(Debug)]
pub(crate) struct Object {
    value: Value,
    json: OnceLock<Bytes>,
}

impl Object {
    /// Keeps a value.
    pub(crate) fn new(value: Value) -> Self {
        Self {
            value,
            json: OnceLock::new(),
        }
    }

    /// The object.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// The object in JSON, written once however often it is read.
    pub(crate) fn json(&self) -> &Bytes {
        self.json
            .get_or_init(|| serde_json::to_vec(&self.value).unwrap_or_default().into())
    }

    /// The same object at another version.
    pub(crate) fn at_version(&self, version: u64) -> Self {
        let mut value = self.value.clone();
        meta::set_meta(
            &mut value,
            "resourceVersion",
            Some(version.to_string().into()),
        );
        Self::new(value)
    }
}

/// One change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) at: Timestamp,
    pub(crate) key: String,
    pub(crate) before: Option<Arc<Object>>,
    /// The new state, or the last one when the object is gone.
    pub(crate) now: Arc<Object>,
    pub(crate) gone: bool,
}

#[derive(Debug, Default)]
struct Collection {
    objects: BTreeMap<String, Arc<Object>>,
    history: VecDeque<Change>,
    /// The newest version that can no longer be replayed.
    floor: u64,
}

/// All objects of all kinds.
#[derive(Debug, Default)]
pub(crate) struct Store {
    collections: BTreeMap<Storage, Collection>,
    version: Arc<AtomicU64>,
    floor: u64,
    pub(crate) watchers: Watchers,
}

/// The key of an object within its kind; sorts as the real server's keys do.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

impl Store {
    /// The newest version.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// A view of the newest version that outlives the lock.
    pub(crate) fn version_gauge(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.version)
    }

    fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// One object.
    pub(crate) fn get(&self, storage: &Storage, key: &str) -> Option<&Arc<Object>> {
        self.collections.get(storage)?.objects.get(key)
    }

    /// The objects of a kind in one namespace, or in all.
    pub(crate) fn list<'a>(
        &'a self,
        storage: &Storage,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a String, &'a Arc<Object>)> {
        let prefix = prefix(namespace);
        let from = Bound::Included(prefix.clone());
        self.collections
            .get(storage)
            .into_iter()
            .flat_map(move |c| c.objects.range((from.clone(), Bound::Unbounded)))
            .take_while(move |(key, _)| key.starts_with(&prefix))
    }

    /// The objects of a kind as they were at a version that history still reaches.
    pub(crate) fn list_at(
        &self,
        storage: &Storage,
        namespace: &str,
        version: u64,
    ) -> BTreeMap<String, Arc<Object>> {
        let mut objects: BTreeMap<_, _> = self
            .list(storage, namespace)
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect();
        let prefix = prefix(namespace);
        for change in self
            .changes(storage)
            .rev()
            .take_while(|change| change.version > version)
            .filter(|change| change.key.starts_with(&prefix))
        {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), Arc::clone(before)),
                None => objects.remove(&change.key),
            };
        }
        objects
    }

    /// The changes of a kind that can be replayed, oldest first.
    pub(crate) fn changes(&self, storage: &Storage) -> impl DoubleEndedIterator<Item = &Change> {
        self.collections
            .get(storage)
            .into_iter()
            .flat_map(|c| c.history.iter())
    }

    /// The newest version of a kind that can no longer be replayed.
    pub(crate) fn floor(&self, storage: &Storage) -> u64 {
        let own = self.collections.get(storage).map_or(0, |c| c.floor);
        own.max(self.floor)
    }

    /// Forgets all history, as a compaction does.
    pub(crate) fn forget_history(&mut self) {
        self.floor = self.version();
        for collection in self.collections.values_mut() {
            collection.history.clear();
        }
    }

    /// Forgets a kind with all its objects and ends its watches.
    pub(crate) fn drop_kind(&mut self, storage: &Storage) {
        self.collections.remove(storage);
        self.watchers.close(storage);
    }

    /// Stores a new state of an object.
    pub(crate) fn put(
        &mut self,
        storage: &Storage,
        mut value: Value,
        now: Timestamp,
    ) -> Arc<Object> {
        let version = self.next_version();
        meta::set_meta(
            &mut value,
            "resourceVersion",
            Some(version.to_string().into()),
        );
        let key = key(
            meta::meta_text(&value, "namespace"),
            meta::meta_text(&value, "name"),
        );
        let object = Arc::new(Object::new(value));
        let collection = self.collections.entry(Arc::clone(storage)).or_default();
        let before = collection.objects.insert(key.clone(), Arc::clone(&object));
        self.record(
            storage,
            Change {
                version,
                at: now,
                key,
                before,
                now: Arc::clone(&object),
                gone: false,
            },
        );
        object
    }

    /// Removes an object and gives its last state back.
    pub(crate) fn remove(
        &mut self,
        storage: &Storage,
        key: &str,
        now: Timestamp,
    ) -> Option<Arc<Object>> {
        let last = Arc::clone(self.get(storage, key)?);
        self.remove_as(storage, key, &last, now)
    }

    /// Removes an object whose last state was never stored, as one that its last finalizer left.
    pub(crate) fn remove_as(
        &mut self,
        storage: &Storage,
        key: &str,
        last: &Object,
        now: Timestamp,
    ) -> Option<Arc<Object>> {
        let before = self.collections.get_mut(storage)?.objects.remove(key)?;
        let version = self.next_version();
        let last = Arc::new(last.at_version(version));
        self.record(
            storage,
            Change {
                version,
                at: now,
                key: key.to_owned(),
                before: Some(before),
                now: Arc::clone(&last),
                gone: true,
            },
        );
        Some(last)
    }

    fn record(&mut self, storage: &Storage, change: Change) {
        self.watchers.tell(storage, &change);
        let Some(collection) = self.collections.get_mut(storage) else {
            return;
        };
        let oldest = change.at.checked_sub(HISTORY).unwrap_or(change.at);
        while let Some(first) = collection.history.front() {
            if first.at >= oldest {
                break;
            }
            collection.floor = first.version;
            collection.history.pop_front();
        }
        collection.history.push_back(change);
    }
}

fn prefix(namespace: &str) -> String {
    if namespace.is_empty() {
        String::new()
    } else {
        format!("{namespace}/")
    }
}
