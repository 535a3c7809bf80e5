//! All Kubernetes I/O of the operator: stores, queue, status writer, evictions, leases, leader
//! election, events and the clock.
//!
//! It reads and writes; it never decides.

pub mod clock;

pub use clock::Clock;
