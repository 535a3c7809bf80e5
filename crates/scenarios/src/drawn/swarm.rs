//! Many seeds, two at a time, and what came of them.
//!
//! Owns the figure, and the command that repeats a failure.

use std::fmt;
use std::ops::Range;

use super::{draw, play};
use crate::pairs::in_pairs_told;

/// What came of many drawn stories.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DrawnSwarm {
    /// Stories that were played.
    pub plays: usize,
    /// Those that broke an invariant or did not come to their end.
    pub failed: usize,
    /// Faults that took place.
    pub faults: usize,
    /// Hours that passed in all worlds together.
    pub hours: f64,
    /// A sentence for each that failed, and the command that repeats it.
    pub complaints: Vec<String>,
}

/// What came of one.
struct Told {
    faults: usize,
    seconds: f64,
    complaints: Vec<String>,
}

impl DrawnSwarm {
    /// Plays the stories of these seeds, and tells how many were begun.
    pub fn play(seeds: Range<u64>, on_begin: impl Fn(usize) + Sync) -> Self {
        let seeds: Vec<u64> = seeds.collect();
        let mut swarm = Self::default();
        let all = in_pairs_told(&seeds, |seed| tell(*seed), on_begin);
        for (seed, told) in seeds.iter().zip(all) {
            swarm.plays += 1;
            swarm.faults += told.faults;
            swarm.hours += told.seconds / 3_600.0;
            if told.complaints.is_empty() {
                continue;
            }
            swarm.failed += 1;
            let text = told.complaints.join("; ");
            let complaint = format!("shipshape simulate --seed {seed}\n    {text}");
            swarm.complaints.push(complaint);
        }
        swarm
    }

    /// Whether something was played and nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.plays > 0 && self.complaints.is_empty()
    }
}

fn tell(seed: u64) -> Told {
    let failed = |why: String| Told {
        faults: 0,
        seconds: 0.0,
        complaints: vec![why],
    };
    let drawn = match draw(seed) {
        Ok(drawn) => drawn,
        Err(error) => return failed(error.to_string()),
    };
    match play(&drawn, seed) {
        Ok(report) => Told {
            faults: drawn.troubles.strikes(),
            seconds: report.virtual_seconds,
            complaints: report.complaints(),
        },
        Err(error) => failed(shipshape_cluster::error::in_full(&error)),
    }
}

impl fmt::Display for DrawnSwarm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for complaint in &self.complaints {
            writeln!(formatter, "{complaint}")?;
        }
        let Self {
            plays,
            failed,
            faults,
            hours,
            ..
        } = self;
        write!(
            formatter,
            "swarm: {plays} seeds, {faults} faults, {hours:.0} hours, {failed} failed"
        )
    }
}
