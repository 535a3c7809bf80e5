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
    let mut failures: BTreeMap<Key, Backoff> = BTreeMap::new();
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
                settle(queue, pace, &mut failures, (key, outcome));
            }
            next = queue.next(), if has_room => match next {
                Some(key) => in_hand.push(start(key)),
                None => open = false,
            },
        }
    }
}

fn settle<Key: Ord + Clone + Display>(
    queue: &Queue<Key>,
    pace: Pace,
    failures: &mut BTreeMap<Key, Backoff>,
    (key, outcome): (Key, Outcome),
) {
    let wake = match outcome {
        Outcome::Done { wake } => {
            failures.remove(&key);
            wake
        }
        Outcome::Retry { class } => {
            let backoff = failures
                .entry(key.clone())
                .or_insert_with(|| Backoff::new(pace.first_retry, pace.last_retry));
            let wait = backoff.wait();
            tracing::debug!(%key, %class, ?wait, "will try again");
            let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
            Some(
                queue
                    .clock()
                    .now()
                    .saturating_add(wait)
                    .unwrap_or(Timestamp::MAX),
            )
        }
    };
    if let Some(wake) = wake {
        queue.add_at(key.clone(), wake);
    }
    queue.done(&key);
}
