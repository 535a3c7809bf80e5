//! A gate between the controller's process and what it talks to, where a plan of faults waits.
//!
//! Owns two loopback servers, one before the API server and one before the cloud, that hand requests on
//! through the plan of the moment. Must not know what a fault is for: whoever sets the plan hears of
//! crashes and kills the process. Called by the crash sample on the real control plane.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{Request, StatusCode, header};
use kube::{Client, Config};
use shipshape_simulator::faults::{Faults, NamedEffect, Plan};
use shipshape_simulator::seed::Seed;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::{Layer as _, ServiceExt as _};

use crate::{ControlPlane, kubeconfig};

/// Largest request that is handed on.
const REQUEST_MAX: usize = 4 * 1024 * 1024;

/// Both servers; they end when this value is dropped.
pub struct Gate {
    faults: Arc<Mutex<Faults>>,
    kubeconfig: PathBuf,
    cloud: SocketAddr,
    _servers: JoinSet<()>,
}

impl Gate {
    /// Opens the gate before a control plane and a cloud. Its kubeconfig goes into `folder`.
    pub async fn open(plane: &ControlPlane, cloud: SocketAddr, folder: &Path) -> Result<Self> {
        let faults = Arc::new(Mutex::new(Faults::new(Plan::default(), &Seed::new(0))));
        let mut servers = JoinSet::new();
        let api = Client::try_from(plane.config().await?)?;
        let api = serve(&mut servers, api, &faults).await?;
        let behind = Client::try_from(Config::new(format!("http://{cloud}").parse()?))?;
        let cloud = serve(&mut servers, behind, &faults).await?;
        let file = folder.join("gate.kubeconfig");
        let text = kubeconfig::open(&format!("http://{api}")).to_string();
        std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        Ok(Self {
            faults,
            kubeconfig: file,
            cloud,
            _servers: servers,
        })
    }

    /// The way to the API server through the gate.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Where the cloud listens behind the gate.
    pub fn cloud(&self) -> SocketAddr {
        self.cloud
    }

    /// Requests meet this plan from now on, and its counts begin anew.
    pub fn set(&self, plan: Plan) -> Faults {
        let faults = Faults::new(plan, &Seed::new(0));
        *lock(&self.faults) = faults.clone();
        faults
    }
}

fn lock(faults: &Mutex<Faults>) -> std::sync::MutexGuard<'_, Faults> {
    faults.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone)]
struct Way {
    client: Client,
    faults: Arc<Mutex<Faults>>,
}

async fn serve(
    servers: &mut JoinSet<()>,
    client: Client,
    faults: &Arc<Mutex<Faults>>,
) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let way = Way {
        client,
        faults: Arc::clone(faults),
    };
    let router = Router::new().fallback(hand_on).with_state(way);
    servers.spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the gate has closed");
        }
    });
    Ok(address)
}

/// Hands one request on through the plan. What the plan loses is lost on the wire too: the connection
/// is cut before the answer is whole.
async fn hand_on(State(way): State<Way>, request: axum::extract::Request) -> Response {
    let (mut head, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, REQUEST_MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    for of_this_connection in [header::HOST, header::CONNECTION] {
        head.headers.remove(of_this_connection);
    }
    if let Some(effect) = cloud_effect(&body) {
        head.extensions.insert(effect);
    }
    let request = Request::from_parts(head, kube::client::Body::from(body.to_vec()));
    let client = way.client.clone();
    let behind = tower::service_fn(move |request| {
        let client = client.clone();
        async move { client.send(request).await }
    });
    let faults = lock(&way.faults).clone();
    match faults.layer(behind).oneshot(request).await {
        Ok(answer) => answer.map(Body::new),
        Err(_) => cut(),
    }
}

/// The changing call of a cloud's query form, if it is one.
fn cloud_effect(body: &Bytes) -> Option<NamedEffect> {
    let text = std::str::from_utf8(body).ok()?;
    let mut parts = text.split('&');
    let action = parts.find_map(|part| part.strip_prefix("Action="))?;
    (!action.starts_with("Describe")).then(|| NamedEffect(format!("cloud {action}")))
}

/// An answer that ends in the middle.
fn cut() -> Response {
    let broken = futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("cut")) });
    Response::new(Body::from_stream(broken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changing_cloud_call_is_an_effect_and_a_question_is_none() {
        let effect = |body: &'static str| cloud_effect(&Bytes::from_static(body.as_bytes()));
        let launch = effect("Action=RunInstances&Version=2016-11-15");
        assert_eq!(launch.map(|it| it.0).as_deref(), Some("cloud RunInstances"));
        assert!(effect("Action=DescribeInstances").is_none());
        assert!(effect("{\"kind\":\"Node\"}").is_none());
    }
}
