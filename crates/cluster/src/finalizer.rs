//! Our finalizer on an object: it stays until what it changed is put back.
//!
//! Owns the guarded write of that one entry of `metadata.finalizers`. Must not touch other entries or
//! another object of the same name. Called by the controllers of runs and tasks.

use std::fmt::Debug;

use kube::api::Api;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Result, call};
use crate::patch::{self, Written};
use shipshape_api::names::FINALIZER;

/// Puts the finalizer on the object of that UID, or takes it off. An object that is gone, or being
/// deleted and without it, needs nothing.
pub async fn set<K>(api: &Api<K>, name: &str, uid: &str, present: bool) -> Result<Written>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let object = format!("{} {name}", K::kind(&()));
    let Some(live) = call("get", object, api.get_opt(name)).await? else {
        return Ok(Written::Unchanged);
    };
    let has = live.finalizers().iter().any(|one| one == FINALIZER);
    let is_leaving = live.meta().deletion_timestamp.is_some();
    if live.uid().as_deref() != Some(uid) || has == present || (present && is_leaving) {
        return Ok(Written::Unchanged);
    }
    let mut wanted = live.clone();
    if present {
        wanted.finalizers_mut().push(FINALIZER.to_owned());
    } else {
        wanted.finalizers_mut().retain(|one| one != FINALIZER);
    }
    patch::write(api, &live, &wanted).await
}
