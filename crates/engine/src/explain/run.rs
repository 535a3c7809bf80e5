//! Why a run waits.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use shipshape_api::conditions::{ACCEPTED, HELD, LATE_NODES_KNOWN};
use shipshape_api::node_patch_run::{NodePatchRunStatus, Wave};
use shipshape_api::reasons::{LATE_NODES_UNKNOWN, SCALE_DOWN_FORBIDDEN, UNSUPPORTED_PROVIDER};
use shipshape_api::{NodePatchRun, NodePatchTask, RunState, TaskStep};

use super::{Blocker, Explanation, Scene, after_deadline, name_of, step_of, wait};
use crate::plan;
use crate::run::is_over;
use crate::span;
use crate::wish::handle;

/// Whether the canaries are the wave in work.
fn is_soaking(status: &NodePatchRunStatus) -> bool {
    let plan = status.plan.as_ref().zip(status.current_iteration);
    let wave = plan.and_then(|(plan, iteration)| plan::wave_at(plan, iteration));
    wave == Some(Wave::Canaries)
}

/// Explains a run.
pub fn run(run: &NodePatchRun, scene: &Scene<'_>) -> Explanation {
    let mut told = Explanation::about(format!("run {}", name_of(&run.metadata)));
    let status = run.status.clone().unwrap_or_default();
    told.state = state(run, &status);
    let since = status.state_since.as_ref();
    let since = since.or(run.metadata.creation_timestamp.as_ref());
    told.since = since.map(|at| at.0);
    let is_open = !is_over(&status);
    let tasks: Vec<&NodePatchTask> = tasks_of(run, scene).collect();
    if is_open {
        waiting(&mut told, run, &status, &tasks);
    }
    let is_paused = crate::run::state(run) == RunState::Paused;
    if is_paused && run.spec.paused() {
        told.help(format!("lift the pause: shipshape resume {}", handle(run)));
    } else if is_paused {
        told.help(format!(
            "see to the failed nodes, then: shipshape resume {}, or try one again: shipshape retry \
             node/NAME",
            handle(run)
        ));
    }
    for task in tasks.iter().filter(|task| is_noteworthy(task)) {
        let status = task.status.clone().unwrap_or_default();
        let waits = status
            .last_error
            .filter(|_| step_of(task) == TaskStep::Failed);
        let waits = waits.or(status.waiting_for).unwrap_or_default();
        told.notes.push(format!(
            "node {}: {:?}: {waits}",
            task.spec.node_name,
            step_of(task)
        ));
    }
    if is_open {
        if crate::run::state(run) != RunState::Ending {
            preflight(&mut told, &status);
        }
        autoscaler(&mut told, &status);
    }
    let left = status.conditions.iter();
    let left = left.filter(|one| one.type_ == LATE_NODES_KNOWN && one.reason == LATE_NODES_UNKNOWN);
    told.notes.extend(left.map(|one| one.message.clone()));
    if let Some(error) = &status.last_error {
        told.notes.push(format!("last error: {error}"));
    }
    told
}

/// What the run waits for, since when that is so, until when at most, and what would help.
fn waiting(
    told: &mut Explanation,
    run: &NodePatchRun,
    status: &NodePatchRunStatus,
    tasks: &[&NodePatchTask],
) {
    let words = status.waiting_for.as_deref();
    told.waits_for = Some(words.map_or_else(
        || "a controller to look at it; is one running?".to_owned(),
        wait,
    ));
    help_with_wait(told, status, words.unwrap_or_default());
    if let Some(refusal) = refusal(status) {
        told.since = Some(refusal.last_transition_time.0);
        return;
    }
    if crate::run::state(run) != RunState::Active {
        return;
    }
    if let Some(until) = status.soak_until.as_ref().filter(|_| is_soaking(status)) {
        let canary = run.spec.canary.as_ref();
        let soak = canary.and_then(|canary| span::parse(canary.soak.as_deref()).ok());
        let since = soak.and_then(|soak| until.0.checked_sub(soak).ok());
        told.since = since.or(told.since);
        told.until = Some(until.0);
        told.then = Some("the nodes after the canaries begin".to_owned());
        return;
    }
    in_flight(told, run, tasks);
}

/// Nodes in work are what others wait for: since the last of them began, until the first deadline.
fn in_flight(told: &mut Explanation, run: &NodePatchRun, tasks: &[&NodePatchTask]) {
    let is_at_work = |task: &&&NodePatchTask| {
        let step = step_of(task);
        !step.is_final() && step != TaskStep::Parked
    };
    let working: Vec<&&NodePatchTask> = tasks.iter().filter(is_at_work).collect();
    let began = working
        .iter()
        .filter_map(|task| Some(task.metadata.creation_timestamp.as_ref()?.0));
    told.since = began.max().or(told.since);
    let deadlines = working.iter().filter_map(|task| {
        let step = task.status.as_ref()?.step.as_ref()?;
        Some((step.deadline.as_ref()?.0, task))
    });
    if let Some((deadline, task)) = deadlines.min_by_key(|(deadline, _)| *deadline) {
        told.until = Some(deadline);
        let node = &task.spec.node_name;
        let then = after_deadline(task, Some(&run.spec));
        told.then = then.map(|then| format!("of node {node}: {then}"));
    }
}

