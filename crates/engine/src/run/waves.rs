//! Waves: when the next partition may follow, and the pauses in between.
//!
//! Owns soaks, the last round of what was set aside, and how a pause is told and taken back. Must not
//! grant anything.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::node_patch_run::{Canary, Wave};

use super::{Draft, Ending, brake, number, some_of};
use crate::decision::Notice;
use crate::{plan, span};

impl Draft<'_> {
    /// Whether the iteration is one of the plan, or the end of it; if not, the plan is walked from its start,
    /// where each node that has had its turn is passed by.
    pub(super) fn is_iteration_planned(&mut self) -> bool {
        let status = &self.decision.status;
        let partitions = number(status.plan.as_ref().map_or(0, |plan| plan.partitions.len()));
        let current = status.current_iteration.unwrap_or(0);
        if (0..=partitions).contains(&current) {
            return true;
        }
        let message = format!(
            "status.currentIteration was {current}, and the plan has {partitions} partition(s): it is \
             walked from its start"
        );
        let notice = Notice::warning("IterationUnknown", message);
        self.decision.notices.push(notice);
        self.decision.status.current_iteration = Some(0);
        false
    }

    pub(super) fn next_partition(&mut self) {
        let next = self.decision.status.current_iteration.unwrap_or(0) + 1;
        let wave = self.wave();
        let plan = self.decision.status.plan.as_ref();
        let partitions = number(plan.map_or(0, |plan| plan.partitions.len()));
        if next < partitions {
            if let Some(wave) = wave.filter(|_| !self.snapshot.open.is_empty()) {
                return match self.brake().after(wave) {
                    Some(why) => self.pause(why),
                    None => self.wait_for_parked(),
                };
            }
            if self.may_others_follow(wave) {
                self.decision.status.last_round = None;
                self.decision.status.waiting_for = None;
                self.decision.status.current_iteration = Some(next);
                self.decision.wake = Some(self.now);
            }
            return;
        }
        // While parked nodes are tried again nobody looks; when none is left there is one more look.
        let is_last_round = self.decision.status.last_round == Some(true);
        if (!is_last_round || self.snapshot.open.is_empty()) && !self.is_plan_whole() {
            return;
        }
        self.decision.status.current_iteration = Some(partitions);
        if self.snapshot.open.is_empty() {
            return self.wind_down(Ending::Completed);
        }
        match self.brake().pause() {
            Some(why) => self.pause(why),
            None => self.wait_for_parked(),
        }
    }

    /// Nothing but parked nodes is left, of the run or of a wave that the others wait for: they are tried again.
    fn wait_for_parked(&mut self) {
        let open = self.snapshot.open.iter();
        let parked: Vec<String> = open.map(|task| task.spec.node_name.clone()).collect();
        self.decision.status.last_round = Some(true);
        self.forget_soak();
        self.wait(format!(
            "parked nodes: {}",
            some_of(&parked).unwrap_or_default()
        ));
    }

    /// Whether every node of the plan has had its turn and no task is left, so that nothing is touched any
    /// more unless another node joins late.
    pub(super) fn is_every_turn_over(&self) -> bool {
        let status = &self.decision.status;
        let partitions = number(status.plan.as_ref().map_or(0, |plan| plan.partitions.len()));
        let next = status.current_iteration.unwrap_or(0) + 1;
        next >= partitions && self.snapshot.waiting.is_empty() && self.snapshot.open.is_empty()
    }

    /// The wave whose turn it is, if the others wait for it.
    pub(super) fn wave(&self) -> Option<Wave> {
        let status = &self.decision.status;
        let plan = status.plan.as_ref()?;
        plan::wave_at(plan, status.current_iteration.unwrap_or(0))
    }

    /// Canaries are watched from the moment on at which the last of them has come through, another try included.
    pub(super) fn forget_soak(&mut self) {
        if self.wave() == Some(Wave::Canaries) {
            self.decision.status.soak_until = None;
        }
    }

    /// Whether the nodes of a wave that is over have shown that the others may follow.
    fn may_others_follow(&mut self, wave: Option<Wave>) -> bool {
        let Some(wave) = wave else { return true };
        if let Some(why) = self.brake().after(wave) {
            self.pause(why);
            return false;
        }
        match (wave, &self.snapshot.run.spec.canary) {
            (Wave::Canaries, Some(canary)) => self.is_soak_over(canary),
            (Wave::Canaries, None) | (Wave::ControlPlanes, _) => true,
        }
    }

    fn is_soak_over(&mut self, canary: &Canary) -> bool {
        let soak = match span::parse(canary.soak.as_deref()) {
            Ok(soak) => {
                self.accept();
                soak
            }
            Err(error) => {
                self.refuse("InvalidSoak", format!("spec.canary.soak: {error}"));
                return false;
            }
        };
        let until = match &self.decision.status.soak_until {
            Some(until) => until.0,
            None => self.now.checked_add(soak).unwrap_or(self.now),
        };
        self.decision.status.soak_until = Some(Time(until));
        if self.now < until {
            self.wait(format!("the canary nodes to be watched until {until:.0}"));
            self.decision.wake = Some(until);
            return false;
        }
        true
    }

    pub(super) fn pause(&mut self, why: brake::Pause) {
        let before = self.snapshot.run.status.as_ref();
        let before = before.and_then(|status| status.pause_reason.as_ref());
        if before != Some(&why.reason) {
            self.decision.notices.push(Notice {
                warning: why.is_failure,
                reason: "Paused",
                message: why.reason.clone(),
            });
        }
        self.decision.status.paused = Some(true);
        self.decision.status.pause_reason = Some(why.reason);
        // Nodes that are set aside wait like those that have yet to begin.
        self.decision.status.last_round = None;
        self.wait(why.way_out);
    }

    pub(super) fn resume(&mut self) {
        self.decision.status.paused = None;
        self.decision.status.pause_reason = None;
        self.decision.status.waiting_for = None;
    }
}
