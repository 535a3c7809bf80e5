//! The name of what a request changes: verb, resource and subresource.
//!
//! Owns the one vocabulary in which plans speak of effects, so that a list of them can be taken from
//! a play instead of being kept by hand. Must not know what an effect is for.

use http::{HeaderMap, Uri};
use shipshape_api::names::LEADER_LEASE;

use crate::server::{RequestInfo, Target, Verb};

/// The effect of a request that is none to the API; whoever sends it through a plan puts it into the
/// request's extensions.
#[derive(Clone, Debug)]
pub struct NamedEffect(pub String);

/// What a request to the API means.
#[derive(Default)]
pub(super) struct Meaning {
    /// Its effect, for example `patch nodes` or `create pods/eviction`. Reads and dry runs have none.
    /// The leader's own lease is told apart from locks.
    pub(super) effect: Option<String>,
    /// Its question, for example `get nodes/a` or `list pods spec.nodeName=a`. Watches ask nothing.
    pub(super) question: Option<String>,
    /// The object, for example `nodes/a`.
    pub(super) object: String,
}

/// Reads a request.
pub(super) fn of_request(method: &http::Method, uri: &Uri, headers: &HeaderMap) -> Meaning {
    read(method, uri, headers).unwrap_or_default()
}

fn read(method: &http::Method, uri: &Uri, headers: &HeaderMap) -> Option<Meaning> {
    let mut request = http::Request::builder().method(method).uri(uri);
    if let Some(all) = request.headers_mut() {
        all.clone_from(headers);
    }
    let (head, ()) = request.body(()).ok()?.into_parts();
    let info = RequestInfo::read(&head).ok()?;
    let Target::Resource(path) = &info.target else {
        return None;
    };
    let verb = info.verb.as_str();
    let object = format!("{}/{}", path.plural, path.name);
    let is_dry_run = info.query.text("dryRun") == "All";
    let effect = match path.subresource.as_str() {
        _ if !info.verb.writes() || is_dry_run => None,
        _ if path.plural == "leases" && path.name == LEADER_LEASE => {
            Some(format!("{verb} leadership"))
        }
        "" => Some(format!("{verb} {}", path.plural)),
        sub => Some(format!("{verb} {}/{sub}", path.plural)),
    };
    let question = match info.verb {
        Verb::Get => Some(format!("{verb} {object}")),
        Verb::List => {
            let fields = info.query.text("fieldSelector");
            Some(format!("{verb} {} {fields}", path.plural))
        }
        Verb::Watch
        | Verb::Create
        | Verb::Update
        | Verb::Patch
        | Verb::Delete
        | Verb::DeleteCollection => None,
    };
    Some(Meaning {
        effect,
        question,
        object,
    })
}
