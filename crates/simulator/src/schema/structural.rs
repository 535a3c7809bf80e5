//! Whether a CRD's schema is one the API server would take.
//!
//! Owns the rules of structural schemas. Must not look at objects. Called when a CRD is created or
//! changed, on the schema as it was sent.

mod lists;
mod rules;

use serde_json::Value;

use super::field_error::{FieldError, FieldErrorKind};
use super::node::{NoDefinitions, Node};

/// Where in a schema a part stands; the wording depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Field,
    Item,
}

/// Errors of all schemas of a CRD, with the field names that the API server uses.
pub fn check_crd(crd: &Value) -> Vec<FieldError> {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    let versions: Vec<&Value> = versions.into_iter().flatten().collect();
    let schema_of = |version: &'_ Value| version.pointer("/schema/openAPIV3Schema").cloned();
    let mut errors = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        if schema_of(version).is_none() {
            let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
            errors.push(FieldError::required(&field, ""));
        }
    }
    if !errors.is_empty() {
        return errors;
    }
    let schemas: Vec<Value> = versions.iter().filter_map(|v| schema_of(v)).collect();
    // One schema for all versions is reported once, at the place it had before versions existed.
    if let Some(first) = schemas.first()
        && schemas.iter().all(|schema| schema == first)
    {
        return check_schema(first, "spec.validation.openAPIV3Schema");
    }
    for (index, schema) in schemas.iter().enumerate() {
        let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
        errors.extend(check_schema(schema, &field));
    }
    errors
}

/// Errors of one schema, whose own name is `field`.
pub fn check_schema(schema: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_part(schema, Level::Root, field, &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

fn check_part(schema: &Value, level: Level, field: &str, errors: &mut Vec<FieldError>) {
    if schema.get("$ref").is_some() {
        errors.push(forbidden(&format!("{field}.$ref"), "$ref is not supported"));
        return;
    }
    let type_name = text(schema, "type");
    if type_name == "array" && schema.get("items").is_none() {
        errors.push(FieldError::required(
            &format!("{field}.items"),
            "must be specified",
        ));
    }
    check_type(schema, type_name, level, field, errors);
    check_extensions(schema, field, errors);
    check_additional(schema, level, field, errors);
    check_metadata(schema, level, field, errors);
    check_pattern(schema, field, errors);
    check_nested(schema, field, errors);
    rules::check(schema, field, errors);
    lists::check(schema, field, errors);
    check_default(schema, field, errors);
    if let Some(items) = schema.get("items") {
        check_part(items, Level::Item, &format!("{field}.items"), errors);
    }
    for (name, member) in members(schema) {
        let is_root_metadata = level == Level::Root && name == "metadata";
        if !is_root_metadata {
            let below = format!("{field}.properties[{name}]");
            check_part(member, Level::Field, &below, errors);
        }
    }
}

fn check_type(
    schema: &Value,
    type_name: &str,
    level: Level,
    field: &str,
    errors: &mut Vec<FieldError>,
) {
    let field = format!("{field}.type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let free = flag(schema, "x-kubernetes-int-or-string")
        || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && type_name != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match type_name {
            "" => FieldError::required(&field, detail),
            other => FieldError::invalid(&field, &Value::from(other), detail),
        });
    } else if type_name.is_empty() && !free {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.push(FieldError::required(
            &field,
            &format!("must not be empty {place}"),
        ));
    }
    let known = ["object", "array", "string", "integer", "number", "boolean"];
    if !type_name.is_empty() && !known.contains(&type_name) {
        let allowed = ["array", "boolean", "integer", "number", "object", "string"];
        errors.push(FieldError::not_supported(
            &field,
            &Value::from(type_name),
            &allowed.map(Value::from),
        ));
    } else if level == Level::Root && !type_name.is_empty() && type_name != "object" {
        errors.push(FieldError::invalid(
            &field,
            &Value::from(type_name),
            "must be object at the root",
        ));
    }
}

fn check_extensions(schema: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for name in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if flag(schema, "x-kubernetes-int-or-string") && flag(schema, name) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(
                &format!("{field}.{name}"),
                &Value::Bool(true),
                detail,
            ));
        }
    }
    if flag(schema, "uniqueItems") {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(forbidden(&format!("{field}.uniqueItems"), detail));
    }
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let preserving = flag(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && !preserving && members(schema).next().is_none() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&format!("{field}.properties"), detail));
    }
}

