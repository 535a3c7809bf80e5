//! The repertoire: every scenario of a folder, and the table of what came of them.
//!
//! Owns the order and the table. Must not play anything: whoever plays knows the world. Called by
//! `cargo xtask stories` and `cargo xtask swarm`.

use std::fmt;
use std::path::Path;

use crate::report::Report;
use crate::scenario::{Scenario, ScenarioError};

/// All scenarios of a folder, by file name.
pub fn load(folder: &Path) -> Result<Vec<Scenario>, ScenarioError> {
    let unreadable = |source| ScenarioError::File {
        path: folder.display().to_string(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    files.iter().map(|path| Scenario::load(path)).collect()
}

/// What came of each scenario.
#[derive(Debug, Default)]
pub struct Playbill {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    scenario: String,
    faults: Vec<String>,
    report: Option<Report>,
}

impl Playbill {
    /// Takes in a report, and what other witnesses found wrong.
    pub fn add(&mut self, report: Report, others: Vec<String>) {
        let mut faults = report.unmet.clone();
        let told = report.violations.iter();
        faults.extend(told.map(|violation| format!("{}: {}", violation.invariant, violation.text)));
        faults.extend(others);
        self.rows.push(Row {
            scenario: report.scenario.clone(),
            faults,
            report: Some(report),
        });
    }

    /// Takes in a scenario that could not be played.
    pub fn add_unplayed(&mut self, scenario: &str, why: String) {
        self.rows.push(Row {
            scenario: scenario.to_owned(),
            faults: vec![why],
            report: None,
        });
    }

    /// Whether there was a play, and each went as expected.
    pub fn is_as_expected(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.faults.is_empty())
    }
}

impl fmt::Display for Playbill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "{:<32} {:<10} {:>8} {:>8} {:>8} {:>9} {:>9}",
            "scenario", "outcome", "replaced", "evicted", "refused", "in world", "outside"
        )?;
        for row in &self.rows {
            match &row.report {
                Some(report) => writeln!(
                    formatter,
                    "{:<32} {:<10} {:>8} {:>8} {:>8} {:>7.0} s {:>7.1} s",
                    row.scenario,
                    format!("{:?}", report.outcome),
                    report.nodes.replaced,
                    report.pods.evicted,
                    report.evictions.refused,
                    report.virtual_seconds,
                    report.wall_seconds
                )?,
                None => writeln!(formatter, "{:<32} not played", row.scenario)?,
            }
            for fault in &row.faults {
                writeln!(formatter, "    {fault}")?;
            }
        }
        let good = self.rows.iter().filter(|row| row.faults.is_empty()).count();
        write!(
            formatter,
            "stories: {good} of {} as expected",
            self.rows.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_play_with_a_fault_is_not_as_expected() {
        let mut playbill = Playbill::default();
        assert!(!playbill.is_as_expected(), "nothing was played");
        playbill.add(Report::default(), Vec::new());
        assert!(playbill.is_as_expected());
        assert!(playbill.to_string().ends_with("1 of 1 as expected"));
        playbill.add(Report::default(), vec!["a pod was deleted".to_owned()]);
        assert!(!playbill.is_as_expected());
        let text = playbill.to_string();
        assert!(text.contains("a pod was deleted"), "{text}");
        assert!(text.ends_with("1 of 2 as expected"), "{text}");
    }

    #[test]
    fn every_scenario_of_the_repository_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        assert!(!load(&folder).unwrap().is_empty());
    }
}
