//! How fast the demo's time passes.
//!
//! Owns the one place where virtual time is tied to the machine's clock. Tokio's paused clock jumps
//! ahead whenever nobody has anything to do, except while a blocking task runs: so a blocking nap
//! holds time still, and after each nap it is moved on by as much as the speed says.

use std::time::{Duration, Instant};

use shipshape_cluster::Clock;

/// How long one nap is: short enough for a smooth picture and a quick answer to kubectl.
const NAP: Duration = Duration::from_millis(25);

/// So much of one turn is sped up at most. The work between two naps is the machine's, not the cluster's: on
/// a busy one it would show as seconds in which nothing happens.
const LONGEST: Duration = Duration::from_millis(50);

/// More than this is not made up for: a large cluster would be at it for minutes.
const LEAD: Duration = Duration::from_mins(10);

/// Lets time pass as it does here, for ever. A clock that is behind first runs until it is not, because
/// kubectl counts some ages by the user's.
pub(super) async fn keep_up(clock: Clock) {
    let behind = Clock::System.now().duration_since(clock.now());
    let behind = Duration::try_from(behind).unwrap_or_default();
    tokio::time::sleep(behind.min(LEAD)).await;
    loop {
        tick(1.0).await;
    }
}

/// Lets one nap pass.
pub(super) async fn tick(speed: f64) {
    let began = wall_clock();
    let nap = tokio::task::spawn_blocking(nap);
    if nap.await.is_err() {
        return;
    }
    tokio::time::advance(passed(began.elapsed(), speed)).await;
}

/// How much time passes in the cluster while so much passes here: never less than here.
fn passed(here: Duration, speed: f64) -> Duration {
    here.min(LONGEST).mul_f64(speed) + here.saturating_sub(LONGEST).mul_f64(speed.min(1.0))
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where virtual time meets the machine's"
)]
fn nap() {
    std::thread::sleep(NAP);
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is where virtual time meets the machine's"
)]
pub(super) fn wall_clock() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_the_machine_was_busy_in_is_not_sped_up() {
        for (millis, speed, expected) in [
            (25, 20.0, 500),
            (1_050, 20.0, 2_000),
            (1_050, 1.0, 1_050),
            (100, 0.5, 50),
        ] {
            let passed = passed(Duration::from_millis(millis), speed);
            assert_eq!(passed.as_millis(), expected, "{millis} ms at {speed}x");
        }
    }
}
