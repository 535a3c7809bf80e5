//! What an actor knows of one kind, kept fresh by a watch.
//!
//! Owns list, watch, relist and the change notices. Must not decide. Objects are sorted by namespace
//! and name, so that whoever walks them walks the same way in every run.
//!
//! An actor's own writes are shown at once (`show`): without that, a controller would create a second
//! pod for the one its watch has not yet told it about.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// Namespace and name; the namespace is empty for cluster-scoped kinds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn of(object: &impl Resource) -> Self {
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        }
    }
}

/// What objects can be looked up by, besides their key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Index {
    /// The node a pod is bound to; empty for a pod that is not.
    Node,
    /// The UID of the controlling owner.
    Owner,
}

/// The value of an object in an index, if it is in there.
pub(crate) type IndexValue<K> = fn(&K) -> Option<&str>;

type Listener<K> = Arc<dyn Fn(Option<&K>, Option<&K>) + Send + Sync>;

/// A cache of one kind; clones share it.
pub(crate) struct Store<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    state: Mutex<State<K>>,
    indexes: Vec<(Index, IndexValue<K>)>,
    listeners: Mutex<Vec<Listener<K>>>,
    synced: watch::Sender<bool>,
}

struct State<K> {
    objects: BTreeMap<Key, Arc<K>>,
    indexed: BTreeMap<(Index, String), BTreeSet<Key>>,
    /// The newest version the watch has told us of.
    seen: u64,
}

impl<K> State<K> {
    /// Puts an object in or takes it out; gives back what was there.
    fn change(
        &mut self,
        indexes: &[(Index, IndexValue<K>)],
        key: &Key,
        after: Option<&Arc<K>>,
    ) -> Option<Arc<K>> {
        let before = match after {
            Some(after) => self.objects.insert(key.clone(), Arc::clone(after)),
            None => self.objects.remove(key),
        };
        for (index, value) in indexes {
            let old = before.as_deref().and_then(value);
            let new = after.map(AsRef::as_ref).and_then(value);
            if old == new {
                continue;
            }
            if let Some(old) = old {
                let place = (*index, old.to_owned());
                if let Some(keys) = self.indexed.get_mut(&place) {
                    keys.remove(key);
                    if keys.is_empty() {
                        self.indexed.remove(&place);
                    }
                }
            }
            if let Some(new) = new {
                let keys = self.indexed.entry((*index, new.to_owned())).or_default();
                keys.insert(key.clone());
            }
        }
        before
    }
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

/// Pause before a broken watch is opened again.
const RETRY: Duration = Duration::from_secs(1);

impl<K> Store<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    pub(crate) fn new() -> Self {
        Self::indexed(Vec::new())
    }

