//! Holding an object against its schema.
//!
//! Owns the walk and the wording of type, bound and branch errors. Must not change the object, and
//! leaves list uniqueness to `lists` and CEL to `rules`. Called by `Schema::validate`.

use serde_json::Value;

use super::field_error::{FieldError, FieldErrorKind, quote};
use super::node::{Additional, ListType, Node, ValueType};

/// Errors of `value` against `node`. `old` is what the value replaces: what did not change is not
/// complained about again.
pub(crate) fn check(node: &Node, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_value(node, value, old, "", &mut errors);
    errors
}

fn check_value(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let before = errors.len();
    check_parts(node, value, old, path, errors);
    if errors.len() > before && old == Some(value) {
        errors.truncate(before);
    }
}

fn check_parts(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    errors.extend(type_error(node, value, path));
    if value.is_null() {
        errors.extend(enum_error(node, value, path));
        return;
    }
    check_branches(node, value, old, path, errors);
    match value {
        Value::String(text) => errors.extend(text_errors(node, text, path)),
        Value::Number(number) => super::numbers::check(&node.limits, number, path, errors),
        Value::Array(items) => check_items(node, items, old, path, errors),
        Value::Object(_) | Value::Bool(_) | Value::Null => {}
    }
    errors.extend(enum_error(node, value, path));
    if let Value::Object(members) = value {
        check_members(node, members, old, path, errors);
    }
}

fn type_error(node: &Node, value: &Value, path: &str) -> Option<FieldError> {
    let expected = node.type_names()?;
    let (actual, format) = match value {
        Value::Null if node.nullable => return None,
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(n) if n.is_f64() => ("number", "float64"),
        Value::Number(_) => ("integer", "int64"),
    };
    let wants = |wanted: ValueType| {
        node.value_type == Some(wanted) || (node.int_or_string && wanted == ValueType::Integer)
    };
    let fits = expected.split(',').any(|name| name == actual)
        || (actual == "integer" && wants(ValueType::Number))
        || (actual == "number"
            && wants(ValueType::Integer)
            && value.as_f64().is_some_and(|f| f.fract() == 0.0));
    if fits {
        return None;
    }
    let scalar = !matches!(value, Value::Array(_) | Value::Null);
    let (expected, actual) = match &node.limits.format {
        Some(name) if scalar => (name.as_str(), format),
        _ => (expected, actual),
    };
    Some(type_invalid(path, expected, actual))
}

fn type_invalid(path: &str, expected: &str, actual: &str) -> FieldError {
    FieldError::of_value(
        FieldErrorKind::TypeInvalid,
        path,
        &Value::from(actual),
        &format!(
            "{path} in body must be of type {expected}: {}",
            quote(actual)
        ),
    )
}

fn enum_error(node: &Node, value: &Value, path: &str) -> Option<FieldError> {
    let allowed = &node.limits.allowed;
    let known = !value.is_null() && allowed.iter().any(|entry| same(entry, value));
    if allowed.is_empty() || known {
        return None;
    }
    Some(FieldError::not_supported(path, value, allowed))
}

/// Equality as JSON means it: 1 and 1.0 are one number.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    a == b || matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if a.to_bits() == b.to_bits())
}

fn text_errors(node: &Node, text: &str, path: &str) -> Vec<FieldError> {
    let limits = &node.limits;
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    let shown = Value::from(text);
    let mut errors = Vec::new();
    if let Some(max) = limits.max_length.filter(|max| length > *max) {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {unit}");
        errors.push(FieldError::bare(FieldErrorKind::TooLong, path, &detail));
    } else if let Some(min) = limits.min_length.filter(|min| length < *min) {
        let detail = format!("{path} in body should be at least {min} chars long");
        errors.push(FieldError::invalid(path, &shown, &detail));
    } else if let Some((source, pattern)) = &limits.pattern
        && !matches!(pattern.as_ref(), Ok(pattern) if pattern.is_match(text))
    {
        let detail = format!("{path} in body should match '{source}'");
        errors.push(FieldError::invalid(path, &shown, &detail));
    }
    if let Some(format) = &limits.format
        && !super::formats::matches(format, text)
    {
        errors.push(type_invalid(path, format, text));
    }
    errors
}

