//! What an actor knows of one kind, kept fresh by a watch.
//!
//! Owns list, watch, relist and the change notices. Must not decide. Objects are sorted by namespace
//! and name, so that whoever walks them walks the same way in every run.
//!
//! An actor's own writes are shown at once (`show`): without that, a controller would create a second
//! pod for the one its watch has not yet told it about.

use std::collections::BTreeMap;
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

type Listener<K> = Arc<dyn Fn(Option<&K>, Option<&K>) + Send + Sync>;

/// A cache of one kind; clones share it.
pub(crate) struct Store<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    state: Mutex<State<K>>,
    listeners: Mutex<Vec<Listener<K>>>,
    synced: watch::Sender<bool>,
}

struct State<K> {
    objects: BTreeMap<Key, Arc<K>>,
    /// The newest version the watch has told us of.
    seen: u64,
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
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    objects: BTreeMap::new(),
                    seen: 0,
                }),
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

    /// Shows the answer to an own write before the watch does.
    pub(crate) fn show(&self, object: &K) {
        let key = Key::of(object);
        let version = version_of(object);
        let before = self.with(|state| {
            if version <= state.seen {
                return None;
            }
            Some(state.objects.insert(key, Arc::new(object.clone())))
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
            std::mem::replace(&mut state.objects, new.clone())
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
            (known <= version).then(|| state.objects.insert(key, Arc::clone(&object)))
        });
        if let Some(before) = before {
            self.notify(before.as_deref(), Some(&object));
        }
    }

    fn remove(&self, object: &K) {
        let version = version_of(object);
        let before = self.with(|state| {
            state.seen = state.seen.max(version);
            state.objects.remove(&Key::of(object))
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
