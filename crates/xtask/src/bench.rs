//! `cargo xtask bench NAME`: measure against the goals.
//!
//! Owns nothing but the way: the `testbed` binary knows the benchmarks and their arguments.

use std::process::ExitCode;

use crate::testbed;

/// Which benchmark, and what it takes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// planner, memory, replace, verify or worker, and its arguments; `--help` after the name lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    words: Vec<String>,
}

/// Debug builds would measure the compiler.
const PROFILE: &str = "quick";
/// What measures a binary of another profile, which it builds itself, may be slow.
const APART: (&str, &str) = ("worker", "dev");

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let words = ["bench".to_owned()].into_iter();
    let (bench, slow) = APART;
    let is_apart = arguments.words.first().is_some_and(|word| word == bench);
    let profile = if is_apart { slow } else { PROFILE };
    testbed::call_built(profile, words.chain(arguments.words.iter().cloned()))
}
