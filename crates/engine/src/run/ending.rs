//! The endings of a run: done, called off, deleted.
//!
//! Owns what is put back and in which order: tasks first, then the slots, the marks on nodes, the
//! autoscaler and the groups, then the object itself. Every ending puts back the same things. One that is
//! called off does not let marks and autoscaler wait for a ledger that cannot be read: a person waits for that
//! one. One that is done does.

use shipshape_api::NodePatchRun;
use shipshape_api::conditions::{ABORTED, COMPLETED};
use shipshape_api::names::LEDGER_NAME;
use shipshape_api::reasons::NO_CANDIDATES;

use super::{Draft, kept, some_of};
use crate::condition::{self, Truth};
use crate::decision::{Effect, Marks, Notice};
use crate::view::{Observed, is_kept};

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Every node of the plan has had its turn.
    Completed,
    /// `spec.abort` is true.
    Aborted,
    /// The object is being deleted.
    Deleted,
}

/// The ending that somebody has asked for.
pub(super) fn of(run: &NodePatchRun) -> Option<Ending> {
    let status = run.status.as_ref();
    let is_completed =
        status.is_some_and(|status| condition::is_true(&status.conditions, COMPLETED));
    if run.metadata.deletion_timestamp.is_some() {
        Some(Ending::Deleted)
    } else if run.spec.abort() && !is_completed {
        Some(Ending::Aborted)
    } else {
        None
    }
}

impl Draft<'_> {
    /// Puts back what the run has changed, then says how it ended.
    pub(super) fn wind_down(&mut self, ending: Ending) {
        self.resume();
        let open: Vec<String> = self
            .snapshot
            .open
            .iter()
            .map(|task| task.spec.node_name.clone())
            .collect();
        if let Some(text) = some_of(&open) {
            // Tasks that are set aside wait for these before they are put back.
            self.free_slots();
            return self.wait(format!("tasks to be put back or finished: {text}"));
        }
        let is_called_off = ending != Ending::Completed;
        let is_ledger_unclear = matches!(self.snapshot.ledger, Observed::Unknown(_));
        let come_slots_last = is_called_off && is_ledger_unclear;
        if !come_slots_last && !self.are_slots_given_back() {
            return;
        }
        if !self.snapshot.marked.is_empty() {
            for node in self.snapshot.marked.clone() {
                self.put_marks(node, Marks::NONE);
            }
            self.wait("the marks on outdated nodes to be taken off".to_owned());
            self.decision.wake = Some(self.now);
            return;
        }
        if !self.is_autoscaler_restored() || (come_slots_last && !self.are_slots_given_back()) {
            return;
        }
        // The last one out puts the groups back; they may be another run's too.
        let has_restored = self.decision.status.groups_restored == Some(true);
        if self.snapshot.others == 0 && self.decision.status.plan.is_some() && !has_restored {
            self.decision.effects.push(Effect::RestoreGroups);
            self.decision.status.groups_restored = Some(true);
            self.decision.wake = Some(self.now);
            return;
        }
        self.decision.status.waiting_for = None;
        match ending {
            Ending::Completed => self.complete(),
            Ending::Aborted => self.abort(),
            Ending::Deleted => self.let_go(),
        }
    }

    /// Whether the ledger has no slot of this run any more; if not, what follows is decided on.
    fn are_slots_given_back(&mut self) -> bool {
        if let Observed::Unknown(why) = &self.snapshot.ledger {
            self.wait(format!(
                "the ledger, to give slots back ({why}); to help: make ConfigMap {LEDGER_NAME} in the \
                 operator's namespace readable to it, or delete it"
            ));
            return false;
        }
        if self.free_slots() {
            self.wait("the slots of the last tasks to be given back".to_owned());
            self.decision.wake = Some(self.now);
            return false;
        }
        if self.holds_slots() {
            // Its task was removed by force: once it is sure that none is on its way, the slot is given back.
            self.wait("a slot whose task is gone to be given back".to_owned());
            return false;
        }
        true
    }

    /// Whether the ledger still has a slot of this run.
    fn holds_slots(&self) -> bool {
        let uid = self.snapshot.run.metadata.uid.as_deref();
        let ledger = self.snapshot.ledger.present();
        let mut slots = ledger.into_iter().flat_map(|ledger| ledger.slots.values());
        slots.any(|slot| Some(slot.owner.as_str()) == uid)
    }

    fn complete(&mut self) {
        let (failed, succeeded) = (self.snapshot.failed, self.snapshot.succeeded);
        let total = usize::try_from(self.decision.status.total.unwrap_or(0)).unwrap_or(0);
        if total == 0 {
            return self.complete_without_nodes();
        }
        let reason = if failed == 0 {
            "AllPartitionsDone"
        } else {
            "SomeNodesFailed"
        };
        let untried = self.snapshot.untried;
        let left = total.saturating_sub(succeeded + failed + untried);
        self.decision.status.left = Some(super::number(left)).filter(|count| *count > 0);
        let parts = [
            Some(format!("{succeeded} node(s) replaced, {failed} failed")),
            self.lost_places(),
            self.surplus(),
            (left > 0).then(|| format!("{left} had left by themselves")),
            (untried > 0).then(|| format!("{untried} are there and were never begun")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let message = parts.join(", ");
        self.decision.notices.push(if failed + untried == 0 {
            Notice::normal(reason, message.clone())
        } else {
            Notice::warning(reason, message.clone())
        });
        self.decision.status.last_round = None;
        self.claim(COMPLETED, Truth::True, reason, message);
    }

    /// Nobody asks for nothing: a selector is likely wrong, and somebody should look.
    fn complete_without_nodes(&mut self) {
        let message = "no node matches the selectors of the run; nothing was replaced";
        self.decision
            .notices
            .push(Notice::warning(NO_CANDIDATES, message.to_owned()));
        self.claim(COMPLETED, Truth::True, NO_CANDIDATES, message.to_owned());
    }

    fn abort(&mut self) {
        if condition::is_true(&self.decision.status.conditions, ABORTED) {
            return self.let_go();
        }
        let parts = [self.lost_places(), self.surplus()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let warning = !parts.is_empty();
        let left = if warning {
            parts.join(", ")
        } else {
            "nothing is left half done".to_owned()
        };
        let message = format!(
            "called off after {} node(s); {left}",
            self.snapshot.succeeded
        );
        self.decision.notices.push(Notice {
            warning,
            reason: "Aborted",
            message: message.clone(),
        });
        self.claim(COMPLETED, Truth::False, "Aborted", message.clone());
        self.claim(ABORTED, Truth::True, "Aborted", message);
    }

    /// Says how many places are empty, if any are.
    fn lost_places(&self) -> Option<String> {
        let lost = self.snapshot.lost;
        (lost > 0).then(|| format!("{lost} node(s) are gone without a replacement"))
    }

    /// Says how many machines there are too many, if there are.
    fn surplus(&self) -> Option<String> {
        let count = self.snapshot.surplus;
        (count > 0).then(|| {
            format!("{count} new machine(s) that could not be taken away stay in their groups")
        })
    }

    /// Lets the object go whenever somebody wants it to.
    pub(super) fn let_go(&mut self) {
        if is_kept(&self.snapshot.run.metadata) {
            self.decision
                .effects
                .push(Effect::DropFinalizer(kept(self.snapshot)));
        }
    }
}
