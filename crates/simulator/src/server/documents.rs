//! Answers that describe the whole API: aggregated discovery and OpenAPI.
//!
//! Owns what of the table of kinds and of the stored definitions goes into them. Must not shape
//! them: `discovery` and `openapi` do. Called by `paths`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    failure::{Failure, Outcome},
    paths,
    state::{Answer, Payload, State},
};
use crate::{
    discovery::{self, AGGREGATED_CONTENT_TYPE, GroupResources},
    openapi::{self, GroupVersion},
};

/// `/api` (the core group) or `/apis` (all others) in the aggregated form.
pub(super) fn aggregated(state: &State, core: bool) -> Answer {
    let groups: Vec<GroupResources> = group_versions(state)
        .into_iter()
        .filter(|group| group.name.is_empty() == core)
        .collect();
    let document = discovery::aggregate(&groups).to_string();
    Answer {
        payload: Payload::Typed(AGGREGATED_CONTENT_TYPE, document.into()),
        ..Answer::json(200, "")
    }
}

/// `/openapi/v3` and what is below it, given as the parts of the path behind that.
pub(super) fn openapi(state: &State, below: &[&str]) -> Outcome<Value> {
    let groups = group_versions(state);
    let definitions = definitions(state);
    let versions: Vec<GroupVersion<'_>> = groups
        .iter()
        .flat_map(|group| group.versions.iter().map(move |version| (group, version)))
        .map(|(group, (version, resources))| GroupVersion {
            group: &group.name,
            version,
            resources,
            custom: custom_schemas(&definitions, &group.name, version),
        })
        .collect();
    if below.is_empty() {
        return Ok(openapi::index(&versions));
    }
    let asked = below.join("/");
    let found = versions.iter().find(|version| version.path() == asked);
    found
        .map(openapi::document)
        .ok_or_else(Failure::no_such_path)
}

/// All groups with their resources, the core one first.
fn group_versions(state: &State) -> Vec<GroupResources> {
    let mut names: Vec<&str> = state.kinds.iter().map(|kind| kind.group.as_str()).collect();
    names.dedup();
    names
        .into_iter()
        .map(|name| GroupResources {
            name: name.to_owned(),
            versions: paths::versions(state, name)
                .into_iter()
                .map(|version| {
                    let list = paths::resources(state, name, version);
                    (version.to_owned(), list.unwrap_or_else(|| json!({})))
                })
                .collect(),
        })
        .collect()
}

fn definitions(state: &State) -> Vec<&Value> {
    let storage = "customresourcedefinitions.apiextensions.k8s.io".into();
    let all = state.store.list(&storage, "");
    all.map(|(_, definition)| definition.value()).collect()
}

/// Schemas of the custom kinds of a group version.
fn custom_schemas<'a>(
    definitions: &[&'a Value],
    group: &str,
    version: &str,
) -> BTreeMap<&'a str, &'a Value> {
    let text = |value: &'a Value, pointer: &str| {
        value
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    definitions
        .iter()
        .copied()
        .filter(|definition| text(definition, "/spec/group") == group)
        .filter_map(|definition| {
            let versions = definition.pointer("/spec/versions")?.as_array()?;
            let entry = versions.iter().find(|v| text(v, "/name") == version)?;
            let schema = entry.pointer("/schema/openAPIV3Schema")?;
            Some((text(definition, "/spec/names/kind"), schema))
        })
        .collect()
}
