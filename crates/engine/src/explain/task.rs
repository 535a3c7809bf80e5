//! Why a task waits.
//!
//! Owns the words for each step and for what follows its deadline; `replace::expire` does what they
//! say.

use jiff::Timestamp;
use shipshape_api::conditions::{OLD_DELETED, OVERDUE};
use shipshape_api::node_patch_task::{BlockedEviction, ParkRecord, UndoNext};
use shipshape_api::reasons::NO_CAPACITY;
use shipshape_api::{
    DrainOptions, NodePatchRun, NodePatchRunSpec, NodePatchTask, NodePatchTaskStatus, OnDeadline,
    TaskStep,
};

use super::{Blocker, Explanation, Scene, name_of, step_of, wait};
use crate::condition;
use crate::drain::{self, Block};
use crate::run::is_braked;
use crate::settings::Settings;
use crate::view::BudgetView;
use crate::wish::{self, handle};

/// Unready pods of a budget that are named.
const NAMED_MAX: usize = 3;
const PARKED: &str = "the node is parked: it takes pods again, gives its slot to the others and is tried \
                      again when nothing is in its way, or at the end of the run";
const OVERDUE_WORDS: &str =
    "it counts as overdue and goes on waiting: nothing is left that could be undone";

/// Explains a task.
pub fn task(task: &NodePatchTask, scene: &Scene<'_>) -> Explanation {
    let mut told = Explanation::about(format!("task {}", name_of(&task.metadata)));
    let status = task.status.clone().unwrap_or_default();
    let step = step_of(task);
    let run = run_of(task, scene).map(|run| &run.spec);
    told.state = state(task, &status, attempt_limit(task, run));
    let waits_for = status.waiting_for.as_deref().filter(|_| !step.is_final());
    told.waits_for = waits_for.map(wait);
    if let Some(record) = status.step.as_ref() {
        told.since = Some(record.since.0);
        told.until = record.deadline.as_ref().map(|time| time.0);
    } else {
        told.since = task.metadata.creation_timestamp.as_ref().map(|at| at.0);
    }
    if told.until.is_some() {
        told.then = after_deadline(task, run);
    }
    let drain = status.drain.as_ref().filter(|_| waits_for_pods(step));
    for blocked in drain.iter().flat_map(|drain| &drain.blocked) {
        told.blockers.push(blocker(task, blocked));
        for words in remedies(blocked, scene) {
            told.help(words);
        }
    }
    if let Some(parked) = status.parked.as_ref().filter(|_| step == TaskStep::Parked) {
        tell_parked(&mut told, task, parked, scene);
    }
    help_with_run(&mut told, task, scene, step);
    notes(&mut told, task, &status);
    told
}

fn waits_for_pods(step: TaskStep) -> bool {
    // An undo empties the new node.
    matches!(step, TaskStep::Drain | TaskStep::Parked | TaskStep::Undo)
}

/// When a node that is set aside has another try.
fn tell_parked(
    told: &mut Explanation,
    task: &NodePatchTask,
    parked: &ParkRecord,
    scene: &Scene<'_>,
) {
    told.since = Some(parked.since.0);
    told.notes
        .push(format!("set aside ({}): {}", parked.reason, parked.message));
    let run = run_of(task, scene);
    let again = if is_called_off(task, run) {
        "it is called off: it is put back as soon as it has a slot; where nobody gets one for \
         settings.deadlines.undo and release together its new node stays in service"
    } else if run.is_some_and(|run| run.spec.paused()) {
        "its run is paused: it is tried again once that is lifted"
    } else if parked.resuming {
        "nothing is in its way any more: it is tried again as soon as a slot is free"
    } else if run.is_some_and(is_braked) {
        "its run is paused after failures: it is tried again once the run is resumed, or when somebody asks \
         for that"
    } else if parked.reason == NO_CAPACITY {
        let rest = Settings::default().retry_backoff_max;
        told.until = parked.since.0.checked_add(rest).ok();
        told.then = told
            .until
            .map(|_| "the cloud is asked again, as soon as a slot is free".to_owned());
        "it is tried again after settings.retryBackoffMax, here told by the default, or in the last round \
         of its run"
    } else {
        "it is tried again as soon as nothing is in its way, or in the last round of its run, when all \
         others have had their turn"
    };
    told.notes.push(again.to_owned());
}