fn refusal(status: &NodePatchRunStatus) -> Option<&Condition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|one| one.type_ == ACCEPTED && one.status == "False")
}

fn help_with_wait(told: &mut Explanation, status: &NodePatchRunStatus, words: &str) {
    match refusal(status) {
        Some(refusal) if refusal.reason == UNSUPPORTED_PROVIDER => told.help(
            "give the controller that cloud (its file, or a build that has it), or create another run \
             with a cloud that it has"
                .to_owned(),
        ),
        Some(_) => told.help(
            "mend in the manifest, or in the cluster, what the refusal names; the run then goes on by itself"
                .to_owned(),
        ),
        None => {}
    }
    let is_unanswered =
        words.starts_with("cannot tell ") || words.starts_with("an answer of the cloud");
    if is_unanswered {
        told.help(
            "see that the cloud answers the controller: its credentials, its endpoint, and the \
             controller's log; the question is asked again by itself"
                .to_owned(),
        );
    }
}

/// The tasks of a run, in the order of their names.
fn tasks_of<'a>(
    run: &'a NodePatchRun,
    scene: &Scene<'a>,
) -> impl Iterator<Item = &'a NodePatchTask> {
    let uid = run.metadata.uid.clone().unwrap_or_default();
    scene
        .tasks
        .iter()
        .filter(move |task| task.spec.run_uid == uid)
}

fn is_noteworthy(task: &NodePatchTask) -> bool {
    step_of(task) != TaskStep::Done
}

fn state(run: &NodePatchRun, status: &NodePatchRunStatus) -> String {
    let condition = |kind: &str, value: &str| {
        let found = status.conditions.iter();
        found
            .filter(|one| one.type_ == kind && one.status == value)
            .map(|one| one.message.clone())
            .next()
    };
    if let Some(why) = condition(ACCEPTED, "False") {
        return format!("not accepted: {why}");
    }
    if let Some(how) = condition("Aborted", "True").or_else(|| condition("Completed", "True")) {
        return format!("ended: {how}");
    }
    let done = status.completed.unwrap_or(0);
    let total = status.total.unwrap_or(0);
    let in_work =
        status.in_flight_important.unwrap_or(0) + status.in_flight_non_important.unwrap_or(0);
    let waves = status.plan.as_ref().map_or(0, |plan| plan.partitions.len());
    let wave = status.current_iteration.unwrap_or(0) + 1;
    let wave = wave.min(i32::try_from(waves).unwrap_or(i32::MAX));
    let how = if crate::run::state(run) == RunState::Ending {
        return ending(run, status);
    } else if let Some(why) = status
        .pause_reason
        .as_ref()
        .filter(|_| crate::run::state(run) == RunState::Paused)
    {
        return format!("paused ({why}); {done} of {total} nodes replaced, {in_work} in work");
    } else if status.plan.is_none() {
        return "no plan is made yet".to_owned();
    } else {
        "under way"
    };
    format!(
        "{how}: {done} of {total} nodes replaced, {in_work} in work, {} parked, {} failed, wave {wave} \
         of {waves}",
        status.parked.unwrap_or(0),
        status.failed.unwrap_or(0)
    )
}

/// A run that ends is asked what is left to put back, not how far it came.
fn ending(run: &NodePatchRun, status: &NodePatchRunStatus) -> String {
    let cause = if run.metadata.deletion_timestamp.is_some() {
        "being deleted"
    } else {
        "being called off"
    };
    let done = status.completed.unwrap_or(0);
    let total = status.total.unwrap_or(0);
    let open = status.in_flight_important.unwrap_or(0)
        + status.in_flight_non_important.unwrap_or(0)
        + status.parked.unwrap_or(0);
    format!(
        "{cause}: {open} node(s) left to be put back or finished; {done} of {total} were replaced, no \
         further one begins"
    )
}

fn preflight(told: &mut Explanation, status: &NodePatchRunStatus) {
    let Some(record) = status.preflight.as_ref() else {
        return;
    };
    if Some(record.iteration) != status.current_iteration {
        return;
    }
    for finding in &record.findings {
        told.blockers.push(Blocker {
            pod: format!("{}/{}", finding.namespace, finding.pod),
            node: finding.node.clone(),
            budget: finding.budget.clone().unwrap_or_default(),
            reason: finding.reason.clone(),
            message: finding.message.clone(),
        });
        told.help(finding.remedy.clone());
    }
    if record.more > 0 {
        told.notes
            .push(format!("{} more findings of the preflight", record.more));
    }
}

fn autoscaler(told: &mut Explanation, status: &NodePatchRunStatus) {
    let forbids = status.conditions.iter().find(|one| {
        one.type_ == HELD && one.status == "True" && one.reason == SCALE_DOWN_FORBIDDEN
    });
    told.notes.extend(forbids.map(|one| one.message.clone()));
    let held = status.autoscaler.as_ref().filter(|one| one.scaled_down);
    for target in held.iter().flat_map(|one| &one.targets) {
        told.notes.push(format!(
            "autoscaler {}/{} is held at 0, its own replicas are {}",
            target.namespace, target.name, target.original_replicas
        ));
    }
}
