//! Faults between a client and the API: the seam where a plan makes things go wrong.
//!
//! Owns a tower layer that holds requests against a plan of rules. Must not know what the requests
//! mean beyond method and path. Put it under one client (`ApiServer::client_through`, or
//! `Faults::client` for any other) and only that client suffers; `FaultyCloud` and `FaultyEtcd` do the same
//! for calls of a cloud and of etcd.

mod call;
mod cloud;
mod effect;
mod etcd;
mod hearing;
mod plan;
#[cfg(test)]
mod tests;
mod watching;

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

pub use cloud::FaultyCloud;
pub use effect::NamedEffect;
pub use etcd::FaultyEtcd;
pub use hearing::Told;
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
    /// Every effect that was asked for, in order.
    effects: Vec<String>,
    /// What the client asked, heard and did, until somebody takes it.
    told: Vec<Told>,
    /// Whether the client has crashed: nothing that it still asks for arrives.
    dead: bool,
    /// Whether all faults are over.
    over: bool,
}

/// What is asked for, as rules see it.
struct Asked {
    /// `None` for a call of a cloud or of etcd.
    method: Option<Method>,
    path: String,
    effect: Option<String>,
    question: Option<String>,
    /// What an effect is done to.
    object: String,
}

impl Asked {
    fn request(request: &Request<Body>) -> Self {
        let uri = request.uri();
        let path = uri.path_and_query().map(ToString::to_string);
        let meaning = effect::of_request(request.method(), uri, request.headers());
        let named = request.extensions().get::<NamedEffect>();
        Self {
            effect: named.map(|it| it.0.clone()).or(meaning.effect),
            question: meaning.question,
            object: meaning.object,
            method: Some(request.method().clone()),
            path: path.unwrap_or_default(),
        }
    }

    /// A call of a cloud or of etcd about something. One that changes something has its name as its effect,
    /// for example `cloud deleteMachine`; one that does not is a question.
    fn of(call: &str, about: &str, is_write: bool) -> Self {
        Self {
            method: None,
            path: call.to_owned(),
            effect: is_write.then(|| call.to_owned()),
            question: (!is_write).then(|| format!("{call} {about}")),
            object: about.to_owned(),
        }
    }

    fn name(&self) -> String {
        match &self.method {
            Some(method) => format!("{method} {}", self.path),
            None => self.path.clone(),
        }
    }
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
                effects: Vec::new(),
                told: Vec::new(),
                dead: false,
                over: false,
            })),
        }
    }

    fn with<R>(&self, step: impl FnOnce(&mut State) -> R) -> R {
        step(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same way to the API, with these faults on it.
    pub fn client(&self, way: kube::Client) -> kube::Client {
        let send = tower::service_fn(move |request: Request<Body>| {
            let way = way.clone();
            async move { way.send(request).await }
        });
        kube::Client::new(self.layer(send), "default")
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

    /// Every effect that was asked for so far, in order, whether it took place or not.
    pub fn effects(&self) -> Vec<String> {
        self.with(|state| state.effects.clone())
    }

    /// A new client takes the place of the one that crashed.
    pub fn revive(&self) {
        self.with(|state| {
            state.dead = false;
            state.told.push(Told::Restarted);
        });
    }

    /// No request meets a fault from now on.
    pub fn cease(&self) {
        self.with(|state| state.over = true);
    }

    /// The fault that a request meets, if any. A client that has crashed never gets an answer.
    async fn meet(&self, asked: &Asked) -> Option<Fault> {
        if self.with(|state| state.dead) {
            return std::future::pending().await;
        }
        self.with(|state| {
            if let Some(effect) = &asked.effect {
                state.effects.push(effect.clone());
                state.acts(effect, &asked.object);
            }
            let fault = state.draw(asked)?;
            state.strikes.push(Strike {
                request: asked.name(),
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
            state.dead = true;
            state
                .crashes
                .retain(|listener| listener.send(strike.clone()).is_ok());
        });
    }
}

impl State {
    fn draw(&mut self, asked: &Asked) -> Option<Fault> {
        if self.over {
            return None;
        }
        for (index, rule) in self.plan.rules.iter().enumerate() {
            if !rule.matches(asked) {
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
        let asked = Asked::request(&request);
        let fault = self.faults.meet(&asked).await;
        let answer = match &fault {
            Some(fault) => self.clone().answer_through(fault, request, &asked).await,
            None => self.pass(request, &asked.path).await,
        };
        let is_answer = |answer: &Response<AnswerBody>| {
            let status = answer.status();
            let is_true = answer.extensions().get::<Untrue>().is_none();
            is_true && (status.is_success() || status == StatusCode::NOT_FOUND)
        };
        let is_heard = answer.as_ref().is_ok_and(is_answer);
        self.faults.heard(asked.question, is_heard);
        answer
    }

    async fn answer_through(
        self,
        fault: &Fault,
        request: Request<Body>,
        asked: &Asked,
    ) -> Result<Response<AnswerBody>, BoxError> {
        let (path, name) = (asked.path.clone(), asked.name());
        match fault {
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
            Fault::EmptyList => emptied(self.pass(request, &path).await?).await,
            Fault::LagWatch(lag) => {
                let response = self.pass(request, &path).await?;
                Ok(response.map(|body| watching::lagging(body, *lag)))
            }
            Fault::BreakWatch(after) => {
                let response = self.pass(request, &path).await?;
                Ok(response.map(|body| watching::breaking(body, *after)))
            }
            Fault::CrashBefore => {
                self.faults.crash(&name, fault);
                std::future::pending().await
            }
            Fault::CrashAfter => {
                // What the server answers, nobody will ever know.
                drop(self.pass(request, &path).await);
                self.faults.crash(&name, fault);
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

/// Marks an answer that says what never was so.
#[derive(Clone)]
struct Untrue;

/// A list without what is in it.
async fn emptied(response: Response<AnswerBody>) -> Result<Response<AnswerBody>, BoxError> {
    let (head, body) = response.into_parts();
    let mut list: serde_json::Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
    let mut has_lost = false;
    if let Some(items) = list.get_mut("items") {
        has_lost = items.as_array().is_some_and(|all| !all.is_empty());
        *items = serde_json::json!([]);
    }
    let bytes = Bytes::from(serde_json::to_vec(&list)?);
    let mut response = Response::from_parts(head, whole(bytes));
    if has_lost {
        response.extensions_mut().insert(Untrue);
    }
    Ok(response)
}

/// Lists of one path and one selection are the same list, whatever version they ask for.
fn list_key(path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let selection = query.split('&').filter(|part| part.contains("Selector="));
    selection.fold(path.to_owned(), |key, part| format!("{key}?{part}"))
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
