//! What came of a worker pod: its end, and what that says.
//!
//! Owns the reading of a pod's status and of the checks' JSON form (docs/verify.md). A pod that never got to
//! its checks is told apart from one whose checks failed: its trouble becomes a finding of its own, so that
//! it is compared with other nodes like any other. Must not judge whose fault it is.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus};
use serde::Deserialize;
use shipshape_api::names;
use shipshape_api::pending_node::{
    EVIDENCE_MAX, FINDINGS_MAX, TEXT_MAX, VerificationEvidence, VerificationFinding,
};

use crate::decision::PodTarget;
use crate::view::{MIRROR_ANNOTATION, text};

/// The image cannot be had.
pub const IMAGE_TROUBLE: &str = "worker-image";
/// The pod has no network, or its containers cannot be made.
pub const SANDBOX_TROUBLE: &str = "worker-sandbox";
/// The scheduler does not bind the pod.
pub const SCHEDULE_TROUBLE: &str = "worker-schedule";
/// A container before the checks failed.
pub const INIT_TROUBLE: &str = "worker-init";
/// The pod went without a result, or its time was up.
pub const LOST_TROUBLE: &str = "worker-lost";
/// The checks ended without having been run: settings, files, or a defect.
pub const EXIT_TROUBLE: &str = "worker-exit";

/// Words of a kubelet for an image that it cannot have.
const IMAGE_REASONS: [&str; 6] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ImageInspectError",
    "ErrImageNeverPull",
    "RegistryUnavailable",
];
/// What a pod says of itself while all is well.
const USUAL_WAITS: [&str; 4] = ["ContainerCreating", "PodInitializing", UNTOUCHED, UNSEEN];
const UNTOUCHED: &str = "the kubelet has not begun to make its containers";
const UNSEEN: &str = "the scheduler has not looked at it";
/// The exit code of checks of which one failed.
const CHECK_FAILED: i32 = 1;
/// Milliseconds that a check is believed to have taken at most: the number comes from the node itself.
const LONGEST_CHECK: i64 = 3_600_000;

/// A worker pod, as far as the gate reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// UID of the PendingNode that owns it; none for a control.
    pub owner_uid: Option<String>,
    /// Name of the node that it checks.
    pub node: String,
    /// Whether it runs on a node in service, for comparison.
    pub is_control: bool,
    /// Whether its image is asked for anew though the node may have it: else its start says nothing of the
    /// registry.
    pub pulls: bool,
    /// When it was made.
    pub created: Timestamp,
    /// How long it may run, as it was made.
    pub may_run: Option<SignedDuration>,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// How far it has come.
    pub state: WorkerState,
}

/// How far a worker pod has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// It has not got to its checks, and what it waits for.
    Waiting(Trouble),
    /// Its checks run.
    Running,
    /// It has ended.
    Ended(Box<Ending>),
}

/// What keeps a pod from its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Which kind, as a finding's check.
    pub check: &'static str,
    /// What the cluster says.
    pub message: String,
}

impl Trouble {
    /// Whether it is more than what every pod goes through on its way.
    pub(super) fn is_unusual(&self) -> bool {
        let mut usual = USUAL_WAITS.iter();
        !self.message.is_empty() && !usual.any(|usual| self.message.starts_with(usual))
    }
}

/// What an ended worker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Whether every check passed.
    pub passed: bool,
    /// What the checks saw, failures first, bounded.
    pub findings: Vec<VerificationFinding>,
    /// How many findings were left out.
    pub omitted: usize,
    /// The network as the node saw it.
    pub evidence: Option<VerificationEvidence>,
    /// When it ended, by the clock of its node where that is told.
    pub at: Timestamp,
}

impl Ending {
    /// The end of a worker that never got to its checks.
    pub fn of_trouble(trouble: &Trouble, target: &str, at: Timestamp) -> Self {
        let finding = VerificationFinding {
            check: trouble.check.to_owned(),
            target: cut(target),
            ok: false,
            phase: None,
            message: cut(&trouble.message),
            milliseconds: 0,
        };
        Self {
            passed: false,
            findings: vec![finding],
            omitted: 0,
            evidence: None,
            at,
        }
    }

