//! Evictions between the call and the moment in which their effect is seen.
//!
//! Owns three small memories of this process: which pods were asked to leave and what that costs
//! their budgets, which evictions the server refused a moment ago, and which task waits for which
//! budget and is called when that has room. None is needed after a restart: the server guards every budget itself, so a lost memory
//! costs a refused call and nothing else. Must not decide who leaves. Read by `observe`, written by
//! `perform` and by the watches.

mod asked;
mod waiters;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use shipshape_cluster::Key;
use shipshape_cluster::queue::Queue;
use shipshape_engine::decision::PodTarget;
use shipshape_engine::drain::Refusal;
use shipshape_engine::view::BudgetView;

use crate::kept::KeptBudget;
use asked::AskedPods;
use waiters::Waiters;

/// How long something is remembered that no event has settled.
const MEMORY: SignedDuration = SignedDuration::from_secs(30);

/// An eviction that the server refused.
#[derive(Debug)]
struct Refused {
    namespace: String,
    refusal: Refusal,
    /// Whether a change of a budget may help.
    by_budget: bool,
    at: Timestamp,
}

#[derive(Debug, Default)]
struct Memory {
    asked: AskedPods,
    /// By the pod's UID.
    refused: BTreeMap<String, Refused>,
    /// How often budgets have been seen to change, by namespace.
    changes: BTreeMap<String, u64>,
    /// What each budget allowed when it was last seen.
    allowed: BTreeMap<Key, i32>,
    waiters: Waiters,
    queue: Option<Queue<Key>>,
}

/// Whether a pod may be asked to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// It may; its budget's room is taken.
    Granted,
    /// What room there was has been taken by others.
    NoRoom,
}

/// Why an eviction was not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusing {
    /// A budget may have had to do with it: its next change may help.
    Budget(Refusal),
    /// Something else.
    Other(Refusal),
}

/// A handle on the memories; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evictions {
    memory: Arc<Mutex<Memory>>,
}

impl Evictions {
    /// Through which queue waiting tasks are woken.
    pub(crate) fn wake_through(&self, queue: Queue<Key>) {
        self.memory().queue = Some(queue);
    }

    /// Asks for leave to evict a pod: there is room in the budget that pays, none of which another
    /// pod has taken since the budget was last seen.
    pub(crate) fn take(
        &self,
        pod: &PodTarget,
        payer: Option<&BudgetView>,
        now: Timestamp,
    ) -> Grant {
        let mut memory = self.memory();
        memory.forget_before(now);
        let budget = payer.map(|budget| Key::new(&budget.namespace, &budget.name));
        if let (Some(key), Some(payer)) = (&budget, payer)
            && memory.asked.taken(key) >= payer.allowed
        {
            return Grant::NoRoom;
        }
        let changes = memory.changes_of(&pod.namespace);
        memory.asked.ask(pod, budget, changes, now);
        Grant::Granted
    }

    /// The pod leaves, or has left, without this call: what the call took is free for others. The pod
    /// counts as asked until the store has caught up: else every look would ask again, at once.
    pub(crate) fn give_back(&self, uid: &str) {
        let mut memory = self.memory();
        if let Some(budget) = memory.asked.give_back(uid) {
            memory.offer_anew(&budget);
        }
    }

    /// The server refused. A refusal by a budget that has changed since the call is old and not kept; what
    /// the call had taken then, or was refused for another reason, is for others. Room that a budget itself
    /// has refused is offered to nobody before its next change.
    pub(crate) fn refused(&self, pod: &PodTarget, why: Refusing, now: Timestamp) {
        let mut memory = self.memory();
        let asked = memory.asked.remove(&pod.uid);
        let (refusal, by_budget) = match why {
            Refusing::Budget(refusal) => (refusal, true),
            Refusing::Other(refusal) => (refusal, false),
        };
        let changes = memory.changes_of(&pod.namespace);
        let (before, budget) = asked.unwrap_or((changes, None));
        let is_old = by_budget && before != changes;
        if let Some(budget) = budget.filter(|_| is_old || !by_budget) {
            memory.offer(&budget);
        }
        if is_old {
            return;
        }
        let refused = Refused {
            namespace: pod.namespace.clone(),
            refusal,
            by_budget,
            at: now,
        };
        memory.refused.insert(pod.uid.clone(), refused);
    }

    /// Whether the pod was asked to leave and the answer is still to be seen.
    pub(crate) fn is_asked(&self, uid: &str, now: Timestamp) -> bool {
        self.memory().asked.is_asked(uid, now)
    }

