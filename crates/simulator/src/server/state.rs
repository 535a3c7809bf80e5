//! The API as a state machine: one request in, one answer out, nothing else.
//!
//! Owns the path from a request to its verb. Everything here runs under one lock and never waits.

use std::{cell::RefCell, sync::Arc};

use bytes::Bytes;
use jiff::Timestamp;

use super::{
    encode::{self, Format},
    failure::{Failure, Outcome},
    kinds::{Kind, Kinds},
    log::LogEntry,
    meta,
    names::Names,
    paths,
    request::{RequestInfo, ResourcePath, Target, Verb},
    store::{Object, Store},
    verbs,
    watch::WatchStream,
};

/// What goes back to the client.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) payload: Payload,
    /// Name and UID of the object touched, for the log.
    pub(crate) touched: (String, String),
    pub(crate) retry_after: Option<u64>,
    /// Sentences for the people behind the client.
    pub(crate) warnings: Vec<String>,
}

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Payload {
    Json(Bytes),
    /// JSON of a type that its header names.
    Typed(&'static str, Bytes),
    Text(&'static str),
    Watch(Box<WatchStream>),
}

impl Answer {
    /// A JSON document.
    pub(crate) fn json(code: u16, json: impl Into<Bytes>) -> Self {
        Self {
            code,
            payload: Payload::Json(json.into()),
            touched: Default::default(),
            retry_after: None,
            warnings: Vec::new(),
        }
    }

    /// The answer to a path of nobody.
    pub(crate) fn no_such_page() -> Self {
        Self {
            payload: Payload::Text("404 page not found\n"),
            ..Self::json(404, "")
        }
    }

    /// A refusal.
    pub(crate) fn failure(failure: &Failure) -> Self {
        Self {
            retry_after: failure.retry_after(),
            ..Self::json(failure.code, failure.status().to_string())
        }
    }

    /// An object of a kind, as the call wants it.
    pub(crate) fn object(code: u16, call: &Call<'_>, object: &Object) -> Self {
        Self {
            touched: (
                meta::meta_text(object.value(), "name").to_owned(),
                meta::meta_text(object.value(), "uid").to_owned(),
            ),
            ..Self::json(
                code,
                encode::object(&call.kind, &call.format, object, call.now),
            )
        }
    }
}

/// A request on objects, with its kind found.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) info: &'a RequestInfo,
    pub(crate) path: &'a ResourcePath,
    pub(crate) kind: Arc<Kind>,
    pub(crate) format: Format,
    pub(crate) body: &'a [u8],
    pub(crate) now: Timestamp,
    /// What the client is told besides the answer.
    pub(crate) warnings: RefCell<Vec<String>>,
}

impl Call<'_> {
    /// The key of the object that the path names.
    pub(crate) fn key(&self) -> String {
        super::store::key(&self.path.namespace, &self.path.name)
    }

    /// The refusal for an object that is not there.
    pub(crate) fn not_found(&self) -> Failure {
        Failure::not_found(&self.kind, &self.path.name)
    }
}

/// Everything the API knows.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) kinds: Kinds,
    pub(crate) store: Store,
    pub(crate) names: Names,
    pub(crate) log: Vec<LogEntry>,
    addresses: u32,
}

impl State {
    /// An API with the built-in kinds and the namespaces every cluster has.
    pub(crate) fn new(now: Timestamp) -> Self {
        let mut state = Self {
            kinds: Kinds::built_in(),
            store: Store::default(),
            names: Names::default(),
            log: Vec::new(),
            addresses: 0,
        };
        super::bootstrap::fill(&mut state, now);
        state
    }

    /// The next free address of the service network 10.96.0.0/12.
    pub(crate) fn next_address(&mut self) -> String {
        self.addresses += 1;
        let base = u32::from(std::net::Ipv4Addr::new(10, 96, 0, 1));
        std::net::Ipv4Addr::from(base + self.addresses).to_string()
    }

    /// Answers one request and writes it down.
    pub(crate) fn handle(&mut self, info: &RequestInfo, body: &[u8], now: Timestamp) -> Answer {
        let answer = self
            .dispatch(info, body, now)
            .unwrap_or_else(|failure| Answer::failure(&failure));
        self.note(info, &answer, now);
        answer
    }

    fn dispatch(&mut self, info: &RequestInfo, body: &[u8], now: Timestamp) -> Outcome<Answer> {
        let path = match &info.target {
            Target::Path => return paths::answer(self, info),
            Target::Resource(path) => path,
        };
        let Some(kind) = self.kinds.find(&path.group, &path.version, &path.plural) else {
            return self.no_such_resource(path);
        };
        // A list over all namespaces has none in its path; everything else on a namespaced kind
        // names one.
        let across = matches!(info.verb, Verb::List | Verb::Watch);
        if kind.namespaced == path.namespace.is_empty() && !(kind.namespaced && across) {
            return Err(Failure::method_not_allowed());
        }
        let call = Call {
            info,
            path,
            format: encode::negotiate(&info.accept, info.query.text("includeObject"), info.verb)?,
            kind,
            body,
            now,
            warnings: RefCell::default(),
        };
        let outcome = self.run(&call);
        let mut answer = outcome.unwrap_or_else(|failure| Answer::failure(&failure));
        answer.warnings = call.warnings.take();
        Ok(answer)
    }

    fn run(&mut self, call: &Call<'_>) -> Outcome<Answer> {
        if !call.path.subresource.is_empty() {
            return verbs::subresource(self, call);
        }
        match call.info.verb {
            Verb::Get => verbs::get(self, call),
            Verb::List => verbs::list(self, call),
            Verb::Watch => verbs::watch(self, call),
            Verb::Create => verbs::create(self, call),
            Verb::Update => verbs::update(self, call),
            Verb::Patch => verbs::patch(self, call),
            Verb::Delete => verbs::delete(self, call),
            Verb::DeleteCollection => verbs::delete_collection(self, call),
        }
    }

    fn no_such_resource(&self, path: &ResourcePath) -> Outcome<Answer> {
        if self.kinds.serves(&path.group, &path.version) {
            return Err(Failure::no_such_path());
        }
        Ok(Answer::no_such_page())
    }

    fn note(&mut self, info: &RequestInfo, answer: &Answer, at: Timestamp) {
        let path = match &info.target {
            Target::Path => &ResourcePath::default(),
            Target::Resource(path) => path,
        };
        let (touched, uid) = answer.touched.clone();
        self.log.push(LogEntry {
            at,
            user_agent: info.user_agent.clone(),
            verb: info.verb,
            group: path.group.clone(),
            resource: path.plural.clone(),
            subresource: path.subresource.clone(),
            namespace: path.namespace.clone(),
            name: if path.name.is_empty() {
                touched
            } else {
                path.name.clone()
            },
            dry_run: !info.query.text("dryRun").is_empty(),
            code: answer.code,
            uid,
        });
    }
}