    /// The findings that are not fine.
    pub fn failures(&self) -> impl Iterator<Item = &VerificationFinding> {
        self.findings.iter().filter(|finding| !finding.ok)
    }
}

/// The checks' own report, as far as the gate reads it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    verdict: String,
    #[serde(default)]
    findings: Vec<ReportFinding>,
    #[serde(default)]
    omitted: usize,
    #[serde(default)]
    evidence: Option<VerificationEvidence>,
}

#[derive(Deserialize)]
struct ReportFinding {
    check: String,
    target: String,
    ok: bool,
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    milliseconds: u64,
}

impl WorkerView {
    /// Reads a worker pod. `image` is what trouble with the pod is about.
    pub fn of(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let label = |map: Option<&BTreeMap<String, String>>, key: &str| {
            map.and_then(|map| map.get(key)).cloned()
        };
        let mut owners = meta.owner_references.iter().flatten();
        let created = meta.creation_timestamp.as_ref().map(|time| time.0);
        Self {
            namespace: text(meta.namespace.as_ref()),
            name: text(meta.name.as_ref()),
            uid: text(meta.uid.as_ref()),
            owner_uid: owners
                .find(|owner| owner.kind == "PendingNode")
                .map(|owner| owner.uid.clone()),
            node: label(meta.annotations.as_ref(), names::ANNOTATION_WORKER_NODE)
                .unwrap_or_default(),
            // A kubelet may make mirror pods, with any label: what it says of itself compares nothing.
            is_control: label(meta.labels.as_ref(), names::LABEL_WORKER).as_deref()
                == Some(names::WORKER_OF_CONTROL)
                && label(meta.annotations.as_ref(), MIRROR_ANNOTATION).is_none(),
            pulls: pulls(pod),
            created: created.unwrap_or_default(),
            may_run: pod
                .spec
                .as_ref()
                .and_then(|spec| spec.active_deadline_seconds)
                .map(SignedDuration::from_secs),
            terminating: meta.deletion_timestamp.is_some(),
            state: state_of(pod, created.unwrap_or_default()),
        }
    }

