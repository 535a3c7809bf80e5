//! Kinds that CustomResourceDefinitions define.
//!
//! Owns the way from a definition to rows of the table of kinds. Their schemas are the business of
//! the schema module.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::schema::Schema;

use super::{
    kinds::{self, Derived, Kind, Nature},
    meta,
    state::State,
};

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

/// What the server writes into the status of a definition it accepts.
pub(super) fn accept(definition: &mut Value, now: &str) {
    let versions: Vec<Value> = meta::items(definition, &["spec", "versions"])
        .iter()
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .filter_map(|version| version.get("name").cloned())
        .collect();
    let names = meta::at(definition, &["spec", "names"]).cloned();
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        })
    };
    let status = json!({
        "acceptedNames": names,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "storedVersions": versions,
    });
    meta::put(meta::as_map(definition), "status", Some(status));
}

/// Brings the table of kinds in line with a definition that was just written.
pub(super) fn refresh(state: &mut State, definition: &Value) {
    let group = meta::text(definition, &["spec", "group"]).to_owned();
    let plural = meta::text(definition, &["spec", "names", "plural"]).to_owned();
    state.kinds.remove(&group, &plural);
    let key = meta::meta_text(definition, "name");
    let storage = "customresourcedefinitions.apiextensions.k8s.io".into();
    if state.store.get(&storage, key).is_none() {
        state.store.drop_kind(&format!("{plural}.{group}").into());
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
