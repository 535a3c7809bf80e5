//! One cluster that requests are sent to.
//!
//! Owns sending, reading (documents and watch streams) and the answers that later requests refer
//! to. It must not compare. Called by the run.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use http::{Response, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use shipshape_cluster::Clock;
use shipshape_simulator::ApiServer;
use tokio::time::{Instant, sleep, timeout};

use super::normalise::Normaliser;
use super::script::{Reading, Request, Sequence};
use crate::ControlPlane;

/// What both worlds are told about who asks: field managers take their name from it.
const USER_AGENT: &str = "conformance/1";
/// How long a watch may take to say what is expected of it.
const WATCH_PATIENCE: Duration = Duration::from_secs(2);
/// How long `until` asks again.
const UNTIL_PATIENCE: Duration = Duration::from_secs(15);

/// A cluster behind a client.
pub(crate) struct World {
    client: Client,
    saved: BTreeMap<String, Value>,
    normaliser: Normaliser,
    started: bool,
}

/// A cleaned answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// HTTP status code.
    pub(crate) code: u16,
    /// The document, or the list of events.
    pub(crate) body: Value,
}

impl World {
    /// The embedded cluster's API, without actors.
    pub(crate) fn embedded() -> Self {
        Self::new(ApiServer::new(Clock::System).client(USER_AGENT))
    }

    /// A real control plane.
    pub(crate) async fn real(plane: &ControlPlane) -> Result<Self> {
        Ok(Self::new(plane.client(USER_AGENT).await?))
    }

    fn new(client: Client) -> Self {
        Self {
            client,
            saved: BTreeMap::new(),
            normaliser: Normaliser::default(),
            started: false,
        }
    }

    /// Forgets the answers of the sequence before.
    pub(crate) fn begin(&mut self) {
        self.saved.clear();
        self.normaliser = Normaliser::default();
        self.started = false;
    }

    /// Sends one request and reads its answer; makes the sequence's namespace first.
    pub(crate) async fn perform(
        &mut self,
        request: &Request,
        sequence: &Sequence,
    ) -> Result<Answer> {
        if !self.started {
            self.started = true;
            self.make_namespace(&sequence.namespace).await?;
        }
        let (code, body) = self
            .ask(request, &sequence.namespace)
            .await
            .with_context(|| format!("{}: {}", sequence.name, request.text))?;
        let clean = self.normaliser.clean(&body);
        if let Some(name) = request.save.as_ref().filter(|_| code < 300) {
            self.saved.insert(name.clone(), body);
        }
        Ok(Answer { code, body: clean })
    }

    async fn make_namespace(&self, name: &str) -> Result<()> {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.make("/api/v1/namespaces", &body).await
    }

    /// Defines a kind and waits until it is served.
    pub(crate) async fn define(&self, definition: &Value) -> Result<()> {
        self.make(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition,
        )
        .await?;
        let part = |pointer: &str| plain(definition.pointer(pointer));
        let path = format!(
            "/apis/{}/{}/{}",
            part("/spec/group"),
            part("/spec/versions/0/name"),
            part("/spec/names/plural")
        );
        let deadline = Instant::now() + UNTIL_PATIENCE;
        while Instant::now() < deadline {
            let request = http::Request::get(&path).body(Body::empty())?;
            if self.client.send(request).await?.status().is_success() {
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
        anyhow::bail!("{path} is not served in time")
    }

    async fn make(&self, path: &str, body: &Value) -> Result<()> {
        let request = http::Request::post(path)
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string().into_bytes()))?;
        let answer = self.client.send(request).await?;
        let code = answer.status();
        anyhow::ensure!(
            code.is_success(),
            "{path}: {code} {}",
            document(answer).await?
        );
        Ok(())
    }

