//! Evictions between the call and the moment in which their effect is seen.
//!
//! Owns three small memories of this process: which pods were asked to leave and what that costs
//! their budgets, which evictions the server refused a moment ago, and which task waits for which
//! budget. None is needed after a restart: the server guards every budget itself, so a lost memory
//! costs a refused call and nothing else. Must not decide who leaves. Read by `observe`, written by
//! `perform` and by the watches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use shipshape_cluster::Key;
use shipshape_cluster::queue::Queue;
use shipshape_engine::decision::PodTarget;
use shipshape_engine::drain::Refusal;
use shipshape_engine::view::BudgetView;

/// How long something is remembered that no event has settled.
const MEMORY: SignedDuration = SignedDuration::from_secs(30);

/// A pod that was asked to leave.
#[derive(Debug)]
struct Asked {
    pod: Key,
    /// The budget that pays, until it shows that it has.
    budget: Option<Key>,
    /// Whether the pod has been seen on its way out.
    seen: bool,
    /// How often budgets of its namespace had changed by then.
    changes: u64,
    at: Timestamp,
}

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
    /// By the pod's UID.
    asked: BTreeMap<String, Asked>,
    /// By the pod's UID.
    refused: BTreeMap<String, Refused>,
    /// How often budgets have been seen to change, by namespace.
    changes: BTreeMap<String, u64>,
    /// Tasks by the budget they wait for, and the other way round.
    waiting: BTreeMap<Key, BTreeSet<Key>>,
    budgets: BTreeMap<Key, BTreeSet<Key>>,
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
            && memory.taken(key) >= payer.allowed
        {
            return Grant::NoRoom;
        }
        let asked = Asked {
            pod: Key::new(&pod.namespace, &pod.name),
            budget,
            seen: false,
            changes: memory.changes_of(&pod.namespace),
            at: now,
        };
        memory.asked.insert(pod.uid.clone(), asked);
        Grant::Granted
    }

    /// The pod leaves, or has left, without this call: what the call took is free for others. The pod
    /// counts as asked until the store has caught up: else every look would ask again, at once.
    pub(crate) fn give_back(&self, uid: &str) {
        let mut memory = self.memory();
        let asked = memory.asked.get_mut(uid);
        if let Some(budget) = asked.and_then(|asked| asked.budget.take()) {
            memory.wake(&budget);
        }
    }

    /// The server refused. A refusal by a budget that has changed since the call is old: the change has
    /// woken whom it may help, and would not do so again.
    pub(crate) fn refused(&self, pod: &PodTarget, why: Refusing, now: Timestamp) {
        let mut memory = self.memory();
        let asked = memory.asked.remove(&pod.uid);
        let (refusal, by_budget) = match why {
            Refusing::Budget(refusal) => (refusal, true),
            Refusing::Other(refusal) => (refusal, false),
        };
        let changes = memory.changes_of(&pod.namespace);
        if by_budget && asked.is_some_and(|asked| asked.changes != changes) {
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
        let memory = self.memory();
        memory
            .asked
            .get(uid)
            .is_some_and(|one| is_fresh(one.at, now))
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
        budget.allowed = (budget.allowed - memory.taken(&key)).max(0);
        budget
    }

    /// A pod is on its way out, or gone.
    pub(crate) fn saw_leaving(&self, uid: &str) {
        let mut memory = self.memory();
        memory.refused.remove(uid);
        if let Some(asked) = memory.asked.get_mut(uid) {
            asked.seen = true;
            if asked.budget.is_none() {
                memory.asked.remove(uid);
            }
        }
    }

    /// A budget has changed. It has paid for the pods that it names, and for those that had been seen
    /// on their way out before: the server charges a budget first and then deletes the pod.
    pub(crate) fn saw_budget(&self, budget: &PodDisruptionBudget) {
        let key = Key::of(budget);
        let status = budget.status.as_ref();
        let disrupted = status.and_then(|status| status.disrupted_pods.as_ref());
        let names = |pod: &str| disrupted.is_some_and(|pods| pods.contains_key(pod));
        let mut memory = self.memory();
        for asked in memory.asked.values_mut() {
            let is_ours = asked.budget.as_ref() == Some(&key);
            if is_ours && (asked.seen || names(&asked.pod.name)) {
                asked.budget = None;
            }
        }
        memory
            .asked
            .retain(|_, asked| asked.budget.is_some() || !asked.seen);
        memory.note_change(&key.namespace);
    }

    /// A budget is gone and charges nobody.
    pub(crate) fn lost_budget(&self, budget: &Key) {
        let mut memory = self.memory();
        for asked in memory.asked.values_mut() {
            asked.budget.take_if(|payer| payer == budget);
        }
        memory.note_change(&budget.namespace);
    }

    /// Notes for which budgets a task waits, and for no others any more.
    pub(crate) fn wait(&self, task: &Key, budgets: BTreeSet<Key>) {
        let mut memory = self.memory();
        let before = memory.budgets.remove(task).unwrap_or_default();
        for budget in before.difference(&budgets) {
            if let Some(tasks) = memory.waiting.get_mut(budget) {
                tasks.remove(task);
                if tasks.is_empty() {
                    memory.waiting.remove(budget);
                }
            }
        }
        for budget in &budgets {
            let tasks = memory.waiting.entry(budget.clone()).or_default();
            tasks.insert(task.clone());
        }
        if !budgets.is_empty() {
            memory.budgets.insert(task.clone(), budgets);
        }
    }

    /// Wakes the tasks that wait for a budget.
    pub(crate) fn wake(&self, budget: &Key) {
        self.memory().wake(budget);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    /// How much of a budget has been taken since it was last seen.
    fn taken(&self, budget: &Key) -> i32 {
        let paid_by = self.asked.values().filter_map(|one| one.budget.as_ref());
        let count = paid_by.filter(|payer| *payer == budget).count();
        i32::try_from(count).unwrap_or(i32::MAX)
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
        self.asked.retain(|_, one| is_fresh(one.at, now));
        self.refused.retain(|_, one| is_fresh(one.at, now));
    }

    fn wake(&self, budget: &Key) {
        let tasks = self.waiting.get(budget).into_iter().flatten();
        for task in tasks {
            if let Some(queue) = &self.queue {
                queue.add(task.clone());
            }
        }
    }
}

fn is_fresh(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) < MEMORY
}

#[cfg(test)]
mod tests;
