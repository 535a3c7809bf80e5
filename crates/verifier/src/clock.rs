//! The one place that reads the wall clock, to compare it with that of the API server.

use jiff::Timestamp;

/// The time as this machine sees it.
#[expect(
    clippy::disallowed_methods,
    reason = "whether this very clock is right is what a check asks"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