fn check_items(
    node: &Node,
    items: &[Value],
    old: Option<&Value>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if let Some(item_node) = node.items.as_deref() {
        for (index, item) in items.iter().enumerate() {
            let old_item = matching_item(node, item, old);
            check_value(
                item_node,
                item,
                old_item,
                &format!("{path}[{index}]"),
                errors,
            );
        }
    }
    let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
    if let Some(min) = node.limits.min_items.filter(|min| count < *min) {
        let detail = format!("{path} in body should have at least {min} items");
        errors.push(FieldError::invalid(path, &Value::from(count), &detail));
    }
    if let Some(max) = node.limits.max_items.filter(|max| count > *max) {
        errors.push(too_many(path, count, max));
    }
    let repeated = || {
        let mut rest = items;
        while let Some((first, others)) = rest.split_first() {
            if others.contains(first) {
                return true;
            }
            rest = others;
        }
        false
    };
    if node.limits.unique_items && repeated() {
        let detail = format!("{path} in body shouldn't contain duplicates");
        errors.push(FieldError::invalid(path, &Value::from(""), &detail));
    }
}

fn too_many(path: &str, count: u64, max: u64) -> FieldError {
    let unit = if max == 1 { "item" } else { "items" };
    FieldError::of_value(
        FieldErrorKind::TooMany,
        path,
        &Value::from(count),
        &format!("must have at most {max} {unit}"),
    )
}

/// The old item with the same keys; only lists of the map type know such a thing.
pub(crate) fn matching_item<'a>(
    node: &Node,
    item: &Value,
    old: Option<&'a Value>,
) -> Option<&'a Value> {
    let ListType::Map(keys) = &node.list_type else {
        return None;
    };
    old?.as_array()?
        .iter()
        .find(|candidate| keys.iter().all(|key| candidate.get(key) == item.get(key)))
}

fn check_members(
    node: &Node,
    members: &serde_json::Map<String, Value>,
    old: Option<&Value>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let count = u64::try_from(members.len()).unwrap_or(u64::MAX);
    if let Some(min) = node.limits.min_properties.filter(|min| count < *min) {
        let detail = format!("{path} in body should have at least {min} properties");
        errors.push(FieldError::invalid(path, &Value::from(count), &detail));
    }
    if let Some(max) = node.limits.max_properties.filter(|max| count > *max) {
        errors.push(too_many(path, count, max));
    }
    let old_member = |name: &str| old.and_then(|old| old.get(name));
    if let Additional::Node(child) = &node.additional {
        for (name, value) in members {
            if !node.properties.contains_key(name) {
                check_value(child, value, old_member(name), &join(path, name), errors);
            }
        }
    }
    for (name, child) in &node.properties {
        if let Some(value) = members.get(name) {
            check_value(child, value, old_member(name), &join(path, name), errors);
        }
    }
    for name in &node.limits.required {
        if !members.contains_key(name) {
            errors.push(FieldError::required(&join(path, name), ""));
        }
    }
}

/// `path.name`, or the name alone at the root.
pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn check_branches(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let run = |branch: &Node| {
        let mut found = Vec::new();
        check_parts(branch, value, old, path, &mut found);
        found
    };
    let whole = |text: String| FieldError::invalid("", &Value::from(""), &text);
    let name = quote(path);
    if !node.any_of.is_empty() {
        let results: Vec<_> = node.any_of.iter().map(run).collect();
        if results.iter().all(|found| !found.is_empty()) {
            errors.push(whole(format!(
                "{name} must validate at least one schema (anyOf)"
            )));
            errors.extend(closest(results));
        }
    }
    if !node.one_of.is_empty() {
        let results: Vec<_> = node.one_of.iter().map(run).collect();
        let valid = results.iter().filter(|found| found.is_empty()).count();
        if valid != 1 {
            let found = match valid {
                0 => "Found none valid".to_owned(),
                n => format!("Found {n} valid alternatives"),
            };
            errors.push(whole(format!(
                "{name} must validate one and only one schema (oneOf). {found}"
            )));
            if valid == 0 {
                errors.extend(closest(results));
            }
        }
    }
    let results: Vec<_> = node.all_of.iter().map(run).collect();
    let failed = results.iter().filter(|found| !found.is_empty()).count();
    let count = results.len();
    errors.extend(results.into_iter().flatten());
    if failed > 0 {
        let none = if failed == count {
            ". None validated"
        } else {
            ""
        };
        errors.push(whole(format!(
            "{name} must validate all the schemas (allOf){none}"
        )));
    }
    if node.not.as_deref().is_some_and(|not| run(not).is_empty()) {
        errors.push(whole(format!("{name} must not validate the schema (not)")));
    }
}

/// The errors of the branch that came closest: the first of those with the fewest.
fn closest(results: Vec<Vec<FieldError>>) -> Vec<FieldError> {
    results.into_iter().min_by_key(Vec::len).unwrap_or_default()
}
