//! One attempt at a node: when it begins, how long it may take, how it ends.
//!
//! Owns the course from an attempt's record to its end. The attempt is recorded before its pod is made, under
//! a name that follows from it, so a crash in between leads to the same pod. Must not decide what a failure
//! means for the node: `verdict` does.

use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::VerificationVerdict;

use super::control::{Comparison, Course, Place, compare, ending_of, overdue_at};
use super::draft::Draft;
use super::effect::GateEffect;
use super::neighbours::{Ownership, POOL_LABEL, complaint, ownership};
use super::outcome::{Ending, LOST_TROUBLE, Trouble, WorkerState, WorkerView};
use super::settings::Mode;
use super::{is_gated, worker};
use crate::decision::Notice;
use crate::startup::WITHOUT_NETWORK;
use crate::view::Observed;
use shipshape_api::reasons;

/// How soon somebody who gave no answer is asked again.
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(5);
/// What Karpenter puts on a node that it has taken in. Until then it may put the taint back.
const KARPENTER_REGISTERED: &str = "karpenter.sh/registered";

/// How far the attempt under way has come.
enum Stage {
    /// It is over.
    Ended(Ending),
    /// Its pod is not there, and there is time for it.
    Missing,
    /// Its time is up, and there is no pod that could say anything: the node was not checked at all.
    Untried,
    /// It is waited for, until then at the latest.
    Open(String, Option<Timestamp>),
}

impl<'a> Draft<'a> {
    /// Begins the next attempt when its time has come and the node is far enough.
    pub(super) fn begin_when_due(&mut self) {
        if let Some((why, until)) = self.not_yet() {
            self.wait(why, until);
            return self.keep_quiet();
        }
        let due = self
            .verification
            .next_attempt_at
            .as_ref()
            .map(|time| time.0);
        match due {
            Some(due) if self.now < due => {
                let check = self.verification.first_failing_check.clone();
                let check = check.unwrap_or_else(|| "the checks".to_owned());
                self.wait(format!("the next attempt, after {check} failed"), Some(due));
            }
            due => {
                self.pardon(due);
                self.begin();
            }
        }
    }

    /// Time in which the node could do nothing is not the node's: the deadline of the whole moves by it.
    fn pardon(&mut self, since: Option<Timestamp>) {
        let lost = since.map(|since| self.now.duration_since(since));
        let started = self.verification.started_at.as_ref();
        let moved = started.zip(lost).and_then(|(started, lost)| {
            let lost = lost.max(SignedDuration::ZERO);
            started.0.checked_add(lost).ok()
        });
        if let Some(moved) = moved {
            self.verification.started_at = Some(Time(moved));
        }
    }

    /// What the node lacks before its network can be checked, and how long that is waited for at most.
    fn not_yet(&self) -> Option<(String, Option<Timestamp>)> {
        let node = &self.snapshot.node;
        if !node.ready || node.network.unavailable {
            return Some(("the node to be ready".to_owned(), None));
        }
        if node.boot_id.is_empty() {
            return Some(("the kubelet to tell its boot id".to_owned(), None));
        }
        // By its own account it has no network yet: the checks would only prove that.
        let mut taints = node.taints.iter();
        if let Some(taint) = taints.find(|taint| WITHOUT_NETWORK.contains(&taint.key.as_str())) {
            return Some((format!("taint {} to go", taint.key), None));
        }
        let is_taken_in = node.labels.get(KARPENTER_REGISTERED).map(String::as_str) == Some("true");
        if node.labels.contains_key(POOL_LABEL) && !is_taken_in {
            return Some(("Karpenter to register the node".to_owned(), None));
        }
        self.late_daemon()
    }

    /// A daemon that the node's network may hang on. A node is ready before its kube-proxy has set any rule, and
    /// attempts until then would count. One that does not get ready may be what the checks are for.
    fn late_daemon(&self) -> Option<(String, Option<Timestamp>)> {
        let daemon = self.snapshot.daemons.first()?;
        let until = self.known_since()?;
        let until = until.checked_add(self.settings.daemons_within()).ok()?;
        (self.now < until).then(|| (format!("pod {daemon} to be ready"), Some(until)))
    }

