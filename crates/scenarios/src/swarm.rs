//! The swarm: every scenario with many seeds, each twice, in virtual time.
//!
//! Owns the range of seeds, the comparison of the two plays and the figure. Must not know any
//! scenario. Called by `cargo xtask swarm`.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::report::Report;
use crate::scenario::Scenario;
use crate::story::{StoryError, play_alone};

/// Most seeds of one command: days, even for small stories.
const SEEDS_MAX: u64 = 1_000_000;

/// A range of seeds, written `A..B`; `B` is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// The first.
    pub from: u64,
    /// The one after the last.
    pub to: u64,
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong =
            || format!("{text:?} is not of the form A..B with whole numbers from 0, A less than B");
        let (from, to) = text.split_once("..").ok_or_else(wrong)?;
        let from: u64 = from.parse().map_err(|_| wrong())?;
        let to: u64 = to.parse().map_err(|_| wrong())?;
        if from >= to {
            return Err(wrong());
        }
        if to - from > SEEDS_MAX {
            return Err(format!(
                "{text:?} are {} seeds; at most {SEEDS_MAX} are played at once",
                to - from
            ));
        }
        Ok(Self { from, to })
    }
}

/// What came of a swarm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swarm {
    /// Pairs of scenario and seed, each played twice.
    pub plays: usize,
    /// Pairs whose two plays differ.
    pub differing: usize,
    /// Broken invariants in first plays.
    pub violations: usize,
    /// First plays that did not go as expected.
    pub unexpected: usize,
    /// A sentence for each of these.
    pub complaints: Vec<String>,
}

impl Swarm {
    /// Plays everything; stops at the first play that cannot begin.
    pub fn play(scenarios: &[Scenario], seeds: Range<u64>) -> Result<Self, StoryError> {
        let mut swarm = Self::default();
        for scenario in scenarios {
            for seed in seeds.clone() {
                let (first, second) = play_twice(scenario, seed);
                swarm.take(&first?, &second?);
            }
        }
        Ok(swarm)
    }

    /// Counts one pair.
    fn take(&mut self, first: &Report, second: &Report) {
        self.plays += 1;
        let which = format!("{} with seed {}", first.scenario, first.seed);
        if first.trace_hash != second.trace_hash {
            self.differing += 1;
            self.complaints.push(format!("{which}: two traces"));
        }
        self.violations += first.violations.len();
        for violation in &first.violations {
            let text = format!("{which}: {} {}", violation.invariant, violation.text);
            self.complaints.push(text);
        }
        if !first.is_as_expected() {
            self.unexpected += 1;
            self.complaints
                .push(format!("{which}: {}", first.unmet.join("; ")));
        }
    }

    /// Whether something was played and nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.plays > 0 && self.complaints.is_empty()
    }
}

/// Plays side by side: neither may notice the other.
fn play_twice(scenario: &Scenario, seed: u64) -> (Played, Played) {
    let play = || Ok(play_alone(scenario, seed)?.report);
    std::thread::scope(|threads| {
        let second = threads.spawn(play);
        let first = play();
        let second = second.join();
        // A panic there is a panic here.
        (
            first,
            second.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    })
}

type Played = Result<Report, StoryError>;

impl fmt::Display for Swarm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for complaint in &self.complaints {
            writeln!(formatter, "{complaint}")?;
        }
        write!(
            formatter,
            "swarm: {} plays, {} differing hashes, {} violations, {} not as expected",
            self.plays, self.differing, self.violations, self.unexpected
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(hash: &str) -> Report {
        Report {
            trace_hash: hash.to_owned(),
            ..Report::default()
        }
    }

    #[test]
    fn seeds_are_a_range_that_is_not_empty() {
        assert_eq!("3..5".parse(), Ok(Seeds { from: 3, to: 5 }));
        for wrong in ["5", "5..5", "5..3", "a..b", "1..=2"] {
            assert!(wrong.parse::<Seeds>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn more_seeds_than_anybody_can_wait_for_are_refused_with_the_limit() {
        let complaint = "0..18446744073709551615".parse::<Seeds>();
        let complaint = complaint.map_or_else(|error| error, |_| "taken".to_owned());
        assert!(
            complaint.ends_with("at most 1000000 are played at once"),
            "{complaint}"
        );
        assert!("5..1000005".parse::<Seeds>().is_ok());
    }

    #[test]
    fn two_different_traces_and_an_unmet_expectation_are_not_clean() {
        let mut swarm = Swarm::default();
        assert!(!swarm.is_clean(), "nothing was played");
        swarm.take(&report("a"), &report("a"));
        assert!(swarm.is_clean());
        swarm.take(&report("a"), &report("b"));
        assert_eq!((swarm.plays, swarm.differing), (2, 1));
        assert!(!swarm.is_clean());
        let stalled = Report {
            unmet: vec!["outcome".to_owned()],
            ..report("c")
        };
        swarm.take(&stalled, &stalled);
        assert_eq!((swarm.differing, swarm.unexpected), (1, 1));
    }
}
