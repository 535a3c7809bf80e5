//! `cargo xtask stories`: every scenario of the repository, once, in either world.
//!
//! Owns the arguments; the `testbed` binary does the work.

use std::process::ExitCode;

use crate::testbed;

/// Where and with which chance.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these, by name
    names: Vec<String>,
    /// The embedded cluster in virtual time, or the real control plane
    #[arg(long, value_parser = ["embedded", "real"])]
    world: String,
    /// Seed of everything that chance decides
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options = [
        String::from("stories"),
        format!("--world={}", arguments.world),
        format!("--seed={}", arguments.seed),
    ];
    testbed::call(options.into_iter().chain(arguments.names.iter().cloned()))
}
