//! Benchmarks: what a figure is made of, and the list of them.
//!
//! Owns the words that every benchmark ends with. Each is a module of its own with `Settings` and a
//! `run`. None is a test: times depend on the machine. Called by `cargo xtask bench`.

pub mod memory;
pub mod planner;
pub mod replace;
mod table;
mod usage;
pub mod verify;
pub mod worker;
mod writes;

use anyhow::Result;

/// Which one.
#[derive(clap::Subcommand, Debug)]
pub enum Bench {
    /// Plan a very large cluster and decide one admission, in memory alone.
    Planner(planner::Settings),
    /// The controller's memory and idle writes with a large cluster in its stores.
    Memory(memory::Settings),
    /// Every node of a cluster replaced, on the real control plane with kwok's nodes.
    Replace(replace::Settings),
    /// Many nodes join at once and pass the gate, on the real control plane with kwok's nodes.
    Verify(verify::Settings),
    /// Size and memory of a worker of the gate, as it is released.
    Worker(worker::Settings),
}

/// What a benchmark came to.
#[derive(Debug)]
pub struct Figure {
    /// Tables for people.
    pub text: String,
    /// The figure in one line.
    pub last_line: String,
    /// Goals that were missed, in words.
    pub shortfalls: Vec<String>,
}

/// Runs one of them in a process of its own, where it needs surroundings of its own. Whether that passed;
/// none when it can run here.
pub fn run_apart(bench: &Bench) -> Result<Option<bool>> {
    let Bench::Replace(settings) = bench else {
        return Ok(None);
    };
    let status = replace::run_apart(settings)?;
    Ok(status.map(|status| status.success()))
}

/// Runs one of them.
pub async fn run(bench: &Bench) -> Result<Figure> {
    match bench {
        Bench::Planner(settings) => planner::run(settings),
        Bench::Memory(settings) => memory::run(settings).await,
        Bench::Replace(settings) => replace::run(settings).await,
        Bench::Verify(settings) => verify::run(settings).await,
        Bench::Worker(settings) => worker::run(settings).await,
    }
}

impl Figure {
    /// Everything, the figure last.
    pub fn render(&self) -> String {
        let mut text = self.text.clone();
        for shortfall in &self.shortfalls {
            text += &format!("\nfalls short: {shortfall}");
        }
        format!("{text}\n{}", self.last_line)
    }
}

/// The complaints about goals that were not reached.
fn judge(goals: impl IntoIterator<Item = (bool, String)>) -> Vec<String> {
    let missed = goals.into_iter().filter(|(reached, _)| !reached);
    missed.map(|(_, complaint)| complaint).collect()
}

/// The value that so many percent of a sorted list do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let place = (sorted.len().checked_sub(1)? * percent).div_ceil(100);
    sorted.get(place).copied()
}
