//! `shipshape simulate`: a scenario, one seed or many, a report and a picture.
//!
//! Owns the options and the output; `scenarios` plays.

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use shipshape_scenarios::story::Played;
use shipshape_scenarios::timeline::Timeline;
use shipshape_scenarios::{Report, Scenario, play_alone};

use crate::cli::{Format, SimulateOptions};
use crate::output::say;

pub(crate) fn run(options: &SimulateOptions) -> anyhow::Result<ExitCode> {
    if options.from_cluster {
        return crate::rehearse::run(options);
    }
    let scenario = options.scenario.as_deref().unwrap_or(Path::new(""));
    let scenario = Scenario::load(scenario)?;
    let mut is_as_expected = true;
    for seed in seeds(options) {
        let Played { report, timeline } = play_alone(&scenario, seed)?;
        is_as_expected &= report.is_as_expected();
        tell(options.output, &report)?;
        draw(options, &timeline, &scenario.name, seed)?;
    }
    Ok(code(is_as_expected))
}

/// The seeds that shall be played.
pub(crate) fn seeds(options: &SimulateOptions) -> RangeInclusive<u64> {
    match options.seeds {
        Some(seeds) => seeds.from..=seeds.to - 1,
        None => options.seed..=options.seed,
    }
}

/// Draws the picture, if somebody wants it.
pub(crate) fn draw(
    options: &SimulateOptions,
    timeline: &Timeline,
    name: &str,
    seed: u64,
) -> anyhow::Result<()> {
    if let Some(file) = &options.timeline {
        let title = format!("{name}, seed {seed}");
        std::fs::write(file, timeline.svg(&title))
            .with_context(|| format!("cannot write --timeline {}", file.display()))?;
    }
    Ok(())
}

/// How a play ends for a shell.
pub(crate) fn code(is_as_expected: bool) -> ExitCode {
    if is_as_expected {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints a report: JSON as one object a line.
pub(crate) fn tell(format: Format, report: &Report) -> anyhow::Result<()> {
    match format {
        Format::Text => say(&report.to_string())?,
        Format::Json => say(&format!("{}\n", serde_json::to_string(report)?))?,
    }
    Ok(())
}
