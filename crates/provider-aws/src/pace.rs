//! How fast the cloud is asked: one token bucket for reads and one for changes, shared by every
//! caller of a region, and repeats with a growing wait when the cloud says "too fast".
//!
//! Owns all repeating of calls. Must not know what is called. Every wait ends at the call's
//! deadline.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::failure::{Failure, Meaning};
use crate::settings::PaceSettings;

/// Which bucket a call draws from, and whether it may be sent again when its answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Changes nothing.
    Read,
    /// Changes something, and twice is the same as once.
    Repeatable,
    /// Changes something, and a second time may change more: a lost answer goes to the caller, who
    /// must look before it asks again.
    Once,
}

/// The pace of one region.
pub(crate) struct Pace {
    settings: PaceSettings,
    reads: Bucket,
    writes: Bucket,
}

impl Pace {
    pub(crate) fn new(settings: PaceSettings) -> Self {
        Self {
            reads: Bucket::new(settings.reads_per_second, settings.read_burst),
            writes: Bucket::new(settings.writes_per_second, settings.write_burst),
            settings,
        }
    }

    /// Makes a call until it is answered, or its time is up. `name` is for the log.
    pub(crate) async fn call<T, F>(
        &self,
        name: &str,
        kind: Kind,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let deadline = Instant::now() + self.settings.deadline;
        let bucket = if kind == Kind::Read {
            &self.reads
        } else {
            &self.writes
        };
        let mut wait = self.settings.first_wait;
        loop {
            let turn = bucket.turn();
            if turn > deadline {
                return Err(Failure::answered(
                    "Throttling",
                    "our own limit of calls leaves no room for this one",
                ));
            }
            tokio::time::sleep_until(turn).await;
            let result = match timeout(self.settings.attempt, attempt()).await {
                Ok(result) => result,
                Err(_) => Err(Failure::lost("no answer in time")),
            };
            let Err(failure) = result else {
                return result;
            };
            let meaning = failure.meaning();
            if meaning == Meaning::Throttled {
                bucket.slow_down();
            }
            let again = match meaning {
                Meaning::Throttled => true,
                Meaning::Away => kind != Kind::Once,
                Meaning::Full
                | Meaning::Unknown
                | Meaning::Denied
                | Meaning::OtherWords
                | Meaning::NotServed
                | Meaning::Refused => false,
            };
            if !again || Instant::now() + wait > deadline {
                return Err(failure);
            }
            tracing::debug!(call = name, %failure, ?wait, "again");
            sleep(wait).await;
            wait = (wait * 2).min(self.settings.longest_wait);
        }
    }
}

/// Hands out turns at a steady rate, with a burst after a quiet time.
struct Bucket {
    gap: Duration,
    burst: Duration,
    /// When the bucket will be empty of promises: turns are handed out up to `burst` ahead of it.
    next: Mutex<Instant>,
}

impl Bucket {
    fn new(per_second: u32, burst: u32) -> Self {
        let gap = Duration::from_secs(1) / per_second.max(1);
        let burst = gap * burst.saturating_sub(1);
        let now = Instant::now();
        Self {
            gap,
            burst,
            next: Mutex::new(now.checked_sub(burst).unwrap_or(now)),
        }
    }

    /// When the next caller may go.
    fn turn(&self) -> Instant {
        let now = Instant::now();
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(self.burst).unwrap_or(now);
        let turn = (*next).max(earliest);
        *next = turn + self.gap;
        turn.max(now)
    }

    /// The cloud said "too fast": the burst is spent, for everybody.
    fn slow_down(&self) {
        let now = Instant::now();
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        *next = (*next).max(now + self.gap);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn pace() -> Pace {
        Pace::new(PaceSettings {
            reads_per_second: 10,
            read_burst: 3,
            ..PaceSettings::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn calls_beyond_the_burst_wait_for_their_turn() {
        let pace = pace();
        let start = Instant::now();
        let mut at = Vec::new();
        for _ in 0..5 {
            pace.call("test", Kind::Read, || async { Ok(()) })
                .await
                .unwrap();
            at.push(start.elapsed().as_millis() / 100);
        }
        assert_eq!(at, [0, 0, 0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttled_call_is_repeated_with_growing_waits_until_its_deadline() {
        let pace = pace();
        let tries = AtomicU32::new(0);
        let start = Instant::now();
        let result: Result<(), _> = pace
            .call("test", Kind::Once, || async {
                tries.fetch_add(1, Ordering::Relaxed);
                Err(Failure::answered("RequestLimitExceeded", "slower"))
            })
            .await;
        assert_eq!(result.unwrap_err().meaning(), Meaning::Throttled);
        assert!(start.elapsed() <= PaceSettings::default().deadline);
        let tries = tries.load(Ordering::Relaxed);
        assert!((4..=12).contains(&tries), "{tries} tries");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_is_repeated_only_where_twice_is_once() {
        for (kind, expected) in [(Kind::Repeatable, 2), (Kind::Once, 1)] {
            let pace = pace();
            let tries = AtomicU32::new(0);
            let result = pace
                .call("test", kind, || async {
                    match tries.fetch_add(1, Ordering::Relaxed) {
                        0 => Err(Failure::lost("closed")),
                        _ => Ok(()),
                    }
                })
                .await;
            assert_eq!(result.is_ok(), kind == Kind::Repeatable);
            assert_eq!(tries.load(Ordering::Relaxed), expected, "{kind:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_hangs_is_lost_in_time() {
        let pace = pace();
        let result: Result<(), _> = pace.call("test", Kind::Once, std::future::pending).await;
        assert!(matches!(result, Err(Failure::Lost { .. })));
    }
}
