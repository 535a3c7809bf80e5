//! The checks of a worker from the controller's own pod: `shipshape verify` as a child process.
//!
//! Owns the child's arguments and environment. A process of its own, so that checks cannot hold up the
//! controllers, and what they read of variables and files is theirs alone. Must not outlive its run.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use async_trait::async_trait;
use shipshape_controllers::OwnChecks;
use shipshape_engine::verify::worker::CONFIG_VARIABLE;
use tokio::process::Command;

/// Where a pod finds the authority of the API server.
const AUTHORITY: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
/// By these a pod knows the API server; the checks look for it there.
const API_SERVER: [&str; 2] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];
/// The code of a process that could not be run.
const NOT_RUN: i32 = 10;

/// This program, once more.
pub(super) struct Child {
    program: PathBuf,
    /// Of this process, those that the checks need.
    around: Vec<(String, String)>,
}

impl Child {
    /// Only in a pod: elsewhere the network of this process says nothing about that of nodes.
    pub(super) fn in_pod() -> Option<Self> {
        let around = API_SERVER.map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
        let around: Option<Vec<_>> = around.into_iter().collect();
        Some(Self {
            program: std::env::current_exe().ok()?,
            around: around.filter(|_| Path::new(AUTHORITY).exists())?,
        })
    }
}

#[async_trait]
impl OwnChecks for Child {
    async fn run(&self, variables: &[(String, String)]) -> (i32, String) {
        // The workers' settings file counts where it is mounted here too.
        let given = variables
            .iter()
            .filter(|(name, value)| name != CONFIG_VARIABLE || Path::new(value).exists());
        let child = Command::new(&self.program)
            .args(["verify", "--ca-file", AUTHORITY, "--output", "json"])
            .args(["--dry-run", "--log-level", "error"])
            .env_clear()
            .envs(self.around.iter().cloned())
            .envs(given.cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .output()
            .await;
        match child {
            Ok(output) => {
                let code = output.status.code().unwrap_or(NOT_RUN);
                let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                (code, if text.is_empty() { said } else { text })
            }
            Err(error) => (NOT_RUN, format!("{}: {error}", self.program.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(program: &str) -> Child {
        Child {
            program: PathBuf::from(program),
            around: vec![("AROUND".to_owned(), "here".to_owned())],
        }
    }

    #[tokio::test]
    async fn a_program_that_cannot_be_run_is_told_and_is_no_pass() {
        let (code, said) = child("/nowhere/shipshape").run(&[]).await;
        assert_eq!(code, NOT_RUN);
        assert!(said.contains("/nowhere/shipshape"), "{said}");
    }

    #[tokio::test]
    async fn the_checks_get_the_workers_variables_and_no_file_that_is_not_here() {
        let variables = [
            ("CHECK_TIMEOUT".to_owned(), "3s".to_owned()),
            (
                CONFIG_VARIABLE.to_owned(),
                "/nowhere/worker.yaml".to_owned(),
            ),
        ];
        // Prints its environment, whatever its arguments.
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, "#!/bin/sh\nenv\nexit 1\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let (code, said) = child(&program.display().to_string()).run(&variables).await;
        assert_eq!(code, 1);
        assert!(
            said.contains("CHECK_TIMEOUT=3s") && said.contains("AROUND=here"),
            "{said}"
        );
        assert!(
            !said.contains(CONFIG_VARIABLE) && !said.contains("CARGO"),
            "{said}"
        );
    }
}
