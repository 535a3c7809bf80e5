//! The embedded cluster: a Kubernetes API, the actors of a cluster, a cloud, faults and virtual time.
//!
//! Nothing that runs in production depends on this crate. `MISMATCH.md` lists where it falls short
//! of a real cluster.

pub mod actors;
pub mod apply;
pub mod cloud;
pub mod discovery;
pub mod etcd;
pub mod faults;
pub mod openapi;
pub mod patch;
pub mod schema;
pub mod seed;
pub mod server;
pub mod table;
pub mod trace;
pub mod world;

pub use server::ApiServer;
pub use world::{World, WorldSpec};
