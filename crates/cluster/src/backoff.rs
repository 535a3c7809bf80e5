//! Growing waits between attempts, the same every time.
//!
//! Owns the arithmetic. Must not draw jitter: one operator leads at a time, so there is no herd to
//! spread, and two runs of one seed must wait alike. Used by stores and by the queue.

use std::time::Duration;

/// Doubles from a first to a last wait.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    last: Duration,
    upcoming: Duration,
}

impl Backoff {
    /// Waits `first`, then twice that, up to `last`.
    pub fn new(first: Duration, last: Duration) -> Self {
        Self {
            first,
            last,
            upcoming: first.min(last),
        }
    }

    /// The wait before the upcoming attempt.
    pub fn wait(&mut self) -> Duration {
        let wait = self.upcoming;
        self.upcoming = wait.saturating_mul(2).min(self.last);
        wait
    }

    /// Begins anew after a success.
    pub fn reset(&mut self) {
        self.upcoming = self.first.min(self.last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_last_and_begin_anew_after_reset() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
        let waits: Vec<u64> = (0..5).map(|_| backoff.wait().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 5, 5]);
        backoff.reset();
        assert_eq!(backoff.wait(), Duration::from_secs(1));
    }
}
