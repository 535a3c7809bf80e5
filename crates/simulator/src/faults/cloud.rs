//! Faults between a controller and its cloud.
//!
//! Owns a `Provider` that holds calls against a plan before and after it hands them on. Must not know
//! the cloud behind it: the embedded one and a real one suffer alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use shipshape_engine::machine::{Group, GroupId, ImageId, Machine, MachineId, ProviderId, Token};
use shipshape_provider::{Error, Provider, ReplacementRequest, Result};

use super::{Asked, Fault, Faults, effect};

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

    async fn read<R, F: Future<Output = Result<R>> + Send>(
        &self,
        call: &'static str,
        work: impl Fn() -> F + Send + Sync,
    ) -> Result<R> {
        let asked = Asked::call(call, None);
        self.go(call, asked, work).await
    }

    async fn write<R, F: Future<Output = Result<R>> + Send>(
        &self,
        call: &'static str,
        work: impl Fn() -> F + Send + Sync,
    ) -> Result<R> {
        let asked = Asked::call(call, Some(effect::of_call(call)));
        self.go(call, asked, work).await
    }

    async fn go<R, F: Future<Output = Result<R>> + Send>(
        &self,
        call: &'static str,
        asked: Asked,
        work: impl Fn() -> F + Send + Sync,
    ) -> Result<R> {
        let name = asked.path.clone();
        let Some(fault) = self.faults.meet(asked).await else {
            return work().await;
        };
        match &fault {
            Fault::Delay(time) => {
                tokio::time::sleep(*time).await;
                work().await
            }
            Fault::LoseAnswer => {
                work().await?;
                Err(no_answer(call))
            }
            Fault::Duplicate => {
                work().await?;
                work().await
            }
            Fault::Fail { code: 429, .. } => Err(Error::Throttled {
                message: "as the plan says".to_owned(),
            }),
            Fault::Drop | Fault::Fail { .. } => Err(no_answer(call)),
            Fault::CrashBefore => {
                self.faults.crash(&name, &fault);
                std::future::pending().await
            }
            Fault::CrashAfter => {
                // What the cloud answers, nobody will ever know.
                drop(work().await);
                self.faults.crash(&name, &fault);
                std::future::pending().await
            }
            // A cloud has neither lists nor watches of this kind.
            Fault::StaleList | Fault::EmptyList | Fault::LagWatch(_) | Fault::BreakWatch(_) => {
                work().await
            }
        }
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
        self.read("resolve", || self.inner.resolve(provider_id))
            .await
    }

    async fn machine(&self, id: &MachineId) -> Result<Machine> {
        self.read("machine", || self.inner.machine(id)).await
    }

    async fn group(&self, id: &GroupId) -> Result<Group> {
        self.read("group", || self.inner.group(id)).await
    }

    async fn groups(&self) -> Result<Vec<Group>> {
        self.read("groups", || self.inner.groups()).await
    }

    async fn set_group_image(&self, id: &GroupId, image: &ImageId) -> Result<()> {
        self.write("setGroupImage", || self.inner.set_group_image(id, image))
            .await
    }

    async fn find_replacement(&self, token: &Token) -> Result<Option<Machine>> {
        self.read("findReplacement", || self.inner.find_replacement(token))
            .await
    }

    async fn ensure_replacement(&self, request: &ReplacementRequest) -> Result<Machine> {
        self.write("ensureReplacement", || {
            self.inner.ensure_replacement(request)
        })
        .await
    }

    async fn protect(&self, id: &MachineId, protected: bool) -> Result<()> {
        let call = if protected { "protect" } else { "unprotect" };
        self.write(call, || self.inner.protect(id, protected)).await
    }

    async fn tag(&self, id: &MachineId, tags: &BTreeMap<String, String>) -> Result<()> {
        self.write("tag", || self.inner.tag(id, tags)).await
    }

    async fn delete_machine(&self, id: &MachineId) -> Result<()> {
        self.write("deleteMachine", || self.inner.delete_machine(id))
            .await
    }

    async fn machines_tagged(&self, tags: &BTreeMap<String, String>) -> Result<Vec<Machine>> {
        self.read("machinesTagged", || self.inner.machines_tagged(tags))
            .await
    }

    async fn owned(&self) -> Result<Vec<Machine>> {
        self.read("owned", || self.inner.owned()).await
    }

    async fn restore_groups(&self) -> Result<()> {
        self.write("restoreGroups", || self.inner.restore_groups())
            .await
    }
}
