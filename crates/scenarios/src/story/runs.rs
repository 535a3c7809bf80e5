//! The runs of a story: which it asks for, and when none of them moves any more.
//!
//! Owns what "every run" means: those of the intents and those that an event creates. Must not
//! create or delete any.

use std::collections::BTreeSet;

use shipshape_api::{NodePatchRun, NodePatchTask};

use super::is_settled;
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
pub(super) async fn settled(scenario: &Scenario, observer: &Observer) {
    let expected = asked_for(scenario).count();
    while !all_settled(observer, expected) {
        observer.runs_changed.notified().await;
    }
}

fn all_settled(observer: &Observer, expected: usize) -> bool {
    if observer.runs_seen() < expected {
        return false;
    }
    let runs = observer.runs.list();
    if !runs.iter().all(|run| is_settled(run)) {
        return false;
    }
    let left: BTreeSet<&str> = runs
        .iter()
        .filter_map(|run| run.metadata.uid.as_deref())
        .collect();
    let tasks = observer.tasks.list();
    tasks
        .iter()
        .all(|task| is_over(task) || has_run(task, &left))
}

fn is_over(task: &NodePatchTask) -> bool {
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
