//! The operator as its users run it: the binary, a child process, a configuration file.
//!
//! Owns the child and its logs. Must not signal anything but that child. Called by the test that
//! kills it.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// The controller's process, as often as it is started.
pub struct Controller {
    binary: PathBuf,
    kubeconfig: PathBuf,
    folder: PathBuf,
    starts: usize,
    child: Option<Child>,
}

impl Controller {
    /// Builds the binary, if it is not fresh, and writes its configuration into `folder`. None runs
    /// yet.
    pub fn prepare(kubeconfig: &Path, folder: &Path, cloud: SocketAddr) -> Result<Self> {
        let binary = build()?;
        // Short terms, so that the next process takes over in about two seconds.
        let config = format!(
            "leaderElection: {{ leaseDuration: 2s, renewDeadline: 1500ms, retryPeriod: 300ms }}\n\
             settings: {{ machinePoll: 300ms }}\n\
             providers: {{ embedded: {{ endpoint: \"{cloud}\" }} }}\n"
        );
        fs::write(folder.join("controller.yaml"), config)?;
        Ok(Self {
            binary,
            kubeconfig: kubeconfig.to_path_buf(),
            folder: folder.to_path_buf(),
            starts: 0,
            child: None,
        })
    }

    /// Starts a process.
    pub fn start(&mut self) -> Result<()> {
        self.starts += 1;
        let log = File::create(self.log())?;
        let child = Command::new(&self.binary)
            .arg("controller")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--config")
            .arg(self.folder.join("controller.yaml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", self.binary.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Kills the process where it stands, with a signal that it cannot hear.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else {
            bail!("no controller runs");
        };
        if let Some(status) = child.try_wait()? {
            bail!("the controller had ended: {status}\n{}", self.last_words());
        }
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// What the present or latest process said last.
    pub fn last_words(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(30)..);
        tail.unwrap_or_default().join("\n")
    }

    fn log(&self) -> PathBuf {
        self.folder.join(format!("controller-{}.log", self.starts))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // An error here means that it is gone already, which is what we want.
            if child.kill().is_ok() {
                drop(child.wait());
            }
        }
    }
}

/// The binary beside the one that runs now, built by the same cargo.
fn build() -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--package",
            "shipshape",
            "--bin",
            "shipshape",
        ])
        .status()
        .context("starting cargo")?;
    if !status.success() {
        bail!("the controller does not build");
    }
    let here = std::env::current_exe()?;
    let folder = here
        .ancestors()
        .skip(1)
        .find(|folder| folder.file_name().is_none_or(|name| name != "deps"))
        .context("this program is nowhere")?;
    Ok(folder.join("shipshape"))
}
