//! Why a machine is on its way: what is known of it without a status, which it may not have for a while.
//!
//! Owns the words for a PendingNode that no gate has made. A usual life is not written down at every turn
//! (`settings.machineQuiet`), so goal, task and deadline are read from the spec, and how far it has come
//! from its node and its task.

use shipshape_api::{NodePatchTask, PendingNode, PendingNodeGoal, TaskStep};

use super::{Explanation, name_of, step_of, wait};
use crate::view::NodeView;

/// Explains a PendingNode of a machine. `live` is the node that the machine has become, if it has.
pub fn machine(
    record: &PendingNode,
    live: Option<&NodeView>,
    tasks: &[NodePatchTask],
) -> Explanation {
    let (spec, status) = (&record.spec, record.status.clone().unwrap_or_default());
    let mut told = Explanation::about(format!("PendingNode {}", name_of(&record.metadata)));
    let id = spec.provider_id.as_deref();
    let named = id.or(spec.node_name.as_deref()).unwrap_or("without a name");
    let cloud = match status.csp_state {
        Some(state) => format!("the cloud says {state:?}"),
        None => "nothing unusual was seen of it so far".to_owned(),
    };
    let what = match spec.goal {
        PendingNodeGoal::Join => "shall become a node",
        PendingNodeGoal::Leave => "shall go",
    };
    told.state = format!("machine {named} {what}; {cloud}");
    told.waits_for = Some(match &status.waiting_for {
        Some(words) => wait(words),
        None => usual_wait(record, live),
    });
    let since = status.csp_state_since.as_ref();
    let since = since.or(record.metadata.creation_timestamp.as_ref());
    told.since = since.map(|at| at.0);
    told.until = spec.deadline.as_ref().map(|at| at.0);
    let task = spec.task_ref.as_ref();
    told.then = told.until.map(|_| after(spec.goal, task.is_some()));
    if let Some(task) = task {
        let found = tasks
            .iter()
            .find(|one| one.metadata.uid.as_deref() == Some(task.uid.as_str()));
        told.notes.push(of_task(&task.namespace, &task.name, found));
    }
    if let Some(group) = &spec.group_id {
        told.notes.push(format!("group {group}"));
    }
    if let Some(node) = live {
        let ready = if node.ready { "ready" } else { "not ready" };
        told.notes
            .push(format!("its node {} is {ready}", node.name));
    }
    told
}

fn usual_wait(record: &PendingNode, live: Option<&NodeView>) -> String {
    match (record.spec.goal, live) {
        (PendingNodeGoal::Join, None) => "the machine to join as a ready node".to_owned(),
        (PendingNodeGoal::Join, Some(node)) if node.ready => {
            format!("its task to take note that node {} is ready", node.name)
        }
        (PendingNodeGoal::Join, Some(node)) => format!("node {} to be ready", node.name),
        (PendingNodeGoal::Leave, _) => "the cloud to end the machine".to_owned(),
    }
}

fn after(goal: PendingNodeGoal, has_task: bool) -> String {
    match (goal, has_task) {
        (PendingNodeGoal::Join, true) => "its task decides: the attempt is put back".to_owned(),
        (PendingNodeGoal::Join, false) => "the machine is removed".to_owned(),
        (PendingNodeGoal::Leave, _) => "it counts as overdue and is chased further".to_owned(),
    }
}

fn of_task(namespace: &str, name: &str, found: Option<&NodePatchTask>) -> String {
    let Some(task) = found else {
        return format!(
            "task {namespace}/{name}, which waited for it, is gone: a machine that has not joined is removed"
        );
    };
    let step: TaskStep = step_of(task);
    let (node, run) = (&task.spec.node_name, &task.spec.run_name);
    format!("task {namespace}/{name} of run {run} waits for it, for node {node} (step {step:?})")
}
