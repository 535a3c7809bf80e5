//! `cargo xtask tidy`: the rules of the repository.
//!
//! Prints what the `shipshape-tidy` crate finds; `cargo test` runs the same look.

use std::process::ExitCode;

/// Takes none.
#[derive(clap::Args)]
pub(crate) struct Arguments {}

#[expect(clippy::print_stdout, reason = "a command talks to its caller")]
pub(crate) fn run(_: &Arguments) -> anyhow::Result<ExitCode> {
    let report = shipshape_tidy::check(&shipshape_tidy::repository())?;
    for finding in &report.findings {
        println!("{finding}");
    }
    let found = report.findings.len();
    println!("tidy: {found} findings in {} files", report.files);
    Ok(if found == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
