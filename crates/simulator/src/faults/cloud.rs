//! Faults between a controller and its cloud.
//!
//! Owns a `Provider` that holds calls against a plan before and after it hands them on. Must not know
//! the cloud behind it: the embedded one and a real one suffer alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use shipshape_engine::machine::{Group, GroupId, ImageId, Machine, MachineId, ProviderId, Token};
use shipshape_provider::{Error, Provider, ReplacementRequest, Result};

use super::{Asked, Fault, Faults};

/// A cloud behind a plan of faults; clones share both.
#[derive(Clone)]
pub struct FaultyCloud {
    inner: Arc<dyn Provider>,
    faults: Faults,
}

impl FaultyCloud {
    /// Puts the plan before the cloud.
    pub fn new(inner: Arc<dyn Provider>, faults: &Faults) -> Self {
        Self {
            inner,
            faults: faults.clone(),
        }
    }

    async fn read<R: Send, F: Future<Output = Result<R>> + Send>(
        &self,
        call: &'static str,
        about: &str,
        work: impl Fn() -> F + Send + Sync,
    ) -> Result<R> {
        let asked = Asked::of(&format!("cloud {call}"), about, false);
        let answer = self.go(call, &asked, work).await;
        let is_heard = matches!(answer, Ok(_) | Err(Error::NotFound { .. }));
        self.faults.heard(asked.question, is_heard);
        answer
    }

    async fn write<R: Send, F: Future<Output = Result<R>> + Send>(
        &self,
        call: &'static str,
        about: &str,
        work: impl Fn() -> F + Send + Sync,
    ) -> Result<R> {
        let asked = Asked::of(&format!("cloud {call}"), about, true);
        self.go(call, &asked, work).await
    }

    async fn go<R: Send, F: Future<Output = Result<R>> + Send>(
        &self,
        call: &'static str,
        asked: &Asked,
        work: impl Fn() -> F + Send + Sync,
    ) -> Result<R> {
        let broken = |fault: &Fault| {
            if let Fault::Fail { code: 429, .. } = fault {
                let message = "as the plan says".to_owned();
                return Error::Throttled { message };
            }
            no_answer(call)
        };
        self.faults.call(asked, broken, work).await
    }
}

fn no_answer(call: &str) -> Error {
    Error::NoAnswer {
        what: call.to_owned(),
        message: "the connection was closed, as the plan says".to_owned(),
    }
}

#[async_trait]
impl Provider for FaultyCloud {
    async fn resolve(&self, provider_id: &ProviderId) -> Result<Machine> {
        self.read("resolve", provider_id.as_str(), || {
            self.inner.resolve(provider_id)
        })
        .await
    }

    async fn machine(&self, id: &MachineId) -> Result<Machine> {
        self.read("machine", id.as_str(), || self.inner.machine(id))
            .await
    }

    async fn group(&self, id: &GroupId) -> Result<Group> {
        self.read("group", id.as_str(), || self.inner.group(id))
            .await
    }

    async fn groups(&self) -> Result<Vec<Group>> {
        self.read("groups", "", || self.inner.groups()).await
    }

    async fn set_group_image(&self, id: &GroupId, image: &ImageId) -> Result<()> {
        self.write("setGroupImage", id.as_str(), || {
            self.inner.set_group_image(id, image)
        })
        .await
    }

    async fn find_replacement(&self, token: &Token) -> Result<Option<Machine>> {
        self.read("findReplacement", &token.0, || {
            self.inner.find_replacement(token)
        })
        .await
    }

    async fn ensure_replacement(&self, request: &ReplacementRequest) -> Result<Machine> {
        self.write("ensureReplacement", &request.token.0, || {
            self.inner.ensure_replacement(request)
        })
        .await
    }

    async fn protect(&self, id: &MachineId, protected: bool) -> Result<()> {
        let call = if protected { "protect" } else { "unprotect" };
        self.write(call, id.as_str(), || self.inner.protect(id, protected))
            .await
    }

    async fn tag(&self, id: &MachineId, tags: &BTreeMap<String, String>) -> Result<()> {
        self.write("tag", id.as_str(), || self.inner.tag(id, tags))
            .await
    }

    async fn delete_machine(&self, id: &MachineId) -> Result<()> {
        self.write("deleteMachine", id.as_str(), || {
            self.inner.delete_machine(id)
        })
        .await
    }

    async fn machines_tagged(&self, tags: &BTreeMap<String, String>) -> Result<Vec<Machine>> {
        self.read("machinesTagged", "", || self.inner.machines_tagged(tags))
            .await
    }

    async fn owned(&self) -> Result<Vec<Machine>> {
        self.read("owned", "", || self.inner.owned()).await
    }

    async fn restore_groups(&self) -> Result<()> {
        self.write("restoreGroups", "", || self.inner.restore_groups())
            .await
    }
}