    fn begin(&mut self) {
        if self.verification.attempt.is_none() {
            self.warn_of_pool();
        }
        let began = Some(Time(self.now));
        let verification = &mut self.verification;
        let attempt = verification.attempt.unwrap_or_default() + 1;
        verification.attempt = Some(attempt);
        verification.attempt_started_at.clone_from(&began);
        verification.attempt_deadline = Some(Time(overdue_at(self.now, self.settings)));
        verification.attempt_ended_at = None;
        verification.started_at = verification.started_at.take().or(began);
        verification.next_attempt_at = None;
        verification.verdict = None;
        verification.verdict_at = None;
        self.ensure_worker(attempt);
    }

    /// Karpenter must know the taint as one that somebody lifts; told with the first attempt, once.
    fn warn_of_pool(&mut self) {
        let (node, pools) = (&self.snapshot.node, &self.snapshot.neighbours.pools);
        if let Some(complaint) = complaint(node, pools, self.settings) {
            self.notice(Notice::warning(reasons::WRONG_NODE_POOL, complaint));
        }
    }

    /// Begins another attempt after one that says nothing of the node: the deadline counts from now.
    pub(super) fn begin_anew(&mut self) {
        if let Some((why, until)) = self.not_yet() {
            return self.wait(why, until);
        }
        self.verification.started_at = None;
        self.begin();
    }

    fn ensure_worker(&mut self, attempt: i32) {
        let pod = worker::of_attempt(&self.snapshot.node, self.record, attempt, self.settings);
        let pod = worker::with_name_servers(pod, self.name_servers());
        self.effect(GateEffect::EnsureWorker(Box::new(pod)));
        let until = self.attempt_ends();
        self.wait("the checks to end", Some(until));
    }

