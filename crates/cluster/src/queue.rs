//! Which key is worked on next, and when.
//!
//! Owns due times, order and retries. Must not know what a key stands for, nor drop one. A key is
//! never handed out twice at once; one that is added while it is worked on comes again afterwards.
//! Used by every controller. Written here because the queue of kube-runtime hands keys out in the
//! order of a hash map.

mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use crate::clock::Clock;
pub use run::{Outcome, Pace, run};

/// Longest sleep before the clock is read again: it may have been set forward meanwhile.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(1);

/// So many passes a key may have in a row of [`STRETCH`]. Two that write one object from copies of
/// different age wake each other without end; so the time passes that one of them needs to catch up.
const PASSES_PER_STRETCH: u32 = 100;

/// The time over which passes are counted.
const STRETCH: SignedDuration = SignedDuration::from_secs(1);

/// The passes that a key has had lately.
#[derive(Clone, Copy, Debug)]
struct Lately {
    since: Timestamp,
    passes: u32,
}

/// Where a key waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Due, with this number in the line.
    Ready(u64),
    /// Due later.
    Timed(Timestamp, u64),
}

#[derive(Debug)]
struct Inner<Key> {
    ready: BTreeMap<u64, Key>,
    timed: BTreeMap<(Timestamp, u64), Key>,
    places: BTreeMap<Key, Place>,
    working: BTreeSet<Key>,
    /// Keys added while being worked on; `None` means at once.
    again: BTreeMap<Key, Option<Timestamp>>,
    lately: BTreeMap<Key, Lately>,
    counter: u64,
    closed: bool,
}

impl<Key> Default for Inner<Key> {
    fn default() -> Self {
        Self {
            ready: BTreeMap::new(),
            timed: BTreeMap::new(),
            places: BTreeMap::new(),
            working: BTreeSet::new(),
            again: BTreeMap::new(),
            lately: BTreeMap::new(),
            counter: 0,
            closed: false,
        }
    }
}

/// A handle on the queue; clones share it.
#[derive(Debug)]
pub struct Queue<Key> {
    clock: Clock,
    inner: Arc<Mutex<Inner<Key>>>,
    changed: Arc<Notify>,
}

impl<Key> Clone for Queue<Key> {
    fn clone(&self) -> Self {
        Self {
            clock: self.clock,
            inner: Arc::clone(&self.inner),
            changed: Arc::clone(&self.changed),
        }
    }
}

/// What a look at the queue found.
enum Look<Key> {
    Due(Key),
    Later(Timestamp),
    Empty,
    Closed,
}

impl<Key: Ord + Clone> Queue<Key> {
    /// An empty queue that lives by this clock.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            inner: Arc::default(),
            changed: Arc::default(),
        }
    }

    /// The clock it lives by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Wants the key worked on as soon as possible.
    pub fn add(&self, key: Key) {
        self.inner().add(key, None);
        self.changed.notify_waiters();
    }

    /// Wants the key worked on at a time, or sooner if it is wanted sooner already.
    pub fn add_at(&self, key: Key, due: Timestamp) {
        let due = (due > self.clock.now()).then_some(due);
        self.inner().add(key, due);
        self.changed.notify_waiters();
    }

    /// Waits for the next key that is due, in the order in which keys became due. `None` once closed.
    /// The key is the caller's alone until it calls [`Queue::done`].
    pub async fn next(&self) -> Option<Key> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let now = self.clock.now();
            let look = self.inner().look(now);
            let until = match look {
                Look::Due(key) => return Some(key),
                Look::Closed => return None,
                Look::Later(due) => due.min(now.saturating_add(LOOK_AGAIN).unwrap_or(due)),
                Look::Empty => {
                    changed.await;
                    continue;
                }
            };
            tokio::select! {
                biased;
                () = &mut changed => (),
                () = self.clock.sleep_until(until) => (),
            }
        }
    }

    /// Gives the key back; if it was added meanwhile, it waits again from now on.
    pub fn done(&self, key: &Key) {
        self.inner().done(key);
        self.changed.notify_waiters();
    }

    /// Hands out nothing more. What is being worked on may finish.
    pub fn close(&self) {
        self.inner().closed = true;
        self.changed.notify_waiters();
    }

    /// Keys that wait, due or not.
    pub fn len(&self) -> usize {
        self.inner().places.len()
    }

    /// Whether no key waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn inner(&self) -> MutexGuard<'_, Inner<Key>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Key: Ord + Clone> Inner<Key> {
    fn add(&mut self, key: Key, due: Option<Timestamp>) {
        if self.working.contains(&key) {
            let wanted = self.again.entry(key).or_insert(due);
            // `None` is the earliest: Option orders it first.
            *wanted = (*wanted).min(due);
            return;
        }
        match (self.places.get(&key).copied(), due) {
            (Some(Place::Ready(_)), _) => return,
            (Some(Place::Timed(at, _)), Some(due)) if at <= due => return,
            (Some(Place::Timed(at, number)), _) => {
                self.timed.remove(&(at, number));
            }
            (None, _) => (),
        }
        self.counter += 1;
        let place = match due {
            None => {
                self.ready.insert(self.counter, key.clone());
                Place::Ready(self.counter)
            }
            Some(due) => {
                self.timed.insert((due, self.counter), key.clone());
                Place::Timed(due, self.counter)
            }
        };
        self.places.insert(key, place);
    }

    fn look(&mut self, now: Timestamp) -> Look<Key> {
        if self.closed {
            return Look::Closed;
        }
        self.promote(now);
        while let Some((_, key)) = self.ready.pop_first() {
            self.places.remove(&key);
            if let Some(later) = self.held_back(&key, now) {
                self.add(key, Some(later));
                continue;
            }
            self.working.insert(key.clone());
            return Look::Due(key);
        }
        match self.timed.first_key_value() {
            Some(((due, _), _)) => Look::Later(*due),
            None => Look::Empty,
        }
    }

    /// Counts a pass of the key, or says when it may have the next one.
    fn held_back(&mut self, key: &Key, now: Timestamp) -> Option<Timestamp> {
        let is_past = |one: &Lately| now.duration_since(one.since).abs() >= STRETCH;
        match self.lately.get_mut(key) {
            Some(lately) if is_past(lately) => {
                // The first of a new stretch clears away what all others have left.
                self.lately.retain(|_, one| !is_past(one));
            }
            Some(lately) if lately.passes < PASSES_PER_STRETCH => {
                lately.passes += 1;
                return None;
            }
            Some(lately) => return lately.since.checked_add(STRETCH).ok(),
            None => {}
        }
        let first = Lately {
            since: now,
            passes: 1,
        };
        self.lately.insert(key.clone(), first);
        None
    }

    /// Lets keys whose time has come join the line, in the order of their times.
    fn promote(&mut self, now: Timestamp) {
        while let Some(entry) = self.timed.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.remove();
            self.counter += 1;
            self.places.insert(key.clone(), Place::Ready(self.counter));
            self.ready.insert(self.counter, key);
        }
    }

    fn done(&mut self, key: &Key) {
        self.working.remove(key);
        if let Some(due) = self.again.remove(key) {
            self.add(key.clone(), due);
        }
    }
}

#[cfg(test)]
mod tests;
