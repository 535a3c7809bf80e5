//! The name of what a request changes: verb, resource and subresource.
//!
//! Owns the one vocabulary in which plans speak of effects, so that a list of them can be taken from
//! a play instead of being kept by hand. Must not know what an effect is for.

use http::{HeaderMap, Uri};
use shipshape_api::names::LEADER_LEASE;

use crate::server::{RequestInfo, Target};

/// The effect of a request to the API, for example `patch nodes` or `create pods/eviction`. Reads and
/// dry runs have none. The leader's own lease is told apart from locks.
pub(super) fn of_request(method: &http::Method, uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let mut request = http::Request::builder().method(method).uri(uri);
    if let Some(all) = request.headers_mut() {
        all.clone_from(headers);
    }
    let (head, ()) = request.body(()).ok()?.into_parts();
    let info = RequestInfo::read(&head).ok()?;
    let Target::Resource(path) = &info.target else {
        return None;
    };
    if !info.verb.writes() || info.query.text("dryRun") == "All" {
        return None;
    }
    let verb = info.verb.as_str();
    if path.plural == "leases" && path.name == LEADER_LEASE {
        return Some(format!("{verb} leadership"));
    }
    Some(match path.subresource.as_str() {
        "" => format!("{verb} {}", path.plural),
        sub => format!("{verb} {}/{sub}", path.plural),
    })
}
