//! The cloud over loopback, for a controller in another process.
//!
//! Owns the wire form of each `Provider` call: one POST with the call as JSON, one answer with its
//! result. Must not interpret calls. `RemoteCloud` is the client; whatever goes wrong on the way is
//! `NoAnswer`, because the effect may have taken place.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use http::Request;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shipshape_engine::machine::{Group, GroupId, ImageId, Machine, MachineId, ProviderId, Token};
use shipshape_provider::{Error, Provider, ReplacementRequest, Result};

use super::CloudHandle;

const PATH: &str = "/provider";
const CALLER: &str = "x-caller";

/// A call of the `Provider` trait, as words.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Call {
    Resolve(ProviderId),
    Machine(MachineId),
    Group(GroupId),
    Groups,
    SetGroupImage(GroupId, ImageId),
    FindReplacement(Token),
    EnsureReplacement(ReplacementRequest),
    Protect(MachineId, bool),
    Tag(MachineId, BTreeMap<String, String>),
    DeleteMachine(MachineId),
    MachinesTagged(BTreeMap<String, String>),
    Owned,
}

/// An answer, as words.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Answer {
    Done(serde_json::Value),
    Failed(Error),
}

/// Serves the cloud on a loopback listener until the future is dropped.
pub async fn serve(cloud: CloudHandle, listener: tokio::net::TcpListener) -> std::io::Result<()> {
    let routes = Router::new().route(PATH, post(answer)).with_state(cloud);
    axum::serve(listener, routes).await
}

async fn answer(
    State(cloud): State<CloudHandle>,
    headers: HeaderMap,
    Json(call): Json<Call>,
) -> Json<Answer> {
    let caller = headers
        .get(CALLER)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("remote");
    let result = carry_out(&cloud.called_by(caller), call).await;
    Json(result.map_or_else(Answer::Failed, Answer::Done))
}

async fn carry_out(cloud: &CloudHandle, call: Call) -> Result<serde_json::Value> {
    match call {
        Call::Resolve(id) => words(&cloud.resolve(&id).await?),
        Call::Machine(id) => words(&cloud.machine(&id).await?),
        Call::Group(id) => words(&cloud.group(&id).await?),
        Call::Groups => words(&cloud.groups().await?),
        Call::SetGroupImage(id, image) => words(&cloud.set_group_image(&id, &image).await?),
        Call::FindReplacement(token) => words(&cloud.find_replacement(&token).await?),
        Call::EnsureReplacement(request) => words(&cloud.ensure_replacement(&request).await?),
        Call::Protect(id, protected) => words(&cloud.protect(&id, protected).await?),
        Call::Tag(id, tags) => words(&cloud.tag(&id, &tags).await?),
        Call::DeleteMachine(id) => words(&cloud.delete_machine(&id).await?),
        Call::MachinesTagged(tags) => words(&cloud.machines_tagged(&tags).await?),
        Call::Owned => words(&cloud.owned().await?),
    }
}

fn words(value: &impl Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(value).map_err(|error| no_answer(&error))
}

fn no_answer(error: &dyn std::fmt::Display) -> Error {
    Error::NoAnswer {
        what: "a call over loopback".to_owned(),
        message: error.to_string(),
    }
}

/// A cloud in another process on this machine.
#[derive(Clone)]
pub struct RemoteCloud {
    /// An HTTP client like any other; nothing of Kubernetes is spoken through it.
    client: kube::Client,
    caller: String,
}

impl RemoteCloud {
    /// The cloud served at `address`, called as `caller`.
    pub fn new(address: SocketAddr, caller: &str) -> Result<Self> {
        let url: http::Uri = format!("http://{address}")
            .parse()
            .map_err(|error| no_answer(&error))?;
        let client =
            kube::Client::try_from(kube::Config::new(url)).map_err(|error| no_answer(&error))?;
        Ok(Self {
            client,
            caller: caller.to_owned(),
        })
    }

    async fn call<R: DeserializeOwned>(&self, call: Call) -> Result<R> {
        let body = serde_json::to_vec(&call).map_err(|error| no_answer(&error))?;
        let request = Request::post(PATH)
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(CALLER, &self.caller)
            .body(body)
            .map_err(|error| no_answer(&error))?;
        match self
            .client
            .request::<Answer>(request)
            .await
            .map_err(|error| no_answer(&error))?
        {
            Answer::Done(value) => serde_json::from_value(value).map_err(|error| no_answer(&error)),
            Answer::Failed(error) => Err(error),
        }
    }
}

#[async_trait]
impl Provider for RemoteCloud {
    async fn resolve(&self, provider_id: &ProviderId) -> Result<Machine> {
        self.call(Call::Resolve(provider_id.clone())).await
    }

    async fn machine(&self, id: &MachineId) -> Result<Machine> {
        self.call(Call::Machine(id.clone())).await
    }

    async fn group(&self, id: &GroupId) -> Result<Group> {
        self.call(Call::Group(id.clone())).await
    }

    async fn groups(&self) -> Result<Vec<Group>> {
        self.call(Call::Groups).await
    }

    async fn set_group_image(&self, id: &GroupId, image: &ImageId) -> Result<()> {
        self.call(Call::SetGroupImage(id.clone(), image.clone()))
            .await
    }

    async fn find_replacement(&self, token: &Token) -> Result<Option<Machine>> {
        self.call(Call::FindReplacement(token.clone())).await
    }

    async fn ensure_replacement(&self, request: &ReplacementRequest) -> Result<Machine> {
        self.call(Call::EnsureReplacement(request.clone())).await
    }

    async fn protect(&self, id: &MachineId, protected: bool) -> Result<()> {
        self.call(Call::Protect(id.clone(), protected)).await
    }

    async fn tag(&self, id: &MachineId, tags: &BTreeMap<String, String>) -> Result<()> {
        self.call(Call::Tag(id.clone(), tags.clone())).await
    }

    async fn delete_machine(&self, id: &MachineId) -> Result<()> {
        self.call(Call::DeleteMachine(id.clone())).await
    }

    async fn machines_tagged(&self, tags: &BTreeMap<String, String>) -> Result<Vec<Machine>> {
        self.call(Call::MachinesTagged(tags.clone())).await
    }

    async fn owned(&self) -> Result<Vec<Machine>> {
        self.call(Call::Owned).await
    }
}
