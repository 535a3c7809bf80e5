//! How all runs stand, as a value and as lines.
//!
//! Pure functions of the cluster's objects and a time, so that a test can look at them.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use serde::Serialize;
use shipshape_api::conditions::{ABORTED, COMPLETED, HELD};
use shipshape_api::node_patch_run::NodePatchRunStatus;
use shipshape_api::{NodePatchRun, NodePatchTask, NodePatchTaskStatus, RunState, TaskStep};
use shipshape_engine::explain;
use shipshape_engine::run::state;
use shipshape_engine::view::Observed;

use crate::drawing::{Cell, bar, colour, columns, paint, relative, short, table};

/// A controller that has not renewed its lease for so long is not at work.
const SILENCE: SignedDuration = SignedDuration::from_secs(60);

/// Spaces before each line of a table.
const INDENT: usize = 2;
const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";

/// How all runs stand.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Overview {
    /// The time of the cluster.
    pub(super) now: Timestamp,
    /// What is wrong with the controllers, if anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) controller: Option<String>,
    /// The one namespace that was looked into, if it was one.
    #[serde(skip)]
    pub(super) namespace: Option<String>,
    pub(super) runs: Vec<RunLine>,
}

/// How one run stands.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunLine {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) state: RunState,
    pub(super) total: i32,
    pub(super) done: i32,
    pub(super) in_work: i32,
    pub(super) parked: i32,
    pub(super) failed: i32,
    /// The wave in work, from 1.
    pub(super) wave: usize,
    pub(super) waves: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) began: Option<Timestamp>,
    /// By the pace so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seconds_left: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits_for: Option<String>,
    /// How it ended, in the controller's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<String>,
    /// What the preflight of the wave found, if that is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) preflight: Option<String>,
    /// How the cluster autoscaler is held off, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) autoscaler: Option<String>,
    /// Nodes that are neither done nor still to come.
    pub(super) nodes: Vec<NodeLine>,
}

/// How one node stands.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeLine {
    pub(super) node: String,
    pub(super) zone: String,
    pub(super) step: TaskStep,
    pub(super) attempt: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deadline: Option<Timestamp>,
    pub(super) waits_for: String,
}

/// Puts the objects together. `lease` is the leader's.
pub(super) fn overview(
    runs: &[NodePatchRun],
    tasks: &[NodePatchTask],
    lease: &Observed<Lease>,
    now: Timestamp,
) -> Overview {
    let mut lines: Vec<RunLine> = runs.iter().map(|run| run_line(run, tasks, now)).collect();
    // What is at work comes last, next to the prompt.
    lines.sort_by_key(|line| (is_open(line), line.began));
    let has_work = lines.iter().any(is_open);
    Overview {
        now,
        controller: silence(lease, now).filter(|_| has_work),
        namespace: None,
        runs: lines,
    }
}

fn is_open(line: &RunLine) -> bool {
    matches!(
        line.state,
        RunState::Active | RunState::Paused | RunState::Ending
    )
}

/// Why nobody may be at work.
fn silence(lease: &Observed<Lease>, now: Timestamp) -> Option<String> {
    let lease = match lease {
        Observed::Present(lease) => lease,
        Observed::Absent => {
            return Some("no controller has ever led here; is one installed?".to_owned());
        }
        // Whoever may not read the lease learns nothing about the controller.
        Observed::NotAsked | Observed::Unknown(_) => return None,
    };
    let spec = lease.spec.clone().unwrap_or_default();
    if spec.holder_identity.is_none_or(|holder| holder.is_empty()) {
        return Some("no controller leads; is one running?".to_owned());
    }
    let quiet = now.duration_since(spec.renew_time?.0);
    (quiet > SILENCE).then(|| {
        let quiet = short(quiet);
        format!("the controller was last heard of {quiet} ago; is it running?")
    })
}

