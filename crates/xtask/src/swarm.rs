//! `cargo xtask swarm`: every scenario with many seeds, each twice, in virtual time.
//!
//! Owns the arguments; the `testbed` binary does the work.

use std::process::ExitCode;

use crate::testbed;

/// How much chance.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// First seed and the one after the last
    #[arg(long, value_name = "A..B")]
    seeds: String,
}

/// Thousands of plays are worth the longer build of an optimised binary.
const PROFILE: &str = "quick";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let words = [
        String::from("swarm"),
        format!("--seeds={}", arguments.seeds),
    ];
    testbed::call_built(PROFILE, words)
}
