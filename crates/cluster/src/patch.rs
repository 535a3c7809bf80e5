//! Small writes that hold only if nobody wrote in between.
//!
//! Owns the difference of two objects as a JSON merge patch, and the guarded write. Must not retry on
//! conflict: a conflict says that the decision was made on a stale snapshot. A computed merge patch
//! is used because it carries only what changed and removes what became `None` by an explicit null; a
//! PUT of the whole object would also undo fields that a newer version of the kind knows and this
//! binary does not.

use kube::api::{Api, Patch, PatchParams, Request};
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result, call};
use crate::store::Key;
use shipshape_api::names::FIELD_MANAGER;

/// What became of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Nothing differed, so nothing was sent.
    Unchanged,
    /// The server took it.
    Changed {
        /// The version of the object that now holds it, for [`crate::store::Store::expect`].
        resource_version: String,
    },
}

impl Written {
    /// The new version, if there is one.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Unchanged => None,
            Self::Changed { resource_version } => Some(resource_version),
        }
    }
}

/// The merge patch that turns `old` into `new`; `None` when they mean the same. A null and an absent
/// field mean the same.
pub fn difference(old: &Value, new: &Value) -> Option<Value> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let patch = changed_fields(old, new);
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        // Nothing and an empty object mean the same to a reader.
        (Value::Null, Value::Object(new)) => {
            let patch = changed_fields(&Map::new(), new);
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ => (without_nulls(old) != without_nulls(new)).then(|| new.clone()),
    }
}

fn changed_fields(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (field, value) in old {
        let is_gone = new.get(field).is_none_or(Value::is_null);
        if is_gone && !value.is_null() {
            patch.insert(field.clone(), Value::Null);
        }
    }
    for (field, value) in new {
        if value.is_null() {
            continue;
        }
        if let Some(change) = difference(old.get(field).unwrap_or(&Value::Null), value) {
            patch.insert(field.clone(), change);
        }
    }
    patch
}

/// Absent and null fields mean the same, also inside of lists, which a merge patch replaces whole.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(name, value)| (name.clone(), without_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Writes the difference between what was observed and what is wanted, unless somebody else wrote
/// since. Status is not written by this: see [`crate::status::write_status`].
pub async fn write<K>(api: &Api<K>, observed: &K, wanted: &K) -> Result<Written>
where
    K: Resource + Clone + Serialize,
{
    let object = named(observed);
    let (old, new) = (to_value(observed, &object)?, to_value(wanted, &object)?);
    let Some(mut patch) = difference(&old, &new) else {
        return Ok(Written::Unchanged);
    };
    guard(&mut patch, observed, &object)?;
    let request = Request::new(api.resource_url()).patch(
        &observed.name_any(),
        &params(),
        &Patch::Merge(patch),
    );
    send(api, "patch", object, request).await
}

/// Sends a patch. Of the answer, which is the whole object once more, only its version is read.
pub(crate) async fn send<K: Resource + Clone>(
    api: &Api<K>,
    verb: &'static str,
    object: String,
    request: std::result::Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Written> {
    let answer = async {
        let request = request.map_err(kube::Error::BuildRequest)?;
        api.clone().into_client().request::<Answer>(request).await
    };
    let answer = call(verb, &object, answer).await?;
    taken(answer.metadata.resource_version, object)
}

/// What is read of the answer to a write.
#[derive(Deserialize)]
struct Answer {
    metadata: AnswerMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerMeta {
    resource_version: Option<String>,
}

pub(crate) fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    }
}

/// Makes the patch fail with 409 unless the object is still at the observed version.
pub(crate) fn guard<K: Resource>(patch: &mut Value, observed: &K, object: &str) -> Result<()> {
    let version = observed
        .resource_version()
        .filter(|version| !version.is_empty());
    let version = version.ok_or_else(|| Error::Malformed {
        object: object.to_owned(),
        field: "metadata.resourceVersion".into(),
        why: "a guarded write needs an object that was read".into(),
    })?;
    if let Some(fields) = patch.as_object_mut() {
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("resourceVersion".into(), Value::String(version));
        }
    }
    Ok(())
}

pub(crate) fn to_value<T: Serialize>(value: &T, object: &str) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|error| Error::request("encode", object, kube::Error::SerdeError(error)))
}

/// The version that the server gave to what it took.
pub(crate) fn written<K: Resource>(answer: &K) -> Result<Written> {
    taken(answer.resource_version(), named(answer))
}

fn taken(version: Option<String>, object: String) -> Result<Written> {
    let resource_version = version.ok_or_else(|| Error::Malformed {
        object,
        field: "metadata.resourceVersion".into(),
        why: "the server's answer has none".into(),
    })?;
    Ok(Written::Changed { resource_version })
}

/// How errors name an object, when its kind is only known to the caller's types.
pub(crate) fn named<K: Resource>(object: &K) -> String {
    let kind = std::any::type_name::<K>()
        .rsplit("::")
        .next()
        .unwrap_or("object");
    format!("{} {}", kind.trim_end_matches('>'), Key::of(object))
}

#[cfg(test)]
mod tests;