    /// The name servers that are asked each by itself.
    fn name_servers(&self) -> &'a [IpAddr] {
        let is_wanted = self.settings.verification.dns_endpoints;
        let servers = Some(self.snapshot.name_servers.as_slice()).filter(|_| is_wanted);
        servers.unwrap_or_default()
    }

    /// When the attempt under way has had its time, or the whole verification has. One that begins past the
    /// deadline, because one failure alone fails no node, has its own.
    fn attempt_ends(&self) -> Timestamp {
        let verification = &self.verification;
        let began = verification.attempt_started_at.as_ref();
        let own = verification.attempt_deadline.as_ref().map_or_else(
            || overdue_at(began.map_or(self.now, |time| time.0), self.settings),
            |deadline| deadline.0,
        );
        let began = began.map_or(self.now, |time| time.0);
        let whole = self.deadline().filter(|whole| began < *whole);
        whole.map_or(own, |whole| own.min(whole))
    }

    /// Looks at the attempt under way.
    pub(super) fn attempt(&mut self) {
        match self.stage() {
            Stage::Ended(ending) if ending.passed => self.let_go(&ending),
            Stage::Ended(ending) => self.compare(&ending),
            Stage::Missing => self.ensure_worker(self.verification.attempt.unwrap_or(1)),
            Stage::Untried => self.begin_anew(),
            Stage::Open(why, until) => self.wait(why, until),
        }
    }

    /// Opens the gate, unless nobody can tell whose its taint is: then the attempt stays open, since it is the
    /// pod's report that opens the gate once that may be.
    fn let_go(&mut self, ending: &Ending) {
        match self.ownership() {
            Ownership::Unknown(why) => self.wait_for_owner(&why),
            Ownership::Known { ours, theirs } => self.pass(ending, &ours, theirs),
        }
    }

    /// Whether the attempt under way is over and failed, so that it must be compared.
    pub(super) fn has_just_failed(&self) -> bool {
        let is_open = self.verification.attempt_started_at.is_some();
        is_open && matches!(self.stage(), Stage::Ended(ending) if !ending.passed)
    }

    fn stage(&self) -> Stage {
        let ends = self.attempt_ends();
        match &self.snapshot.worker {
            Observed::Unknown(why) => {
                Stage::Open(format!("a clear sight of the worker: {why}"), None)
            }
            Observed::NotAsked => Stage::Open("a look at the worker".to_owned(), None),
            Observed::Absent if self.now < ends => Stage::Missing,
            Observed::Present(worker) if self.is_ours(worker) => {
                let open = || Stage::Open(self.words_while_open(worker), Some(ends));
                self.end_of(worker, ends).map_or_else(open, Stage::Ended)
            }
            Observed::Present(_) if self.now < ends => Stage::Open(
                "another pod of the worker's name to go".to_owned(),
                Some(ends),
            ),
            // It was refused, or deleted, or nobody was there to make it: no check has failed.
            Observed::Absent | Observed::Present(_) => Stage::Untried,
        }
    }

    /// What an open attempt waits for. Trouble that the pod has is told once: its words change with every try.
    fn words_while_open(&self, worker: &WorkerView) -> String {
        let WorkerState::Waiting(trouble) = &worker.state else {
            return "the checks to end".to_owned();
        };
        if !trouble.is_unusual() {
            return "the checks to end".to_owned();
        }
        let start = format!("the worker pod to start ({}): ", trouble.check);
        let told = self.waits_for().filter(|told| told.starts_with(&start));
        told.map_or_else(|| format!("{start}{}", trouble.message), str::to_owned)
    }

    /// Whether it is the pod of this very record. One that is being deleted tells nothing more.
    fn is_ours(&self, worker: &WorkerView) -> bool {
        !worker.terminating && worker.owner_uid == self.record.metadata.uid
    }

    /// The end of the worker: its own, or because the time is up.
    fn end_of(&self, worker: &WorkerView, ends: Timestamp) -> Option<Ending> {
        let own = ending_of(worker, self.settings, self.now);
        own.or_else(|| (ends <= self.now).then(|| self.lost("the verification has had its time")))
    }

    fn lost(&self, why: &str) -> Ending {
        let trouble = Trouble {
            check: LOST_TROUBLE,
            message: why.to_owned(),
        };
        let image = &self.settings.worker.image;
        let image = format!("{}:{}", image.repository, image.tag);
        Ending::of_trouble(&trouble, &image, self.now)
    }

    /// Whose the gate's taints on the node are. A gate that lifts nothing need not know.
    pub(super) fn ownership(&self) -> Ownership {
        if self.mode() != Mode::Gate {
            return Ownership::Known {
                ours: Vec::new(),
                theirs: None,
            };
        }
        let rules = &self.snapshot.neighbours.rules;
        ownership(&self.snapshot.node, rules, self.settings)
    }

    pub(super) fn wait_for_owner(&mut self, why: &str) {
        let words = format!("an answer to whether a NodeReadinessRule manages the taint: {why}");
        self.wait(words, self.now.checked_add(ASK_AGAIN).ok());
    }

    /// A taint that somebody else manages is left to them; that is news once.
    pub(super) fn leave_to(&mut self, theirs: String) {
        if self.waits_for() != Some(theirs.as_str()) {
            let message = format!("the gate does not touch the taint; the node waits for {theirs}");
            self.notice(Notice::warning(reasons::TAINT_OWNED_ELSEWHERE, message));
        }
        self.wait(theirs, None);
    }

    /// Every check passed: the gate opens, and the verdict is stored once it is open.
    fn pass(&mut self, ending: &Ending, ours: &[Taint], theirs: Option<String>) {
        self.close(ending);
        self.settle(VerificationVerdict::Verified);
        let attempt = self.verification.attempt.unwrap_or_default();
        let message = format!("every check of the network passed, in attempt {attempt}");
        self.notice(Notice::normal(reasons::VERIFIED, message));
        self.open(ours);
        match theirs {
            Some(theirs) => self.leave_to(theirs),
            None => self.rest(),
        }
    }

    /// Takes off these taints of the gate and sets the label and the condition, unless only told to look.
    pub(super) fn open(&mut self, taints: &[Taint]) {
        if self.mode() != Mode::Gate {
            return;
        }
        let management = &self.settings.node_management;
        let effect = GateEffect::ReleaseNode {
            node: self.target(),
            boot_id: self.snapshot.node.boot_id.clone(),
            taints: taints.to_vec(),
            label: (
                management.verified_label.key.clone(),
                management.verified_label.value.clone(),
            ),
            told: self.told(),
        };
        self.effect(effect);
    }

    /// The attempt is over, and this is what it saw. Its pod goes in the next look, which finds the result
    /// stored.
    fn close(&mut self, ending: &Ending) {
        let verification = &mut self.verification;
        verification.last_attempt_at = verification.attempt_started_at.take();
        verification.attempt_deadline = None;
        verification.attempt_ended_at = None;
        verification.findings.clone_from(&ending.findings);
        verification.omitted = i32::try_from(ending.omitted)
            .ok()
            .filter(|count| *count > 0);
        verification.evidence.clone_from(&ending.evidence);
        let mut failures = ending.failures();
        verification.first_failing_check = failures.next().map(|finding| finding.check.clone());
    }

    /// A failure counts only when it does not show on a node in service.
    fn compare(&mut self, ending: &Ending) {
        let ended = self.end_as_seen(ending);
        let began = self.verification.attempt_started_at.as_ref();
        let began = began.map_or(ended, |time| time.0);
        let course = Course::of_attempt(began, ended, self.settings);
        let failures: Vec<_> = ending.failures().cloned().collect();
        let control = &self.snapshot.control;
        match compare(&failures, course, control, self.settings, self.now) {
            Comparison::Made(fault) => {
                self.pardon(Some(ended));
                self.close(ending);
                self.blame(fault, ended);
            }
            other
            @ (Comparison::UnderWay(_) | Comparison::Needed { .. } | Comparison::Later(_)) => {
                self.verification.attempt_ended_at = Some(Time(ended));
                self.wait_for_comparison(other);
            }
        }
    }

    /// When the attempt ended. Its node's clock is believed only where that can be, else the first look at the
    /// end counts, which is stored: a time that moves with every look would never be compared.
    fn end_as_seen(&self, ending: &Ending) -> Timestamp {
        let verification = &self.verification;
        if let Some(seen) = &verification.attempt_ended_at {
            return seen.0;
        }
        let began = verification.attempt_started_at.as_ref();
        let is_told = began.is_some_and(|began| ending.at > began.0) && ending.at <= self.now;
        if is_told { ending.at } else { self.now }
    }

    /// Waits until a run elsewhere tells more.
    pub(super) fn wait_for_comparison(&mut self, comparison: Comparison) {
        let words = match &self.snapshot.control.candidate {
            Some(Place::Controller) => "the same checks from the controller",
            Some(Place::Node(_)) | None => "the same checks on a node in service",
        };
        match comparison {
            Comparison::Needed { place, pulls } => {
                let servers = self.name_servers();
                self.effect(match place {
                    Place::Node(node) => {
                        let pod = worker::of_control(&node, pulls, self.settings, self.now);
                        let pod = worker::with_name_servers(pod, servers);
                        GateEffect::EnsureWorker(Box::new(pod))
                    }
                    Place::Controller => {
                        GateEffect::CheckFromHere(worker::variables(self.settings, servers))
                    }
                });
                let again = self.now.checked_add(self.settings.interval()).ok();
                self.wait_on(words, again);
            }
            Comparison::UnderWay(until) | Comparison::Later(until) => {
                self.wait_on(words, Some(until));
            }
            Comparison::Made(_) => {}
        }
    }

    /// Stores a verdict.
    pub(super) fn settle(&mut self, verdict: VerificationVerdict) {
        self.verification.verdict = Some(verdict);
        self.verification.verdict_at = Some(Time(self.now));
        self.verification.next_attempt_at = None;
    }

    /// Whether a taint of the gate still keeps pods off.
    pub(super) fn is_shut(&self) -> bool {
        is_gated(&self.snapshot.node, self.settings)
    }
}
