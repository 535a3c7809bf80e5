//! The comparison: what fails on a node, run on a node in service.
//!
//! Owns the question whose fault a failure is. A failure that shows on a node in service too, or that
//! nobody could compare, is nobody's: nothing may follow from it for the node. Must not decide what follows.

use jiff::{SignedDuration, Timestamp};
use shipshape_api::pending_node::VerificationFinding;

use super::outcome::{Ending, IMAGE_TROUBLE, LOST_TROUBLE, Trouble, WorkerState, WorkerView};
use super::settings::GateSettings;
use crate::view::NodeView;

/// What is known of the rest of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlView {
    /// Runs on nodes in service that are still there.
    pub runs: Vec<WorkerView>,
    /// A node in service on which one could run.
    pub candidate: Option<NodeView>,
    /// Whether any name server is ready.
    pub has_dns: bool,
}

/// Whose fault a failure is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The node's: this check passes elsewhere.
    OfNode(String),
    /// Not the node's alone, or nobody can tell; the sentence says why.
    Elsewhere(String),
}

/// How far the comparison has come.
pub(super) enum Comparison {
    /// It says this.
    Made(Fault),
    /// A run is under way, until then at most.
    UnderWay(Timestamp),
    /// A run is needed on this node; with `pulls` it must ask for its image anew.
    Needed { node: Box<NodeView>, pulls: bool },
    /// The latest run is too old, and a new one is due then.
    Later(Timestamp),
}

/// The times of an attempt that failed.
#[derive(Clone, Copy)]
pub(super) struct Course {
    pub(super) began: Timestamp,
    pub(super) ended: Timestamp,
}

/// Compares failures of an attempt with what the rest of the cluster says. Only a run that began after the
/// attempt and ended after it can tell: an older one may have passed before the outage.
pub(super) fn compare(
    failures: &[VerificationFinding],
    course: Course,
    control: &ControlView,
    settings: &GateSettings,
    now: Timestamp,
) -> Comparison {
    let Some(candidate) = &control.candidate else {
        return Comparison::Made(alone(failures, control.has_dns));
    };
    let pulls = needs_pull(failures);
    let needed = || Comparison::Needed {
        node: Box::new(candidate.clone()),
        pulls,
    };
    let Some(run) = latest(control, pulls) else {
        return needed();
    };
    let Some(ending) = ending_of(run, settings, now) else {
        return Comparison::UnderWay(overdue_at(run.created, settings));
    };
    if !is_since(run.created, course.began) || !is_since(ending.at, course.ended) {
        return needed();
    }
    let fault = match judge(failures, &run.node, &ending) {
        Fault::OfNode(check) => {
            shared_then(failures, course, control, settings, now).unwrap_or(Fault::OfNode(check))
        }
        fault @ Fault::Elsewhere(_) => fault,
    };
    Comparison::Made(fault)
}

/// An image that a node has already says nothing of the registry that another cannot reach.
fn needs_pull(failures: &[VerificationFinding]) -> bool {
    failures.iter().any(|one| one.check == IMAGE_TROUBLE)
}

fn latest(control: &ControlView, pulls: bool) -> Option<&WorkerView> {
    let runs = control.runs.iter().filter(|run| run.pulls || !pulls);
    runs.max_by_key(|run| (run.created, run.name.clone()))
}

/// What an earlier run says that ran while the attempt did and failed alike: the cause has gone in between,
/// and was not the node.
fn shared_then(
    failures: &[VerificationFinding],
    course: Course,
    control: &ControlView,
    settings: &GateSettings,
    now: Timestamp,
) -> Option<Fault> {
    control.runs.iter().find_map(|run| {
        let ending = ending_of(run, settings, now)?;
        let is_of_then = is_since(course.ended, run.created) && is_since(ending.at, course.began);
        let is_told = is_of_then && !ending.passed && !has_not_run(&ending);
        match judge(failures, &run.node, &ending) {
            fault @ Fault::Elsewhere(_) if is_told => Some(fault),
            Fault::Elsewhere(_) | Fault::OfNode(_) => None,
        }
    })
}

fn has_not_run(ending: &Ending) -> bool {
    ending
        .failures()
        .any(|one| one.check.starts_with("worker-"))
}