    /// The pod, so exactly that a stranger of the same name is safe.
    pub fn target(&self) -> PodTarget {
        PodTarget {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }
}

fn state_of(pod: &Pod, created: Timestamp) -> WorkerState {
    let Some(status) = &pod.status else {
        return WorkerState::Waiting(unscheduled(None));
    };
    let mut inits = status.init_container_statuses.iter().flatten();
    let mut mains = status.container_statuses.iter().flatten();
    let is_over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let main = mains.next();
    let state = |one: &ContainerStatus| one.state.clone().unwrap_or_default();
    if let Some((code, message, at)) = main.and_then(|one| ended(&state(one), created)) {
        return WorkerState::Ended(Box::new(read(code, &message, image_of(pod), at)));
    }
    if is_over {
        let failed = inits.find_map(|one| {
            let (code, message, at) = ended(&state(one), created)?;
            (code != 0).then(|| (one.name.clone(), code, message, at))
        });
        let (trouble, at) = match failed {
            Some((name, code, said, at)) => {
                let message = format!("container {name} ended with code {code}: {said}");
                (trouble(INIT_TROUBLE, message), at)
            }
            None => (trouble(LOST_TROUBLE, words(status)), created),
        };
        let ending = Ending::of_trouble(&trouble, image_of(pod), at);
        return WorkerState::Ended(Box::new(ending));
    }
    if main.is_some_and(|one| state(one).running.is_some()) {
        return WorkerState::Running;
    }
    WorkerState::Waiting(waiting(status))
}

/// Code, message and time of a container that has ended.
fn ended(state: &ContainerState, created: Timestamp) -> Option<(i32, String, Timestamp)> {
    let end = state.terminated.as_ref()?;
    let at = end.finished_at.as_ref().map_or(created, |time| time.0);
    let message = end.message.clone().or_else(|| end.reason.clone());
    Some((end.exit_code, message.unwrap_or_default(), at))
}

fn waiting(status: &PodStatus) -> Trouble {
    let containers = status.init_container_statuses.iter().flatten();
    let containers = containers.chain(status.container_statuses.iter().flatten());
    let mut waits = containers.filter_map(|one| one.state.as_ref()?.waiting.as_ref());
    if let Some(wait) = waits.next() {
        let reason = text(wait.reason.as_ref());
        let said = text(wait.message.as_ref());
        let check = if IMAGE_REASONS.contains(&reason.as_str()) {
            IMAGE_TROUBLE
        } else {
            SANDBOX_TROUBLE
        };
        return trouble(check, format!("{reason}: {said}"));
    }
    unscheduled(Some(status))
}

fn unscheduled(status: Option<&PodStatus>) -> Trouble {
    let conditions = status.into_iter().flat_map(|it| it.conditions.iter());
    let mut scheduled = conditions
        .flatten()
        .filter(|one| one.type_ == "PodScheduled");
    match scheduled.next() {
        Some(one) if one.status == "True" => trouble(SANDBOX_TROUBLE, UNTOUCHED.to_owned()),
        Some(one) => trouble(SCHEDULE_TROUBLE, text(one.message.as_ref())),
        None => trouble(SCHEDULE_TROUBLE, UNSEEN.to_owned()),
    }
}

fn trouble(check: &'static str, message: String) -> Trouble {
    Trouble { check, message }
}

fn words(status: &PodStatus) -> String {
    let reason = text(status.reason.as_ref());
    let message = text(status.message.as_ref());
    format!("the pod ended without a result: {reason} {message}")
        .trim_end()
        .to_owned()
}

fn pulls(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut policies = containers.filter_map(|one| one.image_pull_policy.as_deref());
    policies.any(|policy| policy == "Always")
}

fn image_of(pod: &Pod) -> &str {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut images = containers.filter_map(|one| one.image.as_deref());
    images.next().unwrap_or_default()
}

/// What exit code and message say together. Only code 0 with a report that does not contradict it is a
/// pass: a program that is not ours may well end with 0. A code other than 0 and 1 says that the checks were
/// not run.
pub fn read(code: i32, message: &str, image: &str, at: Timestamp) -> Ending {
    let report: Option<Report> = serde_json::from_str(message).ok();
    let Some(report) = report else {
        let said = format!("the checks ended with code {code} and left no report: {message}");
        return Ending::of_trouble(&trouble(EXIT_TROUBLE, said), image, at);
    };
    let mut findings: Vec<VerificationFinding> = report.findings.iter().map(finding).collect();
    findings.sort_by_key(|finding| finding.ok);
    let has_failure = findings.iter().any(|finding| !finding.ok);
    let has_run = !findings.is_empty() || report.omitted > 0;
    let passed = code == 0 && report.verdict == "Passed" && has_run && !has_failure;
    if !passed && !has_failure {
        let said = format!(
            "the checks ended with code {code} and verdict {}, and name no failure",
            report.verdict
        );
        return Ending::of_trouble(&trouble(EXIT_TROUBLE, said), image, at);
    }
    if !passed && code != CHECK_FAILED && code != 0 {
        let said = format!("the checks ended with code {code}");
        return Ending::of_trouble(&trouble(EXIT_TROUBLE, said), image, at);
    }
    let omitted = report.omitted + findings.len().saturating_sub(FINDINGS_MAX);
    findings.truncate(FINDINGS_MAX);
    Ending {
        passed,
        findings,
        omitted,
        evidence: report.evidence.filter(|_| !passed).map(bounded),
        at,
    }
}

fn finding(one: &ReportFinding) -> VerificationFinding {
    VerificationFinding {
        check: cut(&one.check).chars().take(128).collect(),
        target: cut(&one.target),
        ok: one.ok,
        phase: one
            .phase
            .as_deref()
            .map(|phase| phase.chars().take(128).collect()),
        message: cut(&one.message),
        milliseconds: i64::try_from(one.milliseconds)
            .map_or(LONGEST_CHECK, |it| it.min(LONGEST_CHECK)),
    }
}

fn bounded(mut evidence: VerificationEvidence) -> VerificationEvidence {
    evidence.resolv_conf = cut(&evidence.resolv_conf);
    for list in [&mut evidence.addresses, &mut evidence.routes] {
        list.truncate(EVIDENCE_MAX);
        for one in list.iter_mut() {
            *one = cut(one);
        }
    }
    evidence
}

/// The beginning of a text, as long as a status keeps it.
fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_MAX.min(text.len()));
    text.get(..end).unwrap_or_default().to_owned()
}
