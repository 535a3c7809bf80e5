//! The index of development commands: `cargo xtask NAME`.
//!
//! Owns the list and nothing else: each command is a module of its own with an `Arguments` and a
//! `run`. Each prints its figure as its last line and exits non-zero when it falls short.

mod bench;
mod conformance;
mod crds;
mod stories;
mod swarm;
mod testbed;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development commands of Shipshape")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write deploy/crds and docs/reference.md from the kinds
    Crds(crds::Arguments),
    /// Build, start or stop the real control plane of the tests
    Testbed(testbed::Arguments),
    /// Send the same requests to the embedded cluster and to the real API server
    Conformance(conformance::Arguments),
    /// Measure against the goals, in an optimised build
    Bench(bench::Arguments),
    /// Play every scenario once, on the embedded cluster or on the real control plane
    Stories(stories::Arguments),
    /// Play every scenario with many seeds, each twice, and compare the traces
    Swarm(swarm::Arguments),
    /// Check the rules that neither the compiler nor clippy can check
    Tidy(tidy::Arguments),
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Command::Crds(arguments) => crds::run(&arguments),
        Command::Testbed(arguments) => testbed::run(&arguments),
        Command::Conformance(arguments) => conformance::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Stories(arguments) => stories::run(&arguments),
        Command::Swarm(arguments) => swarm::run(&arguments),
        Command::Tidy(arguments) => tidy::run(&arguments),
    }
}
