//! A command that is waited for, but not forever.
//!
//! Owns the deadline and the words of a failure. Called by `nodes` and its machines.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::Command;
use tokio::time::timeout;

/// What the command says on its standard output. An error calls it `what` and has all that it said.
pub(super) async fn said(command: &mut Command, what: &str, limit: Duration) -> Result<String> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = timeout(limit, output)
        .await
        .with_context(|| format!("{what}: not done after {limit:?}"))?;
    let output = output.with_context(|| format!("starting {what}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{what}: {}\n{said}{complaint}", output.status);
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failure_has_the_words_of_the_command() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo seen; echo trouble >&2; exit 3"]);
        let error = said(&mut command, "the script", Duration::from_mins(1)).await;
        let error = error.unwrap_err().to_string();
        for part in ["the script", "3", "seen", "trouble"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
