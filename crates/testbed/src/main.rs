//! The testbed's command line: `build`, `up`, `down`, `conformance`.
//!
//! Owns arguments and the last line of each command. Called through `cargo xtask`.
#![expect(
    clippy::print_stdout,
    reason = "a command line speaks through its standard output"
)]

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use shipshape_testbed::binaries::build::Outcome;
use shipshape_testbed::binaries::{Binaries, build};
use shipshape_testbed::{conformance, standing};

/// The real control plane of the tests.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the pinned binaries into the cache folder; nothing happens when they are there.
    Build,
    /// Start a control plane that stays until `down`, and print its kubeconfig.
    Up,
    /// Stop it.
    Down,
    /// What `up` leaves running.
    #[command(hide = true)]
    Serve,
    /// Send the same requests to the embedded cluster and to the real API server, and compare.
    Conformance(conformance::Settings),
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    match Arguments::parse().command {
        Command::Build => {
            let binaries = Binaries::locate()?;
            let built = match build::ensure(&binaries)? {
                Outcome::Present => 0,
                Outcome::Built(names) => names.len(),
            };
            println!(
                "testbed: {built} binaries built, all in {}",
                binaries.folder().display()
            );
        }
        Command::Up => println!(
            "testbed: up, kubeconfig {}",
            standing::up().await?.display()
        ),
        Command::Down => println!("testbed: {}", standing::down().await?),
        Command::Serve => standing::serve().await?,
        Command::Conformance(settings) => {
            let report = conformance::run(&settings).await?;
            println!("{report}");
            return Ok(if report.passed() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            });
        }
    }
    Ok(ExitCode::SUCCESS)
}
