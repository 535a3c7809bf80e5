//! The only place where Shipshape learns what time it is.
//!
//! Owns the choice between the machine's clock and virtual time. Must not be bypassed: every other
//! clock is banned by lint. Under a paused tokio runtime `Virtual` advances with tokio's own clock,
//! so that an hour of waiting costs nothing and two runs of one seed read the same times.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A source of the current time.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The machine's clock.
    System,
    /// A start date plus what tokio's clock has counted since.
    Virtual {
        /// What this clock said at `origin`.
        start: Timestamp,
        /// Tokio's instant at which the clock began.
        origin: Instant,
    },
}

impl Clock {
    /// A virtual clock that begins now, in tokio's time, at `start`.
    pub fn starting_at(start: Timestamp) -> Self {
        Self::Virtual {
            start,
            origin: Instant::now(),
        }
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => system_now(),
            Self::Virtual { start, origin } => {
                let elapsed = SignedDuration::try_from(origin.elapsed()).unwrap_or_default();
                start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// Waits until the given time; returns at once when it has passed.
    pub async fn sleep_until(&self, time: Timestamp) {
        let wait = time.duration_since(self.now());
        if let Ok(wait) = std::time::Duration::try_from(wait) {
            tokio::time::sleep(wait).await;
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the machine's clock"
)]
fn system_now() -> Timestamp {
    Timestamp::now()
}
