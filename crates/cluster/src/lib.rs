//! All Kubernetes I/O of the operator: stores, queue, status writer, evictions, leases, leader
//! election, events and the clock.
//!
//! It reads and writes; it never decides.

pub mod backoff;
pub mod clock;
pub mod deployment;
pub mod error;
pub mod etcd_pods;
pub mod events;
pub mod evict;
pub mod finalizer;
pub mod foreign;
pub mod leader;
pub mod ledger;
pub mod lock;
pub mod neighbours;
pub mod node;
pub mod own_node;
pub mod patch;
pub mod pending;
pub mod queue;
pub mod removals;
pub mod shutdown;
pub mod status;
pub mod store;
pub mod worker;

#[cfg(test)]
mod fake;

pub use clock::Clock;
pub use error::{Error, ErrorClass, Result};
pub use shutdown::Shutdown;
pub use store::{Change, Key, Store};
