//! The one binary of Shipshape: parses the command line, sets up logs and hands over.
//!
//! Owns the exit codes: 0 as asked, 1 not as expected, 2 wrong input, 101 a defect, 130 and 143 ended by
//! a signal. Must not contain logic of its own.

mod cli;
mod config;
mod controller;
mod demo;
mod logs;
mod output;
mod panics;
mod signals;
mod simulate;

use std::process::ExitCode;

use clap::Parser;
use shipshape_cluster::error::in_full;

use cli::{Cli, Command};

fn main() -> ExitCode {
    panics::end_the_process();
    // Two TLS providers in one process panic at run time; this names the one that is used.
    let is_first = rustls::crypto::ring::default_provider()
        .install_default()
        .is_ok();
    debug_assert!(is_first, "nothing else installs a TLS provider");
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Demo(options) => demo::run(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::Controller(options) => controller::run(&options),
        Command::Crds => crds(),
    };
    result.unwrap_or_else(|error| {
        output::complain(&in_full(error.as_ref()));
        ExitCode::from(2)
    })
}

fn crds() -> anyhow::Result<ExitCode> {
    output::say(&shipshape_api::render::crds_yaml()?)?;
    Ok(ExitCode::SUCCESS)
}
