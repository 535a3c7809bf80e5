//! The one trait through which controllers reach etcd, and its client.
//!
//! Owns the trait, its errors and the client of etcd's JSON gateway (docs/adr/0007). Must not decide
//! whether a member may leave: the engine does. An answer that is missing or unclear is an error or a
//! sick member, never "well" or "there is none".

mod error;
mod gateway;
mod members;
mod words;

use async_trait::async_trait;
use shipshape_engine::etcd::{EtcdView, MemberId};

pub use error::{Error, ErrorClass, Result};
pub use members::{EtcdClient, EtcdSettings};

/// An etcd, or something that plays one.
#[async_trait]
pub trait Etcd: Send + Sync {
    /// All members and how they fare, from the list that a majority agrees on now. `endpoints` are
    /// addresses of some members; each member is then asked at the address that it advertises.
    async fn look(&self, endpoints: &[String]) -> Result<EtcdView>;

    /// Takes a member out. One that is gone already is a success.
    async fn remove_member(&self, endpoints: &[String], id: &MemberId) -> Result<()>;

    /// Has `to` lead in place of `from`. A success where `from` does not lead.
    async fn move_leader(&self, endpoints: &[String], from: &MemberId, to: &MemberId)
    -> Result<()>;
}
