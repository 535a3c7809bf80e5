//! The controller of the gate: one node whose network is verified before pods land on it.
//!
//! Owns the four calls of a pass, and the end of runs that served as comparison. An effect that destroys or
//! creates comes after the status that speaks of it, the opening of the gate before: so the record never says
//! more than is so. Must not keep anything between passes.

mod act;
pub(crate) mod neighbours;
mod observe;
pub(crate) mod own;
mod removal;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use shipshape_api::{PendingNode, PendingNodeStatus};
use shipshape_cluster::error::in_full;
use shipshape_cluster::events::{Notice as EventNotice, Severity};
use shipshape_cluster::queue::Outcome;
use shipshape_cluster::status::write_status;
use shipshape_cluster::{ErrorClass, Key};
use shipshape_engine::decision::{Decision, Effect, Notice};
use shipshape_engine::verify::control::{Retirement, retire};
use shipshape_engine::verify::decide;
use shipshape_engine::verify::refusal::{Refuser, refused};
use shipshape_engine::verify::settings::GateSettings;
use shipshape_engine::view::{NodeView, Observed};
use tracing::Instrument;

use crate::context::Context;
use crate::error::PassError;
use crate::perform::perform;

pub(crate) use act::act;

/// One pass over a node, or over a run on a node in service: that one's key has a namespace.
pub(crate) async fn reconcile(context: &Context, key: Key) -> Outcome {
    let Some(settings) = context.gate.clone() else {
        return Outcome::Done { wake: None };
    };
    let span = tracing::info_span!("pass", gate = %key);
    let pass = async {
        if key.namespace.is_empty() {
            pass(context, &settings, &key).await
        } else {
            retire_control(context, &settings, &key).await
        }
    };
    let outcome = match pass.instrument(span.clone()).await {
        Ok(wake) => Outcome::Done { wake },
        Err(error) => {
            tracing::warn!(parent: &span, error = in_full(&error), "pass failed");
            Outcome::Retry {
                class: error.class(),
            }
        }
    };
    context.vitals.saw_pass("gate", &outcome);
    outcome
}

async fn pass(
    context: &Context,
    settings: &GateSettings,
    key: &Key,
) -> Result<Option<Timestamp>, PassError> {
    let Some((snapshot, now)) = observe::observe(context, settings, key).await? else {
        if context.stores.nodes.get(key).is_none() {
            context.vitals.saw_node_go(&key.name);
        }
        return Ok(None);
    };
    let Decision {
        status,
        effects,
        notices,
        wake,
    } = decide(&snapshot, settings, now);
    let provider = settings.node_management.provider.as_ref();
    let Observed::Present(record) = &snapshot.record else {
        perform(context, provider, &effects).await?;
        return Ok(wake);
    };
    let (after, before): (Vec<Effect>, Vec<Effect>) =
        effects.into_iter().partition(Effect::needs_record);
    if let Err(error) = perform(context, provider, &before).await {
        let known = record.status.clone().unwrap_or_default();
        tell_refusal(context, &snapshot.node, record.clone(), &known, &error).await;
        return Err(error);
    }
    let written = write_status(context.pending.api(), record, &status).await?;
    if let Some(version) = written.version() {
        let record = Key::of(record);
        context.stores.pending.expect(&record, version);
    }
    let before = record.status.as_ref();
    let before = before.and_then(|status| status.verification.as_ref());
    let now = status.verification.as_ref();
    let node = &snapshot.node.name;
    context.vitals.saw_verification(node, before, now);
    tell(context, &snapshot.node, &notices).await;
    if let Err(error) = perform(context, provider, &after).await {
        let mut stored = record.clone();
        stored.status = Some(status.clone());
        let version = written.version().map(str::to_owned);
        stored.metadata.resource_version = version.or(stored.metadata.resource_version);
        tell_refusal(context, &snapshot.node, stored, &status, &error).await;
        return Err(error);
    }
    Ok(wake)
}

/// What the server or the cloud refuses shows in the record and as an event, once: only a person can help. That nothing
/// could be told is not worth another error.
async fn tell_refusal(
    context: &Context,
    node: &NodeView,
    stored: PendingNode,
    status: &PendingNodeStatus,
    error: &PassError,
) {
    let is_refusal = match error.class() {
        ErrorClass::Denied | ErrorClass::Invalid | ErrorClass::Gone => true,
        ErrorClass::Transient | ErrorClass::Conflict | ErrorClass::Bug => false,
    };
    let refuser = match error {
        PassError::Cloud(_) | PassError::NoProvider { .. } => Refuser::Cloud,
        PassError::Cluster(_) | PassError::Etcd(_) | PassError::NoEtcd => Refuser::ApiServer,
    };
    let told = refused(status, refuser, &in_full(error)).filter(|_| is_refusal);
    let Some((status, notice)) = told else {
        return;
    };
    match write_status(context.pending.api(), &stored, &status).await {
        Ok(written) => {
            if let Some(version) = written.version() {
                context.stores.pending.expect(&Key::of(&stored), version);
            }
            tell(context, node, &[notice]).await;
        }
        Err(unwritten) => {
            tracing::debug!(error = in_full(&unwritten), "the refusal could not be told");
        }
    }
}

/// Events are about the Node: that is where people look.
async fn tell(context: &Context, node: &NodeView, notices: &[Notice]) {
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node.name.clone()),
        uid: Some(node.uid.clone()),
        ..ObjectReference::default()
    };
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
}

async fn retire_control(
    context: &Context,
    settings: &GateSettings,
    key: &Key,
) -> Result<Option<Timestamp>, PassError> {
    let Some(run) = context.stores.workers.get(key) else {
        return Ok(None);
    };
    match retire(&run, settings, context.clock.now()) {
        Retirement::Gone => Ok(None),
        Retirement::At(time) => Ok(Some(time)),
        Retirement::Now => {
            context.workers.delete(&run.target()).await?;
            Ok(None)
        }
    }
}
