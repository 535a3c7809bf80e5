//! Single fields of built-in kinds: percentages, taints, keys, references.
//!
//! Only what clients of the embedded cluster can get wrong in practice is judged. Called by
//! `objects` and, for statuses, by `validate`.

use serde_json::Value;

use super::names;
use crate::{
    schema::FieldError,
    server::{crds::CustomKind, failure::unsupported_word, kinds::BuiltIn, meta},
};

/// Judges a status that a client wrote.
pub(super) fn status(which: BuiltIn, value: &Value) -> Vec<FieldError> {
    if which != BuiltIn::PodDisruptionBudget {
        return Vec::new();
    }
    [
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ]
    .iter()
    .filter_map(|key| {
        let number = meta::number(value, &["status", key]).filter(|number| *number < 0)?;
        let rule = "must be greater than or equal to 0";
        Some(FieldError::invalid(
            &format!("status.{key}"),
            &number.into(),
            rule,
        ))
    })
    .collect()
}

/// What the scale subresource of a custom kind counts must be a count.
pub(super) fn scaled(custom: &CustomKind, value: &Value) -> Option<FieldError> {
    let path = custom.scale.as_ref()?.spec.as_str();
    let mut part = value;
    for key in path.split('.') {
        if part.is_object() {
            part = part.get(key)?;
        }
    }
    let counts = part
        .as_i64()
        .is_some_and(|count| (0..=i64::from(i32::MAX)).contains(&count));
    (!counts && !part.is_null()).then(|| {
        FieldError::invalid(
            &format!(".{path}"),
            part,
            "should be a non-negative integer",
        )
    })
}

/// A number of pods may be a percentage from 0 to 100.
pub(super) fn percentage(value: &Value, key: &str) -> Option<FieldError> {
    let text = value.pointer(&format!("/spec/{key}"))?.as_str()?;
    let rule = match text
        .strip_suffix('%')
        .and_then(|number| number.parse::<u64>().ok())
    {
        Some(number) if number <= 100 => return None,
        Some(_) => "must not be greater than 100%",
        None => "a valid percent string must be a numeric string followed by an ending '%'",
    };
    Some(FieldError::invalid(
        &format!("spec.{key}"),
        &text.into(),
        rule,
    ))
}

/// The key and the value of a taint.
pub(super) fn taint(at: &str, taint: &Value) -> Vec<FieldError> {
    let (key, value) = (meta::text(taint, &["key"]), meta::text(taint, &["value"]));
    let mut causes = Vec::new();
    if !names::is_qualified_name(key) {
        let rule = "name part must be non-empty and a qualified name";
        causes.push(FieldError::invalid(&format!("{at}.key"), &key.into(), rule));
    }
    if !names::is_label_text(value) {
        let rule = "a valid label must be an empty string or consist of alphanumeric characters";
        causes.push(FieldError::invalid(
            &format!("{at}.value"),
            &value.into(),
            rule,
        ));
    }
    causes
}

/// A key may stand in one of the two maps only.
pub(super) fn twice(value: &Value) -> Vec<FieldError> {
    let keys = |part: &str| value.get(part).and_then(Value::as_object);
    let binary = keys("binaryData");
    keys("data")
        .into_iter()
        .flatten()
        .filter(|(key, _)| binary.is_some_and(|binary| binary.contains_key(*key)))
        .map(|(key, _)| {
            let rule = "duplicate of key present in binaryData";
            FieldError::invalid(&format!("data[{key}]"), &key.as_str().into(), rule)
        })
        .collect()
}

/// An event lives in the namespace of what it is about.
pub(super) fn event(value: &Value) -> Option<FieldError> {
    let about = meta::text(value, &["involvedObject", "namespace"]);
    let home = meta::meta_text(value, "namespace");
    let fits = about == home || (about.is_empty() && home == "default");
    (!fits).then(|| {
        let rule = "does not match event.namespace";
        FieldError::invalid("involvedObject.namespace", &about.into(), rule)
    })
}

/// An attachment names what is attached.
pub(super) fn attachment(value: &Value) -> Option<FieldError> {
    let named = ["persistentVolumeName", "inlineVolumeSpec"]
        .iter()
        .any(|key| meta::at(value, &["spec", "source", key]).is_some());
    (!named).then(|| {
        FieldError::required(
            "spec.source",
            "must specify one of inlineVolumeSpec and persistentVolumeName",
        )
    })
}

/// The scope of a definition is one of two words.
pub(super) fn scope(value: &Value) -> Option<FieldError> {
    let scope = meta::text(value, &["spec", "scope"]);
    let allowed = ["Cluster", "Namespaced"];
    (!allowed.contains(&scope)).then(|| unsupported_word("spec.scope", scope, &allowed))
}
