//! Wishes: what a person asks of a run or of one node, and what that comes to.
//!
//! Owns what may be asked when, the change that says so to the controllers, and the words for both.
//! Must not write. Asking twice is as good as asking once. Called by the command line.

use jiff::Timestamp;
use serde_json::{Value, json};
use shipshape_api::conditions::{ABORTED, ACCEPTED, OLD_DELETED};
use shipshape_api::names::{ANNOTATION_ACKNOWLEDGED, ANNOTATION_RETRY};
use shipshape_api::node_patch_run::NodePatchRunStatus;
use shipshape_api::{NodePatchRun, NodePatchTask, NodePatchTaskStatus, TaskStep};

use crate::condition;
use crate::run::is_over;

/// What can be asked of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunWish {
    /// No further node shall begin.
    Pause,
    /// Further nodes may begin.
    Resume,
    /// The run shall end for good.
    Abort,
}

/// What a wish comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Granted {
    /// The change to the object, as a merge patch; `None` when it is as wished already.
    pub change: Option<Value>,
    /// What was done.
    pub done: String,
    /// What happens next.
    pub next: String,
}

/// A wish that makes no sense now, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// What a wish about a run comes to.
pub fn of_run(run: &NodePatchRun, wish: RunWish) -> Result<Granted, Refused> {
    let name = run_name(run);
    let status = run.status.clone().unwrap_or_default();
    let is_aborted = run.spec.abort() || condition::is_true(&status.conditions, ABORTED);
    let refuse = |why: &str| Err(Refused(format!("run {name} {why}")));
    if run.metadata.deletion_timestamp.is_some() {
        return refuse("is being deleted and ends; create a new run to go on");
    }
    match wish {
        RunWish::Abort if is_aborted => Ok(unchanged(
            format!("run {name} is called off already"),
            ending(&status),
        )),
        _ if is_aborted => refuse("is called off and ends; create a new run to go on"),
        _ if is_over(&status) => {
            refuse("has ended; there is nothing left to pause, resume or call off")
        }
        RunWish::Pause => Ok(pause(run, &status)),
        RunWish::Resume => Ok(resume(run, &status)),
        RunWish::Abort => Ok(Granted {
            change: Some(json!({ "spec": { "abort": true } })),
            done: format!("run {name} is called off"),
            next: ending(&status),
        }),
    }
}

fn pause(run: &NodePatchRun, status: &NodePatchRunStatus) -> Granted {
    let name = run_name(run);
    let next = format!(
        "no further node begins, {}; go on with: shipshape resume {}",
        in_work(status),
        handle(run)
    );
    if run.spec.paused() {
        return unchanged(format!("run {name} is paused already"), next);
    }
    Granted {
        change: Some(json!({ "spec": { "paused": true } })),
        done: format!("run {name} is paused"),
        next,
    }
}

/// Whoever resumes has seen the failures: without a word about them the run would pause again at once.
fn resume(run: &NodePatchRun, status: &NodePatchRunStatus) -> Granted {
    let name = run_name(run);
    let failed = status.failed.unwrap_or(0);
    let failures = status.failures.unwrap_or(failed);
    let notes = run.metadata.annotations.as_ref();
    let known = notes
        .and_then(|notes| notes.get(ANNOTATION_ACKNOWLEDGED))
        .and_then(|text| text.parse::<i32>().ok())
        .unwrap_or(0);
    let is_paused = run.spec.paused() || status.paused == Some(true);
    if !is_paused {
        if let Some(why) = refusal(run, status) {
            return unchanged(format!("run {name} is not paused"), why);
        }
        let waits = status.waiting_for.as_deref().unwrap_or("nothing");
        return unchanged(
            format!("run {name} is not paused"),
            format!("it waits for {waits}"),
        );
    }
    let mut next = "further nodes begin as far as the limits of the run allow".to_owned();
    let change = if failures > known {
        if failed > 0 {
            next.push_str(&format!(
                "; {failed} failed node(s) are taken note of and stay failed, try one again with: \
                 shipshape retry node/NAME"
            ));
        }
        let notes = json!({ ANNOTATION_ACKNOWLEDGED: failures.to_string() });
        json!({ "spec": { "paused": false }, "metadata": { "annotations": notes } })
    } else {
        json!({ "spec": { "paused": false } })
    };
    let (done, next) = match refusal(run, status) {
        Some(why) => (format!("the pause of run {name} is lifted"), why),
        None => (format!("run {name} is resumed"), next),
    };
    Granted {
        change: Some(change),
        done,
        next,
    }
}

