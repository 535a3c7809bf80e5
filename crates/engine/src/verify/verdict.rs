//! What a failure means for a node, and what follows from a verdict.
//!
//! Owns the counting of failures, the way out of an inconclusive attempt, what a verified node that changes
//! is owed, and the end of a failed one. Must not remove a node whose gate is open: pods may run there.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::{VerificationFinding, VerificationVerdict, reasons};

use super::control::{Comparison, Fault, recheck};
use super::draft::{CAUSE, Draft};
use super::effect::GateEffect;
use super::neighbours::Ownership;
use super::refusal::is_refusal;
use super::removal::{self, Removal, RemovalTarget};
use super::settings::{LEAST_FAILURES, Mode};
use super::{carries_any, failures_in_words, is_label_missing, is_labelled, is_wanted_again};
use crate::decision::{Effect, Notice};
use crate::view::Observed;

/// What a node waits for whose removal was asked for.
const GOING: &str = "the node to go";

impl Draft<'_> {
    /// An attempt failed: it counts against the node, or against nobody.
    pub(super) fn blame(&mut self, fault: Fault, ended: Timestamp) {
        match fault {
            Fault::Elsewhere(why) | Fault::Unchecked(why) => {
                self.settle(VerificationVerdict::Inconclusive);
                self.notice(Notice::warning(reasons::INCONCLUSIVE, why.clone()));
                let again = self.now.checked_add(self.settings.interval()).ok();
                self.wait(format!("{CAUSE}{why}"), again);
            }
            Fault::OfNode { check, passes } => self.count(&check, passes.as_deref(), ended),
        }
    }

    fn count(&mut self, check: &str, passes: Option<&str>, ended: Timestamp) {
        let compared = passes.map_or_else(
            || ", with no node in service to compare with".to_owned(),
            |place| format!(" and passes {place}"),
        );
        let failures = self.verification.failed_attempts.unwrap_or_default() + 1;
        self.verification.failed_attempts = Some(failures);
        self.verification.first_failing_check = Some(check.to_owned());
        let most = self.settings.reconciliation.most_failures();
        let attempt = self.verification.attempt.unwrap_or_default();
        let is_late = self.is_past_deadline() && failures >= LEAST_FAILURES;
        if failures >= most || is_late {
            self.settle(VerificationVerdict::Failed);
            let message = format!(
                "{check} failed in attempt {attempt}{compared}; {}: {}",
                failures_in_words(failures, most),
                self.words_of(check)
            );
            self.take_label_off();
            self.notice(Notice::warning(reasons::VERIFICATION_FAILED, message));
            return self.wait("a person, or the end of the node", None);
        }
        let next = self.pause_after(ended, failures).max(self.now);
        self.verification.next_attempt_at = Some(Time(next));
        let message = format!(
            "{check} failed in attempt {attempt}, {failures} of {most}: {}",
            self.words_of(check)
        );
        self.notice(Notice::warning(reasons::CHECK_FAILED, message));
        self.wait(
            format!("the next attempt, after {check} failed"),
            Some(next),
        );
    }

    fn words_of(&self, check: &str) -> String {
        let mut findings = self.verification.findings.iter();
        let found = findings.find(|finding| !finding.ok && finding.check == check);
        found.map_or_else(String::new, |finding: &VerificationFinding| {
            format!("{}: {}", finding.target, finding.message)
        })
    }

    /// Nothing counts until what failed passes elsewhere; then the node is tried again.
    pub(super) fn inconclusive(&mut self) {
        let findings = self.verification.findings.iter();
        let failures: Vec<_> = findings.filter(|one| !one.ok).cloned().collect();
        let since = self.verification.verdict_at.as_ref();
        let since = since.map_or(self.now, |time| time.0);
        let control = &self.snapshot.control;
        match recheck(&failures, since, control, self.settings, self.now) {
            Comparison::Made(Fault::OfNode { .. } | Fault::Unchecked(_)) => self.begin_anew(),
            Comparison::Made(Fault::Elsewhere(why)) => {
                let again = self.now.checked_add(self.settings.interval()).ok();
                self.wait(format!("{CAUSE}{why}"), again);
            }
            other
            @ (Comparison::UnderWay(_) | Comparison::Needed { .. } | Comparison::Later(_)) => {
                self.wait_for_comparison(other);
            }
        }
    }

    /// A verified node stays so for this boot: a taint that comes back is lifted without another check. A
    /// label that was taken off asks for one.
    pub(super) fn verified(&mut self) {
        if is_label_missing(&self.snapshot.node, self.record, self.settings) {
            return self.verify_again();
        }
        if !self.is_shut() {
            return self.rest();
        }
        match self.ownership() {
            Ownership::Unknown(why) => self.wait_for_owner(&why),
            Ownership::Known { ours, theirs } => {
                if carries_any(&self.snapshot.node, &ours) {
                    self.open(&ours);
                }
                match theirs {
                    Some(theirs) => self.leave_to(theirs),
                    None => self.rest(),
                }
            }
        }
    }

    /// Forgets the verdict and begins.
    fn verify_again(&mut self) {
        self.verification.verdict = None;
        self.verification.verdict_at = None;
        self.verification.failed_attempts = None;
        self.verification.started_at = None;
        self.begin_when_due();
    }

    /// A node in service that has failed loses its label, before that is stored: one that is seen later was
    /// set by somebody who wants the node verified again.
    fn take_label_off(&mut self) {
        let is_labelled = is_labelled(&self.snapshot.node, self.settings);
        if self.mode() == Mode::Gate && is_labelled && !self.is_shut() {
            let label = self.settings.node_management.verified_label.key.clone();
            let effect = Effect::EnsureLabels {
                node: self.target(),
                add: BTreeMap::new(),
                remove: vec![label],
            };
            self.effect(effect);
        }
    }

    /// A failed node keeps its taint. It goes if settings say so and nothing speaks against it. A label that is
    /// put on one in service asks for another attempt; behind a taint a kubelet may have done that.
    pub(super) fn failed(&mut self) {
        if is_wanted_again(&self.snapshot.node, self.record, self.settings) {
            return self.verify_again();
        }
        let wants_removal =
            self.settings.node_management.delete_failed_nodes && self.mode() == Mode::Gate;
        if !wants_removal {
            return self.wait("a person, or the end of the node", None);
        }
        if !self.is_shut() {
            return self.wait(
                "a person: the node failed while in service, so it is not removed",
                None,
            );
        }
        let view = match &self.snapshot.removal {
            Observed::Present(view) => view,
            Observed::Unknown(why) => {
                return self.wait(format!("what must be known before a removal: {why}"), None);
            }
            Observed::Absent | Observed::NotAsked => {
                return self.wait("a look at what must be known before a removal", None);
            }
        };
        let budget = &self.settings.node_management.deletion_budget;
        let (node, told) = (&self.snapshot.node, &self.verification);
        match removal::decide(node, told, view, budget, self.now) {
            Removal::Wait(why) => {
                let is_news = self.waits_for() != Some(why.as_str());
                if is_news {
                    let message = format!("the failed node is not removed; it waits for {why}");
                    self.notice(Notice::warning(reasons::REMOVAL_HELD_BACK, message));
                }
                self.wait(why, None);
            }
            Removal::UnderWay(what) => self.wait(what, None),
            Removal::Go(target, removals) => {
                // One that was counted before a crash is not counted again.
                if let Some(removals) = removals {
                    self.effect(GateEffect::RecordRemovals(removals));
                }
                self.remove(&target);
                self.wait(GOING, None);
            }
        }
    }

    pub(super) fn waits_for(&self) -> Option<&str> {
        self.record.status.as_ref()?.waiting_for.as_deref()
    }

    fn remove(&mut self, target: &RemovalTarget) {
        let by = match target {
            RemovalTarget::Object(object) => format!("{} {}", object.kind, object.name),
            RemovalTarget::Machine(id) => format!("machine {id}"),
            RemovalTarget::Node => "the Node object alone".to_owned(),
        };
        let check = self.verification.first_failing_check.clone();
        let check = check.unwrap_or_else(|| "a check".to_owned());
        let words = self.words_of(&check);
        let message =
            format!("the failed node is removed: {by} is deleted; {check} failed: {words}");
        match target {
            RemovalTarget::Object(object) => {
                self.effect(GateEffect::DeleteForeign(object.clone()));
            }
            RemovalTarget::Machine(id) => self.effect(Effect::DeleteMachine(id.clone())),
            RemovalTarget::Node => self.effect(GateEffect::RemoveNode(self.target())),
        }
        if self.waits_for() != Some(GOING) && !is_refusal(self.waits_for()) {
            self.notice(Notice::warning(reasons::REMOVING_FAILED_NODE, message));
        }
    }
}
