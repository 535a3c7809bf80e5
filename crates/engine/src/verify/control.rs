//! The comparison: what fails on a node, run on a node in service, or by the controller where there is none.
//!
//! Owns the question whose fault a failure is. A failure that shows elsewhere too, or that nobody could
//! compare, is nobody's: nothing may follow from it for the node. Must not decide what follows.

use jiff::{SignedDuration, Timestamp};
use shipshape_api::pending_node::{TEXT_MAX, VerificationFinding};

use super::outcome::{Ending, IMAGE_TROUBLE, LOST_TROUBLE, Trouble, WorkerState, WorkerView};
use super::settings::GateSettings;
use crate::view::NodeView;

/// Pause before a node whose failure nobody can compare is tried again.
const ALONE_PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// How checks are named that say that the pod had trouble, and not what the network is like.
const POD_TROUBLE: &str = "worker-";
/// How a text ends that a report had no room for.
const CUT: char = '…';
/// The check whose targets the gate itself hands to each run, as they are when its pod is made.
const OF_ENDPOINTS: &str = "dns-endpoint";
/// For how many intervals a run is remembered: long enough for the next attempt to be compared with it too.
const REMEMBERED: i32 = 6;

/// What is known of the rest of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlView {
    /// Runs on nodes in service that are still there, and those of the controller, whose node is empty.
    pub runs: Vec<WorkerView>,
    /// Where one could run.
    pub candidate: Option<Place>,
    /// Whether any name server is ready.
    pub has_dns: bool,
}

/// Where the checks can be run for comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a node in service.
    Node(Box<NodeView>),
    /// From the controller's own pod. It knows what its network is like, and nothing of images or sandboxes.
    Controller,
}

impl Place {
    /// Whether a run was made there.
    fn is_of(&self, run: &WorkerView) -> bool {
        match self {
            Self::Node(_) => !run.node.is_empty(),
            Self::Controller => run.node.is_empty(),
        }
    }
}

/// Whose fault a failure is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The node's: this check failed, and where it passes; nowhere if nothing could be compared.
    OfNode {
        /// The check.
        check: String,
        /// Where the same checks have passed.
        passes: Option<String>,
    },
    /// Not the node's alone, or nobody can tell; the sentence says why.
    Elsewhere(String),
    /// Nobody's so far: what failed was not checked where it was compared. The sentence says that.
    Unchecked(String),
}

/// How far the comparison has come.
pub(super) enum Comparison {
    /// It says this.
    Made(Fault),
    /// A run is under way, until then at most.
    UnderWay(Timestamp),
    /// A run is needed there; with `pulls` it must ask for its image anew.
    Needed { place: Place, pulls: bool },
    /// The latest run is too old, and a new one is due then.
    Later(Timestamp),
}

/// The times of an attempt that failed.
#[derive(Clone, Copy)]
pub(super) struct Course {
    pub(super) began: Timestamp,
    pub(super) ended: Timestamp,
    /// From when on each node's latest run has a say; none where only the next run matters.
    looks_back: Option<Timestamp>,
}

impl Course {
    /// That of an attempt. A node on which the same has just failed speaks for this one, though it passes on
    /// another: a name server is always reached from the node that it runs on.
    pub(super) fn of_attempt(began: Timestamp, ended: Timestamp, settings: &GateSettings) -> Self {
        Self {
            began,
            ended,
            looks_back: began.checked_sub(settings.interval() * REMEMBERED).ok(),
        }
    }
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
    let Some(place) = place_for(failures, control) else {
        return Comparison::Made(alone(failures, control.has_dns));
    };
    let pulls = needs_pull(failures);
    let needed = || Comparison::Needed {
        place: place.clone(),
        pulls,
    };
    let Some(run) = latest(control, place, pulls) else {
        return needed();
    };
    let Some(ending) = end_of_run(run, settings, now) else {
        return Comparison::UnderWay(over_at(run, settings));
    };
    if !is_since(run.created, course.began) || !is_since(ending.at, course.ended) {
        return needed();
    }
    let compared = &comparable(failures, run, &ending);
    if compared.is_empty() {
        return Comparison::Made(unchecked(failures, run, &ending, control.has_dns));
    }
    let failures = compared;
    let fault = match judge(failures, &run.node, &ending) {
        own @ Fault::OfNode { .. } => {
            shared_by_another(failures, course, control, settings, now).unwrap_or(own)
        }
        fault @ (Fault::Elsewhere(_) | Fault::Unchecked(_)) => fault,
    };
    Comparison::Made(fault)
}

