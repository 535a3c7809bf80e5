//! Many points played, two at a time, and what came of them.
//!
//! Owns the order, the figure, and the command that repeats a failure.

use std::fmt;

use super::{Point, play};
use crate::pairs::in_pairs_told;
use crate::report::Report;
use crate::scenario::Scenario;
use crate::story::StoryError;

/// What came of the points of one scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashPlans {
    /// Points that were played.
    pub plays: usize,
    /// Those whose play broke an invariant or did not end as expected.
    pub failed: usize,
    /// A sentence for each of these, and the command that repeats it.
    pub complaints: Vec<String>,
}

impl CrashPlans {
    /// Plays these points of a scenario, and tells how many were begun; `file` is where it was read from.
    pub fn play(
        file: &str,
        scenario: &Scenario,
        points: &[Point],
        on_begin: impl Fn(usize) + Sync,
    ) -> Result<Self, StoryError> {
        let mut plans = Self::default();
        let all = in_pairs_told(points, |point| play(scenario, point), on_begin);
        for (point, played) in points.iter().zip(all) {
            plans.take(file, point, &played?);
        }
        Ok(plans)
    }

    fn take(&mut self, file: &str, point: &Point, report: &Report) {
        self.plays += 1;
        let complaints = report.complaints();
        if complaints.is_empty() {
            return;
        }
        self.failed += 1;
        let command = format!("shipshape simulate {file} --crash '{point}'");
        let text = complaints.join("; ");
        self.complaints.push(format!("{command}\n    {text}"));
    }

    /// Whether something was played and nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.plays > 0 && self.complaints.is_empty()
    }
}

impl fmt::Display for CrashPlans {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for complaint in &self.complaints {
            writeln!(formatter, "{complaint}")?;
        }
        let Self { plays, failed, .. } = self;
        write!(formatter, "crash plans: {plays} plays, {failed} failed")
    }
}
