//! `cargo xtask testbed build|up|down`: the real control plane of the tests.
//!
//! Owns the way into the `testbed` binary, which does the work: this index stays quick to build.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;

/// What to do with the control plane.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Copy, clap::Subcommand)]
enum Action {
    /// Build the pinned binaries into the cache folder, if they are not there
    Build {
        /// Karpenter too, which `bench replace` measures
        #[arg(long)]
        karpenter: bool,
        /// What real nodes are made of too; installs packages, as root
        #[arg(long)]
        nodes: bool,
    },
    /// Start a control plane that stays until `down`, and print its kubeconfig
    Up,
    /// Stop it
    Down,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let words = match arguments.action {
        Action::Build { karpenter, nodes } => {
            let more = [(karpenter, "--karpenter"), (nodes, "--nodes")];
            let more = more.into_iter().filter(|(wanted, _)| *wanted);
            std::iter::once("build")
                .chain(more.map(|(_, word)| word))
                .collect()
        }
        Action::Up => vec!["up"],
        Action::Down => vec!["down"],
    };
    call(words)
}

/// Runs the `testbed` binary with these words; its ending is ours.
pub(crate) fn call(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> anyhow::Result<ExitCode> {
    call_built("dev", words)
}

/// As `call`, with the binary built in a profile of the workspace.
pub(crate) fn call_built(
    profile: &str,
    words: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> anyhow::Result<ExitCode> {
    // Built as the testbed builds the controller: with other features most would be built twice.
    let mut cargo = Command::new(env!("CARGO"));
    // What cargo has told this program of its package would make build scripts run anew, and most be built again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name.as_ref());
        }
    }
    let built = cargo
        .args(["build", "--quiet", "--profile", profile])
        .args(["--package", "shipshape-testbed", "--bin", "testbed"])
        .args(["--package", "shipshape", "--features", "shipshape/aws"])
        .status()
        .context("starting cargo")?;
    if !built.success() {
        return Ok(ExitCode::FAILURE);
    }
    let status = Command::new(folder(profile)?.join("testbed"))
        .args(words)
        .status()
        .context("starting the testbed")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Where cargo puts what it builds in a profile: beside the folder that this program is in.
fn folder(profile: &str) -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe()?;
    let target = here.ancestors().nth(2).context("this program is nowhere")?;
    let name = if profile == "dev" { "debug" } else { profile };
    Ok(target.join(name))
}
