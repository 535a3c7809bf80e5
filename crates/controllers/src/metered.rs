//! A cloud whose calls are counted and timed.
//!
//! Owns the words under which calls appear among the metrics. Must not change a call or an answer.
//! `Context::provider` wraps every cloud in one.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use shipshape_cluster::Clock;
use shipshape_engine::machine::{Group, GroupId, ImageId, Machine, MachineId, ProviderId, Token};
use shipshape_provider::{Error, Provider, ReplacementRequest, Result};

use crate::vitals::Vitals;

/// A cloud whose calls are counted and timed.
pub(crate) struct Metered {
    pub(crate) cloud: Arc<dyn Provider>,
    /// The type that manifests name it by.
    pub(crate) kind: String,
    pub(crate) vitals: Vitals,
    pub(crate) clock: Clock,
}

impl Metered {
    async fn measure<T>(
        &self,
        call: &'static str,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let began = self.clock.now();
        let answer = work.await;
        let took = self.clock.now().duration_since(began);
        let outcome = outcome(answer.as_ref().err());
        self.vitals
            .saw_provider_call(&self.kind, call, outcome, took.as_secs_f64());
        answer
    }
}

/// What came of a call, in one word.
fn outcome(error: Option<&Error>) -> &'static str {
    match error {
        None => "ok",
        Some(Error::NotFound { .. }) => "not_found",
        Some(Error::NoCapacity { .. }) => "no_capacity",
        Some(Error::Refused { .. }) => "refused",
        Some(Error::Throttled { .. }) => "throttled",
        Some(Error::NoAnswer { .. }) => "no_answer",
        Some(Error::Denied { .. }) => "denied",
    }
}

#[async_trait]
impl Provider for Metered {
    async fn resolve(&self, provider_id: &ProviderId) -> Result<Machine> {
        let work = self.cloud.resolve(provider_id);
        self.measure("resolve", work).await
    }

    async fn machine(&self, id: &MachineId) -> Result<Machine> {
        self.measure("machine", self.cloud.machine(id)).await
    }

    async fn group(&self, id: &GroupId) -> Result<Group> {
        self.measure("group", self.cloud.group(id)).await
    }

    async fn groups(&self) -> Result<Vec<Group>> {
        self.measure("groups", self.cloud.groups()).await
    }

    async fn set_group_image(&self, id: &GroupId, image: &ImageId) -> Result<()> {
        let work = self.cloud.set_group_image(id, image);
        self.measure("set_group_image", work).await
    }

    async fn find_replacement(&self, token: &Token) -> Result<Option<Machine>> {
        let work = self.cloud.find_replacement(token);
        self.measure("find_replacement", work).await
    }

    async fn ensure_replacement(&self, request: &ReplacementRequest) -> Result<Machine> {
        let work = self.cloud.ensure_replacement(request);
        self.measure("ensure_replacement", work).await
    }

    async fn protect(&self, id: &MachineId, protected: bool) -> Result<()> {
        let work = self.cloud.protect(id, protected);
        self.measure("protect", work).await
    }

    async fn tag(&self, id: &MachineId, tags: &BTreeMap<String, String>) -> Result<()> {
        self.measure("tag", self.cloud.tag(id, tags)).await
    }

    async fn delete_machine(&self, id: &MachineId) -> Result<()> {
        let work = self.cloud.delete_machine(id);
        self.measure("delete_machine", work).await
    }

    async fn machines_tagged(&self, tags: &BTreeMap<String, String>) -> Result<Vec<Machine>> {
        let work = self.cloud.machines_tagged(tags);
        self.measure("machines_tagged", work).await
    }

    async fn owned(&self) -> Result<Vec<Machine>> {
        self.measure("owned", self.cloud.owned()).await
    }

    async fn restore_groups(&self) -> Result<()> {
        let work = self.cloud.restore_groups();
        self.measure("restore_groups", work).await
    }
}
