//! Pods that were asked to leave, until events show that they do and that a budget has paid.
//!
//! Owns what this process has taken from budgets and cannot see yet. Looking one up and settling one
//! must not walk the others: many drains ask at once.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use shipshape_cluster::Key;
use shipshape_engine::decision::PodTarget;

use super::is_fresh;

/// A pod that was asked to leave.
#[derive(Debug)]
struct Asked {
    /// Name, as a budget tells whom it has paid for.
    pod: String,
    /// The budget that pays, until it shows that it has.
    budget: Option<Key>,
    /// Whether the pod has been seen on its way out.
    seen: bool,
    /// How often budgets of its namespace had changed by then.
    changes: u64,
    at: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct AskedPods {
    /// By the pod's UID.
    by_uid: BTreeMap<String, Asked>,
    /// UIDs by the budget that has not shown yet that it has paid for them.
    unpaid: BTreeMap<Key, BTreeSet<String>>,
    /// Nothing was asked before this.
    oldest: Option<Timestamp>,
}

impl AskedPods {
    /// Notes that a pod is asked to leave, and which budget pays.
    pub(super) fn ask(
        &mut self,
        pod: &PodTarget,
        budget: Option<Key>,
        changes: u64,
        at: Timestamp,
    ) {
        let uid = pod.uid.as_str();
        self.remove(uid);
        if let Some(budget) = &budget {
            let unpaid = self.unpaid.entry(budget.clone()).or_default();
            unpaid.insert(uid.to_owned());
        }
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
        let asked = Asked {
            pod: pod.name.clone(),
            budget,
            seen: false,
            changes,
            at,
        };
        self.by_uid.insert(uid.to_owned(), asked);
    }

    /// Whether the pod was asked to leave and the answer is still to be seen.
    pub(super) fn is_asked(&self, uid: &str, now: Timestamp) -> bool {
        let asked = self.by_uid.get(uid);
        asked.is_some_and(|one| is_fresh(one.at, now))
    }

    /// How much of a budget has been taken since it was last seen.
    pub(super) fn taken(&self, budget: &Key) -> i32 {
        let count = self.unpaid.get(budget).map_or(0, BTreeSet::len);
        i32::try_from(count).unwrap_or(i32::MAX)
    }

    /// What the call has taken is free for others. Gives the budget.
    pub(super) fn give_back(&mut self, uid: &str) -> Option<Key> {
        let budget = self.by_uid.get_mut(uid)?.budget.take()?;
        self.strike(&budget, uid);
        Some(budget)
    }

    /// The pod is asked no more. Gives how often budgets had changed when it was, and the budget whose room
    /// is free again.
    pub(super) fn remove(&mut self, uid: &str) -> Option<(u64, Option<Key>)> {
        let asked = self.by_uid.remove(uid)?;
        if let Some(budget) = &asked.budget {
            self.strike(budget, uid);
        }
        Some((asked.changes, asked.budget))
    }

    /// The pod is on its way out, or gone.
    pub(super) fn saw_leaving(&mut self, uid: &str) {
        let Some(asked) = self.by_uid.get_mut(uid) else {
            return;
        };
        asked.seen = true;
        if asked.budget.is_none() {
            self.by_uid.remove(uid);
        }
    }

    /// A budget has changed: it has paid for the pods that it names, and for those that had been seen
    /// on their way out before, since the server charges a budget first and then deletes the pod.
    pub(super) fn saw_budget(&mut self, budget: &Key, names: impl Fn(&str) -> bool) {
        let unpaid = self.unpaid.remove(budget).unwrap_or_default();
        for uid in unpaid {
            let Some(asked) = self.by_uid.get_mut(&uid) else {
                continue;
            };
            if !asked.seen && !names(&asked.pod) {
                let unpaid = self.unpaid.entry(budget.clone()).or_default();
                unpaid.insert(uid);
                continue;
            }
            asked.budget = None;
            if asked.seen {
                self.by_uid.remove(&uid);
            }
        }
    }

    /// A budget is gone and charges nobody.
    pub(super) fn lost_budget(&mut self, budget: &Key) {
        self.saw_budget(budget, |_| true);
    }

    /// Forgets what no event has settled in time. Gives the pods and the budgets whose room is free again.
    pub(super) fn forget_before(&mut self, now: Timestamp) -> Vec<(String, Key)> {
        if self.oldest.is_none_or(|oldest| is_fresh(oldest, now)) {
            return Vec::new();
        }
        let is_old = |one: &Asked| !is_fresh(one.at, now);
        let stale = self.by_uid.iter().filter(|(_, one)| is_old(one));
        let stale: Vec<String> = stale.map(|(uid, _)| uid.clone()).collect();
        let mut freed = Vec::new();
        for uid in stale {
            let pod = self.by_uid.get(&uid).map(|one| one.pod.clone());
            let budget = self.remove(&uid).and_then(|(_, budget)| budget);
            freed.extend(pod.zip(budget));
        }
        self.oldest = self.by_uid.values().map(|one| one.at).min();
        freed
    }

    fn strike(&mut self, budget: &Key, uid: &str) {
        if let Some(unpaid) = self.unpaid.get_mut(budget) {
            unpaid.remove(uid);
            if unpaid.is_empty() {
                self.unpaid.remove(budget);
            }
        }
    }
}
