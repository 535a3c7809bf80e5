//! `shipshape simulate`: a scenario, one seed or many, a report and a picture.
//!
//! Owns the options and the output; `scenarios` plays.

use std::process::ExitCode;

use anyhow::Context;
use shipshape_scenarios::story::Played;
use shipshape_scenarios::{Report, Scenario, play_alone};

use crate::cli::{Format, SimulateOptions};
use crate::output::say;

pub(crate) fn run(options: &SimulateOptions) -> anyhow::Result<ExitCode> {
    let scenario = Scenario::load(&options.scenario)?;
    let seeds = match options.seeds {
        Some(seeds) => seeds.from..=seeds.to - 1,
        None => options.seed..=options.seed,
    };
    let mut is_as_expected = true;
    for seed in seeds {
        let Played { report, timeline } = play_alone(&scenario, seed)?;
        is_as_expected &= report.is_as_expected();
        tell(options.output, &report)?;
        if let Some(file) = &options.timeline {
            let title = format!("{}, seed {seed}", scenario.name);
            std::fs::write(file, timeline.svg(&title))
                .with_context(|| format!("cannot write --timeline {}", file.display()))?;
        }
    }
    Ok(if is_as_expected {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints a report: JSON as one object a line.
pub(crate) fn tell(format: Format, report: &Report) -> anyhow::Result<()> {
    match format {
        Format::Text => say(&report.to_string())?,
        Format::Json => say(&format!("{}\n", serde_json::to_string(report)?))?,
    }
    Ok(())
}