fn is_called_off(task: &NodePatchTask, run: Option<&NodePatchRun>) -> bool {
    let ends = |run: &NodePatchRun| run.spec.abort() || run.metadata.deletion_timestamp.is_some();
    task.metadata.deletion_timestamp.is_some() || run.is_some_and(ends)
}

fn run_of<'a>(task: &NodePatchTask, scene: &Scene<'a>) -> Option<&'a NodePatchRun> {
    let uid = Some(task.spec.run_uid.as_str());
    let mut runs = scene.runs.iter();
    runs.find(|run| run.metadata.uid.as_deref() == uid)
}

/// How many attempts the node has: as the run says now, or the task for one that is gone.
fn attempt_limit(task: &NodePatchTask, run: Option<&NodePatchRunSpec>) -> i32 {
    let status = task.status.clone().unwrap_or_default();
    let limit = status.attempt_limit.unwrap_or_else(|| match run {
        Some(run) => run.max_attempts(),
        None => task.spec.max_attempts(),
    });
    limit.max(status.attempt.unwrap_or(1))
}

fn state(task: &NodePatchTask, status: &NodePatchTaskStatus, limit: i32) -> String {
    let node = &task.spec.node_name;
    let run = &task.spec.run_name;
    let attempt = status.attempt.unwrap_or(1);
    let step = status.step_name();
    if step == TaskStep::Done {
        return match &status.new_node_name {
            Some(new) => format!("node {node} is replaced by node {new}"),
            None => format!("the task of node {node} is done"),
        };
    }
    if step == TaskStep::Failed {
        let why = status.last_error.as_deref().unwrap_or("no reason is known");
        return format!("node {node} is given up after attempt {attempt}: {why}");
    }
    if step == TaskStep::Parked {
        return format!("node {node} is parked: it is set aside and the others go on (run {run})");
    }
    if let Some(undo) = status.undo.as_ref().filter(|_| step == TaskStep::Undo) {
        let next = match undo.next {
            UndoNext::Retry => format!("attempt {} of {limit} follows after a pause", attempt + 1),
            UndoNext::Fail => "then it counts as failed".to_owned(),
            UndoNext::CallOff => "its run is called off".to_owned(),
            UndoNext::Leave => "the node has left by itself".to_owned(),
        };
        return format!(
            "attempt {attempt} of {limit} at node {node} is put back (run {run}): {next}; given up \
             because {}",
            undo.message
        );
    }
    let pods = status.drain.as_ref().filter(|_| step == TaskStep::Drain);
    let pods = pods
        .map(|drain| format!(", {} of {} pods left", drain.remaining, drain.total))
        .unwrap_or_default();
    format!(
        "node {node} is being replaced by run {run}: step {step:?}, attempt {attempt} of {limit}{pods}"
    )
}

