//! The brake: what holds a run back from beginning with further nodes.
//!
//! Owns the reasons for a pause and the way out of each. Must not stop tasks that are under way.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use shipshape_api::NodePatchTask;
use shipshape_api::conditions::OLD_DELETED;
use shipshape_api::names::ANNOTATION_ACKNOWLEDGED;
use shipshape_api::node_patch_run::{NodePatchRunSpec, Wave};
use shipshape_api::node_patch_task::NodePatchTaskStatus;

use super::{is_parked, some_of};
use crate::condition;
use crate::snapshot::RunSnapshot;

/// Why no further node begins, and what would change that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    /// Why.
    pub(super) reason: String,
    /// What the run waits for.
    pub(super) way_out: String,
    /// Whether something went wrong, as opposed to somebody's wish.
    pub(super) is_failure: bool,
}

/// What the brake goes by.
pub(super) struct Brake<'a> {
    pub(super) snapshot: &'a RunSnapshot,
    pub(super) now: Timestamp,
    /// How long a node that is on its way back counts as one that may come through.
    pub(super) patience: SignedDuration,
}

/// The pause that a person wishes for.
pub(super) fn wish(spec: &NodePatchRunSpec) -> Option<Pause> {
    spec.paused().then(|| Pause {
        reason: "spec.paused=true".to_owned(),
        way_out: "spec.paused to be lifted".to_owned(),
        is_failure: false,
    })
}

/// How often nodes of a run have failed; one that somebody has called off has not. Neither another try nor the end of a
/// task's object takes a failure back.
pub(super) fn all_failures(snapshot: &RunSnapshot) -> usize {
    let status = snapshot.run.status.as_ref();
    let told = status.and_then(|status| status.failures).unwrap_or(0);
    let seen = snapshot.failed.saturating_sub(snapshot.called_off) + snapshot.failed_before;
    seen.max(usize::try_from(told).unwrap_or(0))
}

