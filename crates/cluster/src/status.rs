//! The one way in which status is written.
//!
//! Owns the comparison with what was observed and the guarded write of the status subresource. Must
//! not write when nothing changed (at rest there are no writes), nor write over a status that it has
//! not seen: a 409 is an error of class Conflict and the pass begins anew. The form is a computed
//! merge patch with `metadata.resourceVersion` in it; `patch` says why.

use kube::Resource;
use kube::ResourceExt;
use kube::api::{Api, Patch, Request};
use kube::core::object::HasStatus;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Result;
pub use crate::patch::Written;
use crate::patch::{difference, guard, named, params, send, to_value};

/// Writes `wanted` as the status of the object that was observed, unless it says so already.
pub async fn write_status<K>(api: &Api<K>, observed: &K, wanted: &K::Status) -> Result<Written>
where
    K: Resource + HasStatus + Clone,
    K::Status: Serialize + PartialEq,
{
    // Most passes change nothing, and telling the difference in JSON costs more than the pass.
    if observed.status() == Some(wanted) {
        return Ok(Written::Unchanged);
    }
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
    let request = Request::new(api.resource_url()).patch_subresource(
        "status",
        &observed.name_any(),
        &params(),
        &Patch::Merge(patch),
    );
    send(api, "write the status of", object, request).await
}

#[cfg(test)]
mod tests;
