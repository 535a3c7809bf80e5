//! `cargo xtask conformance`: the embedded cluster held against the real API server.
//!
//! Owns the arguments; the `testbed` binary does the work.

use std::process::ExitCode;

use crate::testbed;

/// How much to compare.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Seed of the random sequences
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many random sequences
    #[arg(long, default_value_t = 500)]
    sequences: u32,
    /// Only the sequences whose name contains this text
    #[arg(long)]
    only: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut words = vec![
        String::from("conformance"),
        format!("--seed={}", arguments.seed),
        format!("--sequences={}", arguments.sequences),
    ];
    words.extend(arguments.only.as_ref().map(|text| format!("--only={text}")));
    testbed::call(words)
}
