//! The repertoire: every scenario of a folder, and the table of what came of them.
//!
//! Owns the order and the table. Must not know the worlds: whoever plays
//! does. Called by `cargo xtask stories` and `cargo xtask swarm`.

use std::fmt;
use std::path::Path;

use thiserror::Error;

use crate::pairs::side_by_side;
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

/// Those of the given names, or all when none is given.
pub fn named(scenarios: Vec<Scenario>, names: &[String]) -> Result<Vec<Scenario>, NoSuchScenario> {
    let is_unknown = |name: &&String| scenarios.iter().all(|scenario| scenario.name != **name);
    if let Some(name) = names.iter().find(is_unknown) {
        return Err(NoSuchScenario(name.clone()));
    }
    let is_asked = |scenario: &Scenario| names.is_empty() || names.contains(&scenario.name);
    Ok(scenarios.into_iter().filter(is_asked).collect())
}

/// A name that no scenario has.
#[derive(Debug, Error)]
#[error("no scenario is called {0:?}; the files in scenarios/ tell which there are")]
pub struct NoSuchScenario(pub String);

/// Plays all scenarios, so many at a time, and gives the table in the order of the list. A play
/// gives a report and what other witnesses found wrong, or why there was none. Each row is told when
/// its play is over.
pub fn play_all(
    scenarios: &[Scenario],
    at_a_time: usize,
    play: impl Fn(&Scenario) -> Result<(Report, Vec<String>), String> + Sync,
    tell: impl Fn(&Row) + Sync,
) -> Playbill {
    let rows = side_by_side(scenarios, at_a_time, |scenario| {
        let row = Row::new(scenario, play(scenario));
        tell(&row);
        row
    });
    Playbill { rows }
}

/// What came of each scenario.
#[derive(Debug, Default)]
pub struct Playbill {
    rows: Vec<Row>,
}

/// What came of one scenario.
#[derive(Debug)]
pub struct Row {
    scenario: String,
    faults: Vec<String>,
    report: Option<Report>,
}

impl Row {
    fn new(scenario: &Scenario, played: Result<(Report, Vec<String>), String>) -> Self {
        let (report, faults) = match played {
            Ok((report, others)) => {
                let mut faults = report.complaints();
                faults.extend(others);
                (Some(report), faults)
            }
            Err(why) => (None, vec![why]),
        };
        Self {
            scenario: scenario.name.clone(),
            faults,
            report,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.report {
            Some(report) => write!(
                formatter,
                "{:<32} {:<10} {:>8} {:>8} {:>8} {:>7.0} s {:>7.1} s",
                self.scenario,
                format!("{:?}", report.outcome),
                report.nodes.replaced,
                report.pods.evicted,
                report.evictions.refused,
                report.virtual_seconds,
                report.wall_seconds
            )?,
            None => write!(formatter, "{:<32} not played", self.scenario)?,
        }
        for fault in &self.faults {
            write!(formatter, "\n    {fault}")?;
        }
        Ok(())
    }
}

impl Playbill {
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
            writeln!(formatter, "{row}")?;
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

    fn scenarios() -> Vec<Scenario> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        load(&folder).unwrap()
    }

    #[test]
    fn a_play_with_a_fault_is_not_as_expected() {
        let one = scenarios().remove(0);
        let pair = [one.clone(), one];
        assert!(!Playbill::default().is_as_expected(), "nothing was played");
        let good = play_all(&pair, 2, |_| Ok((Report::default(), Vec::new())), |_| {});
        assert!(good.is_as_expected());
        assert!(good.to_string().ends_with("2 of 2 as expected"), "{good}");
        let fault = || vec!["a pod was deleted".to_owned()];
        let told = std::sync::Mutex::new(Vec::new());
        let note = |row: &Row| told.lock().unwrap().push(row.to_string());
        let bad = play_all(&pair, 2, |_| Ok((Report::default(), fault())), note);
        assert!(!bad.is_as_expected());
        assert!(bad.to_string().contains("a pod was deleted"), "{bad}");
        let told = told.into_inner().unwrap();
        assert!(
            told.len() == 2 && told[0].contains("a pod was deleted"),
            "{told:?}"
        );
        let unplayed = play_all(&pair, 2, |_| Err("no world".to_owned()), |_| {});
        assert!(unplayed.to_string().ends_with("0 of 2 as expected"));
    }

    #[test]
    fn scenarios_are_picked_by_name_and_an_unknown_name_is_an_error() {
        let picked = named(scenarios(), &["gates".to_owned()]).unwrap();
        assert_eq!(picked.len(), 1);
        assert_eq!(named(scenarios(), &[]).unwrap().len(), scenarios().len());
        let error = named(scenarios(), &["gate".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("\"gate\""), "{error}");
    }

    #[test]
    fn every_scenario_of_the_repository_can_be_read() {
        assert!(!scenarios().is_empty());
    }
}