/// Where these failures can be compared. Trouble with the pod says nothing that the controller could see too; and
/// without a name server nobody need ask.
fn place_for<'a>(failures: &[VerificationFinding], control: &'a ControlView) -> Option<&'a Place> {
    let has_trouble = failures.iter().any(is_pod_trouble);
    let place = control.candidate.as_ref()?;
    let is_blind = *place == Place::Controller && (has_trouble || !control.has_dns);
    (!is_blind).then_some(place)
}

/// The failures that a run can speak of: what it has not checked it cannot compare. The name servers behind the
/// service may be others by the time of the run, settings may have changed, and the controller may lack a settings
/// file of the workers. A run that could not be made has its say by that, and one on a node that got to its checks
/// has image and sandbox.
fn comparable(
    failures: &[VerificationFinding],
    run: &WorkerView,
    ending: &Ending,
) -> Vec<VerificationFinding> {
    let is_on_node = !run.node.is_empty();
    let has_checked = |own: &&VerificationFinding| {
        let is_told = |other: &VerificationFinding| {
            let is_anywhere = own.check != OF_ENDPOINTS || ending.omitted > 0;
            own.check == other.check && (is_anywhere || is_same_target(own, other))
        };
        // What was left out of a report was fine.
        let is_left_out = is_on_node && (ending.omitted > 0 || is_pod_trouble(own));
        has_not_run(ending) || is_left_out || ending.findings.iter().any(is_told)
    };
    failures.iter().filter(has_checked).cloned().collect()
}

/// What follows where a run can speak of no failure. A check that the controller does not run at all it will never
/// compare.
fn unchecked(
    failures: &[VerificationFinding],
    run: &WorkerView,
    ending: &Ending,
    has_dns: bool,
) -> Fault {
    let is_run = |own: &VerificationFinding| {
        let mut findings = ending.findings.iter();
        findings.any(|other| other.check == own.check)
    };
    if run.node.is_empty() && !failures.iter().any(is_run) {
        return alone(failures, has_dns);
    }
    let target = failures.first().map(|one| one.target.as_str());
    Fault::Unchecked(format!(
        "{} of {} failed, and was not checked {}",
        first(failures),
        target.unwrap_or_default(),
        place_of(&run.node)
    ))
}

/// An image that a node has already says nothing of the registry that another cannot reach.
fn needs_pull(failures: &[VerificationFinding]) -> bool {
    failures.iter().any(|one| one.check == IMAGE_TROUBLE)
}

fn latest<'a>(control: &'a ControlView, place: &Place, pulls: bool) -> Option<&'a WorkerView> {
    let runs = control.runs.iter();
    let runs = runs.filter(|run| (run.pulls || !pulls) && place.is_of(run));
    runs.max_by_key(|run| (run.created, run.name.clone()))
}

/// What another run says that failed alike, and ran while the attempt did or is the latest of its node: the cause
/// has gone in between, or does not show on every node, and is not this one.
fn shared_by_another(
    failures: &[VerificationFinding],
    course: Course,
    control: &ControlView,
    settings: &GateSettings,
    now: Timestamp,
) -> Option<Fault> {
    control.runs.iter().find_map(|run| {
        let ending = end_of_run(run, settings, now)?;
        let is_of_then = is_since(course.ended, run.created) && is_since(ending.at, course.began);
        let is_recent = course
            .looks_back
            .is_some_and(|since| is_since(ending.at, since));
        let counts = is_of_then || (is_recent && is_latest_there(run, control));
        let is_told = counts && !ending.passed && !has_not_run(&ending);
        match judge(failures, &run.node, &ending) {
            fault @ Fault::Elsewhere(_) if is_told => Some(fault),
            Fault::Elsewhere(_) | Fault::Unchecked(_) | Fault::OfNode { .. } => None,
        }
    })
}

