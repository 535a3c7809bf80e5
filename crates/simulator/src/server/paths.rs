//! Paths that are no resource: health, version and discovery.

use serde_json::{Value, json};

use super::{
    documents,
    failure::{Failure, Outcome},
    kinds::Kind,
    request::RequestInfo,
    state::{Answer, Payload, State},
};

use crate::{discovery, openapi};

const VERSION: &str = "v1.35.8";

/// Answers a path outside of the resources.
pub(super) fn answer(state: &State, info: &RequestInfo) -> Outcome<Answer> {
    let parts: Vec<&str> = info.path.split('/').filter(|p| !p.is_empty()).collect();
    let document = match parts.as_slice() {
        ["healthz" | "readyz" | "livez", ..] => {
            return Ok(Answer {
                payload: Payload::Text("ok"),
                ..Answer::json(200, "")
            });
        }
        ["api" | "apis"] if discovery::wants_aggregated(&info.accept) => {
            return Ok(documents::aggregated(state, parts == ["api"]));
        }
        ["openapi", "v2"] if info.accept.contains(openapi::V2_ACCEPT) => {
            return Ok(Answer {
                payload: Payload::Typed(openapi::V2_CONTENT_TYPE, openapi::V2_DOCUMENT.into()),
                ..Answer::json(200, "")
            });
        }
        ["openapi", "v2"] => Some(openapi::v2_document()),
        ["openapi", "v3", below @ ..] => Some(documents::openapi(state, below)?),
        ["version"] => Some(version()),
        ["api"] => Some(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1" }],
        })),
        ["api", version] => resources(state, "", version),
        ["apis"] => {
            Some(json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups(state) }))
        }
        ["apis", group] => group_document(state, group),
        ["apis", group, version] => resources(state, group, version),
        _ => None,
    };
    let known = match parts.as_slice() {
        ["api", _] => true,
        ["apis", group, _] => {
            let mut kinds = state.kinds.iter();
            kinds.any(|kind| kind.group == *group && kind.built_in().is_some())
        }
        _ => false,
    };
    if document.is_none() && known {
        return Err(Failure::no_such_path());
    }
    Ok(document.map_or_else(Answer::no_such_page, |document| {
        Answer::json(200, document.to_string())
    }))
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": "35",
        "emulationMajor": "1",
        "emulationMinor": "35",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "34",
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    })
}

/// The served versions of a group, the preferred one first.
pub(super) fn versions<'a>(state: &'a State, name: &str) -> Vec<&'a str> {
    let mut versions: Vec<&str> = state
        .kinds
        .iter()
        .filter(|kind| kind.group == name)
        .map(|kind| kind.version.as_str())
        .collect();
    versions.dedup();
    versions.sort_by_key(|version| version_rank(version));
    versions
}

fn group(state: &State, name: &str) -> Option<Value> {
    let versions: Vec<Value> = versions(state, name)
        .into_iter()
        .map(|version| json!({ "groupVersion": format!("{name}/{version}"), "version": version }))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({ "name": name, "versions": versions, "preferredVersion": preferred }))
}

/// Stable versions first, then beta, then alpha; the highest number first within each.
pub(crate) fn version_rank(version: &str) -> (u8, std::cmp::Reverse<(u32, u32)>, String) {
    let digits = version.trim_start_matches('v');
    let (stage, major, minor) = if let Some((major, minor)) = digits.split_once("beta") {
        (1, major, minor)
    } else if let Some((major, minor)) = digits.split_once("alpha") {
        (2, major, minor)
    } else {
        (0, digits, "0")
    };
    match (version.starts_with('v'), major.parse(), minor.parse()) {
        (true, Ok(major), Ok(minor)) => (stage, std::cmp::Reverse((major, minor)), String::new()),
        _ => (3, std::cmp::Reverse((0, 0)), version.to_owned()),
    }
}

fn groups(state: &State) -> Vec<Value> {
    let mut names: Vec<&str> = state
        .kinds
        .iter()
        .map(|kind| kind.group.as_str())
        .filter(|group| !group.is_empty())
        .collect();
    names.dedup();
    names
        .into_iter()
        .filter_map(|name| group(state, name))
        .collect()
}

fn group_document(state: &State, name: &str) -> Option<Value> {
    let mut document = group(state, name)?;
    if let Some(map) = document.as_object_mut() {
        map.insert("kind".into(), "APIGroup".into());
        map.insert("apiVersion".into(), "v1".into());
    }
    Some(document)
}

/// The resources of a group version.
pub(super) fn resources(state: &State, group: &str, version: &str) -> Option<Value> {
    let resources: Vec<Value> = state
        .kinds
        .iter()
        .filter(|kind| kind.group == group && kind.version == version)
        .flat_map(|kind| entries(kind))
        .collect();
    if resources.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version,
        "resources": resources,
    });
    // The core group is older than this field.
    if let (Some(map), false) = (list.as_object_mut(), group.is_empty()) {
        map.insert("apiVersion".into(), "v1".into());
    }
    Some(list)
}

fn entries(kind: &Kind) -> Vec<Value> {
    let mut main = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.verbs(),
    });
    if let Some(map) = main.as_object_mut() {
        if !kind.short_names.is_empty() {
            map.insert("shortNames".into(), kind.short_names.clone().into());
        }
        if !kind.categories.is_empty() {
            map.insert("categories".into(), kind.categories.clone().into());
        }
    }
    let mut entries = vec![main];
    for subresource in kind.subresources() {
        let mut entry = json!({
            "name": format!("{}/{}", kind.plural, subresource.name),
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": subresource.kind.clone().unwrap_or_else(|| kind.kind.clone()),
            "verbs": subresource.verbs,
        });
        if let (Some(map), Some((group, version))) = (entry.as_object_mut(), subresource.home) {
            map.insert("group".into(), group.into());
            map.insert("version".into(), version.into());
        }
        entries.push(entry);
    }
    entries
}