fn run_line(run: &NodePatchRun, tasks: &[NodePatchTask], now: Timestamp) -> RunLine {
    let status = run.status.clone().unwrap_or_default();
    let state = state(run);
    let uid = run.metadata.uid.as_deref().unwrap_or_default();
    let own = tasks.iter().filter(|task| task.spec.run_uid == uid);
    let mut nodes: Vec<NodeLine> = own
        .filter(|task| step_of(task) != TaskStep::Done)
        .map(node_line)
        .collect();
    nodes.sort_by(|one, other| {
        (one.step.is_final(), &one.node).cmp(&(other.step.is_final(), &other.node))
    });
    let waves = status.plan.as_ref().map_or(0, |plan| plan.partitions.len());
    let wave = usize::try_from(status.current_iteration.unwrap_or(0)).unwrap_or(0);
    let began = run.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let preflight = status.conditions.iter();
    let mut preflight = preflight
        .filter(|one| one.type_ == "Preflight" && one.status == "False")
        .map(|one| one.message.clone());
    let mut conditions = status.conditions.iter();
    let held = conditions.find(|one| one.type_ == HELD && one.status == "True");
    let mut line = RunLine {
        namespace: run.metadata.namespace.clone().unwrap_or_default(),
        name: run.metadata.name.clone().unwrap_or_default(),
        state,
        total: status.total.unwrap_or(0),
        done: status.completed.unwrap_or(0),
        in_work: status.in_flight_important.unwrap_or(0)
            + status.in_flight_non_important.unwrap_or(0),
        parked: status.parked.unwrap_or(0),
        failed: status.failed.unwrap_or(0),
        wave: (wave + 1).min(waves),
        waves,
        began,
        seconds_left: None,
        ended: ended(&status),
        preflight: preflight.next(),
        autoscaler: held.map(|one| one.message.clone()),
        waits_for: status
            .pause_reason
            .or(status.waiting_for.as_deref().map(explain::wait)),
        nodes,
    };
    if is_open(&line) {
        line.seconds_left = seconds_left(&line, now);
    } else if state != RunState::Refused {
        line.waits_for = None;
        line.preflight = None;
    }
    line
}

fn ended(status: &NodePatchRunStatus) -> Option<String> {
    let conditions = status.conditions.iter();
    let mut words = conditions
        .filter(|one| matches!(one.type_.as_str(), COMPLETED | ABORTED) && one.status == "True")
        .map(|one| one.message.clone());
    words.next()
}

/// How long the rest takes if it goes on like this.
fn seconds_left(line: &RunLine, now: Timestamp) -> Option<i64> {
    let rest = line.total - line.done - line.failed - line.parked;
    if line.state != RunState::Active || line.done == 0 || rest <= 0 {
        return None;
    }
    let spent = now.duration_since(line.began?).as_secs();
    Some(spent * i64::from(rest) / i64::from(line.done))
}

fn step_of(task: &NodePatchTask) -> TaskStep {
    let status = task.status.as_ref();
    status
        .map(NodePatchTaskStatus::step_name)
        .unwrap_or_default()
}

fn node_line(task: &NodePatchTask) -> NodeLine {
    let status = task.status.clone().unwrap_or_default();
    let step = status.step_name();
    let record = status.step.as_ref();
    let failure = status
        .last_error
        .clone()
        .filter(|_| step == TaskStep::Failed);
    NodeLine {
        node: task.spec.node_name.clone(),
        zone: task.spec.zone.clone().unwrap_or_default(),
        step,
        attempt: status.attempt.unwrap_or(1),
        since: record.map(|record| record.since.0),
        deadline: record.and_then(|record| record.deadline.as_ref().map(|at| at.0)),
        waits_for: failure
            .or(status.waiting_for.as_deref().map(explain::wait))
            .unwrap_or_default(),
    }
}

/// The overview for people.
pub(super) fn lines(overview: &Overview, is_coloured: bool) -> Vec<String> {
    if overview.runs.is_empty() {
        return vec![match &overview.namespace {
            Some(namespace) => {
                format!("There are no runs in namespace {namespace}; with -A all are shown.")
            }
            None => "There are no runs.".to_owned(),
        }];
    }
    let mut lines = Vec::new();
    if let Some(words) = &overview.controller {
        lines.push(paint(&format!("WARNING: {words}"), RED, is_coloured));
        lines.push(String::new());
    }
    for (place, run) in overview.runs.iter().enumerate() {
        if place > 0 && is_open(run) {
            lines.push(String::new());
        }
        lines.extend(of_run(run, overview.now, is_coloured));
    }
    lines
}

