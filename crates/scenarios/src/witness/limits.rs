//! I1: how many nodes may be out of service at once, and how many are.
//!
//! Owns the limits, which are those of the runs as they stand, and what counts as out of service. A
//! limit that is lowered binds new work; what was begun under the old one may end under it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use shipshape_api::gates::ReplacementMode;
use shipshape_api::names::ANNOTATION_ACKNOWLEDGED;
use shipshape_api::{NodePatchRun, NodePatchTask, NodePatchTaskStatus, TaskStep};
use shipshape_engine::run::is_over;

use super::Witness;

/// What the runs promise together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// Most nodes out of service.
    total: usize,
    /// Most nodes of one zone out of service, if every run has such a limit.
    per_zone: Option<usize>,
    /// Whether old machines may go before their replacements come.
    pub(super) terminate_first: bool,
}

impl Limits {
    fn of<'a>(runs: impl Iterator<Item = &'a NodePatchRun>) -> Self {
        let (mut important, mut others) = (0, 0);
        let mut zones = Some(0);
        let mut terminate_first = false;
        for spec in runs.map(|run| &run.spec) {
            let mode = spec.replacement.unwrap_or_default();
            terminate_first |= mode != ReplacementMode::Surge;
            others = others.max(spec.batch_size_non_important());
            if !spec.important_pod_selectors.is_empty() {
                important = important.max(spec.batch_size_important());
            }
            let zone = spec.max_concurrent_per_zone();
            zones = zones.zip(zone).map(|(all, one): (i32, i32)| all.max(one));
        }
        let count = |number: i32| usize::try_from(number).unwrap_or_default();
        Self {
            total: count(important.saturating_add(others)),
            per_zone: zones.map(count),
            terminate_first,
        }
    }

    /// The looser of two.
    fn or(self, other: Self) -> Self {
        Self {
            total: self.total.max(other.total),
            per_zone: self.per_zone.zip(other.per_zone).map(|(a, b)| a.max(b)),
            terminate_first: self.terminate_first || other.terminate_first,
        }
    }
}

/// A machine that went before its replacement came.
#[derive(Clone, Debug)]
pub(super) struct Vacancy {
    pub(super) node: String,
    pub(super) zone: String,
}

impl Witness {
    /// The runs have changed: their limits hold from now on, for new work. Where all are gone, what they have left is put
    /// back one by one.
    pub(super) fn set_limits(&mut self) {
        let is_final = |task: &NodePatchTask| {
            let step = task.status.as_ref().map(NodePatchTaskStatus::step_name);
            step.is_some_and(TaskStep::is_final)
        };
        let mut new = Limits::of(self.runs.values().map(AsRef::as_ref));
        if self.runs.is_empty() && !self.tasks.values().all(|task| is_final(task)) {
            (new.total, new.per_zone) = (1, None);
        }
        self.granted = self.granted.or(new);
        self.limits = new;
        self.forget_grants();
    }

    /// Once nothing is under way that began under older limits, they are over.
    pub(super) fn forget_grants(&mut self) {
        let is_open = |task: &NodePatchTask| {
            let step = task.status.as_ref().map(NodePatchTaskStatus::step_name);
            !step.is_some_and(|step| step.is_final() || step == TaskStep::Parked)
        };
        let open = self.tasks.values().filter(|task| is_open(task)).count();
        if open <= self.limits.total {
            self.granted = self.limits;
        }
    }

    /// I1: no more nodes out of service by us than was promised. Where watches keep no order, the run that has promised
    /// it may not have been seen yet.
    pub(super) fn check_disruption(&mut self, at: Timestamp) {
        if !self.is_exact && self.runs.is_empty() {
            return;
        }
        let out = self.out_of_service();
        let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, zone) in &out {
            *zones.entry(zone).or_default() += 1;
        }
        let mut broken = Vec::new();
        let allowed = self.granted.total;
        if out.len() > allowed {
            let names: Vec<&str> = out.iter().map(|(name, _)| name.as_str()).collect();
            broken.push(format!(
                "{} nodes out of service, {allowed} allowed: {}",
                out.len(),
                names.join(", ")
            ));
        }
        for (zone, count) in zones {
            if let Some(allowed) = self.granted.per_zone.filter(|allowed| count > *allowed) {
                broken.push(format!(
                    "{count} nodes of zone {zone} out of service, {allowed} allowed"
                ));
            }
        }
        for text in broken {
            self.violated("I1", at, text);
        }
    }

    /// Nodes that we have taken out of service, with their zones: cordoned, or gone before their
    /// replacement came.
    fn out_of_service(&self) -> Vec<(String, String)> {
        let is_ours = |name: &String| !self.foreign_cordons.contains(name);
        let cordoned = self
            .nodes
            .values()
            .filter(|node| node.unschedulable && is_ours(&node.name) && !self.is_surplus(node))
            .map(|node| (node.name.clone(), node.zone.clone()));
        let gone = self
            .vacant
            .values()
            .filter(|gone| !self.nodes.contains_key(&gone.node))
            .map(|gone| (gone.node.clone(), gone.zone.clone()));
        cordoned.chain(gone).collect()
    }

    /// Places are taken again by replacements that are ready nodes, and given up with their tasks. One that a
    /// failed task has left empty counts until its run has stopped for that, or somebody knows.
    pub(super) fn fill_vacancies(&mut self) {
        let is_given_up = |task: &NodePatchTask| {
            let step = task.status.as_ref().map(NodePatchTaskStatus::step_name);
            match step {
                Some(TaskStep::Failed) => !self.goes_on(&task.spec.run_uid),
                _ => step.is_some_and(TaskStep::is_final),
            }
        };
        let is_over = |machine: &str| {
            self.tasks.values().any(|task| {
                let old = task.status.as_ref().and_then(|it| it.old_machine.as_ref());
                old.is_some_and(|record| record.id == machine) && is_given_up(task)
            })
        };
        let filled: Vec<String> = self
            .vacant
            .keys()
            .filter(|machine| self.has_ready_replacement(machine) || is_over(machine))
            .cloned()
            .collect();
        for machine in filled {
            self.vacant.remove(&machine);
        }
    }

    /// Whether a run begins with further nodes, as far as it says, and nobody has acknowledged what failed.
    fn goes_on(&self, run_uid: &str) -> bool {
        self.runs.get(run_uid).is_some_and(|run| {
            let notes = run.metadata.annotations.as_ref();
            let known = notes.and_then(|all| all.get(ANNOTATION_ACKNOWLEDGED)?.parse().ok());
            let status = run.status.as_ref();
            let failures = status.and_then(|it| it.failures).unwrap_or(0);
            let is_known = known.is_some_and(|known: i32| known >= failures);
            let has_stopped = status.is_some_and(|it| it.paused == Some(true) || is_over(it));
            let is_called_off =
                run.spec.abort == Some(true) || run.metadata.deletion_timestamp.is_some();
            !is_known && !has_stopped && !is_called_off
        })
    }
}
