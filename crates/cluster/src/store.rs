//! A sorted copy of one kind, kept equal to the server, that a pass can read without a request.
//!
//! Owns the copy, its indexes, and the promise that a pass reads its own writes: after a write the
//! store is told which version to expect, and a pass for that key waits until the store has seen it.
//! A copy only says where to look: whoever is about to destroy reads live first. kube-runtime's store
//! is not used because it is a hash map that iterates in random order. Waiters sit on a `Notify`
//! because tokio's `watch` channel wakes its waiters in random order.

mod follow;
mod kept;
mod key;
mod live;
pub mod spare;
mod table;
mod version;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::{Client, Resource};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use kept::{Fields, Kept};
pub use key::{Change, Key, Settings};
pub use table::Terms;
use table::{Entry, Table};
pub use version::Version;

/// How a store came to know our own write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaughtUp {
    /// Nothing was outstanding, or the watch brought it.
    Seen,
    /// The watch was late; the object was read live.
    Refetched,
}

/// Ends the following when dropped.
#[derive(Debug)]
pub struct Following(JoinHandle<()>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Expectation {
    /// `None` when the version has no place in the order: then only a live read helps.
    version: Option<Version>,
    until: Instant,
}

type Listener<V> = Arc<dyn Fn(Change<V>) + Send + Sync>;

struct State<K, V> {
    table: Table<V>,
    synced: bool,
    expected: BTreeMap<Key, Expectation>,
    keep: fn(K) -> V,
    source: Option<Source<V>>,
    catch_up_within: Duration,
}

/// Where live reads go, and who hears of what they bring.
struct Source<V> {
    client: Client,
    on_change: Listener<V>,
}

impl<V> Clone for Source<V> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            on_change: Arc::clone(&self.on_change),
        }
    }
}

struct Shared<K, V> {
    state: Mutex<State<K, V>>,
    changed: Notify,
}

/// One event of the history.
enum Step<V> {
    Apply(Entry<V>),
    Delete(Entry<V>),
    Mark,
}

impl<V> Step<V> {
    /// What it does and to whom, for logs.
    fn name(&self) -> String {
        match self {
            Self::Apply(entry) => format!("apply {}", entry.key),
            Self::Delete(entry) => format!("delete {}", entry.key),
            Self::Mark => "bookmark".to_owned(),
        }
    }
}

/// A handle on the copy; clones share it. Of each object of kind `K` it keeps a `V`: the object
/// itself, or the little that somebody reads of it.
pub struct Store<K, V = K> {
    shared: Arc<Shared<K, V>>,
}

impl<K, V> Clone for Store<K, V> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Resource> Default for Store<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Resource> Store<K> {
    /// An empty copy of whole objects that nobody keeps up yet.
    pub fn new() -> Self {
        Self::keeping(|object| object)
    }
}

impl<K: Resource, V> Store<K, V> {
    /// An empty copy that holds of each object what `keep` makes of it. The object itself is dropped
    /// page by page as it arrives, so that a large kind costs what is kept and no more.
    pub fn keeping(keep: fn(K) -> V) -> Self {
        let state = State {
            table: Table::default(),
            synced: false,
            expected: BTreeMap::new(),
            keep,
            source: None,
            catch_up_within: Settings::default().catch_up_within,
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: Notify::new(),
            }),
        }
    }

    /// Lets objects be found by terms of their own, at a cost that does not grow with the cluster.
    pub fn with_index(self, name: &'static str, terms: Terms<V>) -> Self {
        self.state().table.add_index(name, terms);
        self
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<Arc<V>> {
        self.state().table.get(key)
    }

    /// All objects, in the order of their keys.
    pub fn list(&self) -> Vec<Arc<V>> {
        self.state().table.list()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.state().table.len()
    }

    /// Whether there are none. Says nothing unless the store is synced.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects that name `term` in the index, in the order of their keys.
    pub fn by_index(&self, index: &'static str, term: &str) -> Vec<Arc<V>> {
        let found = self.state().table.by_index(index, term);
        debug_assert!(found.is_some(), "no index {index}");
        found.unwrap_or_default()
    }

    /// The first objects that name `term` in the index, `most` at most.
    pub fn first_by_index(&self, index: &'static str, term: &str, most: usize) -> Vec<Arc<V>> {
        self.state().table.first_by_index(index, term, most)
    }

    /// How many objects name `term` in the index, at no cost for each of them.
    pub fn count(&self, index: &'static str, term: &str) -> usize {
        self.state().table.count(index, term)
    }

    /// Takes in what the server answered to a write of ours, ahead of the watch.
    pub fn learn(&self, object: K) {
        let entry = self.entry(object);
        let change = self.state().table.learn(entry);
        self.tell(change);
    }

    /// Whether the whole kind has been listed at least once.
    pub fn is_synced(&self) -> bool {
        self.state().synced
    }

    /// Waits until the whole kind has been listed once. The caller sets the deadline.
    pub async fn synced(&self) {
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            if self.is_synced() {
                return;
            }
            changed.await;
        }
    }

    /// Notes a write of ours: no pass for this key shall run on a copy older than it.
    pub fn expect(&self, key: &Key, resource_version: &str) {
        let mut state = self.state();
        let until = Instant::now() + state.catch_up_within;
        let version = Version::parse(resource_version);
        state
            .expected
            .insert(key.clone(), Expectation { version, until });
    }

    /// Whether the copy holds all our writes to this key.
    pub fn has_caught_up(&self, key: &Key) -> bool {
        self.outstanding(key).is_none()
    }

    /// What is still awaited for a key; forgets it once it has come.
    fn outstanding(&self, key: &Key) -> Option<Expectation> {
        let mut state = self.state();
        let Expectation { version, until } = state.expected.get(key)?;
        let (version, until) = (version.clone(), *until);
        if let Some(version) = &version {
            let held = state.table.version_of(key);
            if state.table.has_seen(version) || held.is_some_and(|held| held >= *version) {
                state.expected.remove(key);
                return None;
            }
        }
        Some(Expectation { version, until })
    }

    fn state(&self) -> MutexGuard<'_, State<K, V>> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept of an object; managed fields never are.
    fn entry(&self, mut object: K) -> Entry<V> {
        object.meta_mut().managed_fields = None;
        let keep = self.state().keep;
        Entry::of(object, keep)
    }

    fn apply(&self, entry: Entry<V>) {
        let change = self.state().table.apply(entry);
        self.tell(change);
    }

    /// Takes in one event of the history, which is then known up to `version`.
    fn step(&self, step: Step<V>, version: &str) {
        let (key, change) = {
            let table = &mut self.state().table;
            let (key, change) = match step {
                Step::Apply(entry) => (Some(entry.key.clone()), table.apply(entry)),
                Step::Delete(last) => (Some(last.key.clone()), table.delete(&last)),
                Step::Mark => (None, None),
            };
            table.advance(version);
            (key, change)
        };
        if let Some(key) = key {
            // Whatever was expected of it is looked at now, since a deleted key may never be asked for.
            self.outstanding(&key);
        }
        self.tell(change);
    }

    fn replace(&self, entries: Vec<Entry<V>>, version: &str) {
        let changes = {
            let mut state = self.state();
            state.synced = true;
            state.table.replace(entries, version)
        };
        self.tell(changes);
    }

    /// Handlers run outside the lock, so that they may read the store.
    fn tell(&self, changes: impl IntoIterator<Item = Change<V>>) {
        let listener = self
            .state()
            .source
            .as_ref()
            .map(|source| Arc::clone(&source.on_change));
        for change in changes {
            if let Some(listener) = &listener {
                listener(change);
            }
        }
        self.shared.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
