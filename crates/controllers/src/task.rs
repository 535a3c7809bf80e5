//! The controller of NodePatchTask.
//!
//! Owns the four calls of a pass. Must not skip the record: an effect that creates or destroys is
//! only performed when the status that was read already names it, which the engine sees to.

mod observe;

use jiff::Timestamp;
use shipshape_api::NodePatchTaskStatus;
use shipshape_cluster::Key;
use shipshape_cluster::error::in_full;
use shipshape_cluster::queue::Outcome;
use shipshape_engine::replace::decide;
use tracing::{Instrument, Span};

use crate::context::Context;
use crate::error::PassError;
use crate::perform::perform;
use crate::report::report;

/// One pass over one task.
pub(crate) async fn reconcile(context: &Context, key: Key) -> Outcome {
    let span = span(context, &key);
    let outcome = match pass(context, &key).instrument(span.clone()).await {
        Ok(wake) => Outcome::Done { wake },
        Err(error) => {
            tracing::warn!(parent: &span, error = in_full(&error), "pass failed");
            Outcome::Retry {
                class: error.class(),
            }
        }
    };
    context.vitals.saw_pass("task", &outcome);
    outcome
}

/// What every line of the log says besides its message: which task, of which run and node, and the
/// step that the pass found it at.
fn span(context: &Context, key: &Key) -> Span {
    let Some(task) = context.stores.tasks.get(key) else {
        return tracing::info_span!("pass", task = %key);
    };
    let status = task.status.as_ref();
    let step = status.map(NodePatchTaskStatus::step_name);
    tracing::info_span!(
        "pass",
        task = %key,
        run = task.spec.run_name,
        node = task.spec.node_name,
        step = ?step.unwrap_or_default(),
    )
}

async fn pass(context: &Context, key: &Key) -> Result<Option<Timestamp>, PassError> {
    let Some(snapshot) = observe::observe(context, key).await? else {
        return Ok(None);
    };
    let decision = decide(&snapshot, &context.settings, context.clock.now());
    let acted = perform(
        context,
        snapshot.task.spec.provider.as_ref(),
        &decision.effects,
    )
    .await;
    let mut status = decision.status;
    if let Err(error) = &acted {
        status.last_error = Some(in_full(error));
        if let (true, Some(record)) = (error.is_no_room(), status.replacement.as_mut()) {
            record.no_room = Some(in_full(error));
        }
    }
    report(
        context,
        &context.stores.tasks,
        &snapshot.task,
        &status,
        &decision.notices,
    )
    .await?;
    let observed = snapshot.task.status.as_ref();
    context.vitals.saw_task(observed, &status);
    acted.map(|()| decision.wake)
}
