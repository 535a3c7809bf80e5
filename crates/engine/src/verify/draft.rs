//! A decision about a node at the gate while it is being put together.
//!
//! Owns the bookkeeping that all states share: the verification of this boot, waiting with a reason, the
//! condition on the Node. Must not know what any one state leads to.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::conditions::NETWORK_VERIFIED;
use shipshape_api::{PendingNode, PendingNodeStatus, Verification, VerificationVerdict, reasons};

use super::GateSnapshot;
use super::effect::{GateEffect, PublishedVerdict};
use super::refusal;
use super::settings::{Backoff, GateSettings, Mode};
use crate::condition::{self, Claim, Truth};
use crate::decision::{Decision, Effect, NodeTarget, Notice};

/// How long a wait that a watch should end may go without a second look.
const RESYNC: SignedDuration = SignedDuration::from_mins(1);
/// How long a new node may take to be ready before its record says that it waits.
const QUIET: SignedDuration = SignedDuration::from_secs(90);
/// Pause after a failure when it does not grow.
const EVEN_PAUSE: SignedDuration = SignedDuration::from_secs(5);
/// Longest pause when it does.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(30);

/// How the sentence begins of a node that waits for a cause elsewhere to go.
pub(super) const CAUSE: &str = "a cause elsewhere to go: ";

