//! The paths of an OpenAPI document.
//!
//! Owns which operations a resource lists and with which parameters. Must not describe bodies in
//! detail: clients look for the kind and for `fieldValidation`. Called by `document`.

use serde_json::{Map, Value, json};

use super::GroupVersion;
use crate::discovery::{entries, text};

/// HTTP methods of the verbs on one object and on the collection.
const ON_ONE: [(&str, &str); 4] = [
    ("get", "get"),
    ("update", "put"),
    ("patch", "patch"),
    ("delete", "delete"),
];
const ON_ALL: [(&str, &str); 3] = [
    ("list", "get"),
    ("create", "post"),
    ("deletecollection", "delete"),
];

/// All paths of a group version.
pub(super) fn paths(version: &GroupVersion<'_>) -> Map<String, Value> {
    let mut paths = Map::new();
    for entry in entries(version.resources) {
        let (resource, subresource) = match text(entry, "name").split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource)),
            None => (text(entry, "name"), None),
        };
        let namespaced = entry.get("namespaced").and_then(Value::as_bool) == Some(true);
        let scope = if namespaced {
            "namespaces/{namespace}/"
        } else {
            ""
        };
        let all = format!("/{}/{scope}{resource}", version.path());
        let one = format!("{all}/{{name}}");
        if let Some(subresource) = subresource {
            let verbs: Vec<_> = ON_ONE.into_iter().chain([("create", "post")]).collect();
            add(
                &mut paths,
                format!("{one}/{subresource}"),
                version,
                entry,
                &verbs,
            );
        } else {
            add(&mut paths, all, version, entry, &ON_ALL);
            add(&mut paths, one, version, entry, &ON_ONE);
        }
    }
    paths
}

fn add(
    paths: &mut Map<String, Value>,
    path: String,
    version: &GroupVersion<'_>,
    entry: &Value,
    verbs: &[(&str, &str)],
) {
    let served = entry.get("verbs").and_then(Value::as_array);
    let serves = |verb: &str| served.is_some_and(|served| served.iter().any(|v| v == verb));
    let operations: Map<String, Value> = verbs
        .iter()
        .filter(|(verb, _)| serves(verb))
        .map(|(verb, method)| ((*method).to_owned(), operation(version, entry, verb)))
        .collect();
    if !operations.is_empty() {
        paths.insert(path, Value::Object(operations));
    }
}

fn operation(version: &GroupVersion<'_>, entry: &Value, verb: &str) -> Value {
    let own_version = text(entry, "version");
    let (group, kind_version) = if own_version.is_empty() {
        (version.group, version.version)
    } else {
        (text(entry, "group"), own_version)
    };
    let action = match verb {
        "create" => "post",
        "update" => "put",
        other => other,
    };
    let mut operation = json!({
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind":
            {"group": group, "version": kind_version, "kind": text(entry, "kind")},
    });
    if let Some(operation) = operation.as_object_mut() {
        if matches!(verb, "create" | "update" | "patch") {
            let names = ["dryRun", "fieldManager", "fieldValidation"];
            operation.insert("parameters".to_owned(), json!(names.map(parameter)));
        }
        if verb == "patch" {
            let types = [
                "application/apply-patch+yaml",
                "application/json-patch+json",
                "application/merge-patch+json",
            ];
            let content: Map<String, Value> = types
                .into_iter()
                .map(|name| (name.to_owned(), json!({"schema": {"type": "object"}})))
                .collect();
            let body = json!({"content": content, "required": true});
            operation.insert("requestBody".to_owned(), body);
        }
    }
    operation
}

fn parameter(name: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}})
}