/// Whether what failed then still fails elsewhere. The checks are repeated on a node in service, so that
/// any number of waiting nodes costs one pod at a time.
pub(super) fn recheck(
    failures: &[VerificationFinding],
    since: Timestamp,
    control: &ControlView,
    settings: &GateSettings,
    now: Timestamp,
) -> Comparison {
    let course = Course {
        began: since,
        ended: since,
    };
    let made = compare(failures, course, control, settings, now);
    let is_spent = match &made {
        Comparison::Made(Fault::OfNode(_)) | Comparison::UnderWay(_) | Comparison::Later(_) => {
            false
        }
        Comparison::Made(Fault::Elsewhere(_)) | Comparison::Needed { .. } => true,
    };
    let pulls = needs_pull(failures);
    let ended = latest(control, pulls).and_then(|run| ending_of(run, settings, now));
    let next = ended.and_then(|ending| ending.at.checked_add(settings.interval()).ok());
    match (&control.candidate, next) {
        (Some(_), Some(next)) if is_spent && now < next => Comparison::Later(next),
        (Some(node), _) if is_spent => Comparison::Needed {
            node: Box::new(node.clone()),
            pulls,
        },
        _ => made,
    }
}

/// Whether a time is not before another. The API keeps whole seconds, so neither can be told finer.
fn is_since(time: Timestamp, other: Timestamp) -> bool {
    time.as_second() >= other.as_second()
}

/// The end of a worker, which comes by time too.
pub(super) fn ending_of(
    worker: &WorkerView,
    settings: &GateSettings,
    now: Timestamp,
) -> Option<Ending> {
    let over = overdue_at(worker.created, settings);
    let image = &settings.worker.image;
    let image = format!("{}:{}", image.repository, image.tag);
    match &worker.state {
        WorkerState::Ended(ending) => Some(ending.as_ref().clone()),
        WorkerState::Waiting(trouble) if over <= now => {
            Some(Ending::of_trouble(trouble, &image, over))
        }
        WorkerState::Running if over <= now => {
            let trouble = Trouble {
                check: LOST_TROUBLE,
                message: "the checks did not end in time".to_owned(),
            };
            Some(Ending::of_trouble(&trouble, &image, over))
        }
        WorkerState::Waiting(_) | WorkerState::Running => None,
    }
}

/// When a worker has had its time, and the kubelet has had some to say so.
pub(super) fn overdue_at(began: Timestamp, settings: &GateSettings) -> Timestamp {
    let time = settings.attempt_deadline() + SignedDuration::from_secs(10);
    began.checked_add(time).unwrap_or(Timestamp::MAX)
}

/// Without a node in service nothing can be compared; while there is no name server either, the cluster is
/// being built and nobody is at fault.
fn alone(failures: &[VerificationFinding], has_dns: bool) -> Fault {
    if has_dns {
        return Fault::OfNode(first(failures));
    }
    Fault::Elsewhere(format!(
        "{} failed, and the cluster has neither a verified node nor a ready name server yet",
        first(failures)
    ))
}

fn judge(failures: &[VerificationFinding], node: &str, control: &Ending) -> Fault {
    if control.passed {
        return Fault::OfNode(first(failures));
    }
    // With findings left out of the other list, the check alone must do.
    let is_same = |own: &VerificationFinding, other: &VerificationFinding| {
        own.check == other.check && (own.target == other.target || control.omitted > 0)
    };
    let is_shared =
        |own: &&VerificationFinding| control.failures().any(|other| is_same(own, other));
    let not_run = control
        .failures()
        .find(|other| other.check.starts_with("worker-"));
    let own = failures.iter().find(|one| !is_shared(one));
    match (own, not_run) {
        (Some(_), Some(trouble)) => Fault::Elsewhere(format!(
            "{} failed and could not be compared: on node {node}, {}: {}",
            first(failures),
            trouble.check,
            trouble.message
        )),
        (Some(own), None) => Fault::OfNode(own.check.clone()),
        (None, _) => Fault::Elsewhere(format!(
            "{} fails on node {node} too, which is in service",
            first(failures)
        )),
    }
}

fn first(failures: &[VerificationFinding]) -> String {
    let mut failures = failures.iter();
    failures
        .next()
        .map_or_else(|| "a check".to_owned(), |finding| finding.check.clone())
}

/// What becomes of a finished run on a node in service: it is kept for a while, so that those who failed at
/// the same time share it, and then goes.
pub fn retire(run: &WorkerView, settings: &GateSettings, now: Timestamp) -> Retirement {
    let ended = match &run.state {
        WorkerState::Ended(ending) => ending.at,
        WorkerState::Waiting(_) | WorkerState::Running => overdue_at(run.created, settings),
    };
    let until = ended
        .checked_add(settings.interval() * 3)
        .unwrap_or(Timestamp::MAX);
    if run.terminating {
        Retirement::Gone
    } else if until <= now {
        Retirement::Now
    } else {
        Retirement::At(until)
    }
}

/// When a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retirement {
    /// It is on its way out.
    Gone,
    /// Now.
    Now,
    /// Not before.
    At(Timestamp),
}