    /// A store in which objects can be looked up by more than their key.
    pub(crate) fn indexed(indexes: Vec<(Index, IndexValue<K>)>) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    objects: BTreeMap::new(),
                    indexed: BTreeMap::new(),
                    seen: 0,
                }),
                indexes,
                listeners: Mutex::new(Vec::new()),
                synced: watch::Sender::new(false),
            }),
        }
    }

    fn with<R>(&self, read: impl FnOnce(&mut State<K>) -> R) -> R {
        read(
            &mut self
                .shared
                .state
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    /// Calls `listener` with the object before and after every change.
    pub(crate) fn on_change(
        &self,
        listener: impl Fn(Option<&K>, Option<&K>) + Send + Sync + 'static,
    ) {
        self.shared
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::new(listener));
    }

    /// Waits for the first complete list.
    pub(crate) async fn synced(&self) {
        let mut synced = self.shared.synced.subscribe();
        // The sender lives in `self`, so the wait can only end well.
        drop(synced.wait_for(|done| *done).await);
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.with(|state| state.objects.get(key).cloned())
    }

    /// All objects, sorted by key.
    pub(crate) fn all(&self) -> Vec<Arc<K>> {
        self.with(|state| state.objects.values().cloned().collect())
    }

    /// All objects of one namespace, sorted by name.
    pub(crate) fn within(&self, namespace: &str) -> Vec<Arc<K>> {
        let from = Key::new(namespace, "");
        self.with(|state| {
            state
                .objects
                .range(from..)
                .take_while(|(key, _)| key.namespace == namespace)
                .map(|(_, object)| Arc::clone(object))
                .collect()
        })
    }

    /// The objects with this value in an index, sorted by key.
    pub(crate) fn under(&self, index: Index, value: &str) -> Vec<Arc<K>> {
        self.with(|state| {
            let keys = state.indexed.get(&(index, value.to_owned()));
            keys.into_iter()
                .flatten()
                .filter_map(|key| state.objects.get(key).cloned())
                .collect()
        })
    }

    /// Shows the answer to an own write before the watch does.
    pub(crate) fn show(&self, object: &K) {
        let key = Key::of(object);
        let version = version_of(object);
        let before = self.with(|state| {
            if version <= state.seen {
                return None;
            }
            let shown = Arc::new(object.clone());
            Some(state.change(&self.shared.indexes, &key, Some(&shown)))
        });
        if let Some(before) = before {
            self.notify(before.as_deref(), Some(object));
        }
    }

    /// Keeps the store equal to what `api` says, for ever.
    pub(crate) async fn follow(self, api: Api<K>, fields: Option<String>) {
        loop {
            if let Err(error) = self.list_and_watch(&api, fields.as_deref()).await {
                tracing::debug!(%error, "watch broke");
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    async fn list_and_watch(&self, api: &Api<K>, fields: Option<&str>) -> Result<(), kube::Error> {
        let mut list = ListParams::default();
        let mut params = WatchParams::default().timeout(290);
        if let Some(fields) = fields {
            list = list.fields(fields);
            params = params.fields(fields);
        }
        let found = api.list(&list).await?;
        let mut version = found.metadata.resource_version.unwrap_or_default();
        self.replace(found.items, &version);
        loop {
            let mut events = Box::pin(api.watch(&params, &version).await?);
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        version = object.resource_version().unwrap_or(version);
                        self.upsert(object);
                    }
                    WatchEvent::Deleted(object) => {
                        version = object.resource_version().unwrap_or(version);
                        self.remove(&object);
                    }
                    WatchEvent::Bookmark(mark) => {
                        version = mark.metadata.resource_version;
                        let seen = version.parse().unwrap_or(0);
                        self.with(|state| state.seen = state.seen.max(seen));
                    }
                    WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
                }
            }
        }
    }

    fn replace(&self, items: Vec<K>, version: &str) {
        let new: BTreeMap<Key, Arc<K>> = items
            .into_iter()
            .map(|item| (Key::of(&item), Arc::new(item)))
            .collect();
        let seen = version.parse().unwrap_or(0);
        let old = self.with(|state| {
            state.seen = state.seen.max(seen);
            state.indexed.clear();
            let old = std::mem::take(&mut state.objects);
            for (key, object) in &new {
                state.change(&self.shared.indexes, key, Some(object));
            }
            old
        });
        for (key, before) in &old {
            if !new.contains_key(key) {
                self.notify(Some(before), None);
            }
        }
        for (key, after) in &new {
            self.notify(old.get(key).map(AsRef::as_ref), Some(after));
        }
        self.shared.synced.send_replace(true);
    }

    fn upsert(&self, object: K) {
        let key = Key::of(&object);
        let version = version_of(&object);
        let object = Arc::new(object);
        let before = self.with(|state| {
            state.seen = state.seen.max(version);
            let known = state
                .objects
                .get(&key)
                .map_or(0, |known| version_of(known.as_ref()));
            // An own write that was shown early may be newer than this event.
            (known <= version).then(|| state.change(&self.shared.indexes, &key, Some(&object)))
        });
        if let Some(before) = before {
            self.notify(before.as_deref(), Some(&object));
        }
    }

    fn remove(&self, object: &K) {
        let version = version_of(object);
        let before = self.with(|state| {
            state.seen = state.seen.max(version);
            state.change(&self.shared.indexes, &Key::of(object), None)
        });
        self.notify(Some(before.as_deref().unwrap_or(object)), None);
    }

    fn notify(&self, before: Option<&K>, after: Option<&K>) {
        let listeners = self
            .shared
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for listener in listeners {
            listener(before, after);
        }
    }
}

fn version_of(object: &impl Resource) -> u64 {
    object
        .meta()
        .resource_version
        .as_deref()
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}
