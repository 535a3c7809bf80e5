//! The real control plane: built once, started on free loopback ports, stopped without a trace.
//!
//! Owns the published binaries (which, where, how built), the harness that runs them, the stage on
//! which stories are played there, the audit log as witness, the conformance run that holds the
//! embedded cluster against them, and the benchmarks. It must not contain anything a production crate
//! needs. Called by `cargo xtask` and the tests of the real tier.

pub mod apart;
pub mod audit;
pub mod auditor;
pub mod bench;
pub mod binaries;
pub mod conformance;
pub mod control_plane;
pub mod controller;
pub mod etcd;
pub mod fleet;
pub mod gate;
pub mod karpenter;
mod kubeconfig;
pub mod kwok;
pub mod moto;
pub mod nodes;
mod pki;
mod process;
pub mod stage;
pub mod standing;
pub mod stories;

pub use audit::AuditEntry;
pub use control_plane::{ControlPlane, Options};
pub use stage::RealWorld;