    async fn ask(&self, request: &Request, namespace: &str) -> Result<(u16, Value)> {
        let deadline = Instant::now() + UNTIL_PATIENCE;
        loop {
            let answer = self.client.send(self.fill(request, namespace)?).await?;
            let code = answer.status().as_u16();
            match &request.reading {
                Reading::Events(count) if code == 200 => {
                    let enough = |seen: &[Value]| seen.len() >= *count;
                    return Ok((code, events(answer, enough).await?));
                }
                Reading::Through(name) if code == 200 => {
                    let enough = |seen: &[Value]| {
                        let last = seen
                            .last()
                            .and_then(|event| event.pointer("/object/metadata/name"));
                        last.and_then(Value::as_str) == Some(name)
                    };
                    return Ok((code, events(answer, enough).await?));
                }
                Reading::Until(wanted) if *wanted != code && Instant::now() < deadline => {
                    sleep(Duration::from_millis(100)).await;
                }
                Reading::Until(_)
                | Reading::Whole
                | Reading::Subset
                | Reading::Events(_)
                | Reading::Through(_) => return Ok((code, document(answer).await?)),
            }
        }
    }

    fn fill(&self, request: &Request, namespace: &str) -> Result<http::Request<Body>> {
        let mut built = http::Request::builder()
            .method(request.method.clone())
            .uri(self.substitute(&request.path, namespace))
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, request.accept);
        if let Some(content_type) = &request.content_type {
            built = built.header(header::CONTENT_TYPE, content_type);
        }
        let body = request
            .body
            .as_ref()
            .map(|body| self.substitute(body, namespace));
        Ok(built.body(body.map_or_else(Body::empty, |body| Body::from(body.into_bytes())))?)
    }

    /// Puts this world's values in place of `$ns` and `$NAME.PART`; an answer that never came is
    /// an empty text.
    fn substitute(&self, text: &str, namespace: &str) -> String {
        let mebibyte = "x".repeat(1024 * 1024);
        let text = text.replace("$ns", namespace).replace("$mib", &mebibyte);
        let mut pieces = text.split('$');
        let mut filled = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            match self.reference(piece) {
                Some((value, rest)) => filled.extend([value.as_str(), rest]),
                None => filled.extend(["$", piece]),
            }
        }
        filled
    }

    /// The value that a text starting with `NAME.PART` refers to, and what follows it.
    fn reference<'a>(&self, text: &'a str) -> Option<(String, &'a str)> {
        let (name, rest) = text.split_once('.')?;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return None;
        }
        let (part, pointer) = PARTS.iter().find(|(part, _)| rest.starts_with(part))?;
        let value = self
            .saved
            .get(name)
            .and_then(|answer| answer.pointer(pointer));
        Some((plain(value), rest.get(part.len()..).unwrap_or_default()))
    }
}

/// What a reference can ask of an earlier answer.
const PARTS: [(&str, &str); 5] = [
    ("rv", "/metadata/resourceVersion"),
    ("uid", "/metadata/uid"),
    ("name", "/metadata/name"),
    ("generation", "/metadata/generation"),
    ("continue", "/metadata/continue"),
];

/// A value as it stands in a query or inside quotes; empty when there is none.
fn plain(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

/// A whole answer; text that is not JSON becomes a string, a stream that goes on becomes a mark.
async fn document(answer: Response<Body>) -> Result<Value> {
    let Ok(body) = timeout(WATCH_PATIENCE, answer.into_body().collect()).await else {
        return Ok("<endless>".into());
    };
    let bytes = body?.to_bytes();
    Ok(serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| String::from_utf8_lossy(&bytes).trim().to_owned().into()))
}

/// The events of a stream until there are enough; fewer when it ends or goes silent.
async fn events(answer: Response<Body>, enough: impl Fn(&[Value]) -> bool) -> Result<Value> {
    let mut body = answer.into_body();
    let (mut buffer, mut seen) = (Vec::new(), Vec::new());
    let deadline = Instant::now() + WATCH_PATIENCE;
    loop {
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let text = String::from_utf8_lossy(&line);
            seen.push(serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text)));
            if enough(&seen) {
                return Ok(seen.into());
            }
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match timeout(left, body.frame()).await {
            Ok(Some(frame)) => buffer.extend(frame?.into_data().unwrap_or_default()),
            Ok(None) | Err(_) => {
                // What is no stream need not end with a line.
                seen.extend(serde_json::from_slice::<Value>(&buffer).ok());
                return Ok(seen.into());
            }
        }
    }
}
