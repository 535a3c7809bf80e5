//! A small API server in memory, for the tests of this crate.
//!
//! Owns objects, versions, a history and faults. Must not know any kind: only paths. It remembers
//! what it was told, so that a test states an outcome and not a list of expected calls.

mod answer;
mod objects;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) use answer::{Answer, failure, failure_with};
pub(crate) use objects::Objects;

/// What goes wrong with one request.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The server answers this and does nothing.
    Answer(Answer),
    /// The request never arrives, and no answer comes.
    LoseRequest,
    /// The server acts, but its answer never comes.
    LoseAnswer,
}

#[derive(Default)]
struct State {
    objects: Objects,
    log: Vec<String>,
    bodies: Vec<Value>,
    faults: Vec<(String, Fault)>,
    watches_held: bool,
}

/// A handle on the server; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
    moved: Arc<Notify>,
}

type Frames = StreamBody<BoxStream<'static, Result<http_body::Frame<Bytes>, std::io::Error>>>;

impl Fake {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn client(&self) -> Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let fake = fake.clone();
            async move { Ok::<_, std::io::Error>(fake.serve(request).await) }
        });
        Client::new(service, "default")
    }

    /// Puts an object there without a request.
    pub(crate) fn put(&self, path: &str, object: Value) -> Value {
        let stored = self.state().objects.put(path, object);
        self.moved.notify_waiters();
        stored
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.state().objects.get(path)
    }

    pub(crate) fn remove(&self, path: &str) {
        self.state().objects.remove(path);
        self.moved.notify_waiters();
    }

    /// Tells all watchers how far the history is.
    pub(crate) fn bookmark(&self) {
        self.state().objects.bookmark();
        self.moved.notify_waiters();
    }

    /// Forgets the history, so that watches from before are answered with 410.
    pub(crate) fn compact(&self) {
        self.state().objects.compact();
    }

    /// Events wait while held.
    pub(crate) fn hold_watches(&self, held: bool) {
        self.state().watches_held = held;
        self.moved.notify_waiters();
    }

    /// The next request that begins like this ("PUT /apis/...") meets a fault.
    pub(crate) fn fault(&self, request: &str, fault: Fault) {
        self.state().faults.push((request.to_owned(), fault));
    }

    /// "METHOD path" of every request so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    /// Requests that change something.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.log()
            .into_iter()
            .filter(|line| !line.starts_with("GET") && !line.starts_with("WATCH"))
            .collect()
    }

    /// The body of the last write.
    pub(crate) fn last_body(&self) -> Value {
        self.state().bodies.last().cloned().unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn serve(self, request: Request<Body>) -> Response<Frames> {
        let (parts, body) = request.into_parts();
        let query: BTreeMap<String, String> =
            form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes())
                .into_owned()
                .collect();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let path = parts.uri.path().to_owned();
        let watching = query.get("watch").is_some_and(|watch| watch == "true");
        let method = if watching {
            "WATCH"
        } else {
            parts.method.as_str()
        }
        .to_owned();
        let fault = self.arrive(&format!("{method} {path}"), &body);
        match fault {
            Some(Fault::Answer(answer)) => return reply(answer),
            Some(Fault::LoseRequest) => std::future::pending().await,
            Some(Fault::LoseAnswer) => {
                drop(
                    self.state()
                        .objects
                        .answer(&method, &path, &query, body.clone()),
                );
                self.moved.notify_waiters();
                std::future::pending::<()>().await;
            }
            None => (),
        }
        if watching {
            return self.watch(path, &query);
        }
        let answer = self.state().objects.answer(&method, &path, &query, body);
        self.moved.notify_waiters();
        reply(answer)
    }

    fn arrive(&self, line: &str, body: &Value) -> Option<Fault> {
        let mut state = self.state();
        state.log.push(line.to_owned());
        if !body.is_null() {
            state.bodies.push(body.clone());
        }
        let at = state
            .faults
            .iter()
            .position(|(request, _)| line.starts_with(request.as_str()))?;
        Some(state.faults.remove(at).1)
    }

    fn watch(self, path: String, query: &BTreeMap<String, String>) -> Response<Frames> {
        let from: u64 = query["resourceVersion"].parse().unwrap();
        let seconds: u64 = query["timeoutSeconds"].parse().unwrap();
        if from < self.state().objects.compacted() {
            return reply(failure(410, "Expired", "too old resource version"));
        }
        let end = Instant::now() + std::time::Duration::from_secs(seconds);
        let start = (self, path, from);
        let events = futures::stream::unfold(start, move |(fake, path, cursor)| async move {
            let (version, event) = fake.wait_event(&path, cursor, end).await?;
            let frame = http_body::Frame::data(Bytes::from(format!("{event}\n")));
            Some((Ok(frame), (fake, path, version)))
        });
        Response::new(StreamBody::new(events.boxed()))
    }

    async fn wait_event(&self, path: &str, cursor: u64, end: Instant) -> Option<(u64, Value)> {
        loop {
            let mut moved = std::pin::pin!(self.moved.notified());
            moved.as_mut().enable();
            if let Some(found) = self.next_event(path, cursor) {
                return Some(found);
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(end) => return None,
                () = &mut moved => (),
            }
        }
    }

    fn next_event(&self, path: &str, cursor: u64) -> Option<(u64, Value)> {
        let state = self.state();
        if state.watches_held {
            None
        } else {
            state.objects.event_after(path, cursor)
        }
    }
}

fn reply((code, value): Answer) -> Response<Frames> {
    let frame = Ok(http_body::Frame::data(Bytes::from(value.to_string())));
    let body = StreamBody::new(futures::stream::iter([frame]).boxed());
    Response::builder().status(code).body(body).unwrap()
}

/// A node as the tests need it.
pub(crate) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": { "zone": "a" } },
        "spec": { "providerID": format!("x:///{name}") },
    })
}
