//! `cargo xtask bench NAME`: measure against the goals.
//!
//! Owns nothing but the way: the `testbed` binary knows the benchmarks and their arguments.

use std::process::ExitCode;

use crate::testbed;

/// Which benchmark, and what it takes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// planner, memory, replace or verify, and its arguments; `--help` after the name lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    words: Vec<String>,
}

/// Debug builds would measure the compiler.
const PROFILE: &str = "quick";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let words = ["bench".to_owned()].into_iter();
    testbed::call_built(PROFILE, words.chain(arguments.words.iter().cloned()))
}