/// Whether no later run has ended on the same node, so that it may be as then.
fn is_latest_there(run: &WorkerView, control: &ControlView) -> bool {
    let is_later = |other: &WorkerView| {
        let has_ended = matches!(other.state, WorkerState::Ended(_));
        has_ended && other.node == run.node && other.created > run.created
    };
    !control.runs.iter().any(is_later)
}

fn has_not_run(ending: &Ending) -> bool {
    ending.failures().any(is_pod_trouble)
}

fn is_pod_trouble(finding: &VerificationFinding) -> bool {
    finding.check.starts_with(POD_TROUBLE)
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
        looks_back: None,
    };
    let made = compare(failures, course, control, settings, now);
    let place = place_for(failures, control);
    let pulls = needs_pull(failures);
    let last = place.and_then(|place| latest(control, place, pulls));
    let ended = last.and_then(|run| end_of_run(run, settings, now));
    // A controller that cannot run its checks may never be able to.
    let is_unable = place == Some(&Place::Controller) && ended.as_ref().is_some_and(has_not_run);
    if place.is_none() || is_unable {
        return by_itself(failures, since, made, now);
    }
    let is_spent = match &made {
        Comparison::Made(Fault::OfNode { .. } | Fault::Unchecked(_))
        | Comparison::UnderWay(_)
        | Comparison::Later(_) => false,
        Comparison::Made(Fault::Elsewhere(_)) | Comparison::Needed { .. } => true,
    };
    let next = ended.and_then(|ending| ending.at.checked_add(settings.interval()).ok());
    match (place, next) {
        (Some(_), Some(next)) if is_spent && now < next => Comparison::Later(next),
        (Some(place), _) if is_spent => Comparison::Needed {
            place: place.clone(),
            pulls,
        },
        _ => made,
    }
}

/// While no node is in service nobody can say that the cause has gone: the node is tried again after a pause,
/// at no cost, or the first one of a cluster would wait for ever.
fn by_itself(
    failures: &[VerificationFinding],
    since: Timestamp,
    made: Comparison,
    now: Timestamp,
) -> Comparison {
    let due = since.checked_add(ALONE_PAUSE).unwrap_or(Timestamp::MAX);
    match &made {
        Comparison::Made(Fault::Elsewhere(_)) if due <= now => Comparison::Made(Fault::OfNode {
            check: first(failures),
            passes: None,
        }),
        Comparison::Made(_)
        | Comparison::UnderWay(_)
        | Comparison::Needed { .. }
        | Comparison::Later(_) => made,
    }
}

/// Whether a time is not before another. The API keeps whole seconds, so neither can be told finer.
fn is_since(time: Timestamp, other: Timestamp) -> bool {
    time.as_second() >= other.as_second()
}

/// The end of a run on a node in service. An end before the pod was made or after now is told by a clock that
/// is wrong: the pod's beginning stands for it, which does not move from look to look.
fn end_of_run(run: &WorkerView, settings: &GateSettings, now: Timestamp) -> Option<Ending> {
    let mut ending = ending_of(run, settings, now)?;
    if !is_since(ending.at, run.created) || !is_since(now, ending.at) {
        ending.at = run.created;
    }
    Some(ending)
}

