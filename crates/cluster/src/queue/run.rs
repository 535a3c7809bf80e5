//! Works the queue off: so many keys at once, failures later again.
//!
//! Owns concurrency and the per-key backoff. Must not look into errors beyond their class.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp};

use super::Queue;
use crate::backoff::Backoff;
use crate::error::ErrorClass;

/// So often in a row a pass may ask to look again at once. One that goes on asking waits for something
/// that only time brings, such as a watch that is late; without a wait it would never come.
const AT_ONCE_MAX: u32 = 20;

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It went through.
    Done {
        /// When to look again even if nothing changes.
        wake: Option<Timestamp>,
    },
    /// It failed and shall be tried again, later each time.
    Retry {
        /// What kind of failure it was.
        class: ErrorClass,
    },
}

/// How hard a queue is worked.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Keys worked on at once.
    pub concurrency: usize,
    /// Wait after a key's first failure.
    pub first_retry: Duration,
    /// Longest wait between a key's attempts.
    pub last_retry: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            concurrency: 8,
            first_retry: Duration::from_secs(1),
            last_retry: Duration::from_mins(1),
        }
    }
}

/// Works the queue until it is closed and everything in hand has finished.
pub async fn run<Key, Work, Pass>(queue: &Queue<Key>, pace: Pace, work: Work)
where
    Key: Ord + Clone + Display,
    Work: Fn(Key) -> Pass,
    Pass: Future<Output = Outcome>,
{
    let mut restless: BTreeMap<Key, Restless> = BTreeMap::new();
    let mut in_hand = FuturesUnordered::new();
    let mut open = true;
    let start = |key: Key| {
        let pass = work(key.clone());
        async move { (key, pass.await) }
    };
    while open || !in_hand.is_empty() {
        let has_room = open && in_hand.len() < pace.concurrency.max(1);
        tokio::select! {
            biased;
            Some((key, outcome)) = in_hand.next(), if !in_hand.is_empty() => {
                settle(queue, pace, &mut restless, (key, outcome));
            }
            next = queue.next(), if has_room => match next {
                Some(key) => in_hand.push(start(key)),
                None => open = false,
            },
        }
    }
}

/// How often in a row a key has failed or has asked to be looked at again at once.
struct Restless {
    backoff: Backoff,
    at_once: u32,
}

fn settle<Key: Ord + Clone + Display>(
    queue: &Queue<Key>,
    pace: Pace,
    restless: &mut BTreeMap<Key, Restless>,
    (key, outcome): (Key, Outcome),
) {
    let now = queue.clock().now();
    tracing::trace!(%key, ?outcome, "passed");
    let after = |wait: Duration| {
        let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
        now.saturating_add(wait).unwrap_or(Timestamp::MAX)
    };
    let fresh = || Restless {
        backoff: Backoff::new(pace.first_retry, pace.last_retry),
        at_once: 0,
    };
    let wake = match outcome {
        Outcome::Done { wake: Some(wake) } if wake <= now => {
            let known = restless.entry(key.clone()).or_insert_with(fresh);
            if known.at_once == 0 {
                known.backoff.reset();
            }
            known.at_once += 1;
            let is_too_often = known.at_once > AT_ONCE_MAX;
            Some(if is_too_often {
                after(known.backoff.wait())
            } else {
                wake
            })
        }
        Outcome::Done { wake } => {
            restless.remove(&key);
            wake
        }
        Outcome::Retry { class } => {
            let known = restless.entry(key.clone()).or_insert_with(fresh);
            known.at_once = 0;
            let wait = known.backoff.wait();
            tracing::debug!(%key, %class, ?wait, "will try again");
            Some(after(wait))
        }
    };
    if let Some(wake) = wake {
        queue.add_at(key.clone(), wake);
    }
    queue.done(&key);
}
