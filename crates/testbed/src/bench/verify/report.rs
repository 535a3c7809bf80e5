//! The figures of waves beside their goals, and what was recorded of a rival.
//!
//! Owns the goals. Must not measure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::log::Passage;
use crate::bench::table::Table;
use crate::bench::usage::{as_f64, machine, megabytes};
use crate::bench::{Figure, judge, percentile, writes};

/// From Ready to the node without its taint, checks left out, in seconds, in a wave of this size (p99).
const PASSAGE: (usize, f64) = (200, 2.0);
/// Writes of the controller for each node.
const WRITES: f64 = 12.0;
/// Most memory of the controller up to this many nodes, in bytes.
const MEMORY: (usize, u64) = (1000, 48_000_000);
/// How much more processor time a node of the largest wave may cost than one of the smallest.
const CPU_GROWTH: f64 = 1.15;

/// One wave.
#[derive(Debug)]
pub(super) struct Wave {
    pub(super) nodes: usize,
    pub(super) check: Duration,
    /// Load of the machine before and after.
    pub(super) load: [String; 2],
    pub(super) cpu: Duration,
    pub(super) peak: u64,
    pub(super) writes: BTreeMap<String, usize>,
    pub(super) passages: Vec<Passage>,
}

impl Wave {
    fn name(&self) -> String {
        format!("{} nodes", self.nodes)
    }

    fn per_node(&self, count: f64) -> f64 {
        count / as_f64(self.nodes as u64)
    }

    fn cpu_per_node(&self) -> f64 {
        self.per_node(self.cpu.as_secs_f64())
    }

    fn writes_per_node(&self) -> f64 {
        let all: usize = self.writes.values().sum();
        self.per_node(as_f64(all as u64))
    }

    fn part(&self, of: fn(&Passage) -> f64, percent: usize) -> f64 {
        let mut all: Vec<f64> = self.passages.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        percentile(&all, percent).unwrap_or(f64::NAN)
    }

    fn shortfalls(&self) -> Vec<String> {
        let p99 = self.part(Passage::gate, 99);
        let goals = [
            (
                self.passages.len() == self.nodes,
                format!("the log tells the way of {} only", self.passages.len()),
            ),
            (
                self.nodes > PASSAGE.0 || p99 <= PASSAGE.1,
                format!("{p99:.2} s from Ready to untainted without the checks (p99)"),
            ),
            (
                self.writes_per_node() <= WRITES,
                format!("{:.1} writes a node", self.writes_per_node()),
            ),
            (
                self.nodes > MEMORY.0 || self.peak <= MEMORY.1,
                format!("{} resident", megabytes(self.peak)),
            ),
        ];
        let missed = judge(goals).into_iter();
        missed
            .map(|text| format!("{}: {text}", self.name()))
            .collect()
    }
}

/// All tables and the verdict.
pub(super) fn figure(waves: &[Wave]) -> Figure {
    let mut shortfalls: Vec<String> = waves.iter().flat_map(Wave::shortfalls).collect();
    shortfalls.extend(growth(waves));
    let columns: Vec<_> = waves
        .iter()
        .map(|wave| (wave.name(), &wave.writes, wave.nodes))
        .collect();
    let text = [
        machine(),
        figures(waves).render(),
        writes::table(&columns).render(),
        "Recorded earlier on another machine, not measured in this run: kube-node-ready 0.5.0, its worker \
         Jobs ended by kwok."
            .to_owned(),
        recorded().render(),
    ];
    Figure {
        text: text.join("\n\n"),
        last_line: last_line(waves),
        shortfalls,
    }
}

fn last_line(waves: &[Wave]) -> String {
    let told = waves.iter().map(|wave| {
        format!(
            "{} in {:.2} / {:.2} s (p50 / p99, checks left out), {:.1} writes and {:.1} ms CPU a node, {}",
            wave.name(),
            wave.part(Passage::gate, 50),
            wave.part(Passage::gate, 99),
            wave.writes_per_node(),
            wave.cpu_per_node() * 1e3,
            megabytes(wave.peak)
        )
    });
    let told: Vec<String> = told.collect();
    format!("bench verify: {}", told.join("; "))
}

/// Whether a node of the largest wave costs more than one of the smallest.
fn growth(waves: &[Wave]) -> Option<String> {
    let smallest = waves.iter().min_by_key(|wave| wave.nodes)?;
    let largest = waves.iter().max_by_key(|wave| wave.nodes)?;
    let growth = largest.cpu_per_node() / smallest.cpu_per_node();
    (growth > CPU_GROWTH)
        .then(|| format!("a node of the largest wave costs {growth:.2} times the CPU"))
}

