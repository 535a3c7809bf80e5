//! The API through `kube::Client`, as its users see it.

mod basics;

use super::ApiServer;
use shipshape_cluster::Clock;

/// A cluster whose clock stands still unless a test waits.
fn cluster() -> ApiServer {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    ApiServer::new(Clock::starting_at(start))
}
