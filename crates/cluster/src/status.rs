//! The one way in which status is written.
//!
//! Owns the comparison with what was observed and the guarded write of the status subresource. Must
//! not write when nothing changed (at rest there are no writes), nor write over a status that it has
//! not seen: a 409 is an error of class Conflict and the pass begins anew. The form is a computed
//! merge patch with `metadata.resourceVersion` in it; `patch` says why.

use kube::Resource;
use kube::ResourceExt;
use kube::api::{Api, Patch};
use kube::core::object::HasStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::error::{Result, call};
pub use crate::patch::Written;
use crate::patch::{difference, guard, named, params, to_value, written};

/// Writes `wanted` as the status of the object that was observed, unless it says so already.
pub async fn write_status<K>(api: &Api<K>, observed: &K, wanted: &K::Status) -> Result<Written>
where
    K: Resource + HasStatus + Clone + DeserializeOwned + std::fmt::Debug,
    K::Status: Serialize,
{
    let object = named(observed);
    let old = match observed.status() {
        Some(status) => to_value(status, &object)?,
        None => Value::Null,
    };
    let new = to_value(wanted, &object)?;
    let Some(change) = difference(&old, &new) else {
        return Ok(Written::Unchanged);
    };
    tracing::trace!(object, %change, "write status");
    let mut patch = json!({ "status": change });
    guard(&mut patch, observed, &object)?;
    let (name, params, patch) = (observed.name_any(), params(), Patch::Merge(patch));
    let request = api.patch_status(&name, &params, &patch);
    written(&call("write the status of", object, request).await?)
}

#[cfg(test)]
mod tests;
