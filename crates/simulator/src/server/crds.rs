//! Kinds that CustomResourceDefinitions define.
//!
//! Owns the way from a definition to rows of the table of kinds. Their schemas are the business of
//! the schema module.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    apply::{self, Writer},
    schema::Schema,
};

use super::{
    kinds::{self, Derived, Kind, Nature, Storage},
    meta,
    state::State,
};

/// Where definitions are kept.
const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Holds a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What a definition says about a kind beyond its names.
#[derive(Debug)]
pub(crate) struct CustomKind {
    /// What its objects look like.
    pub(crate) schema: Schema,
    /// The version of the definition, as it was written.
    pub(crate) version: Value,
    /// Paths that field selectors may use besides name and namespace.
    selectable: Vec<String>,
    /// Where the scale subresource finds its numbers.
    pub(crate) scale: Option<ScalePaths>,
}

/// Paths of the scale subresource, dotted.
#[derive(Clone, Debug)]
pub(crate) struct ScalePaths {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: String,
}

impl Default for ScalePaths {
    fn default() -> Self {
        Self {
            spec: "spec.replicas".to_owned(),
            status: "status.replicas".to_owned(),
            selector: String::new(),
        }
    }
}

impl CustomKind {
    /// Whether a field selector may name the field.
    pub(crate) fn knows_field(&self, kind: &Kind, field: &str) -> bool {
        field == "metadata.name"
            || (kind.namespaced && field == "metadata.namespace")
            || self
                .selectable
                .iter()
                .any(|path| path.trim_start_matches('.') == field)
    }
}

/// The status of a definition that nobody has looked at yet.
pub(super) fn first_status(definition: &Value) -> Value {
    json!({
        "acceptedNames": { "kind": "", "plural": "" },
        "conditions": null,
        "storedVersions": stored_versions(definition),
    })
}

fn stored_versions(definition: &Value) -> Vec<Value> {
    let mut stored: Vec<Value> = meta::items(definition, &["status", "storedVersions"]).to_vec();
    let current = meta::items(definition, &["spec", "versions"])
        .iter()
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .filter_map(|version| version.get("name").cloned());
    for version in current {
        if !stored.contains(&version) {
            stored.push(version);
        }
    }
    stored
}

/// A definition as the server leaves it once it has accepted its names.
fn accepted(definition: &Value, now: &str) -> Value {
    let mut value = definition.clone();
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        })
    };
    let names = meta::at(definition, &["spec", "names"]).cloned();
    let stored = stored_versions(definition);
    let status = meta::map_at(meta::as_map(&mut value), "status");
    meta::put(status, "acceptedNames", names);
    meta::put(status, "storedVersions", Some(stored.into()));
    let conditions = json!([
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition(
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted"
        ),
    ]);
    meta::default_to(status, "conditions", conditions);
    value
}

/// A definition as its deletion leaves it: held until its objects are gone.
pub(super) fn doomed(definition: &Value, now: Timestamp) -> Value {
    let mut value = definition.clone();
    let metadata = meta::metadata(&mut value);
    metadata.insert("deletionTimestamp".into(), meta::time(now).into());
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut() {
        list.push(CLEANUP.into());
    }
    value
}

/// Does what the server's own controllers do about a definition that was just written.
pub(super) fn settle(state: &mut State, definition: &Value, now: Timestamp) {
    let storage: Storage = DEFINITIONS.into();
    let name = meta::meta_text(definition, "name");
    if state.store.get(&storage, name).is_some() {
        let mut next = accepted(definition, &meta::time(now));
        if next != *definition {
            own(state, definition, &mut next, now);
            state.store.put(&storage, next, now);
        }
    }
    refresh(state, definition);
    if meta::is_deleting(definition) {
        empty(state, &instances(definition), now);
        let_go(state, definition, now);
    }
}

fn own(state: &State, old: &Value, new: &mut Value, now: Timestamp) {
    let group = "apiextensions.k8s.io";
    if let Some(kind) = state.kinds.find(group, "v1", "customresourcedefinitions") {
        let writer = Writer {
            manager: "kube-apiserver",
            api_version: &kind.api_version,
            kind: &kind.kind,
            subresource: "status",
            shape: kind.shape(),
            now,
        };
        apply::track(Some(old), new, &writer);
    }
}

fn instances(definition: &Value) -> Storage {
    let plural = meta::text(definition, &["spec", "names", "plural"]);
    let group = meta::text(definition, &["spec", "group"]);
    format!("{plural}.{group}").into()
}

