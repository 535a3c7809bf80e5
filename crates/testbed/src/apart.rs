//! A network of one's own, with nothing in it but loopback.
//!
//! Owns the way there: Karpenter listens on every address of its machine and has no setting against
//! that, so control plane, kwok and whoever is measured or tested beside it run where no other address is.
//! Called by the benchmark of replacing and by the test with Karpenter.

use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result};

use crate::controller;

/// Ways to a network of one's own: as root, and as anybody where the kernel lets them.
const WAYS: [&[&str]; 2] = [&["--net"], &["--map-root-user", "--net"]];
/// Loopback is down in a new network.
const SCRIPT: &str = "ip link set lo up && exec \"$0\" \"$@\"";

/// Runs this same program with these words and variables in a network of its own. None means that there is
/// no way.
pub fn run(words: &[String], variables: &[(&str, &str)]) -> Result<Option<ExitStatus>> {
    let Some(way) = WAYS.into_iter().find(|way| is_open(way)) else {
        return Ok(None);
    };
    // What it needs from outside, it needs now.
    controller::build()?;
    let program = std::env::current_exe()?;
    let mut command = command(way, &program);
    let status = command.args(words).envs(variables.iter().copied()).status();
    Ok(Some(status.context("starting unshare")?))
}

fn is_open(way: &[&str]) -> bool {
    let tried = command(way, Path::new("true")).output();
    tried.is_ok_and(|output| output.status.success())
}

fn command(way: &[&str], program: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(way).args(["sh", "-c", SCRIPT]).arg(program);
    command
}
