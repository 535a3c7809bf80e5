//! Which tasks wait for which budget, and whom of them to call when it has room.
//!
//! Owns the two directions of waiting and who has been called since a budget last changed. As many
//! are called as there is room for; one that does not use its room passes it on to the next. So an
//! eviction costs the same however many drains wait for its budget. Must not know how much room there
//! is, nor lose a waiter: whoever was told and found no use for it is told anew at the next change.

use std::collections::{BTreeMap, BTreeSet};

use shipshape_cluster::Key;

#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Tasks by the budget they wait for, and the other way round.
    tasks: BTreeMap<Key, BTreeSet<Key>>,
    budgets: BTreeMap<Key, BTreeSet<Key>>,
    /// By budget, the tasks that were called since it last changed.
    told: BTreeMap<Key, BTreeSet<Key>>,
    /// By task, the budgets for which it was called and has not had its pass.
    called: BTreeMap<Key, BTreeSet<Key>>,
    /// By budget, how many such calls there are.
    outstanding: BTreeMap<Key, usize>,
}

impl Waiters {
    /// Notes for which budgets a task waits, and for no others any more.
    pub(super) fn wait(&mut self, task: &Key, budgets: BTreeSet<Key>) {
        let before = self.budgets.remove(task).unwrap_or_default();
        for budget in before.difference(&budgets) {
            if let Some(tasks) = self.tasks.get_mut(budget) {
                tasks.remove(task);
                if tasks.is_empty() {
                    self.tasks.remove(budget);
                }
            }
        }
        for budget in budgets.difference(&before) {
            let tasks = self.tasks.entry(budget.clone()).or_default();
            tasks.insert(task.clone());
        }
        if !budgets.is_empty() {
            self.budgets.insert(task.clone(), budgets);
        }
    }

    /// A budget has changed and has so much room: everyone may be called anew.
    pub(super) fn changed(&mut self, budget: &Key, room: usize) -> Vec<Key> {
        self.told.remove(budget);
        self.call(budget, room)
    }

    /// The tasks that are to use the room of a budget besides those that are about to.
    pub(super) fn call(&mut self, budget: &Key, room: usize) -> Vec<Key> {
        let outstanding = self.outstanding.get(budget).copied().unwrap_or_default();
        let wanted = room.saturating_sub(outstanding);
        let Some(waiting) = self.tasks.get(budget).filter(|_| wanted > 0) else {
            return Vec::new();
        };
        let told = self.told.entry(budget.clone()).or_default();
        let next: Vec<Key> = waiting.difference(told).take(wanted).cloned().collect();
        for task in &next {
            told.insert(task.clone());
            let of_task = self.called.entry(task.clone()).or_default();
            if of_task.insert(budget.clone()) {
                *self.outstanding.entry(budget.clone()).or_default() += 1;
            }
        }
        next
    }

    /// Everyone who waits for a budget.
    pub(super) fn all(&self, budget: &Key) -> Vec<Key> {
        let waiting = self.tasks.get(budget).into_iter().flatten();
        waiting.cloned().collect()
    }

    /// A task has had its pass. Gives the budgets for which it was called: what room it has not used
    /// is for others.
    pub(super) fn passed(&mut self, task: &Key) -> BTreeSet<Key> {
        let budgets = self.called.remove(task).unwrap_or_default();
        for budget in &budgets {
            if let Some(count) = self.outstanding.get_mut(budget) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.outstanding.remove(budget);
                }
            }
        }
        budgets
    }

    /// A budget is gone.
    pub(super) fn forget(&mut self, budget: &Key) {
        self.told.remove(budget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(number: usize) -> Key {
        Key::new("ops", format!("task-{number:02}"))
    }

    fn budget() -> Key {
        Key::new("shop", "web")
    }

    fn forty() -> Waiters {
        let mut waiters = Waiters::default();
        for number in 0..40 {
            waiters.wait(&task(number), [budget()].into());
        }
        waiters
    }

    #[test]
    fn as_many_are_called_as_there_is_room_for() {
        let mut waiters = forty();
        assert_eq!(waiters.changed(&budget(), 0), []);
        assert_eq!(waiters.changed(&budget(), 2), [task(0), task(1)]);
        assert_eq!(waiters.changed(&budget(), 2), [], "two are on their way");
        assert_eq!(waiters.changed(&budget(), 3), [task(0)], "told anew");
    }

    #[test]
    fn room_that_is_not_used_goes_to_everyone_once_and_then_waits_for_a_change() {
        let mut waiters = forty();
        let mut called = waiters.changed(&budget(), 1);
        for number in 0..40 {
            assert_eq!(called, [task(number)]);
            assert_eq!(waiters.passed(&task(number)), [budget()].into());
            called = waiters.call(&budget(), 1);
        }
        assert_eq!(called, [], "nobody can use it");
        assert_eq!(waiters.changed(&budget(), 1), [task(0)]);
    }

    #[test]
    fn whoever_no_longer_waits_is_not_called_and_blocks_nobody() {
        let mut waiters = forty();
        assert_eq!(waiters.changed(&budget(), 1), [task(0)]);
        waiters.wait(&task(0), BTreeSet::new());
        assert_eq!(waiters.passed(&task(0)), [budget()].into());
        assert_eq!(waiters.call(&budget(), 1), [task(1)]);
        assert_eq!(waiters.all(&budget()).len(), 39);
        for number in 0..40 {
            waiters.wait(&task(number), BTreeSet::new());
            waiters.passed(&task(number));
        }
        waiters.forget(&budget());
        let left = format!("{waiters:?}");
        assert_eq!(left, format!("{:?}", Waiters::default()));
    }
}
