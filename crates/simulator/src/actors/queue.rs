//! A queue of things to look at again, now or at a time.
//!
//! Owns order and wake-ups: an item waits once however often it is added, and items come out in the
//! order of their arrival. Must not know what an item means. Every actor has one and is its only
//! reader.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// A shared queue; clones feed the same one.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Arc<Mutex<State<T>>>,
    wake: Arc<Notify>,
}

#[derive(Debug)]
struct State<T> {
    ready: VecDeque<T>,
    waiting: BTreeSet<T>,
    delayed: BTreeMap<T, Instant>,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            state: Arc::clone(&self.state),
            wake: Arc::clone(&self.wake),
        }
    }
}

impl<T: Ord + Clone + Debug> Queue<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                ready: VecDeque::new(),
                waiting: BTreeSet::new(),
                delayed: BTreeMap::new(),
            })),
            wake: Arc::new(Notify::new()),
        }
    }

    fn with<R>(&self, change: impl FnOnce(&mut State<T>) -> R) -> R {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks for a look at `item` as soon as possible.
    pub(crate) fn add(&self, item: T) {
        self.with(|state| state.push(item));
        self.wake.notify_one();
    }

    /// Asks for a look at `item` no later than after `delay`.
    pub(crate) fn add_after(&self, item: T, delay: Duration) {
        let due = Instant::now() + delay;
        self.with(|state| {
            let slot = state.delayed.entry(item).or_insert(due);
            *slot = due.min(*slot);
        });
        self.wake.notify_one();
    }

    /// The next item, once one is due.
    pub(crate) async fn next(&self) -> T {
        loop {
            let (item, due) = self.with(State::take);
            if let Some(item) = item {
                return item;
            }
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = sleep_until(due) => {}
            }
        }
    }
}

/// Waits for `due`, or for ever when there is no due time.
pub(crate) async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl<T: Ord + Clone> State<T> {
    fn push(&mut self, item: T) {
        self.delayed.remove(&item);
        if self.waiting.insert(item.clone()) {
            self.ready.push_back(item);
        }
    }

    /// The first ready item, or the time at which the next one becomes ready.
    fn take(&mut self) -> (Option<T>, Option<Instant>) {
        if !self.delayed.is_empty() {
            self.promote(Instant::now());
        }
        let item = self.ready.pop_front();
        if let Some(item) = &item {
            self.waiting.remove(item);
        }
        (item, self.delayed.values().min().copied())
    }

    fn promote(&mut self, now: Instant) {
        let mut due: Vec<(Instant, T)> = self
            .delayed
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(item, at)| (*at, item.clone()))
            .collect();
        due.sort();
        for (_, item) in due {
            self.push(item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_item_added_twice_comes_out_once_and_delays_are_kept() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add_after("later", Duration::from_secs(5));
        queue.add("now");
        queue.add("now");
        assert_eq!(queue.next().await, "now");
        assert_eq!(queue.next().await, "later");
        assert_eq!(start.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_nearer_time_wins_over_a_farther_one() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add_after("item", Duration::from_secs(9));
        queue.add_after("item", Duration::from_secs(2));
        queue.add_after("item", Duration::from_secs(30));
        queue.next().await;
        assert_eq!(start.elapsed(), Duration::from_secs(2));
    }
}
