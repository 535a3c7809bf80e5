//! The line of nodes that wait for their turn in a run.
//!
//! Owns which places of a partition are still worth a look, so that a pass costs what it admits and not
//! what the cluster holds. All of it follows from the plan and the stores: a restart begins anew, and
//! the last look at a partition does too. Must not decide who is next; the order is the plan's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What a look at one place of the plan came to.
pub(crate) enum Turn<T> {
    /// Its node waits.
    Waits(T),
    /// Its node waits, and is not wanted now.
    Skipped,
    /// Its node has a task, or has left; nobody needs to look here again.
    Over,
}

/// The lines of all runs, by a name that begins with the UID of the run; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<BTreeMap<String, Line>>>);

/// Which partition of which plan a line is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Name of the line; it begins with the UID of the run.
    pub(crate) name: String,
    pub(crate) plan_version: String,
    pub(crate) iteration: usize,
    /// Nodes of the partition.
    pub(crate) size: usize,
}

struct Line {
    part: Part,
    /// Places whose nodes may still wait, in order.
    left: Vec<usize>,
}

impl Line {
    fn new(part: Part) -> Self {
        Self {
            left: (0..part.size).rev().collect(),
            part,
        }
    }

    /// The first that wait. A place is asked about until it is over, and one behind the last that is
    /// wanted is not asked about.
    fn walk<T>(&mut self, wanted: usize, mut look: impl FnMut(usize) -> Turn<T>) -> Vec<T> {
        let mut found = Vec::new();
        let mut passed = Vec::new();
        while found.len() < wanted
            && let Some(place) = self.left.pop()
        {
            match look(place) {
                Turn::Over => continue,
                Turn::Skipped => {}
                Turn::Waits(one) => found.push(one),
            }
            passed.push(place);
        }
        self.left.extend(passed.into_iter().rev());
        found
    }
}

impl Lines {
    /// The first of a run's partition that wait, as `look` says of each place.
    pub(crate) fn walk<T>(
        &self,
        part: Part,
        wanted: usize,
        look: impl FnMut(usize) -> Turn<T>,
    ) -> Vec<T> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines
            .entry(part.name.clone())
            .or_insert_with(|| Line::new(part.clone()));
        if line.part != part {
            *line = Line::new(part);
        }
        line.walk(wanted, look)
    }

    /// Forgets a line: who walks it next looks at all places again.
    pub(crate) fn forget(&self, name: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn part(size: usize) -> Part {
        Part {
            name: "run".to_owned(),
            plan_version: "1".to_owned(),
            iteration: 0,
            size,
        }
    }

    fn turn(is_over: bool, place: usize) -> Turn<usize> {
        if is_over {
            Turn::Over
        } else {
            Turn::Waits(place)
        }
    }

    /// Plays a roll of so many nodes, a few at a time, and says how many places were looked at.
    fn looks_of_a_roll(size: usize, at_once: usize) -> usize {
        let lines = Lines::default();
        let (mut looks, mut begun) = (0, BTreeSet::new());
        loop {
            let waiting = lines.walk(part(size), at_once + 8, |place| {
                looks += 1;
                turn(begun.contains(&place), place)
            });
            if waiting.is_empty() {
                break;
            }
            let one_more = begun.len() + at_once;
            begun.extend(waiting.into_iter().take(at_once));
            assert!(begun.len() <= one_more);
        }
        assert_eq!(begun.len(), size, "each had its turn");
        looks
    }

    #[test]
    fn a_node_of_a_large_cluster_costs_as_many_looks_as_one_of_a_small() {
        let small = looks_of_a_roll(100, 1) / 100;
        let large = looks_of_a_roll(20_000, 1) / 20_000;
        assert_eq!(small, large, "looks for each node");
        assert!(large <= 12, "{large}");
    }

    #[test]
    fn those_that_are_passed_over_stay_in_line_in_their_order() {
        let lines = Lines::default();
        let first =
            |over: &[usize]| lines.walk(part(6), 3, |place| turn(over.contains(&place), place));
        assert_eq!(first(&[]), [0, 1, 2]);
        assert_eq!(first(&[1, 3]), [0, 2, 4]);
        assert_eq!(first(&[]), [0, 2, 4], "what was over is not asked about");
        lines.forget("run");
        assert_eq!(first(&[]), [0, 1, 2], "unless somebody looks afresh");
    }

    #[test]
    fn another_partition_or_plan_has_a_line_of_its_own() {
        let lines = Lines::default();
        let all = |part| lines.walk(part, 9, |_| Turn::<()>::Over).len();
        assert_eq!(all(part(3)), 0);
        let next = Part {
            iteration: 1,
            ..part(3)
        };
        assert_eq!(lines.walk(next, 9, Turn::Waits), [0, 1, 2]);
    }

    #[test]
    fn those_to_skip_stay_in_line_and_make_room_for_others() {
        let lines = Lines::default();
        let found = lines.walk(part(4), 2, |place| match place {
            0 | 2 => Turn::Skipped,
            _ => Turn::Waits(place),
        });
        assert_eq!(found, [1, 3]);
        assert_eq!(lines.walk(part(4), 9, Turn::Waits), [0, 1, 2, 3]);
    }
}