impl Brake<'_> {
    /// Why no further node may begin, if so: by the run's own word, or, without one, after a first wave of
    /// failures, or once a node is gone and has no replacement.
    pub(super) fn pause(&self) -> Option<Pause> {
        let first = "no replacement has come through yet";
        let lost = "a node is gone without a replacement";
        // Another try of one node is no word for all: what it paused for must be there first.
        let is_over = self.working() == 0 || self.has_paused(first);
        self.asked_for()
            .or_else(|| (is_over && self.is_first_wave_failing()).then(|| self.failure(first)))
            .or_else(|| self.is_place_lost().then(|| self.failure(lost)))
    }

    /// Whether the run is paused by this rule.
    fn has_paused(&self, rule: &str) -> bool {
        let status = self.snapshot.run.status.as_ref();
        let reason = status.and_then(|status| status.pause_reason.as_ref());
        reason.is_some_and(|reason| reason.starts_with(rule))
    }

    /// What the run waits for before it begins with further nodes, though nothing is wrong with it yet.
    pub(super) fn hold(&self) -> Option<String> {
        if let Some(text) = some_of(&self.waiting_for_turn()) {
            return Some(format!(
                "nodes that are called off to be put back first: {text}"
            ));
        }
        self.is_first_wave_failing().then(|| {
            let count = self.failures();
            let under_way = self.working();
            format!(
                "a first replacement to be ready: {count} node(s) failed, {under_way} under way, none \
                 has come through"
            )
        })
    }

    /// Nodes whose tasks were called off one by one and wait for a slot, which this run would only take from them.
    fn waiting_for_turn(&self) -> Vec<String> {
        let waits = |task: &&Arc<NodePatchTask>| {
            let parked = task.status.as_ref().and_then(|it| it.parked.as_ref());
            parked.is_some_and(|record| record.turn_since.is_some())
        };
        let open = self.snapshot.open.iter().filter(waits);
        open.map(|task| task.spec.node_name.clone()).collect()
    }

    /// Why the nodes after this wave may not begin, if so: one failure in it is enough.
    pub(super) fn after(&self, wave: Wave) -> Option<Pause> {
        let rule = match wave {
            Wave::ControlPlanes => "a control plane has failed",
            Wave::Canaries => "a canary node has failed",
        };
        self.asked_for()
            .or_else(|| (self.failures() > 0).then(|| self.failure(rule)))
    }

    /// Failures that nobody has acknowledged yet.
    fn failures(&self) -> usize {
        let known = self.acknowledged().and_then(|text| text.parse().ok());
        all_failures(self.snapshot).saturating_sub(known.unwrap_or(0))
    }

    fn acknowledged(&self) -> Option<&String> {
        let notes = self.snapshot.run.metadata.annotations.as_ref();
        notes.and_then(|notes| notes.get(ANNOTATION_ACKNOWLEDGED))
    }

    /// What is wrong with the word of a person who wants to have acknowledged failures.
    fn misread(&self) -> Option<String> {
        let text = self.acknowledged()?;
        let right = all_failures(self.snapshot);
        let start: String = text.chars().take(20).collect();
        text.parse::<usize>().is_err().then(|| {
            format!("; annotation {ANNOTATION_ACKNOWLEDGED} is {start:?}, which is no count: \"{right}\" would acknowledge all")
        })
    }

    fn failure(&self, rule: &str) -> Pause {
        let last = self.snapshot.last_failure.as_ref();
        let cause = last
            .map(|text| format!("; the last: {text}"))
            .unwrap_or_default();
        let count = self.failures();
        Pause {
            reason: format!("{rule}: {count} node(s) failed{cause}"),
            way_out: format!(
                "somebody to look at {count} failed node(s) and to resume the run{}{cause}",
                self.misread().unwrap_or_default()
            ),
            is_failure: true,
        }
    }

    /// The pause that the spec asks for.
    fn asked_for(&self) -> Option<Pause> {
        let spec = &self.snapshot.run.spec;
        if let Some(wish) = wish(spec) {
            return Some(wish);
        }
        let failed = self.failures();
        let limit = |count: i32| usize::try_from(count).unwrap_or(usize::MAX);
        let rule = "failurePolicy.pauseAfterFailures reached";
        spec.pause_after_failures()
            .is_some_and(|count| failed >= limit(count))
            .then(|| self.failure(rule))
    }

    /// Whether a place is empty that nobody has acknowledged: where old machines go first, what made this
    /// replacement fail may make the next one fail too, and each costs a machine. A node that is tried again has
    /// an empty place until its new one is ready.
    fn is_place_lost(&self) -> bool {
        let is_empty = |status: &NodePatchTaskStatus| {
            status.failed_before.is_some()
                && status.new_node_name.is_none()
                && condition::is_true(&status.conditions, OLD_DELETED)
        };
        let mut open = self.snapshot.open.iter();
        let is_lost =
            self.snapshot.lost > 0 || open.any(|task| task.status.as_ref().is_some_and(is_empty));
        is_lost && self.failures() > 0
    }

    /// Tasks that may still come through by themselves: one that is set aside waits for the others, until it is on its
    /// way back; and if it gets no slot then, it is what would have to come through before.
    fn working(&self) -> usize {
        let is_coming_back = |task: &NodePatchTask| {
            let parked = task.status.as_ref().and_then(|it| it.parked.as_ref());
            parked.is_some_and(|record| {
                record.resuming && self.now.duration_since(record.since.0) < self.patience
            })
        };
        let open = self.snapshot.open.iter();
        open.filter(|task| !is_parked(task) || is_coming_back(task))
            .count()
    }

    /// Nothing ever succeeded, and something has failed: the cause may be the image or the cloud, and each
    /// further node would only repeat it. A replacement that is ready shows that it is neither.
    fn is_first_wave_failing(&self) -> bool {
        let has_new_node = |task: &NodePatchTask| {
            let status = task.status.as_ref();
            status.is_some_and(|status| status.new_node_name.is_some())
        };
        self.snapshot.succeeded == 0
            && self.failures() > 0
            && !self.snapshot.open.iter().any(|task| has_new_node(task))
    }
}
