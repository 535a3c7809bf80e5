//! Slots: which nodes of a wave may begin now, and what is written for them.
//!
//! Owns the order of the two writes, slots before tasks, and which slots are given back by the way. Must
//! not weigh limits: `crate::admit` does.

use shipshape_api::conditions::{HELD_UP, LEDGER_READABLE};

use super::{Draft, ending, task};
use crate::admit::{self, Admission, Books, Waiting};
use crate::condition::{self, Truth};
use crate::decision::{Effect, Notice};
use crate::ledger::{Ledger, Slot};
use crate::view::{NodeView, Observed};

impl Draft<'_> {
    pub(super) fn admit(&mut self) {
        let ledger = match &self.snapshot.ledger {
            Observed::Present(ledger) => ledger.clone(),
            Observed::Absent => Ledger::default(),
            Observed::NotAsked => {
                return self.wait("the ledger, which nobody has read yet".to_owned());
            }
            Observed::Unknown(why) => {
                self.wait(format!("the ledger: {why}"));
                // No watch tells when it can be read again.
                self.decision.wake = self.now.checked_add(self.settings.machine_poll).ok();
                return;
            }
        };
        let run = &self.snapshot.run;
        let owner = run.metadata.uid.clone().unwrap_or_default();
        let (granted, unheard): (Vec<&Waiting>, Vec<&Waiting>) = self
            .snapshot
            .waiting
            .iter()
            .partition(|one| holds_slot(&ledger, one));
        if let Some(why) = self.brake().pause() {
            self.grant(self.put_right(&ledger), &[], &[]);
            return self.pause(why);
        }
        // A slot of ours without a task: the process ended between the two writes.
        for waiting in granted {
            if let Some(slot) = ledger.slots.get(&waiting.node.uid) {
                self.ensure_task(&waiting.node, slot);
            }
        }
        let ledger = self.put_right(&ledger);
        self.resume();
        if let Some(reason) = self.brake().hold() {
            self.grant(ledger, &[], &[]);
            return self.wait(reason);
        }
        let unheard: Vec<Waiting> = unheard.into_iter().cloned().collect();
        let books = Books {
            ledger: &ledger,
            down: &self.snapshot.down,
            begun_within_hour: self.snapshot.begun_within_hour,
            on_their_way: &self.snapshot.on_their_way,
            etcd: &self.snapshot.etcd,
            open: &self.snapshot.left_open,
        };
        let admission = admit::admit(&run.spec, &owner, &unheard, books, self.now);
        let admission = match admission {
            Ok(admission) if self.is_held_up(&admission, unheard.len()) => {
                let freed = without_groups(&unheard);
                admit::admit(&run.spec, &owner, &freed, books, self.now)
            }
            other => other,
        };
        match admission {
            Ok(admission) => {
                self.accept();
                if let Some(reason) = admission.held_by {
                    self.wait(reason);
                }
                self.grant(ledger, &admission.grants, &unheard);
            }
            Err(error) => self.refuse(
                "InvalidSelector",
                format!("spec.importantPodSelectors: {error}"),
            ),
        }
    }

    /// The ledger without the slots that nobody works under any more, and with those that it has lost.
    fn put_right(&self, ledger: &Ledger) -> Ledger {
        let mut ledger = ledger.with(&self.snapshot.slotless.slots);
        // A run that ends or is held makes no tasks, so nobody will work under a slot that has none.
        let makes_none = ending::of(&self.snapshot.run).is_some() || self.brake().pause().is_some();
        for (node_uid, task) in &self.snapshot.abandoned {
            let is_wanted = self.snapshot.waiting.iter().any(|one| one.task == *task);
            if makes_none || !is_wanted {
                ledger.slots.remove(node_uid);
            }
        }
        ledger
    }

    /// Whether slots of tasks that are over were given back, or lost ones written, where nobody waits.
    pub(super) fn free_slots(&mut self) -> bool {
        let Observed::Present(ledger) = &self.snapshot.ledger else {
            return false;
        };
        let right = self.put_right(ledger);
        let is_due = right != *ledger;
        let is_asked = |effect: &Effect| matches!(effect, Effect::GrantSlots { .. });
        if !self.decision.effects.iter().any(is_asked) {
            self.grant(right, &[], &[]);
        }
        is_due
    }

    /// First the slots, those given back and those granted by one guarded write; then the tasks that
    /// work under them.
    fn grant(&mut self, ledger: Ledger, grants: &[(String, Slot)], waiting: &[Waiting]) {
        if grants.is_empty()
            && self
                .snapshot
                .ledger
                .present()
                .is_none_or(|read| *read == ledger)
        {
            return;
        }
        let lost = self.snapshot.slotless.notice();
        self.decision.notices.extend(lost);
        self.decision.effects.push(Effect::GrantSlots {
            ledger,
            slots: grants.to_vec(),
        });
        for (uid, slot) in grants {
            if let Some(one) = waiting.iter().find(|one| one.node.uid == *uid) {
                self.ensure_task(&one.node, slot);
            }
        }
    }

    /// Whether all that is left of the wave has been held up by itself for too long: such nodes begin all the
    /// same, so that their tasks meet what is in the way, say so, and are set aside or given up by the
    /// deadlines that tasks have.
    fn is_held_up(&mut self, admission: &Admission, waiting: usize) -> bool {
        if !admission.grants.is_empty() {
            self.end_of_hold_up();
            return false;
        }
        if admission.stuck < waiting || waiting == 0 || !self.working().is_empty() {
            return false;
        }
        let why = admission.held_by.clone().unwrap_or_default();
        let limit = self.settings.deadlines.lock;
        let message = format!(
            "nodes of this wave cannot begin, first: {why}; past {limit:#} they are begun all the same, \
             and set aside if that does not help"
        );
        if !condition::is_true(&self.decision.status.conditions, HELD_UP) {
            let notice = Notice::warning("HeldUp", message.clone());
            self.decision.notices.push(notice);
        }
        self.claim(HELD_UP, Truth::True, "CannotBegin", message);
        let mut conditions = self.decision.status.conditions.iter();
        let told = conditions.find(|one| one.type_ == HELD_UP);
        told.is_some_and(|told| self.now.duration_since(told.last_transition_time.0) >= limit)
    }

    /// Says that nobody holds the wave up any more.
    pub(super) fn end_of_hold_up(&mut self) {
        if condition::is_true(&self.decision.status.conditions, HELD_UP) {
            let message = "the nodes that can begin do".to_owned();
            self.claim(HELD_UP, Truth::False, "GoesOn", message);
        }
    }

    /// Entries of the ledger that nobody can read are told once, and when they are gone.
    pub(super) fn tell_of_ledger(&mut self) {
        let Observed::Present(ledger) = &self.snapshot.ledger else {
            return;
        };
        let conditions = &self.decision.status.conditions;
        let told = conditions.iter().find(|one| one.type_ == LEDGER_READABLE);
        match ledger.complaint() {
            Some(message) => {
                if told.is_none_or(|told| told.message != message) {
                    let notice = Notice::warning("LedgerKeyUnreadable", message.clone());
                    self.decision.notices.push(notice);
                }
                let reason = "LedgerKeyUnreadable";
                self.claim(LEDGER_READABLE, Truth::False, reason, message);
            }
            None if told.is_some() => {
                let message = "every key of the ledger is a slot".to_owned();
                self.claim(LEDGER_READABLE, Truth::True, "Readable", message);
            }
            None => {}
        }
    }

    fn ensure_task(&mut self, node: &NodeView, slot: &Slot) {
        let task = task::task(self.snapshot, &self.decision.status, node, slot);
        // Counted now, so that the sight of the task is no news.
        let status = &mut self.decision.status;
        let count = if slot.important {
            &mut status.in_flight_important
        } else {
            &mut status.in_flight_non_important
        };
        *count = Some(count.unwrap_or(0) + 1);
        self.decision
            .effects
            .push(Effect::EnsureTask(Box::new(task)));
    }
}

/// The same nodes, with nobody asking whether their groups have room.
fn without_groups(waiting: &[Waiting]) -> Vec<Waiting> {
    let freed = waiting.iter().cloned().map(|one| Waiting {
        group: Observed::NotAsked,
        ..one
    });
    freed.collect()
}

fn holds_slot(ledger: &Ledger, waiting: &Waiting) -> bool {
    ledger
        .slots
        .get(&waiting.node.uid)
        .is_some_and(|slot| slot.task == waiting.task)
}