    /// What the server refused a moment ago.
    pub(crate) fn refusal(&self, uid: &str, now: Timestamp) -> Option<Refusal> {
        let memory = self.memory();
        let refused = memory.refused.get(uid);
        refused
            .filter(|one| is_fresh(one.at, now))
            .map(|one| one.refusal.clone())
    }

    /// The budget with the room that is left after what has been taken from it.
    pub(crate) fn seen_through(&self, mut budget: BudgetView, now: Timestamp) -> BudgetView {
        let mut memory = self.memory();
        memory.forget_before(now);
        let key = Key::new(&budget.namespace, &budget.name);
        budget.allowed = (budget.allowed - memory.asked.taken(&key)).max(0);
        budget
    }

    /// A pod is on its way out, or gone.
    pub(crate) fn saw_leaving(&self, uid: &str) {
        let mut memory = self.memory();
        memory.refused.remove(uid);
        memory.asked.saw_leaving(uid);
    }

    /// A budget has changed: what it has paid for is settled, and as many of those who wait for it are
    /// called as it has room for.
    pub(crate) fn saw_budget(&self, budget: &KeptBudget) {
        let key = budget.key();
        let mut memory = self.memory();
        memory
            .asked
            .saw_budget(&key, |pod| budget.charged.contains(pod));
        memory.note_change(&key.namespace);
        memory.allowed.insert(key.clone(), budget.view.allowed);
        memory.offer_anew(&key);
    }

    /// A budget is gone and charges nobody: everyone who waits for it is called.
    pub(crate) fn lost_budget(&self, budget: &Key) {
        let mut memory = self.memory();
        memory.asked.lost_budget(budget);
        memory.note_change(&budget.namespace);
        memory.allowed.remove(budget);
        memory.waiters.forget(budget);
        memory.call_all(budget);
    }

    /// Notes for which budgets a task waits, and for no others any more.
    pub(crate) fn wait(&self, task: &Key, budgets: BTreeSet<Key>) {
        self.memory().waiters.wait(task, budgets);
    }

    /// A task has had its pass. The room for which it was called and that it has not used is passed on.
    pub(crate) fn passed(&self, task: &Key) {
        let mut memory = self.memory();
        for budget in memory.waiters.passed(task) {
            memory.offer(&budget);
        }
    }

    /// Calls everyone who waits for a budget: its rules have changed, or whom it lets go.
    pub(crate) fn call_all(&self, budget: &Key) {
        self.memory().call_all(budget);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// What a budget allows beyond what has been taken since it was last seen.
    fn room(&self, budget: &Key) -> usize {
        let allowed = self.allowed.get(budget).copied().unwrap_or_default();
        usize::try_from(allowed - self.asked.taken(budget)).unwrap_or_default()
    }

    /// Room of a budget is left that nobody is about to use.
    fn offer(&mut self, budget: &Key) {
        let room = self.room(budget);
        let called = self.waiters.call(budget, room);
        self.wake(called);
    }

    /// The room of a budget is another than before.
    fn offer_anew(&mut self, budget: &Key) {
        let room = self.room(budget);
        let called = self.waiters.changed(budget, room);
        self.wake(called);
    }

    fn call_all(&self, budget: &Key) {
        self.wake(self.waiters.all(budget));
    }

    fn changes_of(&self, namespace: &str) -> u64 {
        self.changes.get(namespace).copied().unwrap_or_default()
    }

    /// A budget of a namespace has changed: what was refused there may be granted now.
    fn note_change(&mut self, namespace: &str) {
        *self.changes.entry(namespace.to_owned()).or_default() += 1;
        self.refused
            .retain(|_, one| !one.by_budget || one.namespace != namespace);
    }

    fn forget_before(&mut self, now: Timestamp) {
        let freed = self.asked.forget_before(now);
        let budgets: BTreeSet<Key> = freed.iter().map(|(_, budget)| budget.clone()).collect();
        for (pod, budget) in freed {
            tracing::info!(pod, %budget, "no sign of an eviction that was asked for; its room is free again");
        }
        for budget in budgets {
            self.offer_anew(&budget);
        }
        self.refused.retain(|_, one| is_fresh(one.at, now));
    }

    fn wake(&self, tasks: Vec<Key>) {
        if let Some(queue) = &self.queue {
            for task in tasks {
                queue.add(task);
            }
        }
    }
}

fn is_fresh(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) < MEMORY
}

#[cfg(test)]
mod tests;
