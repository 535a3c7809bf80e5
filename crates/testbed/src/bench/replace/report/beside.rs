//! A roll of ours beside the rival's in the same case: both figures and their ratio.
//!
//! Owns the goals that are ratios; they are judged from the same run or not at all. Must not measure.

use super::{Pair, Roll};
use crate::bench::table::Table;
use crate::bench::usage::as_f64;

/// How many times as long the rival takes, at least, and for how many nodes that is the goal.
const FASTER: (f64, u32) = (3.0, 200);

/// Both in one table; None where there is no rival, and a sentence where it failed.
pub(super) fn table(pair: &Pair) -> Option<String> {
    let name = pair.ours.name();
    Some(match pair.theirs.as_ref()? {
        Ok(theirs) => compared(&pair.ours, theirs).render(),
        Err(error) => format!("{name}: Karpenter came to nothing: {error:#}"),
    })
}

/// How many times as long the rival took.
pub(super) fn wall_ratio(pair: &Pair) -> Option<f64> {
    let theirs = pair.theirs.as_ref()?.as_ref().ok()?;
    ratio(theirs.wall.as_secs_f64(), pair.ours.wall.as_secs_f64())
}

/// What falls short of the goals that are ratios. A rival that failed leaves them unjudged, which is
/// no success either.
pub(super) fn shortfall(pair: &Pair) -> Option<String> {
    let name = pair.ours.name();
    if pair.theirs.as_ref()?.is_err() {
        return Some(format!("{name}: Karpenter came to nothing, see above"));
    }
    let ratio = wall_ratio(pair)?;
    let is_missed = goal(&pair.ours).is_some_and(|least| ratio < least);
    is_missed.then(|| format!("{name}: Karpenter took only {ratio:.2} times as long"))
}

/// The least ratio of times, where there is a goal for this case.
fn goal(ours: &Roll) -> Option<f64> {
    let (least, nodes) = FASTER;
    let is_judged = ours.case.nodes == nodes && ours.case.boot.is_zero() && !ours.is_slow();
    is_judged.then_some(least)
}

fn ratio(theirs: f64, ours: f64) -> Option<f64> {
    (ours > 0.0).then(|| theirs / ours)
}

