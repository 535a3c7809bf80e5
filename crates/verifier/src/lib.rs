//! Checks the network of a node from inside a pod on it: names, the API server, services, ways out.
//!
//! Owns the checks, their settings and the form of their result. Needs no right in the cluster and no token, and
//! must not know what a verdict leads to: the controllers and people decide that. Called by `shipshape verify`, and by
//! `shipshape peer` for the other end of a check.

mod checks;
mod clock;
mod codec;
mod contact;
mod cut;
mod dial;
mod evidence;
mod lookup;
mod peer;
mod report;
mod resolv;
mod settings;
mod table;
mod target;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tokio::time::{Instant, sleep};

use crate::checks::Round;
pub use crate::cut::{TERMINATION_BYTES, termination_message};
pub use crate::evidence::Evidence;
pub use crate::peer::{PEER_PORT, Responder, WORKER_PORTS};
pub use crate::report::{Check, Finding, Phase, Report, Verdict};
pub use crate::settings::{
    Access, Backoff, LogFormat, Logging, Overrides, Settings, SettingsError, read_seconds,
};
pub use crate::table::table;

/// Longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Wait between two attempts when it does not grow.
const EVEN_WAIT: Duration = Duration::from_secs(5);

/// Why the checks could not even begin.
#[derive(Debug, Error)]
pub enum Error {
    /// A file that the checks need cannot be read.
    #[error("cannot read {what} {}", path.display())]
    File {
        /// What it is.
        what: &'static str,
        /// Where it should be.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The certificates of the API server's authority are of no use.
    #[error("{}: {why}", path.display())]
    Authority {
        /// The file.
        path: PathBuf,
        /// What is the matter with it.
        why: String,
    },
}

/// Runs all checks, again if some fail and the settings allow it, and says what came of the last attempt.
pub async fn verify(settings: &Settings) -> Result<Report, Error> {
    let end = Instant::now() + settings.run_timeout;
    let mut attempt = 1;
    loop {
        let report = Round::prepare(settings, end)?.play().await;
        for finding in report.findings.iter().filter(|finding| !finding.ok) {
            tracing::warn!(
                attempt,
                check = %finding.check,
                at = %finding.target,
                phase = finding.phase.map(tracing::field::display),
                milliseconds = finding.milliseconds,
                "{}", finding.message
            );
        }
        let wait = wait_after(attempt, settings.backoff);
        let is_over = report.verdict == Verdict::Passed
            || attempt >= settings.max_retries
            || Instant::now() + wait >= end;
        if is_over {
            return Ok(report);
        }
        tracing::info!(attempt, wait = ?wait, "some checks failed; they are run again");
        sleep(wait).await;
        attempt += 1;
    }
}

/// How long to wait after an attempt, counted from one.
fn wait_after(attempt: u32, backoff: Backoff) -> Duration {
    match backoff {
        Backoff::Linear => EVEN_WAIT,
        Backoff::Exponential => {
            Duration::from_secs(1 << attempt.saturating_sub(1).min(5)).min(LONGEST_WAIT)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_half_a_minute_or_stay_even() {
        let waits = |backoff| [1, 2, 3, 5, 6, 99].map(|n| wait_after(n, backoff).as_secs());
        assert_eq!(waits(Backoff::Exponential), [1, 2, 4, 16, 30, 30]);
        assert_eq!(waits(Backoff::Linear), [5; 6]);
    }
}