/// What follows when the current step is past its deadline: as the run says now, or the task for one that is gone.
pub fn after_deadline(task: &NodePatchTask, run: Option<&NodePatchRunSpec>) -> Option<String> {
    let drain = run.map_or(&task.spec.drain, |run| &run.drain).as_ref();
    let status = task.status.as_ref();
    let attempt = status.and_then(|status| status.attempt).unwrap_or(1);
    let limit = attempt_limit(task, run);
    let undone = if attempt < limit {
        format!(
            "the attempt is undone: the new machine goes, the node stays in service, and attempt {} \
             of {limit} follows after a pause",
            attempt + 1
        )
    } else {
        "the attempt, the last, is undone: the new machine goes, the node stays in service and \
         counts as failed"
            .to_owned()
    };
    // The last attempt has no other after it for which the node could be set aside.
    let parked = if attempt < limit {
        PARKED.to_owned()
    } else {
        undone.clone()
    };
    let status = status.cloned().unwrap_or_default();
    let step = step_of(task);
    if is_leaving_etcd(&status, step, on_deadline(drain)) {
        return Some(OVERDUE_WORDS.to_owned());
    }
    match step {
        TaskStep::Provision if has_no_room(&status) => Some(PARKED.to_owned()),
        TaskStep::Cordon if needs_old_daemons(task, &status) => Some(parked),
        TaskStep::Lock
        | TaskStep::Provision
        | TaskStep::Join
        | TaskStep::Transfer
        | TaskStep::Cordon => Some(undone),
        TaskStep::Settle | TaskStep::Recover | TaskStep::RemoveMember => Some(parked),
        TaskStep::Drain => Some(match on_deadline(drain) {
            OnDeadline::Park => parked,
            OnDeadline::Fail => undone,
            OnDeadline::Force => {
                "the machine goes with the pods that are left on it (spec.drain.onDeadline: Force)"
                    .to_owned()
            }
        }),
        TaskStep::Undo => {
            Some("a new machine that cannot be emptied stays in its group".to_owned())
        }
        TaskStep::Remove | TaskStep::Forget | TaskStep::Release => Some(OVERDUE_WORDS.to_owned()),
        TaskStep::Backoff | TaskStep::Parked | TaskStep::Done | TaskStep::Failed => None,
    }
}

/// Whether the cordon waits for daemons of the old node, whose machine goes first: what else it could wait for
/// shows at once.
fn needs_old_daemons(task: &NodePatchTask, status: &NodePatchTaskStatus) -> bool {
    status.terminate_first == Some(true)
        && !task.spec.required_node_daemon_pod_selectors.is_empty()
        && !condition::is_true(&status.conditions, OLD_DELETED)
}

/// Want of room in the cloud is no fault of an attempt: the node is set aside even at the last.
fn has_no_room(status: &NodePatchTaskStatus) -> bool {
    let record = status.replacement.as_ref();
    record.is_some_and(|record| record.no_room.is_some())
        && !condition::is_true(&status.conditions, OLD_DELETED)
}

/// Whether the old node's member was told to leave etcd: from then on there is no way back.
fn is_leaving_etcd(status: &NodePatchTaskStatus, step: TaskStep, choice: OnDeadline) -> bool {
    let record = status.etcd.as_ref();
    let is_leaving = record.is_some_and(|record| record.old.removal_since.is_some());
    is_leaving
        && match step {
            TaskStep::Settle | TaskStep::Cordon | TaskStep::Recover | TaskStep::RemoveMember => {
                true
            }
            TaskStep::Drain => choice != OnDeadline::Force,
            TaskStep::Lock
            | TaskStep::Provision
            | TaskStep::Join
            | TaskStep::Transfer
            | TaskStep::Remove
            | TaskStep::Forget
            | TaskStep::Undo
            | TaskStep::Backoff
            | TaskStep::Parked
            | TaskStep::Release
            | TaskStep::Done
            | TaskStep::Failed => false,
        }
}

fn on_deadline(options: Option<&DrainOptions>) -> OnDeadline {
    options.map(DrainOptions::on_deadline).unwrap_or_default()
}

fn blocker(task: &NodePatchTask, blocked: &BlockedEviction) -> Blocker {
    let status = task.status.as_ref();
    let new_node = status.and_then(|status| status.new_node_name.clone());
    let new_node = new_node.filter(|_| step_of(task) == TaskStep::Undo);
    Blocker {
        pod: format!("{}/{}", blocked.namespace, blocked.pod),
        node: new_node.unwrap_or_else(|| task.spec.node_name.clone()),
        budget: blocked.budget.clone().unwrap_or_default(),
        reason: blocked.reason.clone().unwrap_or_default(),
        message: blocked.message.clone(),
    }
}

