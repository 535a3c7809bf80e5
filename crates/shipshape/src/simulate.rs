//! `shipshape simulate`: a scenario, one seed or many, a report and a picture.
//!
//! Owns the options and the output; `scenarios` plays.

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use shipshape_scenarios::crash::{self, CrashPlans};
use shipshape_scenarios::drawn::{self, DrawnSwarm};
use shipshape_scenarios::story::Played;
use shipshape_scenarios::timeline::Timeline;
use shipshape_scenarios::{Report, Scenario, play_alone};

use crate::cli::{Format, SimulateOptions};
use crate::failure::Failure;
use crate::output::{Progress, Reader, say, unheard};

pub(crate) fn run(options: &SimulateOptions) -> anyhow::Result<ExitCode> {
    if let Some(complaint) = options.in_vain() {
        return Err(Failure::WrongInput(complaint).into());
    }
    crate::logs::start_virtual(&options.log_level)?;
    check_timeline(options)?;
    if options.from_cluster {
        return crate::rehearse::run(options);
    }
    let Some(file) = &options.scenario else {
        return drawn_stories(options);
    };
    let scenario = Scenario::load(file)?;
    if let Some(choice) = &options.crash {
        return crash_plans(options, file, &scenario, choice);
    }
    let mut is_as_expected = true;
    for seed in seeds(options) {
        let mut progress = Progress::new();
        progress.tell(|| format!("playing {}, seed {seed}", scenario.name));
        let Played { report, timeline } = play_alone(&scenario, seed)?;
        is_as_expected &= report.is_as_expected();
        drop(progress);
        let reader = tell(options.output, &report)?;
        draw(options, &timeline, &scenario.name, seed)?;
        if reader == Reader::Gone && options.seeds.is_some() {
            return Ok(unheard());
        }
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
        std::fs::write(file, timeline.svg(&title)).with_context(|| no_timeline(file))?;
    }
    Ok(())
}

/// Sees whether the picture can be written, before a long play. What is there is left as it is.
fn check_timeline(options: &SimulateOptions) -> anyhow::Result<()> {
    let Some(file) = &options.timeline else {
        return Ok(());
    };
    let is_new = !file.exists();
    let mut open = std::fs::File::options();
    open.write(true)
        .create(true)
        .truncate(false)
        .open(file)
        .with_context(|| no_timeline(file))?;
    if is_new {
        std::fs::remove_file(file).with_context(|| no_timeline(file))?;
    }
    Ok(())
}

fn no_timeline(file: &Path) -> String {
    format!("cannot write --timeline {}", file.display())
}

/// How a play ends for a shell.
pub(crate) fn code(is_as_expected: bool) -> ExitCode {
    if is_as_expected {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Stories drawn from seeds: the report of one, or the figure of many.
fn drawn_stories(options: &SimulateOptions) -> anyhow::Result<ExitCode> {
    if let Some(seeds) = options.seeds {
        let all = seeds.to - seeds.from;
        let swarm = {
            let progress = Mutex::new(Progress::new());
            DrawnSwarm::play(seeds.from..seeds.to, |begun| {
                tell_of(&progress, || format!("playing story {begun} of {all}"));
            })
        };
        say(&format!("{swarm}\n"))?;
        return Ok(code(swarm.is_clean()));
    }
    let story = drawn::draw(options.seed)?;
    let report = drawn::play(&story, options.seed)?;
    tell(options.output, &report)?;
    Ok(code(report.is_as_expected()))
}

/// One play for each point, or the report of one.
fn crash_plans(
    options: &SimulateOptions,
    file: &Path,
    scenario: &Scenario,
    choice: &crash::Choice,
) -> anyhow::Result<ExitCode> {
    match choice {
        crash::Choice::Every(every) => {
            let file = file.display().to_string();
            let points = crash::points(scenario)?;
            let points: Vec<_> = points.into_iter().step_by(*every).collect();
            let all = points.len();
            let plans = {
                let progress = Mutex::new(Progress::new());
                CrashPlans::play(&file, scenario, &points, |begun| {
                    tell_of(&progress, || format!("playing crash {begun} of {all}"));
                })?
            };
            say(&format!("{plans}\n"))?;
            Ok(code(plans.is_clean()))
        }
        crash::Choice::One(point) => {
            let report = crash::play(scenario, point)?;
            tell(options.output, &report)?;
            Ok(code(report.is_as_expected()))
        }
    }
}

/// Says how far many plays have come.
fn tell_of(progress: &Mutex<Progress>, words: impl FnOnce() -> String) {
    let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
    progress.tell(words);
}

/// Prints a report: JSON as one object a line.
pub(crate) fn tell(format: Format, report: &Report) -> anyhow::Result<Reader> {
    Ok(match format {
        Format::Text => say(&report.to_string())?,
        Format::Json => say(&format!("{}\n", serde_json::to_string(report)?))?,
    })
}
