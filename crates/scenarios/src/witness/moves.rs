//! How often each replica of a workload had to move.
//!
//! Owns the lineage: the pod that an owner makes after one of its pods was evicted carries on that
//! pod's count. Must not count pods that nobody evicted.

use std::collections::{BTreeMap, VecDeque};

use shipshape_engine::view::PodView;

use super::{as_float, checks::is_daemon};
use crate::report::PodCount;

type Owner = (String, String, String);

#[derive(Debug, Default)]
pub(super) struct Moves {
    owners: BTreeMap<String, Owner>,
    /// The latest UID of each `namespace/name`: an audit log does not tell UIDs.
    uids: BTreeMap<String, String>,
    moves: BTreeMap<String, usize>,
    /// Counts that wait for an owner's next pod.
    inherited: BTreeMap<Owner, VecDeque<usize>>,
    evicted: usize,
}

impl Moves {
    pub(super) fn saw(&mut self, pod: &PodView) {
        if self.moves.contains_key(&pod.uid) || is_daemon(pod) {
            return;
        }
        let Some((kind, name)) = pod.owner.clone() else {
            return;
        };
        let owner = (pod.namespace.clone(), kind, name);
        let inherited = self.inherited.get_mut(&owner).and_then(VecDeque::pop_front);
        self.moves.insert(pod.uid.clone(), inherited.unwrap_or(0));
        self.owners.insert(pod.uid.clone(), owner);
        let object = format!("{}/{}", pod.namespace, pod.name);
        self.uids.insert(object, pod.uid.clone());
    }

    /// A pod was evicted; its UID may be empty where the log has none.
    pub(super) fn evicted(&mut self, uid: &str, object: &str) {
        self.evicted += 1;
        let uid = match self.uids.get(object) {
            Some(known) if uid.is_empty() => known.as_str(),
            _ => uid,
        };
        let Some(owner) = self.owners.get(uid) else {
            return;
        };
        let moves = self.moves.get(uid).copied().unwrap_or(0) + 1;
        self.inherited
            .entry(owner.clone())
            .or_default()
            .push_back(moves);
    }

    pub(super) fn count(&self, total: usize) -> PodCount {
        let waiting = self.inherited.values().flatten();
        let max_moves = self
            .moves
            .values()
            .chain(waiting)
            .copied()
            .max()
            .unwrap_or(0);
        PodCount {
            total,
            evicted: self.evicted,
            max_moves,
            mean_moves: as_float(self.evicted) / as_float(total.max(1)),
        }
    }
}
