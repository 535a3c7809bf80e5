//! Obstacles: why a run that somebody is about to create would not be done at all.
//!
//! Owns what is told before anything is created: a run of that name is there, the run is paused or called
//! off in its own manifest, the cloud is one that the controller will refuse; and besides what would be in
//! vain and who shares the slots. Must not ask the cluster. Called by `plan` and by rehearsals.

use shipshape_api::conditions::ACCEPTED;
use shipshape_api::{NodePatchRun, RunState};

use crate::condition;
use crate::run::{is_over, state};
use crate::transfer;
use crate::wish::{handle, run_name};

#[cfg(test)]
mod tests;

/// What stands in the way of a run among the runs of its cluster. `built_in` are the clouds that a
/// controller of the caller's own build speaks to: the next best thing where no run tells.
pub fn found(run: &NodePatchRun, runs: &[NodePatchRun], built_in: &[&str]) -> Vec<String> {
    let twin = runs.iter().find(|other| run_name(other) == run_name(run));
    let twin = twin.map(of_twin);
    let provider = of_provider(run, runs, built_in);
    let found = twin.into_iter().chain(of_wish(run));
    found.chain(provider).collect()
}

/// A manifest that asks for nothing to be done.
fn of_wish(run: &NodePatchRun) -> Option<String> {
    if run.spec.abort() {
        return Some(
            "spec.abort is true: the run is called off before it begins, and no node is touched"
                .to_owned(),
        );
    }
    let handle = handle(run);
    run.spec.paused().then(|| {
        format!("spec.paused is true: no node begins until somebody says shipshape resume {handle}")
    })
}

/// Wishes of a run that have no effect.
pub fn in_vain(run: &NodePatchRun) -> Option<String> {
    let lists = run.spec.label_transfer.as_ref()?;
    let refused = transfer::refused(lists);
    (!refused.is_empty()).then(|| {
        format!(
            "spec.labelTransfer names reserved labels, which are never copied: {}",
            refused.join(", ")
        )
    })
}

/// The other runs of a cluster that share its slots.
pub fn neighbours(run: &NodePatchRun, runs: &[NodePatchRun]) -> Vec<String> {
    let others = runs.iter().filter(|other| run_name(other) != run_name(run));
    others.filter_map(of_neighbour).collect()
}

fn of_neighbour(other: &NodePatchRun) -> Option<String> {
    let status = other.status.as_ref()?;
    if status.plan.is_none() || is_over(status) {
        return None;
    }
    let name = run_name(other);
    let in_work =
        status.in_flight_important.unwrap_or(0) + status.in_flight_non_important.unwrap_or(0);
    Some(match (state(other), in_work) {
        (RunState::Paused, 0) => {
            format!("run {name} is paused with no node in work; it takes slots once it is resumed")
        }
        (RunState::Paused, _) => {
            format!("run {name} is paused and finishes {in_work} node(s), which take slots")
        }
        (RunState::Ending, _) => {
            format!("run {name} is ending; what it has in work takes slots until then")
        }
        (RunState::Refused, 0) => format!("run {name} is refused and takes no slots"),
        _ => format!("run {name} is at work and shares the slots"),
    })
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
pub fn of_provider(run: &NodePatchRun, runs: &[NodePatchRun], built_in: &[&str]) -> Option<String> {
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