fn of_run(run: &RunLine, now: Timestamp, is_coloured: bool) -> Vec<String> {
    let name = paint(
        &format!("{}/{}", run.namespace, run.name),
        BOLD,
        is_coloured,
    );
    let bar = bar(run.done, run.total);
    let age = run.began.map(|began| short(now.duration_since(began)));
    let age = age
        .map(|age| format!(", begun {age} ago"))
        .unwrap_or_default();
    let mut lines = vec![format!(
        "run {name}  {bar}  {} of {} replaced  {}{age}",
        run.done,
        run.total,
        state_words(run)
    )];
    if is_open(run) {
        lines.push(format!("  {}", counts(run)));
    }
    if let Some(waits) = &run.waits_for {
        let word = if run.state == RunState::Paused {
            "paused: "
        } else {
            "waits for "
        };
        let colour = if run.state == RunState::Paused {
            YELLOW
        } else {
            ""
        };
        lines.push(paint(&format!("  {word}{waits}"), colour, is_coloured));
    }
    // One that ended well has said everything in its first line.
    if let Some(ended) = run.ended.as_ref().filter(|_| run.done < run.total.max(1)) {
        lines.push(format!("  ended: {ended}"));
    }
    if let Some(found) = &run.preflight {
        lines.push(paint(&format!("  preflight: {found}"), YELLOW, is_coloured));
    }
    if let Some(held) = &run.autoscaler {
        lines.push(format!("  autoscaler: {held}"));
    }
    if !run.nodes.is_empty() {
        lines.push(String::new());
        let rows = node_rows(&run.nodes, now);
        let rows = table(&rows, columns(INDENT), is_coloured);
        lines.extend(rows.into_iter().map(|row| format!("  {row}")));
    }
    lines
}

fn state_words(run: &RunLine) -> String {
    let state = format!("{:?}", run.state).to_lowercase();
    if matches!(run.state, RunState::Active | RunState::Paused) && run.waves > 0 {
        format!("{state}, wave {} of {}", run.wave, run.waves)
    } else {
        state
    }
}

fn counts(run: &RunLine) -> String {
    let to_come = run.total - run.done - run.failed - run.parked - run.in_work;
    let left = run.seconds_left.map(SignedDuration::from_secs);
    let left = left
        .map(|left| format!("; about {} left at this pace", short(left)))
        .unwrap_or_default();
    let rest = if run.state == RunState::Ending {
        "left as they are"
    } else {
        "to come"
    };
    format!(
        "{} in work, {} parked, {} failed, {} {rest}{left}",
        run.in_work,
        run.parked,
        run.failed,
        to_come.max(0)
    )
}

fn node_rows(nodes: &[NodeLine], now: Timestamp) -> Vec<Vec<Cell>> {
    let plain = |text: &str| (text.to_owned(), "");
    let head = [
        "NODE",
        "ZONE",
        "STEP",
        "TRY",
        "FOR",
        "DEADLINE",
        "WAITS FOR",
    ];
    let mut rows = vec![head.map(plain).to_vec()];
    for node in nodes {
        let since = node.since.map(|since| short(now.duration_since(since)));
        let is_late = node.deadline.is_some_and(|deadline| deadline <= now);
        let deadline = node.deadline.map(|deadline| relative(deadline, now));
        rows.push(vec![
            plain(&node.node),
            plain(&node.zone),
            (format!("{:?}", node.step), colour(node.step)),
            plain(&node.attempt.to_string()),
            plain(&since.unwrap_or_else(|| "-".to_owned())),
            (
                deadline.unwrap_or_else(|| "-".to_owned()),
                if is_late { RED } else { "" },
            ),
            plain(&node.waits_for),
        ]);
    }
    rows
}

#[cfg(test)]
mod tests;
