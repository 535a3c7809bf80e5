//! The hold of the cluster autoscaler in the course of a run.
//!
//! Owns when it is held, when it is put back, and how that is told. What exactly is changed is
//! `crate::autoscaler`'s.

use shipshape_api::conditions::HELD;
use shipshape_api::node_patch_run::{AutoscalerControl, AutoscalerRecord};
use shipshape_api::reasons::SCALE_DOWN_FORBIDDEN;

use super::{Draft, kept};
use crate::autoscaler::{self, DeploymentView, Move, name_of};
use crate::condition::{self, Truth};
use crate::decision::Notice;
use crate::view::Observed;

impl Draft<'_> {
    /// Whether the run may begin as far as the autoscaler goes; if not, what follows is decided on.
    pub(super) fn is_autoscaler_held(&mut self) -> bool {
        // It is about to be given back, or has been: that is neither somebody else's doing nor to be undone.
        if self.is_every_turn_over() {
            return true;
        }
        let control = self.snapshot.run.spec.autoscaler_control.as_ref();
        if control.is_some_and(AutoscalerControl::forbids_scale_down) {
            self.tell_scale_down_forbidden();
        }
        let is_wanted = control.is_some_and(AutoscalerControl::scales_to_zero);
        let record = self.decision.status.autoscaler.clone();
        if let Some(record) = record.as_ref().filter(|record| record.scaled_down) {
            self.tell_if_released(record);
            return true;
        }
        // A paused run begins no hold: with nobody at work it would only keep the autoscaler off.
        let is_idle = self.snapshot.run.spec.paused() && self.snapshot.open.is_empty();
        if !is_wanted || (record.is_none() && is_idle) {
            return true;
        }
        if record
            .as_ref()
            .is_some_and(|record| record.targets.is_empty())
        {
            if self.is_spec_new() {
                // The selector may be mended: who it selects now is looked for anew.
                self.decision.status.autoscaler = None;
                self.decision.wake = Some(self.now);
                return false;
            }
            self.tell_nothing_held();
            return true;
        }
        let Some(found) = self.autoscalers() else {
            return false;
        };
        let kept = kept(self.snapshot);
        let run = format!("{}/{}", kept.namespace, kept.name);
        match autoscaler::hold((&kept.uid, &run), record.as_ref(), &found, self.now) {
            Move::Record(record) => {
                self.decision.status.autoscaler = Some(record);
                self.decision.wake = Some(self.now);
                false
            }
            Move::Change(effects) => {
                self.decision.effects.extend(effects);
                self.wait("the autoscaler to be held off".to_owned());
                self.decision.wake = Some(self.now);
                false
            }
            Move::Done => {
                self.tell_held();
                true
            }
        }
    }

    /// The Deployments as they are; without a clear answer the wait is already decided on.
    fn autoscalers(&mut self) -> Option<Vec<DeploymentView>> {
        let why = match &self.snapshot.autoscalers {
            Observed::Present(found) => return Some(found.clone()),
            Observed::Absent => return Some(Vec::new()),
            Observed::NotAsked => "nobody has looked for it yet",
            Observed::Unknown(why) => why,
        };
        self.wait(format!("the autoscaler: {why}"));
        None
    }

    fn tell_held(&mut self) {
        let Some(record) = &mut self.decision.status.autoscaler else {
            return;
        };
        record.scaled_down = true;
        let names: Vec<String> = record.targets.iter().map(name_of).collect();
        let message = format!("held off: {}", names.join(", "));
        let notice = Notice::normal("ScaledToZero", message.clone());
        self.decision.notices.push(notice);
        self.claim(HELD, Truth::True, "ScaledToZero", message);
    }

    /// A selector that finds nothing is likely wrong, and somebody should look.
    fn tell_nothing_held(&mut self) {
        let reason = "NothingToHold";
        let message = "spec.autoscalerControl selects no Deployment; nothing is held off";
        if !self.is_held_as(reason) {
            let notice = Notice::warning(reason, message.to_owned());
            self.decision.notices.push(notice);
        }
        self.claim(HELD, Truth::False, reason, message.to_owned());
    }

    /// A hold that somebody has lifted is told once and not taken again: that may be meant.
    fn tell_if_released(&mut self, record: &AutoscalerRecord) {
        let Observed::Present(found) = &self.snapshot.autoscalers else {
            return;
        };
        let reason = "ReleasedByOthers";
        let released = autoscaler::released(record, found);
        if let Some((name, replicas)) = released.first() {
            let message = format!(
                "somebody has lifted the hold: {name} has {replicas} replica(s); it may remove nodes while \
                 the run goes on"
            );
            if !self.is_held_as(reason) {
                let notice = Notice::warning(reason, message.clone());
                self.decision.notices.push(notice);
            }
            self.claim(HELD, Truth::False, reason, message);
        } else if self.is_held_as(reason) {
            self.tell_held();
        }
    }

    /// Whether the condition of the hold has this reason.
    fn is_held_as(&self, reason: &str) -> bool {
        let mut conditions = self.decision.status.conditions.iter();
        conditions.any(|one| one.type_ == HELD && one.reason == reason)
    }

    /// The marks on the nodes are the hold; only its being there is left to tell.
    fn tell_scale_down_forbidden(&mut self) {
        if condition::is_true(&self.decision.status.conditions, HELD) {
            return;
        }
        let message = "no node of the plan and no replacement may be removed by the autoscaler";
        self.decision
            .notices
            .push(Notice::normal(SCALE_DOWN_FORBIDDEN, message.to_owned()));
        self.claim(HELD, Truth::True, SCALE_DOWN_FORBIDDEN, message.to_owned());
    }

    /// The marks are off by now.
    fn tell_scale_down_allowed(&mut self) {
        let is_told = self.decision.status.conditions.iter().any(|one| {
            one.type_ == HELD && one.status == "True" && one.reason == SCALE_DOWN_FORBIDDEN
        });
        if is_told {
            let message = "the autoscaler may remove nodes again".to_owned();
            self.decision
                .notices
                .push(Notice::normal("Restored", message.clone()));
            self.claim(HELD, Truth::False, "Restored", message);
        }
    }

    /// Whether the autoscaler is as it was; if not, what follows is decided on.
    pub(super) fn is_autoscaler_restored(&mut self) -> bool {
        self.tell_scale_down_allowed();
        let Some(record) = self.decision.status.autoscaler.clone() else {
            return true;
        };
        let was_told = condition::is_true(&self.decision.status.conditions, HELD);
        if record.targets.is_empty() || (!record.scaled_down && !was_told && self.has_restored()) {
            return true;
        }
        let Some(found) = self.autoscalers() else {
            return false;
        };
        let control = self.snapshot.run.spec.autoscaler_control.as_ref();
        let shared = &self.snapshot.shared_autoscalers;
        match autoscaler::restore(control, &record, &found, shared) {
            Move::Change(effects) => {
                self.decision.effects.extend(effects);
                self.wait("the autoscaler to get its replicas back".to_owned());
                self.decision.wake = Some(self.now);
                false
            }
            Move::Done | Move::Record(_) => {
                if let Some(record) = &mut self.decision.status.autoscaler {
                    record.scaled_down = false;
                }
                let message = autoscaler::left_as(&record, &found, shared);
                self.decision
                    .notices
                    .push(Notice::normal("Restored", message.clone()));
                self.claim(HELD, Truth::False, "Restored", message);
                true
            }
        }
    }

    /// Forgets a hold that is over, where the run goes on after all: what somebody has set since is the count to
    /// give back next time.
    pub(super) fn forget_past_hold(&mut self) {
        let record = self.decision.status.autoscaler.as_ref();
        if record.is_some_and(|record| !record.scaled_down) && self.has_restored() {
            self.decision.status.autoscaler = None;
        }
    }

    fn has_restored(&self) -> bool {
        self.is_held_as("Restored")
    }
}
