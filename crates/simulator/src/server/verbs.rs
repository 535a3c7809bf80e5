//! The verbs, one small file each, and the way to the subresources.
//!
//! Each takes the state and a call and yields an answer. What writes share is in `write.rs`.

use jiff::Timestamp;

use super::{
    failure::{Failure, Outcome},
    kinds::{BuiltIn, Nature},
    meta,
    request::Verb,
    state::{Answer, Call, State},
};

mod binding;
mod create;
mod delete;
mod eviction;
mod options;
mod patch;
mod read;
mod scale;
mod update;
mod watch;
pub(crate) mod write;

pub(super) use create::create;
pub(super) use delete::{delete, delete_collection};
pub(super) use patch::patch;
pub(super) use read::{get, list};
pub(super) use update::update;
pub(super) use watch::watch;

/// Sends a call to its subresource.
pub(super) fn subresource(state: &mut State, call: &Call<'_>) -> Outcome<Answer> {
    let kind = &call.kind;
    let name = call.path.subresource.as_str();
    let known = kind
        .subresources()
        .into_iter()
        .find(|subresource| subresource.name == name)
        .ok_or_else(|| match (&kind.nature, name) {
            (Nature::Custom(_), "status" | "scale") => call.not_found(),
            _ => Failure::no_such_path(),
        })?;
    if !known.verbs.contains(&call.info.verb.as_str()) {
        return Err(Failure::method_not_allowed());
    }
    match (name, call.info.verb) {
        ("binding", _) => binding::create(state, call),
        ("eviction", _) => eviction::create(state, call),
        ("scale", _) => scale::answer(state, call),
        ("finalize", _) if kind.is(BuiltIn::Namespace) => update::finalize(state, call),
        ("status", Verb::Get) => get(state, call),
        ("status", Verb::Update) => update(state, call),
        ("status", Verb::Patch) => patch(state, call),
        _ => Err(Failure::no_such_path()),
    }
}

/// The answer to a create that yields no object.
fn success() -> serde_json::Value {
    serde_json::json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    })
}

/// Sets a condition of a status by its type; the transition time moves with the status alone.
fn set_condition(object: &mut serde_json::Value, mut condition: serde_json::Value, now: Timestamp) {
    let kind = meta::text(&condition, &["type"]).to_owned();
    let status = meta::map_at(meta::as_map(object), "status");
    let list = status
        .entry("conditions")
        .or_insert_with(|| serde_json::Value::Array(Vec::new()));
    let Some(list) = list.as_array_mut() else {
        return;
    };
    let old = list.iter_mut().find(|c| meta::text(c, &["type"]) == kind);
    let since = old
        .as_ref()
        .filter(|old| meta::text(old, &["status"]) == meta::text(&condition, &["status"]))
        .map_or_else(
            || meta::time(now),
            |old| meta::text(old, &["lastTransitionTime"]).to_owned(),
        );
    meta::as_map(&mut condition).insert("lastTransitionTime".into(), since.into());
    match old {
        Some(old) => *old = condition,
        None => list.push(condition),
    }
}