/// Deletes all objects of a kind; those with finalizers are marked.
fn empty(state: &mut State, storage: &Storage, now: Timestamp) {
    let objects: Vec<(String, Value)> = state
        .store
        .list(storage, "")
        .map(|(key, object)| (key.clone(), object.value().clone()))
        .collect();
    for (key, mut value) in objects {
        if meta::finalizers(&value).next().is_none() {
            state.store.remove(storage, &key, now);
        } else if !meta::is_deleting(&value) {
            meta::set_meta(
                &mut value,
                "deletionTimestamp",
                Some(meta::time(now).into()),
            );
            meta::set_meta(&mut value, "deletionGracePeriodSeconds", Some(0.into()));
            state.store.put(storage, value, now);
        }
    }
}

/// Removes a definition on its way out once it has no objects left.
fn let_go(state: &mut State, definition: &Value, now: Timestamp) {
    if state
        .store
        .list(&instances(definition), "")
        .next()
        .is_some()
    {
        return;
    }
    let storage: Storage = DEFINITIONS.into();
    let name = meta::meta_text(definition, "name");
    let held = state.store.get(&storage, name).is_some_and(|current| {
        meta::finalizers(current.value()).any(|finalizer| finalizer != CLEANUP)
    });
    if !held {
        state.store.remove(&storage, name, now);
        refresh(state, definition);
    }
}

/// Looks after the definition of a kind of which an object was just removed.
pub(super) fn after_removal(state: &mut State, kind: &Kind, now: Timestamp) {
    let storage: Storage = DEFINITIONS.into();
    let definition = state
        .store
        .get(&storage, &kind.storage)
        .filter(|definition| meta::is_deleting(definition.value()))
        .map(|definition| definition.value().clone());
    if let Some(definition) = definition {
        let_go(state, &definition, now);
    }
}

/// Brings the table of kinds in line with a definition that was just written.
fn refresh(state: &mut State, definition: &Value) {
    let group = meta::text(definition, &["spec", "group"]).to_owned();
    let plural = meta::text(definition, &["spec", "names", "plural"]).to_owned();
    state.kinds.remove(&group, &plural);
    let key = meta::meta_text(definition, "name");
    if state.store.get(&DEFINITIONS.into(), key).is_none() {
        state.store.drop_kind(&instances(definition));
        return;
    }
    for version in meta::items(definition, &["spec", "versions"]) {
        if version.get("served") == Some(&Value::Bool(true)) {
            state.kinds.add(Arc::new(kind(definition, version)));
        }
    }
}

fn strings(value: &Value, path: &[&str]) -> Vec<String> {
    meta::items(value, path)
        .iter()
        .filter_map(|v| v.as_str().map(str::to_owned))
        .collect()
}

fn kind(definition: &Value, version: &Value) -> Kind {
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let name = |key: &str| meta::text(spec, &["names", key]).to_owned();
    let or = |text: String, other: String| if text.is_empty() { other } else { text };
    let group = meta::text(spec, &["group"]).to_owned();
    let scale = meta::at(version, &["subresources", "scale"]).map(|scale| {
        let path = |key: &str| meta::text(scale, &[key]).trim_start_matches('.').to_owned();
        ScalePaths {
            spec: path("specReplicasPath"),
            status: path("statusReplicasPath"),
            selector: path("labelSelectorPath"),
        }
    });
    let selectable = meta::items(version, &["selectableFields"])
        .iter()
        .map(|field| meta::text(field, &["jsonPath"]).to_owned())
        .collect();
    Kind {
        version: meta::text(version, &["name"]).to_owned(),
        api_version: kinds::api_version(&group, meta::text(version, &["name"])),
        kind: name("kind"),
        list_kind: or(name("listKind"), format!("{}List", name("kind"))),
        plural: name("plural"),
        singular: or(name("singular"), name("kind").to_lowercase()),
        short_names: strings(spec, &["names", "shortNames"]),
        categories: strings(spec, &["names", "categories"]),
        namespaced: meta::text(spec, &["scope"]) == "Namespaced",
        has_status: meta::at(version, &["subresources", "status"]).is_some(),
        has_scale: scale.is_some(),
        counts_generation: true,
        storage: format!("{}.{group}", name("plural")).into(),
        nature: Nature::Custom(Arc::new(CustomKind {
            schema: Schema::of_crd(
                meta::at(version, &["schema", "openAPIV3Schema"]).unwrap_or(&Value::Null),
            ),
            version: version.clone(),
            selectable,
            scale,
        })),
        derived: Derived::default(),
        group,
    }
}
