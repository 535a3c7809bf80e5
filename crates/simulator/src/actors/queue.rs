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
    /// The same by time, so that the next one is found without looking at all.
    schedule: BTreeSet<(Instant, T)>,
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
                schedule: BTreeSet::new(),
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
        self.with(|state| state.delay(item, due));
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
    fn delay(&mut self, item: T, due: Instant) {
        if self.delayed.get(&item).is_some_and(|known| *known <= due) {
            return;
        }
        if let Some(later) = self.delayed.insert(item.clone(), due) {
            self.schedule.remove(&(later, item.clone()));
        }
        self.schedule.insert((due, item));
    }

    fn push(&mut self, item: T) {
        if let Some(due) = self.delayed.remove(&item) {
            self.schedule.remove(&(due, item.clone()));
        }
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
        (item, self.schedule.first().map(|(due, _)| *due))
    }

    fn promote(&mut self, now: Instant) {
        while self.schedule.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, item)) = self.schedule.pop_first() {
                self.push(item);
            }
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
