//! The runs of a story: which it asks for, and when none of them moves any more.
//!
//! Owns what "every run" means: those of the intents and those that an event creates. Must not
//! create or delete any.

use std::collections::BTreeSet;

use shipshape_api::{NodePatchRun, NodePatchTask};

use super::is_settled;
use super::own::Own;
use crate::observer::Observer;
use crate::scenario::{Action, Scenario};

/// Every run that the scenario creates, at the start or on the way.
pub(super) fn asked_for(scenario: &Scenario) -> impl Iterator<Item = NodePatchRun> {
    let created = scenario.events.iter().filter_map(|event| {
        if let Action::Create(manifest) = &event.action {
            Some(manifest)
        } else {
            None
        }
    });
    scenario
        .intents
        .iter()
        .chain(created)
        .filter(|manifest| {
            manifest
                .get("kind")
                .is_some_and(|kind| kind == "NodePatchRun")
        })
        .filter_map(|manifest| serde_json::from_value(manifest.clone()).ok())
}

/// Waits until every run has been seen and none moves any more. A deleted one does not, once its
/// tasks have come to their end.
pub(super) async fn settled(own: &Own, observer: &Observer) {
    while !all_settled(own, observer) {
        observer.runs_changed.notified().await;
    }
}

fn all_settled(own: &Own, observer: &Observer) -> bool {
    let seen = observer.runs_seen();
    let seen = seen.iter().filter(|(space, name)| own.has(space, name));
    if seen.count() < own.run_count() {
        return false;
    }
    let runs = own.runs(observer);
    if !runs.iter().all(|run| is_settled(run)) {
        return false;
    }
    let left: BTreeSet<&str> = runs
        .iter()
        .filter_map(|run| run.metadata.uid.as_deref())
        .collect();
    own.tasks(observer)
        .iter()
        .all(|task| is_over(task) || has_run(task, &left))
}

pub(super) fn is_over(task: &NodePatchTask) -> bool {
    let status = task.status.as_ref();
    status.is_some_and(|status| status.step_name().is_final())
}

fn has_run(task: &NodePatchTask, runs: &BTreeSet<&str>) -> bool {
    let owners = task
        .metadata
        .owner_references
        .as_deref()
        .unwrap_or_default();
    owners.iter().any(|owner| runs.contains(owner.uid.as_str()))
}

#[cfg(test)]
mod tests;
