//! Which objects are the story's own, and which somebody else has brought onto its stage.
//!
//! Owns that one question. A demo's cluster is open to everybody: what others create there is none of the
//! story's business, and is named in its report instead of judged. Must not create or delete anything.

use std::sync::Arc;

use kube::ResourceExt;
use shipshape_api::{NodePatchRun, NodePatchTask, PendingNode, RunState};
use shipshape_engine::naming::pending_name;
use shipshape_engine::run::state;
use shipshape_engine::wish::run_name;

use super::runs::asked_for;
use crate::observer::Observer;
use crate::scenario::Scenario;

/// The runs that a story asks for; everything else follows from them.
pub(super) struct Own {
    runs: Vec<Asked>,
}

/// A run by the names that its manifest gives.
struct Asked {
    namespace: String,
    name: Option<String>,
    prefix: Option<String>,
}

impl Own {
    /// What belongs to this scenario.
    pub(super) fn of(scenario: &Scenario) -> Self {
        let runs = asked_for(scenario).map(|run| Asked {
            namespace: run.namespace().unwrap_or_default(),
            name: run.metadata.name,
            prefix: run.metadata.generate_name,
        });
        Self {
            runs: runs.collect(),
        }
    }

    /// How many runs the story asks for.
    pub(super) fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// Whether the story asks for a run of this name.
    pub(super) fn has(&self, namespace: &str, name: &str) -> bool {
        self.runs.iter().any(|asked| {
            let is_it = match (&asked.name, &asked.prefix) {
                (Some(its), _) => its == name,
                (None, Some(prefix)) => name.starts_with(prefix.as_str()),
                (None, None) => false,
            };
            is_it && asked.namespace == namespace
        })
    }

    /// The story's runs, as they stand.
    pub(super) fn runs(&self, observer: &Observer) -> Vec<Arc<NodePatchRun>> {
        let mut runs = observer.runs.list();
        runs.retain(|run| self.has_run(run));
        runs
    }

    /// The tasks of its runs, as they stand.
    pub(super) fn tasks(&self, observer: &Observer) -> Vec<Arc<NodePatchTask>> {
        let mut tasks = observer.tasks.list();
        tasks.retain(|task| self.has_task(task));
        tasks
    }

    fn has_run(&self, run: &NodePatchRun) -> bool {
        self.has(&run.namespace().unwrap_or_default(), &run.name_any())
    }

    fn has_task(&self, task: &NodePatchTask) -> bool {
        let namespace = task.namespace().unwrap_or_default();
        self.has(&namespace, &task.spec.run_name)
    }

    /// Whether a machine on its way is the business of the story or of its operator, who names the object
    /// after the machine.
    pub(super) fn has_pending(&self, pending: &PendingNode, observer: &Observer) -> bool {
        let id = pending.spec.provider_id.as_deref();
        if id.map(pending_name) != pending.metadata.name {
            return false;
        }
        let wanted = pending.spec.task_ref.as_ref().map(|task| task.uid.as_str());
        let tasks = observer.tasks.list();
        let mut askers = tasks.iter().filter(|task| task.uid().as_deref() == wanted);
        askers.all(|task| self.has_task(task))
    }

    /// Runs of others.
    pub(super) fn guests(&self, observer: &Observer) -> Vec<Arc<NodePatchRun>> {
        let mut runs = observer.runs.list();
        runs.retain(|run| !self.has_run(run));
        runs
    }
}

/// Whether a run may hold locks, slots, marks or machines now.
pub(super) fn is_at_work(run: &NodePatchRun) -> bool {
    match state(run) {
        RunState::Active | RunState::Paused | RunState::Ending => true,
        RunState::Completed | RunState::Aborted => false,
        RunState::Refused => run
            .status
            .as_ref()
            .is_some_and(|status| status.plan.is_some()),
    }
}

/// What the report says of a guest.
pub(super) fn left_aside(run: &NodePatchRun) -> String {
    let name = run_name(run);
    if is_at_work(run) {
        format!(
            "run {name}, which this story did not ask for, and since it is under way also locks, slots, \
             marks and the number of machines"
        )
    } else {
        format!("run {name}, which this story did not ask for")
    }
}

#[cfg(test)]
mod tests;