fn figures(waves: &[Wave]) -> Table {
    let names = waves.iter().map(Wave::name);
    let mut table = Table::new(
        ["figure".to_owned()]
            .into_iter()
            .chain(names)
            .chain(["goal".to_owned()]),
    );
    let mut row = |name: &str, goal: &str, cell: &dyn Fn(&Wave) -> String| {
        let cells = waves.iter().map(cell);
        table.row(
            [name.to_owned()]
                .into_iter()
                .chain(cells)
                .chain([goal.to_owned()]),
        );
    };
    let both = |wave: &Wave, of: fn(&Passage) -> f64| {
        format!("{:.2} / {:.2}", wave.part(of, 50), wave.part(of, 99))
    };
    row("Ready to untainted s, p50 / p99", "", &|wave| {
        both(wave, Passage::whole)
    });
    row(
        "the same without kubelet and checks",
        "p99 ≤ 2 at 200",
        &|wave| both(wave, Passage::gate),
    );
    row("Ready to worker (controller)", "", &|wave| {
        both(wave, |it| it.to_worker)
    });
    row("worker to binding (scheduler)", "", &|wave| {
        both(wave, |it| it.to_binding)
    });
    row("binding to end (kwok, checks)", "", &|wave| {
        both(wave, |it| it.check)
    });
    row("end to untainted (controller)", "", &|wave| {
        both(wave, |it| it.to_open)
    });
    row("checks were given s", "", &|wave| {
        format!("{:.1}", wave.check.as_secs_f64())
    });
    row("writes a node", "≤ 12", &|wave| {
        format!("{:.1}", wave.writes_per_node())
    });
    row("CPU ms a node", "flat", &|wave| {
        format!("{:.1}", wave.cpu_per_node() * 1e3)
    });
    row("most resident", "≤ 48 MB at 1,000", &|wave| {
        megabytes(wave.peak)
    });
    row("load before / after", "", &|wave| wave.load.join(" / "));
    table
}

/// kube-node-ready 0.5.0 with the same nodes and no checks at all.
fn recorded() -> Table {
    let mut table = Table::new([
        "recorded: build",
        "nodes",
        "untainted",
        "Ready to untainted s, p50 / p99",
        "writes a node",
        "mean resident",
        "load",
    ]);
    table.row([
        "as published",
        "50",
        "0 in 45 s",
        "–",
        "1",
        "42 MiB",
        "17.5",
    ]);
    table.row([
        "two defects mended",
        "50",
        "50",
        "11.1 / 12.4",
        "2",
        "44 MiB",
        "18.2",
    ]);
    table.row([
        "two defects mended",
        "200",
        "200",
        "6.8 / 7.2",
        "2",
        "53 MiB",
        "3.2",
    ]);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(nodes: usize, cpu: u64, to_open: f64) -> Wave {
        let passage = Passage {
            to_worker: 0.1,
            to_binding: 0.1,
            check: 5.0,
            to_open,
        };
        Wave {
            nodes,
            check: Duration::from_secs(5),
            load: ["1".to_owned(), "1".to_owned()],
            cpu: Duration::from_millis(cpu),
            peak: 40_000_000,
            writes: [("create pods".to_owned(), nodes)].into(),
            passages: vec![passage; nodes],
        }
    }

    #[test]
    fn the_time_of_the_checks_is_not_the_gates() {
        assert_eq!(
            figure(&[wave(10, 10, 0.5)]).shortfalls,
            Vec::<String>::new()
        );
        let late = figure(&[wave(10, 10, 1.9)]).shortfalls;
        assert_eq!(
            late,
            ["10 nodes: 2.10 s from Ready to untainted without the checks (p99)"]
        );
    }

    #[test]
    fn too_much_of_anything_is_a_shortfall() {
        let mut heavy = wave(10, 10, 0.5);
        heavy.peak = 49_000_000;
        heavy.writes = [("create pods".to_owned(), 130)].into();
        heavy.passages.pop();
        assert_eq!(figure(&[heavy]).shortfalls.len(), 3);
        let growing = figure(&[wave(10, 10, 0.5), wave(20, 30, 0.5)]).shortfalls;
        assert_eq!(
            growing,
            ["a node of the largest wave costs 1.50 times the CPU"]
        );
    }
}
