//! Faults between a client and the API: the seam where a plan makes things go wrong.
//!
//! Owns a tower layer that holds requests against a plan of rules. Must not know what the requests
//! mean beyond method and path. Put it under one client (`ApiServer::client_through`, or
//! `kube::client::ClientBuilder::with_layer` on a real control plane) and only that client suffers.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use tokio::sync::mpsc;
use tower::{BoxError, Layer, Service, ServiceExt as _};

pub use plan::{Fault, Plan, Rule};

use crate::seed::Seed;

/// The body of an answer that came through the layer.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// A fault that took place: which request met which fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    /// Method and path of the request.
    pub request: String,
    /// What befell it.
    pub fault: Fault,
}

/// The layer; clones share one plan.
#[derive(Clone)]
pub struct Faults {
    shared: Arc<Mutex<State>>,
}

struct State {
    plan: Plan,
    matched: BTreeMap<usize, u32>,
    struck: BTreeMap<usize, u32>,
    chance: Seed,
    strikes: Vec<Strike>,
    /// The last answer to each list, for lists that come from a stale cache.
    lists: BTreeMap<String, Bytes>,
    crashes: Vec<mpsc::UnboundedSender<Strike>>,
}

impl Faults {
    /// A layer that follows a plan.
    pub fn new(plan: Plan, seed: &Seed) -> Self {
        Self {
            shared: Arc::new(Mutex::new(State {
                plan,
                matched: BTreeMap::new(),
                struck: BTreeMap::new(),
                chance: seed.fork("faults"),
                strikes: Vec::new(),
                lists: BTreeMap::new(),
                crashes: Vec::new(),
            })),
        }
    }

    fn with<R>(&self, step: impl FnOnce(&mut State) -> R) -> R {
        step(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Every fault so far.
    pub fn strikes(&self) -> Vec<Strike> {
        self.with(|state| state.strikes.clone())
    }

    /// Hears of every crash. The request that crashed is never answered: whoever listens ends the
    /// client's process, or what stands for it.
    pub fn crashes(&self) -> mpsc::UnboundedReceiver<Strike> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.with(|state| state.crashes.push(sender));
        receiver
    }

    /// The fault that a request meets, if any.
    fn draw(&self, method: &Method, path: &str) -> Option<Fault> {
        self.with(|state| {
            let fault = state.draw(method, path)?;
            state.strikes.push(Strike {
                request: format!("{method} {path}"),
                fault: fault.clone(),
            });
            Some(fault)
        })
    }

    fn crash(&self, request: &str, fault: &Fault) {
        let strike = Strike {
            request: request.to_owned(),
            fault: fault.clone(),
        };
        self.with(|state| {
            state
                .crashes
                .retain(|listener| listener.send(strike.clone()).is_ok());
        });
    }
}

impl State {
    fn draw(&mut self, method: &Method, path: &str) -> Option<Fault> {
        for (index, rule) in self.plan.rules.iter().enumerate() {
            if !rule.matches(method, path) {
                continue;
            }
            let matched = self.matched.entry(index).or_default();
            *matched += 1;
            let struck = self.struck.entry(index).or_default();
            let spared = *matched <= rule.skip || rule.times.is_some_and(|times| *struck >= times);
            if !spared && self.chance.happens(rule.percent) {
                *struck += 1;
                return Some(rule.fault.clone());
            }
        }
        None
    }
}

impl<S> Layer<S> for Faults {
    type Service = Faulty<S>;

    fn layer(&self, inner: S) -> Faulty<S> {
        Faulty {
            inner,
            faults: self.clone(),
        }
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, BoxError>> + Send>>;

/// A service behind the layer.
#[derive(Clone)]
pub struct Faulty<S> {
    inner: S,
    faults: Faults,
}

impl<S, B> Service<Request<Body>> for Faulty<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let faulty = self.clone();
        Box::pin(async move { faulty.answer(request).await })
    }
}

impl<S, B> Faulty<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    async fn answer(self, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let path = request
            .uri()
            .path_and_query()
            .map(ToString::to_string)
            .unwrap_or_default();
        let name = format!("{} {path}", request.method());
        let fault = self.faults.draw(request.method(), &path);
        let Some(fault) = fault else {
            return self.pass(request, &path).await;
        };
        match &fault {
            Fault::Delay(time) => {
                tokio::time::sleep(*time).await;
                self.pass(request, &path).await
            }
            Fault::Drop => Err("the connection was refused".into()),
            Fault::LoseAnswer => {
                self.pass(request, &path).await?;
                Err("the connection was closed before the answer came".into())
            }
            Fault::Duplicate => {
                let (first, second) = twins(request).await?;
                self.pass(first, &path).await?;
                self.pass(second, &path).await
            }
            Fault::Fail { code, reason } => refusal(*code, reason),
            Fault::StaleList => match self
                .faults
                .with(|state| state.lists.get(&list_key(&path)).cloned())
            {
                Some(known) => json_answer(StatusCode::OK, known),
                None => self.pass(request, &path).await,
            },
            Fault::CrashBefore => {
                self.faults.crash(&name, &fault);
                std::future::pending().await
            }
            Fault::CrashAfter => {
                self.pass(request, &path).await?;
                self.faults.crash(&name, &fault);
                std::future::pending().await
            }
        }
    }

    /// Sends the request on and remembers the answer to a list, when the plan may need it.
    fn pass(&self, request: Request<Body>, path: &str) -> Answering {
        let Self { inner, faults } = self.clone();
        let path = path.to_owned();
        let is_list = request.method() == Method::GET && !path.contains("watch=");
        let keep = is_list && faults.with(|state| state.plan.has_stale_lists());
        Box::pin(async move {
            let response = inner.oneshot(request).await.map_err(Into::into)?;
            if !keep || response.status() != StatusCode::OK {
                return Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()));
            }
            let (head, body) = response.into_parts();
            let bytes = body.collect().await.map_err(Into::into)?.to_bytes();
            faults.with(|state| state.lists.insert(list_key(&path), bytes.clone()));
            Ok(Response::from_parts(head, whole(bytes)))
        })
    }
}

/// Lists of one path are the same list, whatever version they ask for.
fn list_key(path: &str) -> String {
    path.split('?').next().unwrap_or(path).to_owned()
}

async fn twins(request: Request<Body>) -> Result<(Request<Body>, Request<Body>), BoxError> {
    let (head, body) = request.into_parts();
    let bytes = body.collect().await?.to_bytes().to_vec();
    let twin = Request::from_parts(head.clone(), Body::from(bytes.clone()));
    Ok((Request::from_parts(head, Body::from(bytes)), twin))
}

fn refusal(code: u16, reason: &str) -> Result<Response<AnswerBody>, BoxError> {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("{reason}, as the plan says"), "reason": reason, "code": code,
    });
    json_answer(StatusCode::from_u16(code)?, Bytes::from(body.to_string()))
}

fn json_answer(code: StatusCode, body: Bytes) -> Result<Response<AnswerBody>, BoxError> {
    let response = Response::builder()
        .status(code)
        .header(http::header::CONTENT_TYPE, "application/json");
    Ok(response.body(whole(body))?)
}

fn whole(body: Bytes) -> AnswerBody {
    Full::new(body)
        .map_err(|never| match never {})
        .boxed_unsync()
}
