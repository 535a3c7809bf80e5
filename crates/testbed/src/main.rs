//! The testbed's command line: `build`, `up`, `down`, `conformance`, `bench`, `stories`, `swarm`.
//!
//! Owns arguments and the last line of each command. Called through `cargo xtask`.
#![expect(
    clippy::print_stdout,
    reason = "a command line speaks through its standard output"
)]

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use shipshape_scenarios::repertoire;
use shipshape_scenarios::swarm::{Seeds, Swarm};
use shipshape_testbed::binaries::karpenter::Karpenter;
use shipshape_testbed::binaries::nodes::Parts;
use shipshape_testbed::binaries::{Binaries, build};
use shipshape_testbed::{bench, conformance, standing, stories};
use tracing_subscriber::EnvFilter;

/// The real control plane of the tests.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// What needs a control plane and no story.
#[derive(Subcommand)]
enum Plane {
    /// Build the pinned binaries into the cache folder; nothing happens when they are there.
    Build {
        /// Karpenter too, in a cache folder of its own, for `bench replace`.
        #[arg(long)]
        karpenter: bool,
        /// What real nodes are made of too, in cache folders of their own; installs packages, as root.
        #[arg(long)]
        nodes: bool,
    },
    /// Start a control plane that stays until `down`, and print its kubeconfig.
    Up,
    /// Stop it.
    Down,
    /// What `up` leaves running.
    #[command(hide = true)]
    Serve,
    /// Send the same requests to the embedded cluster and to the real API server, and compare.
    Conformance(conformance::Settings),
    /// Measure against the goals.
    Bench {
        #[command(subcommand)]
        bench: bench::Bench,
    },
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Plane(Plane),
    /// Play every scenario of the repository once.
    Stories {
        /// Only these, by name.
        names: Vec<String>,
        /// Where.
        #[arg(long, value_enum)]
        world: World,
        /// Seed of everything that chance decides.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Play every scenario with many seeds, each twice, in virtual time, and compare.
    Swarm {
        /// First seed and the one after the last, as A..B.
        #[arg(long)]
        seeds: Seeds,
    },
}

/// Where stories are played.
#[derive(Clone, Copy, ValueEnum)]
enum World {
    /// The embedded cluster, in virtual time.
    Embedded,
    /// The real control plane, in real time.
    Real,
}

fn main() -> Result<ExitCode> {
    let command = Arguments::parse().command;
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(
            EnvFilter::try_from_env("SHIPSHAPE_LOG").unwrap_or_else(|_| {
                EnvFilter::new("warn,kube_client=off,shipshape_testbed::bench=info")
            }),
        )
        .init();
    // Every play has a runtime of its own.
    match command {
        Command::Stories { names, world, seed } => {
            let scenarios = repertoire::named(repertoire::load(&stories::folder())?, &names)?;
            let playbill = match world {
                World::Embedded => stories::embedded(&scenarios, seed),
                World::Real => stories::real(&scenarios, seed),
            };
            println!("{playbill}");
            Ok(ending(playbill.is_as_expected()))
        }
        Command::Swarm { seeds } => {
            let scenarios = repertoire::load(&stories::folder())?;
            let swarm = Swarm::play(&scenarios, seeds.from..seeds.to)?;
            println!("{swarm}");
            Ok(ending(swarm.is_clean()))
        }
        Command::Plane(command) => tokio::runtime::Runtime::new()?.block_on(run(command)),
    }
}

fn ending(passed: bool) -> ExitCode {
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn run(command: Plane) -> Result<ExitCode> {
    match command {
        Plane::Build { karpenter, nodes } => {
            if karpenter {
                let karpenter = Karpenter::locate()?;
                let built = karpenter.ensure()?.count();
                let folder = karpenter.folder().display();
                println!("testbed: {built} binaries built, Karpenter in {folder}");
            }
            let binaries = Binaries::locate()?;
            let built = build::ensure(&binaries)?.count();
            if nodes {
                let parts = Parts::locate()?;
                let built = parts.ensure()?.count();
                let folder = parts.programs().display();
                println!("testbed: {built} parts of nodes built, programs in {folder}");
            }
            println!(
                "testbed: {built} binaries built, all in {}",
                binaries.folder().display()
            );
        }
        Plane::Up => println!(
            "testbed: up, kubeconfig {}",
            standing::up().await?.display()
        ),
        Plane::Down => println!("testbed: {}", standing::down().await?),
        Plane::Serve => standing::serve().await?,
        Plane::Conformance(settings) => {
            let report = conformance::run(&settings).await?;
            println!("{report}");
            return Ok(ending(report.passed()));
        }
        Plane::Bench { bench } => {
            if let Some(passed) = bench::run_apart(&bench)? {
                return Ok(ending(passed));
            }
            let figure = bench::run(&bench).await?;
            println!("{}", figure.render());
            return Ok(ending(figure.shortfalls.is_empty()));
        }
    }
    Ok(ExitCode::SUCCESS)
}
