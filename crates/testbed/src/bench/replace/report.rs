//! The figures of rolls beside their goals, as tables.
//!
//! Owns the goals. Must not measure. What is said of the rival is in `beside`.

mod beside;

use std::time::Duration;

use anyhow::Result;

use super::log::Counts;
use super::scene::{Case, PODS_PER_NODE};
use crate::bench::table::Table;
use crate::bench::usage::{as_f64, machine, megabytes};
use crate::bench::{Figure, judge, percentile, writes};

/// Processor time of the controller for each replaced node, in seconds.
const CPU: f64 = 0.055;
/// How much more of it a node of the largest cluster may cost than one of the smallest.
const CPU_GROWTH: f64 = 1.15;
/// Writes for each replaced node with ten pods.
const WRITES: f64 = 30.0;
/// Evictions that are asked for, for each that is granted: without and with budgets in the way.
const CALLS: (f64, f64) = (1.01, 1.05);
/// Evictions of each pod over the whole roll.
const MOVES: f64 = 1.005;
/// From room in a budget to the next eviction under it, in seconds.
const HEADROOM: f64 = 0.25;
/// What nobody can do without: an eviction for each pod, the cordon, the end of the Node.
const LEAST_WRITES: usize = PODS_PER_NODE + 2;

/// One roll of Shipshape, and one of the rival in the same case.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) ours: Roll,
    /// None where there is no rival.
    pub(super) theirs: Option<Result<Roll>>,
}

/// One roll.
#[derive(Debug)]
pub(super) struct Roll {
    pub(super) case: Case,
    /// Nodes that were there at the beginning, all of which are gone.
    pub(super) replaced: usize,
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
    pub(super) peak: u64,
    pub(super) closed: usize,
    pub(super) counts: Counts,
}

impl Roll {
    fn name(&self) -> String {
        self.case.to_string()
    }

    fn is_slow(&self) -> bool {
        self.case.is_slow()
    }

    fn per_node(&self, count: usize) -> f64 {
        as_f64(count as u64) / self.nodes()
    }

    fn nodes(&self) -> f64 {
        as_f64(self.replaced as u64)
    }

    fn cpu_per_node(&self) -> f64 {
        self.cpu.as_secs_f64() / self.nodes()
    }

    fn nodes_per_hour(&self) -> f64 {
        self.nodes() * 3600.0 / self.wall.as_secs_f64()
    }

    fn writes_per_node(&self) -> f64 {
        self.per_node(self.counts.writes.values().sum())
    }

    fn calls_per_evicted(&self) -> f64 {
        as_f64(self.counts.evict_calls as u64) / as_f64(self.counts.evicted.max(1) as u64)
    }

    fn evictions_per_pod(&self) -> f64 {
        as_f64(self.counts.evicted as u64) / as_f64(self.case.pods() as u64)
    }

    /// Most memory, where there is a goal for this size.
    fn most_memory(&self) -> Option<u64> {
        match self.case.nodes {
            ..=200 => Some(48_000_000),
            201..=400 => Some(64_000_000),
            401.. => None,
        }
    }

    fn headroom(&self, percent: usize) -> Option<f64> {
        percentile(&self.counts.openings, percent)
    }

    fn shortfalls(&self) -> Vec<String> {
        let most_calls = if self.is_slow() { CALLS.1 } else { CALLS.0 };
        let allowed = self.case.allowed();
        let goals = [
            (
                self.cpu_per_node() <= CPU,
                format!("{:.3} CPU s a node", self.cpu_per_node()),
            ),
            (
                self.writes_per_node() <= WRITES,
                format!("{:.1} writes a node", self.writes_per_node()),
            ),
            (
                self.calls_per_evicted() <= most_calls,
                format!(
                    "{:.3} evict calls for an evicted pod",
                    self.calls_per_evicted()
                ),
            ),
            (
                self.evictions_per_pod() <= MOVES,
                format!("{:.3} evictions a pod", self.evictions_per_pod()),
            ),
            (
                self.closed <= allowed,
                format!("{} nodes closed of {allowed} allowed", self.closed),
            ),
            (
                self.closed >= allowed,
                format!("only {} of {allowed} nodes closed at once", self.closed),
            ),
            (
                self.most_memory().is_none_or(|most| self.peak <= most),
                format!("{} resident", megabytes(self.peak)),
            ),
            (
                // Where pods are quick, a budget has no room only when the machine itself is behind.
                !self.is_slow() || self.headroom(99).is_none_or(|p99| p99 <= HEADROOM),
                format!(
                    "{} from room to eviction (p99)",
                    milliseconds(self.headroom(99))
                ),
            ),
        ];
        let missed = judge(goals).into_iter();
        missed
            .map(|text| format!("{}: {text}", self.name()))
            .collect()
    }
}

