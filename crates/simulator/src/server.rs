//! The Kubernetes API of the embedded cluster.
//!
//! Owns objects, versions, watches and the request log. Must not act by itself: everything that
//! happens is the answer to a request. Actors, controllers and tests reach it through
//! `kube::Client`; kubectl reaches the same service over HTTP.

use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use shipshape_cluster::Clock;
use tokio::net::TcpListener;
use tower::Layer;

mod admission;
mod base64;
mod body;
mod bootstrap;
mod convert;
mod crds;
mod documents;
mod encode;
mod failure;
mod kinds;
mod log;
mod meta;
mod names;
mod paths;
mod request;
mod selector;
mod service;
mod state;
mod store;
#[cfg(test)]
mod tests;
mod validate;
mod verbs;
mod watch;

pub use log::LogEntry;
pub use request::Verb;
pub use service::{AnswerBody, ApiService};

pub(crate) use request::{RequestInfo, Target};

use state::{Answer, State};

/// A handle on the API; clones share one cluster.
#[derive(Clone)]
pub struct ApiServer {
    state: Arc<Mutex<State>>,
    clock: Clock,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

impl ApiServer {
    /// A new cluster: the built-in kinds and the namespaces that every cluster has.
    pub fn new(clock: Clock) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(clock.now()))),
            clock,
        }
    }

    /// Sets the seed of generated names and UIDs.
    pub fn reseed(&self, seed: u64) {
        self.lock().names.reseed(seed);
    }

    /// The bare service, for a layer that stands between clients and the API.
    pub fn service(&self, user_agent: &str) -> ApiService {
        ApiService::new(self.clone(), Some(user_agent.to_owned()))
    }

    /// A client in this process. The request log knows it by its user agent.
    pub fn client(&self, user_agent: &str) -> kube::Client {
        kube::Client::new(self.service(user_agent), "default")
    }

    /// A client whose requests go through a layer first, such as one that makes faults.
    pub fn client_through<L, B>(&self, user_agent: &str, layer: &L) -> kube::Client
    where
        L: Layer<ApiService>,
        L::Service: tower::Service<
                http::Request<kube::client::Body>,
                Response = http::Response<B>,
                Error: Into<tower::BoxError>,
                Future: Send + 'static,
            > + Send
            + 'static,
        B: http_body::Body<Data = bytes::Bytes, Error: Into<tower::BoxError>> + Send + 'static,
    {
        kube::Client::new(layer.layer(self.service(user_agent)), "default")
    }

    /// All requests so far.
    pub fn log(&self) -> Vec<LogEntry> {
        self.log_since(0)
    }

    /// The requests from an index on.
    pub fn log_since(&self, index: usize) -> Vec<LogEntry> {
        self.lock().log.iter().skip(index).cloned().collect()
    }

    /// How many requests there were.
    pub fn log_len(&self) -> usize {
        self.lock().log.len()
    }

    /// Forgets the past, as a compaction does: watches and lists from before get 410.
    pub fn forget_history(&self) {
        self.lock().store.forget_history();
    }

    /// Stores objects of a kind, named as `plural.group`, as they are: for clusters too large to be made
    /// by requests. Nothing is checked or filled in.
    pub fn load(&self, kind: &str, objects: impl IntoIterator<Item = Value>) {
        let (storage, now) = (kind.into(), self.clock.now());
        let mut state = self.lock();
        for object in objects {
            state.store.put(&storage, object, now);
        }
        state.store.forget_history();
    }

    /// Serves the API over plain HTTP until the task is dropped. Only loopback is served: there is
    /// no authentication.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the embedded cluster serves on loopback only, not on {address}"),
            ));
        }
        let service = ApiService::new(self, None);
        axum::serve(listener, axum::Router::new().fallback_service(service)).await
    }

    fn handle(&self, info: &RequestInfo, body: &[u8]) -> Answer {
        self.lock().handle(info, body, self.clock.now())
    }

    /// A panic elsewhere leaves no half-written state behind: every change is one call.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
