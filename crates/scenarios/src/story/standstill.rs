//! Where a story that did not come to its end stands still.
//!
//! Owns the sentences that name each run and task that is not over, and what it says it waits for. Must
//! not judge: the words are the operator's own, for whoever looks for the cause.

use kube::ResourceExt;
use shipshape_api::{NodePatchRun, NodePatchTask};

use super::is_settled;
use super::own::Own;
use crate::observer::Observer;

/// A sentence for each run and each task that is under way.
pub(super) fn describe(own: &Own, observer: &Observer) -> Vec<String> {
    let runs = own.runs(observer);
    let runs = runs
        .iter()
        .filter(|run| !is_settled(run))
        .map(|run| of_run(run));
    let tasks = own.tasks(observer);
    let tasks = tasks.iter().filter_map(|task| of_task(task));
    runs.chain(tasks).collect()
}

fn of_run(run: &NodePatchRun) -> String {
    let status = run.status.as_ref();
    let wait = status.and_then(|status| status.waiting_for.as_deref());
    let wait = wait.unwrap_or("nothing that it tells");
    format!("run {} waits for {wait}", run.name_any())
}

fn of_task(task: &NodePatchTask) -> Option<String> {
    let status = task.status.clone().unwrap_or_default();
    let step = status.step_name();
    if step.is_final() {
        return None;
    }
    let wait = status.waiting_for.as_deref();
    let wait = wait.unwrap_or("nothing that it tells");
    let (name, attempt) = (task.name_any(), status.attempt.unwrap_or(1));
    let error = match status.last_error {
        Some(error) => format!(", after {error}"),
        None => String::new(),
    };
    Some(format!(
        "task {name} is at {step:?} of attempt {attempt} and waits for {wait}{error}"
    ))
}
