//! `cargo xtask crds`: files that are made from the kinds.
//!
//! Writes them, or with `--check` only says which are stale.

use shipshape_tidy::generated;
use std::process::ExitCode;

/// What to do with the files.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Change nothing; fail when a file is stale
    #[arg(long)]
    check: bool,
}

#[expect(clippy::print_stdout, reason = "a command talks to its caller")]
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let root = shipshape_tidy::repository();
    if !arguments.check {
        println!("crds: {} files written", generated::write(&root)?);
        return Ok(ExitCode::SUCCESS);
    }
    let stale = generated::stale(&root)?;
    for finding in &stale {
        println!("{finding}");
    }
    println!("crds: {} stale files", stale.len());
    Ok(if stale.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
