//! The controller of NodePatchTask.
//!
//! Owns the four calls of a pass. Must not skip the record: an effect that creates or destroys is
//! only performed when the status that was read already names it, which the engine sees to.

mod observe;

use jiff::{SignedDuration, Timestamp};
use shipshape_api::{NodePatchTask, NodePatchTaskStatus};
use shipshape_cluster::error::in_full;
use shipshape_cluster::queue::Outcome;
use shipshape_cluster::{ErrorClass, Key};
use shipshape_engine::decision::{Effect, Notice, PodTarget};
use shipshape_engine::drain::is_told_refused;
use shipshape_engine::replace::{decide, is_recorded, may_go_on, step_of};
use shipshape_engine::snapshot::TaskSnapshot;
use tracing::{Instrument, Span};

use crate::context::Context;
use crate::error::PassError;
use crate::perform::perform;
use crate::report::report;
use crate::slots::may_begin;

/// Most looks of one pass: more than a replacement has steps.
const LOOKS_PER_PASS: usize = 16;

/// How long a step that was just stored may wait for the watch to say so.
const SILENCE: SignedDuration = SignedDuration::from_secs(5);

/// One pass over one task.
pub(crate) async fn reconcile(context: &Context, key: Key) -> Outcome {
    let span = span(context, &key);
    let passed = Box::pin(pass(context, &key).instrument(span.clone())).await;
    context.evictions.passed(&key);
    let outcome = match passed {
        Ok(wake) => Outcome::Done { wake },
        Err(error) => {
            tracing::warn!(parent: &span, error = in_full(&error), "pass failed");
            Outcome::Retry {
                class: error.class(),
            }
        }
    };
    tracing::debug!(parent: &span, ?outcome, "pass");
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

/// Looks at step after step for as long as the world lets it, and writes the status once: when the
/// task waits, before an effect that rests upon the record, or before a turn.
async fn pass(context: &Context, key: &Key) -> Result<Option<Timestamp>, PassError> {
    let Some(mut snapshot) = observe::observe(context, key).await? else {
        return Ok(None);
    };
    let read = snapshot.task.clone();
    let mut notices = Vec::new();
    let mut done: Vec<Effect> = Vec::new();
    for _ in 0..LOOKS_PER_PASS {
        let decision = decide(&snapshot, &context.settings, context.clock.now());
        let step = decision.status.step_name();
        notices.extend(decision.notices);
        if !is_recorded(read.status.as_ref(), &decision.status, &decision.effects) {
            tell(context, &read, decision.status, notices).await?;
            return Ok(Some(context.clock.now()));
        }
        if !may_take_slot(context, &snapshot, &decision.effects).await?
            || !may_close(context, &read, &decision.effects).await?
        {
            return Ok(Some(context.clock.now()));
        }
        let provider = read.spec.provider.as_ref();
        let acted = perform(context, provider, &decision.effects).await;
        let has_moved = step != step_of(&snapshot);
        let has_shown = !decision.effects.is_empty()
            && decision.effects != done
            && decision.effects.iter().all(Effect::shows_at_once);
        let may_go_on = if has_moved {
            may_go_on(step)
        } else {
            has_shown
        };
        if acted.is_err() || !may_go_on {
            let mut status = decision.status;
            if let Err(error) = &acted {
                note_failure(&mut status, error);
            }
            tell(context, &read, status, notices).await?;
            let again = look_again(context, &read, &decision.effects);
            let silence = has_moved && !step.is_final();
            let again = again.or_else(|| silent_until(context).filter(|_| silence));
            return acted.map(|()| decision.wake.into_iter().chain(again).min());
        }
        done = decision.effects;
        let look = observe::observe_on(context, snapshot, decision.status, &done);
        snapshot = Box::pin(look).await;
    }
    let status = snapshot.task.status.unwrap_or_default();
    tell(context, &read, status, notices).await?;
    Ok(Some(context.clock.now()))
}

/// Whether a slot that the task takes for itself, coming back, is still its run's to give. A run that is gone has said
/// its last word.
async fn may_take_slot(
    context: &Context,
    snapshot: &TaskSnapshot,
    effects: &[Effect],
) -> Result<bool, PassError> {
    if snapshot.run.call_off.is_some() && snapshot.run.spec.is_none() {
        return Ok(true);
    }
    let task = &snapshot.task;
    let namespace = task.metadata.namespace.clone().unwrap_or_default();
    let run = Key::new(namespace, task.spec.run_name.clone());
    let read = (Some(task.spec.run_uid.as_str()), snapshot.run.generation);
    may_begin(context, &run, read, effects).await
}

/// Whether a node may still be closed in the name of the task as it was read. Of two leaders one may have been held up
/// between two calls, and closes the old node while the other, which has turned the task, empties the new one.
async fn may_close(
    context: &Context,
    read: &NodePatchTask,
    effects: &[Effect],
) -> Result<bool, PassError> {
    let closes = |effect: &Effect| matches!(effect, Effect::EnsureCordoned(_));
    if !effects.iter().any(closes) {
        return Ok(true);
    }
    let live = context.stores.tasks.refetch(&Key::of(read)).await?;
    Ok(live.is_some_and(|live| live.metadata.resource_version == read.metadata.resource_version))
}

/// A pass follows at once where an eviction was refused, so that it is told by what, and where one was not that had been
/// before: no event may bring it.
fn look_again(context: &Context, read: &NodePatchTask, effects: &[Effect]) -> Option<Timestamp> {
    let now = context.clock.now();
    let record = read.status.as_ref().and_then(|it| it.drain.as_ref());
    let is_news = |pod: &PodTarget| {
        context.evictions.refusal(&pod.uid, now).is_some() || is_told_refused(record, pod)
    };
    let mut effects = effects.iter();
    effects
        .any(|effect| matches!(effect, Effect::EvictPod(pod) if is_news(pod)))
        .then_some(now)
}

/// Until when a step that was stored before it is looked at waits for the watch.
fn silent_until(context: &Context) -> Option<Timestamp> {
    context.clock.now().checked_add(SILENCE).ok()
}

fn note_failure(status: &mut NodePatchTaskStatus, error: &PassError) {
    // Somebody else wrote first, and the next pass looks anew: that is no news for people.
    if error.class() != ErrorClass::Conflict {
        status.last_error = Some(in_full(error));
    }
    if let (true, Some(record)) = (error.is_no_room(), status.replacement.as_mut()) {
        record.no_room = Some(in_full(error));
    }
}

/// Writes the status over the one that was read, and tells people what is new.
async fn tell(
    context: &Context,
    read: &NodePatchTask,
    status: NodePatchTaskStatus,
    notices: Vec<Notice>,
) -> Result<(), PassError> {
    let notices = told_together(notices);
    report(context, &context.stores.tasks, read, &status, &notices).await?;
    context.vitals.saw_task(read.status.as_ref(), &status);
    Ok(())
}

/// What went as planned in one pass is one event, under the reason of the last thing.
fn told_together(notices: Vec<Notice>) -> Vec<Notice> {
    let mut told: Vec<Notice> = Vec::new();
    for notice in notices {
        match told.last_mut() {
            Some(last) if !last.warning && !notice.warning => {
                last.reason = notice.reason;
                last.message = format!("{}; {}", last.message, notice.message);
            }
            _ => told.push(notice),
        }
    }
    told
}
