//! Why a run waits.

use shipshape_api::conditions::{ACCEPTED, HELD};
use shipshape_api::node_patch_run::{NodePatchRunStatus, Wave};
use shipshape_api::reasons::SCALE_DOWN_FORBIDDEN;
use shipshape_api::{NodePatchRun, NodePatchTask, RunState, TaskStep};

use super::{Blocker, Explanation, Scene, name_of, step_of};
use crate::plan;
use crate::run::is_over;
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
    if is_open {
        told.waits_for = Some(
            status
                .waiting_for
                .clone()
                .unwrap_or_else(|| "a controller to look at it; is one running?".to_owned()),
        );
        told.until = status.soak_until.as_ref().map(|at| at.0);
        told.until = told.until.filter(|_| is_soaking(&status));
        told.then = told
            .until
            .map(|_| "the nodes after the canaries begin".to_owned());
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
    let tasks: Vec<&NodePatchTask> = tasks_of(run, scene).collect();
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
        preflight(&mut told, &status);
        autoscaler(&mut told, &status);
    }
    if let Some(error) = &status.last_error {
        told.notes.push(format!("last error: {error}"));
    }
    told
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
