//! Slots: which nodes of a wave may begin now, and what is written for them.
//!
//! Owns the order of the two writes, slots before tasks, and which slots are given back by the way. Must
//! not weigh limits: `crate::admit` does.

use super::{Draft, brake, ending, task};
use crate::admit::{self, Books, Waiting};
use crate::decision::Effect;
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
            Observed::Unknown(why) => return self.wait(format!("the ledger: {why}")),
        };
        let run = &self.snapshot.run;
        let owner = run.metadata.uid.clone().unwrap_or_default();
        let (granted, unheard): (Vec<&Waiting>, Vec<&Waiting>) = self
            .snapshot
            .waiting
            .iter()
            .partition(|one| holds_slot(&ledger, one));
        // A slot of ours without a task: the process ended between the two writes.
        for waiting in granted {
            if let Some(slot) = ledger.slots.get(&waiting.node.uid) {
                self.ensure_task(&waiting.node, slot);
            }
        }
        let ledger = self.without_spare(&ledger);
        if let Some(why) = brake::brake(self.snapshot) {
            self.grant(ledger, &[], &[]);
            return self.pause(why);
        }
        self.resume();
        if let Some(reason) = brake::hold(self.snapshot) {
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
        };
        match admit::admit(&run.spec, &owner, &unheard, books, self.now) {
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

    /// The ledger without the slots that nobody works under any more.
    fn without_spare(&self, ledger: &Ledger) -> Ledger {
        let mut ledger = ledger.clone();
        // A run that ends makes no more tasks, so nobody will ever work under a slot that has none.
        let is_ending = ending::of(&self.snapshot.run).is_some();
        for (node_uid, task) in &self.snapshot.abandoned {
            let is_wanted = self.snapshot.waiting.iter().any(|one| one.task == *task);
            if is_ending || !is_wanted {
                ledger.slots.remove(node_uid);
            }
        }
        ledger
    }

    /// Whether slots of tasks that are over were given back, where nobody waits for them.
    pub(super) fn free_slots(&mut self) -> bool {
        let Observed::Present(ledger) = &self.snapshot.ledger else {
            return false;
        };
        let free = self.without_spare(ledger);
        let is_due = free != *ledger;
        let is_asked = |effect: &Effect| matches!(effect, Effect::GrantSlots { .. });
        if !self.decision.effects.iter().any(is_asked) {
            self.grant(free, &[], &[]);
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

fn holds_slot(ledger: &Ledger, waiting: &Waiting) -> bool {
    ledger
        .slots
        .get(&waiting.node.uid)
        .is_some_and(|slot| slot.task == waiting.task)
}
