//! The controller of PendingNode: one machine on its way in or out.
//!
//! Owns the four calls of a pass. Must not keep anything between passes: the cloud and the object say
//! all there is to know.

mod observe;

use jiff::Timestamp;
use shipshape_cluster::Key;
use shipshape_cluster::error::in_full;
use shipshape_cluster::queue::Outcome;
use shipshape_cluster::status::write_status;
use shipshape_engine::decision::{Decision, Effect};
use shipshape_engine::pending::decide;
use tracing::Instrument;

use crate::context::Context;
use crate::error::PassError;
use crate::perform::perform;

/// One pass over one machine.
pub(crate) async fn reconcile(context: &Context, key: Key) -> Outcome {
    let span = tracing::info_span!("pass", pending = %key);
    let outcome = match pass(context, &key).instrument(span.clone()).await {
        Ok(wake) => Outcome::Done { wake },
        Err(error) => {
            tracing::warn!(parent: &span, error = in_full(&error), "pass failed");
            Outcome::Retry {
                class: error.class(),
            }
        }
    };
    context.vitals.saw_pass("pending", &outcome);
    outcome
}

async fn pass(context: &Context, key: &Key) -> Result<Option<Timestamp>, PassError> {
    let Some(snapshot) = observe::observe(context, key).await? else {
        return Ok(None);
    };
    let pending = &snapshot.pending;
    let Decision {
        status,
        effects,
        wake,
        ..
    } = decide(&snapshot, &context.settings, context.clock.now());
    let acted = perform(context, pending.spec.provider.as_ref(), &effects).await;
    let is_over = effects
        .iter()
        .any(|effect| matches!(effect, Effect::ForgetPending { .. }));
    // What is turned or gone has another version by now; its next look tells what is new.
    let is_turned = effects
        .iter()
        .any(|effect| matches!(effect, Effect::TurnPending { .. }));
    if !is_over && !is_turned {
        let written = write_status(context.pending.api(), pending, &status).await?;
        if let Some(version) = written.version() {
            context.stores.pending.expect(key, version);
        }
    }
    acted.map(|()| wake)
}
