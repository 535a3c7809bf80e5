//! The one binary of Shipshape: parses the command line, sets up logs and hands over.
//!
//! Owns the exit codes: 0 as asked, 1 not as expected, 2 wrong input, 101 a defect, 130 and 143 ended by
//! a signal, 141 cut short by whoever read; `verify` has its own. Must not contain logic of its own.

mod cli;
mod config;
mod connect;
mod controller;
mod demo;
mod drawing;
mod explain;
mod failure;
mod logs;
mod manifest;
mod namespace;
mod orders;
mod output;
mod panics;
mod peer;
mod plan;
mod rehearse;
mod release;
mod signals;
mod simulate;
mod status;
mod survey;
mod target;
mod verify;

use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use shipshape_cluster::error::in_full;
use shipshape_engine::wish::RunWish;

use cli::{Cli, Command, CompletionsOptions, NodeCommand};
use failure::Failure;

fn main() -> ExitCode {
    panics::end_the_process();
    // Two TLS providers in one process panic at run time; this names the one that is used.
    let is_first = rustls::crypto::ring::default_provider()
        .install_default()
        .is_ok();
    debug_assert!(is_first, "nothing else installs a TLS provider");
    let result = match Command::parse() {
        Command::Demo(options) => demo::run(&options),
        Command::Simulate(options) => simulate::run(&options),
        Command::Controller(options) => controller::run(&options),
        Command::Node(NodeCommand::Verify(options)) => verify::run(&options),
        Command::Node(NodeCommand::Peer(options)) => peer::run(&options),
        Command::Crds => crds(),
        Command::Plan(options) => plan::run(&options),
        Command::Status(options) => status::run(&options),
        Command::Explain(options) => explain::run(&options),
        Command::Pause(options) => orders::of_run(&options, RunWish::Pause),
        Command::Resume(options) => orders::of_run(&options, RunWish::Resume),
        Command::Abort(options) => orders::of_run(&options, RunWish::Abort),
        Command::Retry(options) => orders::retry(&options),
        Command::ReleaseNodes(options) => release::run(&options),
        Command::Completions(options) => completions(&options),
    };
    result.unwrap_or_else(|error| {
        output::complain(&in_full(error.as_ref()));
        let code = error.downcast_ref::<Failure>().map_or(2, Failure::code);
        ExitCode::from(code)
    })
}

/// Runs a command that speaks to a cluster.
fn block_on(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(work)
}

fn completions(options: &CompletionsOptions) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "shipshape", &mut script);
    output::say(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

fn crds() -> anyhow::Result<ExitCode> {
    output::say(&shipshape_api::render::crds_yaml()?)?;
    Ok(ExitCode::SUCCESS)
}
