//! Obstacles: why a run that somebody is about to create would not be done at all.
//!
//! Owns two of them, told before anything is created: a run of that name is there, and the cloud is one
//! that the controller will refuse. Must not ask the cluster. Called by `plan`.

use shipshape_api::conditions::ACCEPTED;
use shipshape_api::{NodePatchRun, RunState};

use crate::condition;
use crate::run::state;
use crate::wish::run_name;

#[cfg(test)]
mod tests;

/// What stands in the way of a run among the runs of its cluster. `built_in` are the clouds that a
/// controller of the caller's own build speaks to: the next best thing where no run tells.
pub fn found(run: &NodePatchRun, runs: &[NodePatchRun], built_in: &[&str]) -> Vec<String> {
    let twin = runs.iter().find(|other| run_name(other) == run_name(run));
    let twin = twin.map(of_twin);
    let provider = of_provider(run, runs, built_in);
    twin.into_iter().chain(provider).collect()
}

fn of_twin(twin: &NodePatchRun) -> String {
    let status = twin.status.clone().unwrap_or_default();
    let done = format!(
        "{:?}, {} of {} nodes replaced",
        state(twin),
        status.completed.unwrap_or(0),
        status.total.unwrap_or(0)
    );
    let name = run_name(twin);
    let what = match state(twin) {
        RunState::Completed | RunState::Aborted => {
            "it is over and is not begun again by another apply"
        }
        RunState::Ending => "it is called off",
        RunState::Active | RunState::Paused | RunState::Refused => {
            "it keeps its own plan, and another apply changes its limits alone"
        }
    };
    format!(
        "run {name} exists already ({done}): {what}; this is the plan of a new one, under another name"
    )
}

/// A run of the same cloud in this cluster knows better than anybody what its controller does.
fn of_provider(run: &NodePatchRun, runs: &[NodePatchRun], built_in: &[&str]) -> Option<String> {
    let wanted = &run.spec.provider.r#type;
    let alike = || {
        runs.iter()
            .filter(|one| one.spec.provider.r#type == *wanted)
    };
    let conditions = |one: &&NodePatchRun| one.status.clone().unwrap_or_default().conditions;
    if alike().any(|one| condition::is_true(&conditions(&one), ACCEPTED)) {
        return None;
    }
    let refusals = alike().flat_map(|one| conditions(&one));
    let refusal = refusals
        .into_iter()
        .find(|one| one.type_ == ACCEPTED && one.reason == "UnsupportedProvider");
    if let Some(refusal) = refusal {
        let message = refusal.message;
        return Some(format!(
            "the controller here will refuse the run: {message}"
        ));
    }
    // The embedded cloud is for tests, and configured where it is meant.
    if built_in.contains(&wanted.as_str()) || wanted == "embedded" {
        return None;
    }
    let known = match built_in.join(", ") {
        none if none.is_empty() => "none".to_owned(),
        known => known,
    };
    Some(format!(
        "a controller of this build would refuse the run: it does not support spec.provider.type \
         {wanted:?}; built in: {known}"
    ))
}