fn check_additional(schema: &Value, level: Level, field: &str, errors: &mut Vec<FieldError>) {
    let Some(additional) = schema.get("additionalProperties") else {
        return;
    };
    let below = format!("{field}.additionalProperties");
    if level == Level::Root {
        errors.push(forbidden(&below, "must not be used at the root"));
    }
    if schema.get("properties").is_some() {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(forbidden(&below, detail));
    }
    if flag(schema, "x-kubernetes-embedded-resource") {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(forbidden(&below, detail));
    }
    if additional.is_object() {
        check_part(additional, Level::Field, &below, errors);
    }
}

/// Of its own metadata, a kind may restrict the name only.
fn check_metadata(schema: &Value, level: Level, field: &str, errors: &mut Vec<FieldError>) {
    let whole_object = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    for name in ["kind", "apiVersion"] {
        if let Some(member) = schema.pointer(&format!("/properties/{name}"))
            && whole_object
            && text(member, "type") != "string"
        {
            let below = format!("{field}.properties[{name}].type");
            let shown = Value::from(text(member, "type"));
            errors.push(FieldError::invalid(&below, &shown, "must be string"));
        }
    }
    let Some(metadata) = schema.pointer("/properties/metadata") else {
        return;
    };
    let below = format!("{field}.properties[metadata]");
    if whole_object && text(metadata, "type") != "object" {
        let shown = Value::from(text(metadata, "type"));
        errors.push(FieldError::invalid(
            &format!("{below}.type"),
            &shown,
            "must be object",
        ));
    }
    let only_names = members(metadata).all(|(name, _)| matches!(name, "name" | "generateName"));
    if level == Level::Root && !only_names {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(forbidden(&below, detail));
    }
}

fn check_pattern(schema: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let pattern = text(schema, "pattern");
    if let Err(error) = super::compiled::pattern(pattern).as_ref() {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(
            &format!("{field}.pattern"),
            &Value::from(pattern),
            &detail,
        ));
    }
}

/// Below `allOf`, `anyOf`, `oneOf` and `not` a schema restricts values; it does not declare them.
fn check_nested(schema: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let branches = schema.get(keyword).and_then(Value::as_array);
        for (index, branch) in branches.into_iter().flatten().enumerate() {
            if !(keyword == "anyOf" && is_int_or_string_pair(schema)) {
                check_branch(branch, &format!("{field}.{keyword}[{index}]"), errors);
            }
        }
    }
    if let Some(not) = schema.get("not") {
        check_branch(not, &format!("{field}.not"), errors);
    }
}

fn is_int_or_string_pair(schema: &Value) -> bool {
    let pair = serde_json::json!([{"type": "integer"}, {"type": "string"}]);
    flag(schema, "x-kubernetes-int-or-string") && schema.get("anyOf") == Some(&pair)
}

fn check_branch(branch: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (name, detail) in [
        ("type", "must be empty to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("default", "must be undefined to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
        (
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
    ] {
        if branch.get(name).is_some() {
            errors.push(forbidden(&format!("{field}.{name}"), detail));
        }
    }
    if let Some(items) = branch.get("items") {
        check_branch(items, &format!("{field}.items"), errors);
    }
    for (name, member) in members(branch) {
        let below = format!("{field}.properties[{name}]");
        if name == "metadata" {
            errors.push(forbidden(
                &below,
                "must not be specified in a nested context",
            ));
        }
        check_branch(member, &below, errors);
    }
    check_nested(branch, field, errors);
}

/// A default must itself be a value of the schema.
fn check_default(schema: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let Some(default) = schema.get("default").filter(|default| !default.is_null()) else {
        return;
    };
    let node = Node::read(schema, &NoDefinitions);
    let mut known = default.clone();
    if !super::prune::prune_value(&mut known, &node).is_empty() {
        errors.push(FieldError::invalid(
            &format!("{field}.default"),
            default,
            "must not have unknown fields",
        ));
    }
    for error in super::validate::check(&node, default, None) {
        let below = match error.field.as_str() {
            "<nil>" => format!("{field}.default"),
            inner => format!("{field}.default.{inner}"),
        };
        errors.push(FieldError {
            field: below,
            ..error
        });
    }
}

fn forbidden(field: &str, detail: &str) -> FieldError {
    FieldError::bare(FieldErrorKind::Forbidden, field, detail)
}

fn members(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = schema.get("properties").and_then(Value::as_object);
    members
        .into_iter()
        .flatten()
        .map(|(name, member)| (name.as_str(), member))
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}