fn compared(ours: &Roll, theirs: &Roll) -> Table {
    let mut table = Table::new([&ours.name(), "Shipshape", "Karpenter", "ratio", "goal"]);
    let mut row = |name: &str, goal: &str, digits: usize, value: &dyn Fn(&Roll) -> Option<f64>| {
        let show = |value: Option<f64>| {
            value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
        };
        let (ours, theirs) = (value(ours), value(theirs));
        let both = theirs.zip(ours);
        let ratio = both.and_then(|(theirs, ours)| ratio(theirs, ours));
        let ratio = ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
        table.row([name, &show(ours), &show(theirs), &ratio, goal]);
    };
    let least = goal(ours).map_or_else(String::new, |least| format!("ratio ≥ {least:.0}"));
    let allowed = format!("{} allowed", ours.case.allowed());
    row("nodes replaced", "", 0, &|roll| Some(roll.nodes()));
    row("wall s", &least, 1, &|roll| Some(roll.wall.as_secs_f64()));
    row("nodes/h", "", 0, &|roll| Some(roll.nodes_per_hour()));
    row("CPU ms a node", "", 1, &|roll| {
        Some(roll.cpu_per_node() * 1e3)
    });
    row("most resident MB", "", 1, &|roll| {
        Some(as_f64(roll.peak) / 1e6)
    });
    row("writes a node", "", 1, &|roll| Some(roll.writes_per_node()));
    row("evict calls an evicted pod", "", 3, &|roll| {
        Some(roll.calls_per_evicted())
    });
    row("evictions a pod", "", 3, &|roll| {
        Some(roll.evictions_per_pod())
    });
    row("closed at once", &allowed, 0, &|roll| {
        Some(as_f64(roll.closed as u64))
    });
    row("room to eviction p50, ms", "", 0, &|roll| {
        Some(roll.headroom(50)? * 1e3)
    });
    row("room to eviction p99, ms", "", 0, &|roll| {
        Some(roll.headroom(99)? * 1e3)
    });
    table
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::anyhow;

    use super::super::figure;
    use super::*;
    use crate::bench::replace::log::Counts;
    use crate::bench::replace::scene::Case;
    use crate::kwok::Readiness;

    fn roll(nodes: u32, seconds: u64, calls: usize) -> Roll {
        let replaced = usize::try_from(nodes).unwrap();
        Roll {
            case: Case {
                nodes,
                boot: Duration::ZERO,
                readiness: Readiness::AtOnce,
                closes_outdated: false,
            },
            replaced,
            wall: Duration::from_secs(seconds),
            cpu: Duration::from_millis(10) * nodes,
            peak: 40_000_000,
            closed: replaced / 10,
            counts: Counts {
                writes: [("create pods/eviction".to_owned(), calls)].into(),
                evict_calls: calls,
                evicted: replaced * 10,
                ..Counts::default()
            },
        }
    }

    fn pair(nodes: u32, seconds: (u64, u64)) -> Pair {
        let evictions = usize::try_from(nodes).unwrap() * 10;
        Pair {
            ours: roll(nodes, seconds.0, evictions),
            theirs: Some(Ok(roll(nodes, seconds.1, evictions * 2))),
        }
    }

    /// The cells of the row with this name, without its name.
    fn cells(text: &str, name: &str) -> Vec<String> {
        let start = format!("| {name} ");
        let row = text.lines().find(|line| line.starts_with(&start)).unwrap();
        let cells = row.split('|').map(|cell| cell.trim().to_owned());
        cells.skip(2).collect()
    }

    #[test]
    fn both_figures_stand_beside_their_ratio() {
        let text = table(&pair(200, (100, 350))).unwrap();
        assert!(text.starts_with("| 200 nodes, boot 0 s"), "{text}");
        let row = |name: &str| cells(&text, name);
        assert_eq!(row("wall s"), ["100.0", "350.0", "3.50", "ratio ≥ 3", ""]);
        assert_eq!(row("nodes/h"), ["7200", "2057", "0.29", "", ""]);
        assert_eq!(row("writes a node"), ["10.0", "20.0", "2.00", "", ""]);
        let calls = row("evict calls an evicted pod");
        assert_eq!(calls, ["1.000", "2.000", "2.00", "", ""]);
        assert_eq!(
            row("closed at once"),
            ["20", "20", "1.00", "20 allowed", ""]
        );
        let room = row("room to eviction p99, ms");
        assert_eq!(room, ["–", "–", "–", "", ""]);
    }

    #[test]
    fn only_two_hundred_nodes_that_come_at_once_must_be_three_times_faster() {
        assert_eq!(shortfall(&pair(200, (100, 300))), None);
        let missed = shortfall(&pair(200, (100, 290))).unwrap();
        assert!(missed.contains("2.90 times"), "{missed}");
        assert_eq!(shortfall(&pair(50, (100, 290))), None);
        let mut late = pair(200, (100, 290));
        late.ours.case.boot = Duration::from_mins(1);
        assert_eq!(shortfall(&late), None);
    }

    #[test]
    fn a_rival_that_fails_costs_no_figure_of_ours_and_is_no_success() {
        let mut failed = pair(200, (100, 300));
        failed.theirs = Some(Err(anyhow!("it ended").context("Karpenter's roll")));
        let figure = figure(&[failed], None);
        assert!(figure.text.contains("Karpenter's roll: it ended"));
        assert_eq!(cells(&figure.text, "wall s"), ["100.0", "", ""]);
        assert_eq!(figure.shortfalls.len(), 1, "{:?}", figure.shortfalls);
        assert!(!figure.last_line.contains("Karpenter"));
    }

    #[test]
    fn without_a_rival_the_text_says_why() {
        let mut alone = pair(50, (100, 300));
        alone.theirs = None;
        let figure = figure(&[alone], Some("it is not built"));
        let text = &figure.text;
        assert!(text.ends_with("Karpenter was not measured: it is not built."));
        assert_eq!(figure.shortfalls, Vec::<String>::new());
    }

    #[test]
    fn writes_of_both_stand_in_one_table() {
        let figure = figure(&[pair(50, (100, 300))], None);
        let row = cells(&figure.text, "create pods/eviction");
        assert_eq!(row, ["10.00", "20.00", ""]);
        assert!(
            figure
                .last_line
                .ends_with("Karpenter took 3.0 times as long")
        );
    }
}
