//! patch, in the forms that the content type names.

use serde_json::Value;

use super::write;
use crate::server::{
    convert,
    failure::{Cause, Failure, Outcome},
    meta,
    state::{Answer, Call, State},
};

const ACCEPTED: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Changes a part of an object, or of its status.
pub(crate) fn patch(state: &mut State, call: &Call<'_>) -> Outcome<Answer> {
    if call.path.name.is_empty() {
        return Err(Failure::method_not_allowed());
    }
    let dry_run = call.info.query.dry_run("PatchOptions")?;
    let old = state
        .store
        .get(&call.kind.storage, &call.key())
        .cloned()
        .ok_or_else(|| call.not_found())?;
    let mut served =
        convert::served(&call.kind, old.value()).unwrap_or_else(|| old.value().clone());
    let map = meta::as_map(&mut served);
    map.insert("apiVersion".into(), call.kind.api_version().into());
    map.insert("kind".into(), call.kind.kind.clone().into());
    let patched = apply(call, Some(old.value()), served)?;
    let value = write::typed(&call.kind, patched)?;
    let named = meta::meta_text(&value, "name");
    if named != call.path.name {
        return Err(Failure::bad_request(format!(
            "the name of the object ({named}) does not match the name on the URL ({})",
            call.path.name
        )));
    }
    let object = write::replace(state, call, &old, value, dry_run)?;
    Ok(Answer::object(200, call, &object))
}

/// Applies the patch in the body of a call to a value.
pub(super) fn apply(call: &Call<'_>, _old: Option<&Value>, mut value: Value) -> Outcome<Value> {
    let media = call.info.content_type.split(';').next().unwrap_or_default();
    match media.trim() {
        "application/json-patch+json" => {
            let patch: json_patch::Patch = read(call)?;
            json_patch::patch(&mut value, &patch).map_err(|error| {
                Failure::invalid(
                    &call.kind,
                    &call.path.name,
                    &[Cause::invalid("patch", &Value::Null, &error.to_string())],
                )
            })?;
            Ok(value)
        }
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
            let patch: Value = read(call)?;
            json_patch::merge(&mut value, &patch);
            Ok(value)
        }
        _ => Err(Failure::unsupported_media(ACCEPTED)),
    }
}

fn read<T: serde::de::DeserializeOwned>(call: &Call<'_>) -> Outcome<T> {
    serde_json::from_slice(call.body)
        .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))
}