/// The end of a worker, which comes by time too.
pub(super) fn ending_of(
    worker: &WorkerView,
    settings: &GateSettings,
    now: Timestamp,
) -> Option<Ending> {
    let over = over_at(worker, settings);
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

/// When an attempt that begins now has had its time, and the kubelet has had some to say so.
pub(super) fn overdue_at(began: Timestamp, settings: &GateSettings) -> Timestamp {
    late_by(began, settings.attempt_deadline())
}

/// The same of a pod, by the time that it was made with: settings may have changed since.
fn over_at(worker: &WorkerView, settings: &GateSettings) -> Timestamp {
    let time = worker
        .may_run
        .unwrap_or_else(|| settings.attempt_deadline());
    late_by(worker.created, time)
}

fn late_by(began: Timestamp, time: SignedDuration) -> Timestamp {
    let time = time.saturating_add(SignedDuration::from_secs(10));
    began.checked_add(time).unwrap_or(Timestamp::MAX)
}

/// Without a node in service nothing can be compared. While there is no name server either, the cluster is
/// being built and nobody is at fault; and trouble with the pod may come from image, settings or registry,
/// which no node can help.
fn alone(failures: &[VerificationFinding], has_dns: bool) -> Fault {
    let trouble = failures.iter().find(|one| is_pod_trouble(one));
    if let Some(trouble) = trouble.filter(|_| has_dns) {
        return Fault::Elsewhere(format!(
            "{}: {}, and no node is in service to compare with",
            trouble.check, trouble.message
        ));
    }
    if has_dns {
        return Fault::OfNode {
            check: first(failures),
            passes: None,
        };
    }
    Fault::Elsewhere(format!(
        "{} failed, and the cluster has neither a verified node nor a ready name server yet",
        first(failures)
    ))
}

fn judge(failures: &[VerificationFinding], node: &str, control: &Ending) -> Fault {
    let place = place_of(node);
    let of_node = |check: String| Fault::OfNode {
        check,
        passes: Some(place.clone()),
    };
    if control.passed {
        return of_node(first(failures));
    }
    let is_shared = |own: &&VerificationFinding| {
        let mut others = control.failures();
        others.any(|other| is_same(own, other, control.omitted))
    };
    let not_run = control.failures().find(|other| is_pod_trouble(other));
    let own = failures.iter().find(|one| !is_shared(one));
    match (own, not_run) {
        (Some(_), Some(trouble)) => Fault::Elsewhere(format!(
            "{} failed and could not be compared: {place}, {}: {}",
            first(failures),
            trouble.check,
            trouble.message
        )),
        (Some(own), None) => of_node(own.check.clone()),
        (None, _) if node.is_empty() => {
            Fault::Elsewhere(format!("{} fails {place} too", first(failures)))
        }
        (None, _) => Fault::Elsewhere(format!(
            "{} fails {place} too, which is in service",
            first(failures)
        )),
    }
}

fn place_of(node: &str) -> String {
    if node.is_empty() {
        "from the controller".to_owned()
    } else {
        format!("on node {node}")
    }
}

/// Whether two findings are of the same check. With findings left out of the other list, its name alone must do.
fn is_same(own: &VerificationFinding, other: &VerificationFinding, omitted: usize) -> bool {
    own.check == other.check && (is_same_target(own, other) || omitted > 0)
}

/// Whether two findings are about the same. A report that had to fit into a pod's status may have cut either.
fn is_same_target(own: &VerificationFinding, other: &VerificationFinding) -> bool {
    let whole = |text: &str| text.len() < TEXT_MAX && !text.ends_with(CUT);
    let (a, b) = (own.target.as_str(), other.target.as_str());
    let (stem_a, stem_b) = (a.trim_end_matches(CUT), b.trim_end_matches(CUT));
    match (whole(a), whole(b)) {
        (true, true) => a == b,
        (false, true) => b.starts_with(stem_a),
        (true, false) => a.starts_with(stem_b),
        (false, false) => stem_a.starts_with(stem_b) || stem_b.starts_with(stem_a),
    }
}

fn first(failures: &[VerificationFinding]) -> String {
    let mut failures = failures.iter();
    failures
        .next()
        .map_or_else(|| "a check".to_owned(), |finding| finding.check.clone())
}

/// Whether a run on a node in service, or by the controller, can tell of a node: one that is verified again may have
/// served as comparison itself.
pub fn tells_of(run: &WorkerView, node: &NodeView) -> bool {
    run.node != node.name
}

/// What becomes of a finished run on a node in service: it is kept for a while, so that those who failed at
/// the same time share it, and then goes.
pub fn retire(run: &WorkerView, settings: &GateSettings, now: Timestamp) -> Retirement {
    let ended = end_of_run(run, settings, now).map_or_else(|| over_at(run, settings), |it| it.at);
    let until = ended
        .checked_add(settings.interval() * REMEMBERED)
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
