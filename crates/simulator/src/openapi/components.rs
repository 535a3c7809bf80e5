//! The schemas of an OpenAPI document.
//!
//! Owns their names, the marks by which clients find a kind, and which schemas a document needs.
//! Must not change what a schema says. Called by `document`.

use serde_json::{Map, Value, json};

use super::GroupVersion;
use crate::discovery::{entries, text};
use crate::schema::builtin::{OBJECT_META, REFERENCE_PREFIX, schemas};

/// All schemas that the kinds of a group version need, by name.
pub(super) fn build(version: &GroupVersion<'_>) -> Map<String, Value> {
    let mut needed = Map::new();
    for entry in entries(version.resources) {
        let kind = text(entry, "kind");
        if let Some(schema) = version.custom.get(kind) {
            let name = custom_name(version.group, version.version, kind);
            let schema = custom_schema(version, kind, schema);
            add_references(&schema, &mut needed);
            needed.insert(name, schema);
            continue;
        }
        let own_version = text(entry, "version");
        let (group, kind_version) = if own_version.is_empty() {
            (version.group, version.version)
        } else {
            (text(entry, "group"), own_version)
        };
        if let Some(name) = schemas().name(group, kind_version, kind) {
            add_built_in(name, &mut needed);
            mark(&mut needed, name, group, (kind_version, kind));
        }
    }
    needed
}

/// `dev.shipshape.v1alpha1.NodePatchRun` for a kind of `shipshape.dev/v1alpha1`.
fn custom_name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

/// A CRD says nothing of the fields that every object has.
fn custom_schema(version: &GroupVersion<'_>, kind: &str, source: &Value) -> Value {
    let meta = schemas().definition(schemas().name("", "v1", "Pod").unwrap_or_default());
    let shared = |field: &str| {
        meta.and_then(|meta| meta.pointer(&format!("/properties/{field}")))
            .cloned()
            .unwrap_or_default()
    };
    let mut schema = source.clone();
    let Some(fields) = schema.as_object_mut() else {
        return schema;
    };
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert("apiVersion".to_owned(), shared("apiVersion"));
        properties.insert("kind".to_owned(), shared("kind"));
        let reference = format!("{REFERENCE_PREFIX}{OBJECT_META}");
        let metadata = json!({"$ref": reference, "description": "Standard object's metadata."});
        properties.insert("metadata".to_owned(), metadata);
    }
    let mark = json!([{"group": version.group, "version": version.version, "kind": kind}]);
    fields.insert(GVK.to_owned(), mark);
    wrap_references(&mut schema);
    schema
}

const GVK: &str = "x-kubernetes-group-version-kind";

fn mark(needed: &mut Map<String, Value>, name: &str, group: &str, (version, kind): (&str, &str)) {
    if let Some(schema) = needed.get_mut(name).and_then(Value::as_object_mut) {
        let mark = json!([{"group": group, "version": version, "kind": kind}]);
        schema.insert(GVK.to_owned(), mark);
        // Every object has metadata; the published documents do not call that required.
        if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|field| field != "metadata");
        }
    }
}

fn add_built_in(name: &str, needed: &mut Map<String, Value>) {
    if needed.contains_key(name) {
        return;
    }
    let Some(mut schema) = schemas().definition(name).cloned() else {
        return;
    };
    wrap_references(&mut schema);
    // Before its references, so that a schema that refers to itself ends.
    needed.insert(name.to_owned(), schema.clone());
    add_references(&schema, needed);
}

fn add_references(schema: &Value, needed: &mut Map<String, Value>) {
    match schema {
        Value::Object(members) => {
            let reference = members.get("$ref").and_then(Value::as_str);
            if let Some(name) = reference.and_then(|text| text.strip_prefix(REFERENCE_PREFIX)) {
                add_built_in(name, needed);
            }
            for member in members.values() {
                add_references(member, needed);
            }
        }
        Value::Array(items) => {
            for item in items {
                add_references(item, needed);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// In OpenAPI nothing may stand beside a reference: one with a description becomes `allOf`.
fn wrap_references(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.len() > 1
                && members.get("$ref").is_some_and(Value::is_string)
                && let Some(reference) = members.remove("$ref")
            {
                members.insert("allOf".to_owned(), json!([{"$ref": reference}]));
            }
            for member in members.values_mut() {
                wrap_references(member);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(wrap_references),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