pub(super) struct Draft<'a> {
    pub(super) snapshot: &'a GateSnapshot,
    pub(super) record: &'a PendingNode,
    pub(super) settings: &'a GateSettings,
    pub(super) now: Timestamp,
    pub(super) verification: Verification,
    status: PendingNodeStatus,
    effects: Vec<Effect>,
    notices: Vec<Notice>,
    wake: Option<Timestamp>,
    is_quiet: bool,
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        snapshot: &'a GateSnapshot,
        record: &'a PendingNode,
        settings: &'a GateSettings,
        now: Timestamp,
    ) -> Self {
        let mut status = record.status.clone().unwrap_or_default();
        status.observed_generation = record.metadata.generation;
        let known = status.verification.take().unwrap_or_default();
        let node = &snapshot.node;
        let is_of_now = known.node_uid.as_ref() == Some(&node.uid)
            && known.boot_id.as_ref() == Some(&node.boot_id);
        // Another boot begins anew, and what was known of the last one no longer holds.
        let verification = if is_of_now {
            known
        } else {
            Verification {
                node_uid: Some(node.uid.clone()),
                boot_id: Some(node.boot_id.clone()),
                first_seen_at: Some(first_sight(record, &known, now)),
                ..Verification::default()
            }
        };
        Self {
            snapshot,
            record,
            settings,
            now,
            verification,
            status,
            effects: Vec::new(),
            notices: Vec::new(),
            wake: None,
            is_quiet: false,
        }
    }

    /// The object as it was: nothing follows.
    pub(super) fn unchanged(self) -> Decision<PendingNodeStatus> {
        Decision::rest(self.record.status.clone().unwrap_or_default())
    }

    pub(super) fn finish(mut self) -> Decision<PendingNodeStatus> {
        self.claim();
        self.publish();
        let mut status = self.status;
        let before = self.record.status.as_ref();
        let before = before.and_then(|status| status.waiting_for.as_deref());
        refusal::keep(&mut status, before, &self.effects);
        status.verification = Some(self.verification);
        if self.is_quiet {
            status = PendingNodeStatus::default();
        }
        Decision {
            status,
            effects: self.effects,
            notices: self.notices,
            wake: self.wake,
        }
    }

    pub(super) fn effect(&mut self, effect: impl Into<Effect>) {
        self.effects.push(effect.into());
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Pods of attempts that are over go.
    pub(super) fn tidy_up(&mut self) {
        let leftovers = self.snapshot.leftovers.iter().cloned();
        self.effects
            .extend(leftovers.map(|pod| GateEffect::DeleteWorker(pod).into()));
    }

    /// Waits for this, and looks again then at the latest.
    pub(super) fn wait(&mut self, reason: impl Into<String>, until: Option<Timestamp>) {
        self.status.waiting_for = Some(reason.into());
        self.status.reached_goal = Some(false);
        let resync = self.now.checked_add(RESYNC).unwrap_or(Timestamp::MAX);
        self.wake = Some(until.unwrap_or(resync).max(self.now));
    }

    /// The same, but an inconclusive node goes on saying which cause it waits for. What it waited for besides, such as
    /// a quota, may be no longer so.
    pub(super) fn wait_on(&mut self, reason: &str, until: Option<Timestamp>) {
        if self.verification.verdict != Some(VerificationVerdict::Inconclusive) {
            return self.wait(reason, until);
        }
        let known = self.status.waiting_for.clone();
        let known = known.filter(|words| words.starts_with(CAUSE));
        let words = known.unwrap_or_else(|| format!("{CAUSE}{}", self.told().message));
        self.wait(words, until);
    }

    /// Since when this boot has been known. A record of an older version does not say so.
    pub(super) fn known_since(&self) -> Option<Timestamp> {
        let seen = self.verification.first_seen_at.as_ref();
        let made = self.record.metadata.creation_timestamp.as_ref();
        seen.or(made).map(|time| time.0)
    }

    /// That a new node is not ready yet is no news until it has lasted.
    pub(super) fn keep_quiet(&mut self) {
        let made = self.record.metadata.creation_timestamp.as_ref();
        let loud = made.and_then(|made| made.0.checked_add(QUIET).ok());
        if let Some(loud) = loud.filter(|loud| self.now < *loud)
            && self.record.status.is_none()
        {
            self.is_quiet = true;
            self.wake = self.wake.map(|wake| wake.min(loud));
        }
    }

    /// There is nothing to wait for.
    pub(super) fn rest(&mut self) {
        self.status.waiting_for = None;
        self.status.reached_goal =
            Some(self.verification.verdict == Some(VerificationVerdict::Verified));
        self.wake = None;
    }

    pub(super) fn mode(&self) -> Mode {
        self.settings.verification.mode
    }

    /// The node, guarded by what was seen of it.
    pub(super) fn target(&self) -> NodeTarget {
        let node = &self.snapshot.node;
        NodeTarget {
            name: node.name.clone(),
            uid: node.uid.clone(),
            resource_version: node.resource_version.clone(),
            operation: self.record.metadata.uid.clone().unwrap_or_default(),
        }
    }

    /// When the next attempt begins after one that ended then.
    pub(super) fn pause_after(&self, ended: Timestamp, failures: i32) -> Timestamp {
        let pause = match self.settings.reconciliation.retry_backoff {
            Backoff::Linear => EVEN_PAUSE,
            Backoff::Exponential => {
                let doublings = u32::try_from(failures - 1).unwrap_or(0).min(5);
                SignedDuration::from_secs(1 << doublings).min(LONGEST_PAUSE)
            }
        };
        ended.checked_add(pause).unwrap_or(Timestamp::MAX)
    }

    /// Whether the whole verification has had its time.
    pub(super) fn is_past_deadline(&self) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= self.now)
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let started = self.verification.started_at.as_ref()?;
        started.0.checked_add(self.settings.deadline()).ok()
    }

    /// What the verdict is, in the words of a condition.
    pub(super) fn told(&self) -> PublishedVerdict {
        let attempt = self.verification.attempt.unwrap_or_default();
        let check = self.verification.first_failing_check.as_deref();
        let (truth, reason, message) = match self.verification.verdict {
            Some(VerificationVerdict::Verified) => (
                Truth::True,
                reasons::VERIFIED,
                format!("every check passed in attempt {attempt}"),
            ),
            Some(VerificationVerdict::Failed) => (
                Truth::False,
                reasons::VERIFICATION_FAILED,
                format!("{} failed on this node", check.unwrap_or("a check")),
            ),
            Some(VerificationVerdict::Inconclusive) => (
                Truth::Unknown,
                reasons::INCONCLUSIVE,
                format!(
                    "{} failed, and its cause may be elsewhere",
                    check.unwrap_or("a check")
                ),
            ),
            None => (
                Truth::Unknown,
                reasons::VERIFYING,
                "the network is being checked".to_owned(),
            ),
        };
        PublishedVerdict {
            truth,
            reason,
            message,
        }
    }

    fn claim(&mut self) {
        let told = self.told();
        let claim = Claim {
            kind: NETWORK_VERIFIED,
            truth: told.truth,
            reason: told.reason,
            message: told.message,
        };
        let generation = self.record.metadata.generation;
        condition::set(&mut self.status.conditions, claim, generation, self.now);
    }

    /// The condition on the Node follows the verdict. A first "not known yet" is worth a write only to
    /// those who wait for the condition and nothing else.
    fn publish(&mut self) {
        let is_released =
            |effect: &Effect| matches!(effect, Effect::Gate(GateEffect::ReleaseNode { .. }));
        if self.mode() == Mode::DryRun || self.effects.iter().any(is_released) {
            return;
        }
        let told = self.told();
        let is = self.snapshot.node.network.verified.as_deref();
        let is_first = is.is_none() && self.verification.verdict.is_none();
        if is == Some(told.truth.as_str()) || (is_first && self.mode() == Mode::Gate) {
            return;
        }
        let effect = GateEffect::PublishVerdict {
            node: self.target(),
            boot_id: self.snapshot.node.boot_id.clone(),
            told,
        };
        self.effects.insert(0, effect.into());
    }
}

/// When a boot of which nothing is stored was seen first. The first one of all was when the record was made: that
/// it is quiet for a while must not prolong the wait. One whose kubelet had not told it yet is the same.
fn first_sight(record: &PendingNode, known: &Verification, now: Timestamp) -> Time {
    let made = record.metadata.creation_timestamp.clone();
    let earlier = known.first_seen_at.clone();
    let is_same = known.boot_id.as_deref() == Some("");
    let is_first = record.status.is_none();
    let stored = earlier
        .filter(|_| is_same)
        .or_else(|| made.filter(|_| is_first));
    stored.unwrap_or(Time(now))
}
