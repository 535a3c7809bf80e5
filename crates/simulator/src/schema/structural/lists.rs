//! Whether the list types of a schema make sense.
//!
//! Owns the checks of `x-kubernetes-list-type` and its keys. Called by `structural`.

use serde_json::Value;

use super::text;
use crate::schema::field_error::FieldError;

/// Errors of the list type of one schema.
pub(super) fn check(schema: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let list_type = text(schema, "x-kubernetes-list-type");
    if list_type.is_empty() {
        return;
    }
    let known = ["atomic", "set", "map"];
    if !known.contains(&list_type) {
        errors.push(FieldError::not_supported(
            &format!("{field}.x-kubernetes-list-type"),
            &Value::from(list_type),
            &known.map(Value::from),
        ));
    }
    let value_type = text(schema, "type");
    if value_type != "array" {
        errors.push(FieldError::invalid(
            &format!("{field}.type"),
            &Value::from(value_type),
            "must be array if x-kubernetes-list-type is specified",
        ));
    }
    if list_type == "map" {
        check_map(schema, field, errors);
    }
}

fn check_map(schema: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let keys = schema.get("x-kubernetes-list-map-keys");
    let names: Vec<&str> = keys
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let keys_field = format!("{field}.x-kubernetes-list-map-keys");
    if names.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&keys_field, detail));
    }
    let Some(items) = schema.get("items") else {
        return;
    };
    let item_type = text(items, "type");
    if item_type != "object" {
        errors.push(FieldError::invalid(
            &format!("{field}.items.type"),
            &Value::from(item_type),
            "must be object if parent array's x-kubernetes-list-type is map",
        ));
    }
    let required = items.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|r| r == name));
    let property = |name: &str| items.get("properties").and_then(|all| all.get(name));
    if let Some(keys) = keys.filter(|_| names.iter().any(|name| property(name).is_none())) {
        let detail = "entries must all be names of item properties";
        errors.push(FieldError::invalid(&keys_field, keys, detail));
    }
    for name in names {
        let has_default = |property: &Value| property.get("default").is_some();
        if property(name).is_some_and(|p| !has_default(p)) && !is_required(name) {
            errors.push(FieldError::required(
                &format!("{field}.items.properties[{name}].default"),
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ));
        }
    }
}