/// What would let a blocked pod go: for an exhausted budget, which of its pods are not healthy.
fn remedies(blocked: &BlockedEviction, scene: &Scene<'_>) -> Vec<String> {
    let budget = blocked.budget.clone().unwrap_or_default();
    let reason = blocked.reason.as_deref().unwrap_or_default();
    let live = scene
        .budgets
        .iter()
        .find(|one| one.namespace == blocked.namespace && one.name == budget);
    match (live, Block::recorded(reason, &budget)) {
        (Some(live), Some(Block::Budget(_))) => vec![of_budget(live, scene)],
        (_, Some(block)) => vec![block.remedy()],
        (_, None) => Vec::new(),
    }
}

fn of_budget(budget: &BudgetView, scene: &Scene<'_>) -> String {
    let name = format!("{}/{}", budget.namespace, budget.name);
    let guarded = scene.pods.iter().filter(|pod| {
        pod.namespace == budget.namespace && drain::is_guarded(pod, budget).unwrap_or(false)
    });
    let unready: Vec<String> = guarded
        .filter(|pod| !pod.ready && !pod.finished)
        .map(|pod| match pod.node.as_str() {
            "" => format!("{} (no node)", pod.name),
            node => format!("{} (on {node})", pod.name),
        })
        .collect();
    let figures = format!(
        "budget {name} needs {} healthy pods of {} and has {}",
        budget.desired, budget.expected, budget.healthy
    );
    match unready.as_slice() {
        _ if budget.allowed > 0 => format!("{figures}: it has room by now"),
        [] => format!("{figures}: one more replica, or a smaller demand, would let a pod go"),
        some => {
            let more = match some.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named: Vec<&str> = some.iter().take(NAMED_MAX).map(String::as_str).collect();
            format!("{figures}: not ready: {}{more}", named.join(", "))
        }
    }
}

fn help_with_run(told: &mut Explanation, task: &NodePatchTask, scene: &Scene<'_>, step: TaskStep) {
    let node = &task.spec.node_name;
    let run = run_of(task, scene);
    if matches!(step, TaskStep::Failed | TaskStep::Parked) {
        // What is advised here must not be refused there.
        told.help(match wish::retry(task, run, Timestamp::UNIX_EPOCH) {
            Ok(_) => format!("try it again now: shipshape retry node/{node}"),
            Err(_) => format!(
                "its run is called off; to replace node {node} all the same, create a new run that \
                 selects it"
            ),
        });
    }
    if let Some(run) = run.filter(|run| run.spec.paused() && step == TaskStep::Parked) {
        told.help(format!(
            "its run is paused; go on with: shipshape resume {}",
            handle(run)
        ));
    }
}

fn notes(told: &mut Explanation, task: &NodePatchTask, status: &NodePatchTaskStatus) {
    if condition::is_true(&status.conditions, OVERDUE) {
        told.notes
            .push("it is past a deadline and goes on waiting".to_owned());
    }
    if let Some(machine) = &status.new_machine {
        let node = status.new_node_name.as_deref();
        let node = node
            .map(|node| format!(", node {node}"))
            .unwrap_or_default();
        told.notes
            .push(format!("replacement: machine {}{node}", machine.id));
    }
    for volume in status.drain.iter().flat_map(|drain| &drain.detaching) {
        told.notes.push(format!(
            "volume {} is still attached, its pod left at {:.0}",
            volume.volume, volume.since.0
        ));
    }
    let is_told = told.state.contains("given up");
    if let Some(error) = status.last_error.as_ref().filter(|_| !is_told) {
        told.notes.push(format!("last error: {error}"));
    }
    if task.spec.important() {
        told.notes
            .push("the node hosted important pods when it was admitted".to_owned());
    }
}
