//! The one trait through which controllers reach a cloud.
//!
//! Owns the trait and its errors. Must not know about controllers, Kubernetes objects or any one
//! cloud. Every call is an idempotent "ensure" or a read; an answer that is missing or unclear is an
//! error or `MachineState::Unknown`, never "there is none".

pub mod contract;
mod error;
mod source;

use std::collections::BTreeMap;

use async_trait::async_trait;
use shipshape_engine::machine::{Group, GroupId, ImageId, Machine, MachineId, ProviderId, Token};

pub use error::{Error, ErrorClass, Result};
pub use shipshape_engine::machine::ReplacementRequest;
pub use source::ProviderSource;

/// A cloud, or something that plays one.
#[async_trait]
pub trait Provider: Send + Sync {
    /// The machine behind a Node. `Error::NotFound` when the cloud knows no such machine.
    async fn resolve(&self, provider_id: &ProviderId) -> Result<Machine>;

    /// One machine as it is now. `Error::NotFound` when it is gone for good; shortly after its end
    /// it may still be shown as `Terminated`. An id that was handed out can be read at once.
    async fn machine(&self, id: &MachineId) -> Result<Machine>;

    /// One group as it is now.
    async fn group(&self, id: &GroupId) -> Result<Group>;

    /// All groups of this cluster.
    async fn groups(&self) -> Result<Vec<Group>>;

    /// Makes the group launch `image` from now on; running machines are left alone.
    async fn set_group_image(&self, id: &GroupId, image: &ImageId) -> Result<()>;

    /// Looks up the machine that an earlier call made under `token`, without creating one. Clouds
    /// list with a lag: `None` shortly after a call does not prove that the call had no effect, and
    /// `ensure_replacement` with the same token is the safe way on. A machine that is not yet a
    /// member of its group is not found either, because that call has not ended.
    async fn find_replacement(&self, token: &Token) -> Result<Option<Machine>>;

    /// Creates the replacement, or returns the one that the token already made, even when that one
    /// has ended since. The group's desired size grows by one with the machine. The same token with
    /// other words is `Error::Refused`; a full zone or group is `Error::NoCapacity` and makes nothing.
    async fn ensure_replacement(&self, request: &ReplacementRequest) -> Result<Machine>;

    /// Sets or lifts protection against the group's own scale-in. `Error::NotFound` for a machine
    /// that is on its way out.
    async fn protect(&self, id: &MachineId, protected: bool) -> Result<()>;

    /// Adds or overwrites tags. `Error::NotFound` for a machine that is on its way out.
    async fn tag(&self, id: &MachineId, tags: &BTreeMap<String, String>) -> Result<()>;

    /// Asks for the end of a machine and takes it out of the group's desired size in the same call,
    /// so that the group does not refill. Deleting a machine that is on its way out or gone is a
    /// success and changes nothing. `Error::Refused` when the group would fall below its minimum.
    async fn delete_machine(&self, id: &MachineId) -> Result<()>;

    /// Every machine that carries all of `tags` and is not yet gone.
    async fn machines_tagged(&self, tags: &BTreeMap<String, String>) -> Result<Vec<Machine>>;

    /// Every machine that we have made for this cluster, by our tags, and that is not yet gone. Clouds
    /// list with a lag. A provider that cannot tell this cluster's machines from another's has none.
    async fn owned(&self) -> Result<Vec<Machine>>;

    /// Gives every group back what `ensure_replacement` changed about it, besides its machines: a
    /// suspended process, a raised maximum. Called when no replacement is under way; a group that
    /// was not changed is left alone. Clouds that change nothing need not do anything.
    async fn restore_groups(&self) -> Result<()> {
        Ok(())
    }
}
