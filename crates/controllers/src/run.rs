//! The controller of NodePatchRun.
//!
//! Owns the four calls of a pass. Must not disrupt nodes: its effects are slots, tasks and marks.

pub(crate) mod autoscalers;
pub(crate) mod groups;
pub(crate) mod line;
mod newcomers;
mod observe;
mod preflight;

use std::sync::Arc;

use jiff::Timestamp;
pub use preflight::ask_dry_runs;
use shipshape_api::NodePatchRun;
use shipshape_api::node_patch_run::NodePatchRunStatus;
use shipshape_cluster::error::in_full;
use shipshape_cluster::queue::Outcome;
use shipshape_cluster::{ErrorClass, Key};
use shipshape_engine::decision::{Effect, Notice};
use shipshape_engine::run::decide;
use tracing::Instrument;

use crate::context::Context;
use crate::error::PassError;
use crate::perform::perform;
use crate::report::report;
use crate::slots::may_begin;

/// One pass over one run.
pub(crate) async fn reconcile(context: &Context, key: Key) -> Outcome {
    let span = tracing::info_span!("pass", run = %key);
    let outcome = match pass(context, &key).instrument(span.clone()).await {
        Ok(wake) => Outcome::Done { wake },
        Err(error) => {
            tracing::warn!(parent: &span, error = in_full(&error), "pass failed");
            Outcome::Retry {
                class: error.class(),
            }
        }
    };
    context.vitals.saw_pass("run", &outcome);
    outcome
}

async fn pass(context: &Context, key: &Key) -> Result<Option<Timestamp>, PassError> {
    let Some(snapshot) = observe::observe(context, key).await? else {
        return Ok(None);
    };
    if let Some(told) = preflight::look(context, &snapshot).await {
        tell(context, &snapshot.run, told.status, &[told.notice]).await?;
        return Ok(Some(context.clock.now()));
    }
    let decision = decide(&snapshot, &context.settings, context.clock.now());
    let meta = &snapshot.run.metadata;
    let read = (meta.uid.as_deref(), meta.generation);
    if !may_begin(context, key, read, &decision.effects).await? {
        return Ok(Some(context.clock.now()));
    }
    let provider = &snapshot.run.spec.provider;
    let acted = perform(context, Some(provider), &decision.effects).await;
    let mut status = decision.status;
    let mut notices = decision.notices;
    if acted.is_err() && decision.effects.contains(&Effect::RestoreGroups) {
        // What was not given back keeps the run from ending: the next pass comes here again.
        status = snapshot.run.status.clone().unwrap_or_default();
        notices.clear();
    }
    let told = acted.as_ref().err();
    let told = told.filter(|error| is_news(error.class(), &decision.effects));
    status.last_error = told.map(ToString::to_string);
    tell(context, &snapshot.run, status, &notices).await?;
    acted.map(|()| decision.wake)
}

/// Whether people should hear of a failure, or the next pass just looks anew: somebody else wrote first, or the
/// answer was lost to the last thing that a run does. Having let go, it may be gone, and is written no more.
fn is_news(class: ErrorClass, effects: &[Effect]) -> bool {
    let is_last = matches!(effects, [Effect::DropFinalizer(_)]);
    class != ErrorClass::Conflict && !(is_last && class == ErrorClass::Transient)
}

/// Reports. A plan that is the one that was read is left out of the comparison, because it is as long
/// as the cluster is large.
async fn tell(
    context: &Context,
    read: &NodePatchRun,
    mut status: NodePatchRunStatus,
    notices: &[Notice],
) -> Result<(), PassError> {
    let mut read = read.clone();
    let known = read.status.as_mut().and_then(|read| read.plan.take());
    match (&known, &status.plan) {
        (Some(known), Some(wanted)) if Arc::ptr_eq(known, wanted) => status.plan = None,
        _ => read.status.get_or_insert_default().plan = known,
    }
    report(context, &context.stores.runs, &read, &status, notices).await
}
