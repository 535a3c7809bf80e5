//! Report: status, events and logs of a pass.
//!
//! Owns the order: status first, then events about what the status now says. Must not write a status
//! that says nothing new.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::object::HasStatus;
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use shipshape_cluster::events::{Notice as EventNotice, Severity};
use shipshape_cluster::status::write_status;
use shipshape_cluster::{Key, Store};
use shipshape_engine::decision::Notice;

use crate::context::Context;
use crate::error::PassError;

/// Writes the status of the observed object, tells the store what to expect, then tells people.
pub(crate) async fn report<K>(
    context: &Context,
    store: &Store<K>,
    observed: &K,
    status: &K::Status,
    notices: &[Notice],
) -> Result<(), PassError>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + HasStatus
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
    K::Status: Serialize + PartialEq,
{
    let key = Key::of(observed);
    let api: Api<K> = Api::namespaced(context.client.clone(), &key.namespace);
    let written = write_status(&api, observed, status).await?;
    if let Some(version) = written.version() {
        store.expect(&key, version);
    }
    let about: ObjectReference = observed.object_ref(&());
    for notice in notices {
        tracing::info!(reason = notice.reason, "{}", notice.message);
        let severity = if notice.warning {
            Severity::Warning
        } else {
            Severity::Normal
        };
        let event = EventNotice {
            severity,
            reason: notice.reason.to_owned(),
            action: notice.reason.to_owned(),
            note: notice.message.clone(),
        };
        context.events.publish(&about, &event).await;
    }
    Ok(())
}
