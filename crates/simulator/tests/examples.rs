//! The embedded cluster admits every example and refuses every bad twin.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

#[path = "examples/judged.rs"]
mod judged;

use shipshape_cluster::Clock;
use shipshape_simulator::ApiServer;

#[tokio::test(start_paused = true)]
async fn examples_are_admitted_and_their_bad_twins_refused_by_the_field_at_fault() {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    let server = ApiServer::new(Clock::starting_at(start));
    judged::assert_examples_are_judged_rightly(&server.client("test")).await;
}
