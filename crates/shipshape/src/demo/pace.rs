//! How fast the demo's time passes.
//!
//! Owns the one place where virtual time is tied to the machine's clock. Tokio's paused clock jumps
//! ahead whenever nobody has anything to do, except while a blocking task runs: so a blocking nap
//! holds time still, and after each nap it is moved on by as much as the speed says.

use std::time::{Duration, Instant};

/// How long one nap is: short enough for a smooth picture and a quick answer to kubectl.
const NAP: Duration = Duration::from_millis(25);

/// Lets time pass `speed` times as fast as here, for ever.
pub(super) async fn keep(speed: f64) {
    loop {
        tick(speed).await;
    }
}

/// Lets one nap pass.
pub(super) async fn tick(speed: f64) {
    let began = wall_clock();
    let nap = tokio::task::spawn_blocking(nap);
    if nap.await.is_err() {
        return;
    }
    tokio::time::advance(began.elapsed().mul_f64(speed)).await;
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