/// All tables and the verdict. Where there is no rival at all, the text says why.
pub(super) fn figure(pairs: &[Pair], absence: Option<&str>) -> Figure {
    let rolls: Vec<&Roll> = pairs.iter().map(|pair| &pair.ours).collect();
    let mut shortfalls: Vec<String> = rolls.iter().flat_map(|roll| roll.shortfalls()).collect();
    shortfalls.extend(growth(&rolls));
    shortfalls.extend(pairs.iter().filter_map(beside::shortfall));
    let text = [machine(), figures(&rolls).render(), writes(pairs).render()].into_iter();
    let beside = pairs.iter().filter_map(beside::table);
    let absence = absence.map(|reason| format!("Karpenter was not measured: {reason}."));
    let text: Vec<String> = text.chain(beside).chain(absence).collect();
    Figure {
        text: text.join("\n\n"),
        last_line: last_line(pairs).unwrap_or_default(),
        shortfalls,
    }
}

fn last_line(pairs: &[Pair]) -> Option<String> {
    let pair = pairs.iter().rfind(|pair| !pair.ours.is_slow())?;
    let roll = &pair.ours;
    let ours = format!(
        "bench replace: {} in {:.0} s, {:.0} ms CPU and {:.1} writes a node, {}",
        roll.name(),
        roll.wall.as_secs_f64(),
        roll.cpu_per_node() * 1e3,
        roll.writes_per_node(),
        megabytes(roll.peak)
    );
    Some(match beside::wall_ratio(pair) {
        Some(ratio) => format!("{ours}; Karpenter took {ratio:.1} times as long"),
        None => ours,
    })
}

/// Whether a node of the largest cluster costs more than one of the smallest. A machine's own speed changes within the
/// hour, so a size may be rolled several times, before and after the others: their mean counts.
fn growth(rolls: &[&Roll]) -> Option<String> {
    let alike = |roll: &&&Roll| !roll.is_slow() && roll.case.boot.is_zero();
    let sizes = || rolls.iter().filter(alike).map(|roll| roll.case.nodes);
    let mean = |nodes: u32| {
        let same = rolls.iter().filter(alike);
        let costs = same.filter(|roll| roll.case.nodes == nodes);
        let costs: Vec<f64> = costs.map(|roll| roll.cpu_per_node()).collect();
        costs.iter().sum::<f64>() / as_f64(costs.len() as u64)
    };
    let growth = mean(sizes().max()?) / mean(sizes().min()?);
    (growth > CPU_GROWTH)
        .then(|| format!("a node of the largest cluster costs {growth:.2} times the CPU"))
}

fn figures(rolls: &[&Roll]) -> Table {
    let names = rolls.iter().map(|roll| roll.name());
    let mut table = Table::new(
        ["figure".to_owned()]
            .into_iter()
            .chain(names)
            .chain(["goal".to_owned()]),
    );
    let mut row = |name: &str, goal: &str, cell: &dyn Fn(&Roll) -> String| {
        let cells = rolls.iter().map(|roll| cell(roll));
        table.row(
            [name.to_owned()]
                .into_iter()
                .chain(cells)
                .chain([goal.to_owned()]),
        );
    };
    row("wall s", "", &|roll| {
        format!("{:.1}", roll.wall.as_secs_f64())
    });
    row("nodes/h", "", &|roll| {
        format!("{:.0}", roll.nodes_per_hour())
    });
    row("CPU ms a node", "≤ 55", &|roll| {
        format!("{:.1}", roll.cpu_per_node() * 1e3)
    });
    row("most resident", "≤ 48 MB at 200, 64 MB at 400", &|roll| {
        megabytes(roll.peak)
    });
    row("writes a node", "≤ 30", &|roll| {
        format!("{:.1}", roll.writes_per_node())
    });
    row("least possible writes", "", &|_| LEAST_WRITES.to_string());
    row(
        "evict calls an evicted pod",
        "≤ 1.01, slow 1.05",
        &|roll| format!("{:.3}", roll.calls_per_evicted()),
    );
    row("evictions a pod", "1.00", &|roll| {
        format!("{:.3}", roll.evictions_per_pod())
    });
    row("closed at once / allowed", "all, never more", &|roll| {
        format!("{} / {}", roll.closed, roll.case.allowed())
    });
    row("room to eviction p50", "", &|roll| {
        milliseconds(roll.headroom(50))
    });
    row("room to eviction p99", "slow ≤ 250 ms", &|roll| {
        milliseconds(roll.headroom(99))
    });
    row("times that room was awaited", "", &|roll| {
        roll.counts.openings.len().to_string()
    });
    row("dry runs a node", "", &|roll| {
        format!("{:.1}", roll.per_node(roll.counts.dry_runs))
    });
    table
}

/// What was written, by kind, each rival beside us.
fn writes(pairs: &[Pair]) -> Table {
    let mut columns = Vec::new();
    for pair in pairs {
        let mut add = |name: String, roll: &'_ Roll| {
            columns.push((name, roll.counts.writes.clone(), roll.replaced));
        };
        add(pair.ours.name(), &pair.ours);
        if let Some(Ok(theirs)) = &pair.theirs {
            add("Karpenter".to_owned(), theirs);
        }
    }
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, writes, nodes)| (name.clone(), writes, *nodes))
        .collect();
    writes::table(&columns)
}

fn milliseconds(seconds: Option<f64>) -> String {
    seconds.map_or_else(
        || "–".to_owned(),
        |seconds| format!("{:.0} ms", seconds * 1e3),
    )
}
