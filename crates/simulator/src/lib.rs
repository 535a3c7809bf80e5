//! The embedded cluster: a Kubernetes API, the actors of a cluster, a cloud, faults and virtual time.
//!
//! Nothing that runs in production depends on this crate.

pub mod apply;
pub mod cloud;
pub mod patch;
pub mod schema;
pub mod seed;
pub mod table;