/// Why no node begins although nothing is paused: the run as it stands was not accepted.
fn refusal(run: &NodePatchRun, status: &NodePatchRunStatus) -> Option<String> {
    let mut found = status.conditions.iter();
    let refused = found.find(|one| one.type_ == ACCEPTED && one.status == "False")?;
    let why = &refused.message;
    Some(format!(
        "no node begins, because the run is refused ({}): {why}; mend that, then see: shipshape explain {}",
        refused.reason,
        handle(run)
    ))
}

/// What a wish to try a node again comes to. `now` makes the wish a new one.
pub fn retry(
    task: &NodePatchTask,
    run: Option<&NodePatchRun>,
    now: Timestamp,
) -> Result<Granted, Refused> {
    let node = &task.spec.node_name;
    let status = task.status.clone().unwrap_or_default();
    let refuse = |why: String| Err(Refused(format!("node {node} {why}")));
    let is_ending = run.is_some_and(|run| run.spec.abort());
    let step = status.step_name();
    if step == TaskStep::Done {
        return refuse("is replaced; there is nothing to try again".to_owned());
    }
    if !matches!(step, TaskStep::Failed | TaskStep::Parked) {
        let waits = status.waiting_for.as_deref().unwrap_or("its turn");
        return refuse(format!(
            "is being worked on (step {step:?}, waiting for {waits}); only a parked or failed node can \
             be tried again"
        ));
    }
    if is_ending {
        return refuse("belongs to a run that is called off; create a new run".to_owned());
    }
    let next = retry_next(&status, run);
    let notes = task.metadata.annotations.as_ref();
    let wish = notes.and_then(|notes| notes.get(ANNOTATION_RETRY));
    if wish.is_some() && wish != status.retried.as_ref() {
        let done = format!("another try of node {node} is asked for already");
        return Ok(unchanged(done, next));
    }
    let value = format!("{now:.0}");
    Ok(Granted {
        change: Some(json!({ "metadata": { "annotations": { ANNOTATION_RETRY: value } } })),
        done: format!("another try of node {node} is asked for"),
        next,
    })
}

fn retry_next(status: &NodePatchTaskStatus, run: Option<&NodePatchRun>) -> String {
    let is_new = status.step_name() == TaskStep::Failed;
    let attempt = status.attempt.unwrap_or(1) + i32::from(is_new);
    match run {
        // A pause does not hold what only has its machine to get back.
        _ if condition::is_true(&status.conditions, OLD_DELETED) => format!(
            "attempt {attempt} begins after a pause; the old machine is gone, so it waits for no slot"
        ),
        Some(run) if run.spec.paused() => format!(
            "its run is paused, so it waits; go on with: shipshape resume {}",
            handle(run)
        ),
        _ => format!("attempt {attempt} begins as soon as a slot is free"),
    }
}

fn unchanged(done: String, next: String) -> Granted {
    Granted {
        change: None,
        done,
        next,
    }
}

fn in_work(status: &NodePatchRunStatus) -> String {
    let count =
        status.in_flight_important.unwrap_or(0) + status.in_flight_non_important.unwrap_or(0);
    match count {
        0 => "none is under way".to_owned(),
        count => format!("{count} under way are finished"),
    }
}

fn ending(status: &NodePatchRunStatus) -> String {
    let count = status.in_flight_important.unwrap_or(0)
        + status.in_flight_non_important.unwrap_or(0)
        + status.parked.unwrap_or(0);
    match count {
        0 => "no node is under way; marks and the autoscaler are put back".to_owned(),
        count => format!(
            "{count} node(s) under way are put back as they were, or finished where the old machine \
             is going already; then marks and the autoscaler are put back"
        ),
    }
}

/// Namespace and name, for a sentence.
pub fn run_name(run: &NodePatchRun) -> String {
    let meta = &run.metadata;
    format!(
        "{}/{}",
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default()
    )
}

/// How the command line is told of the run.
pub(crate) fn handle(run: &NodePatchRun) -> String {
    let meta = &run.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    match &meta.namespace {
        Some(namespace) => format!("npr/{name} -n {namespace}"),
        None => format!("npr/{name}"),
    }
}

#[cfg(test)]
mod tests;
