//! The operator as its users run it: the binary, a child process, a configuration file.
//!
//! Owns the child and its logs. Must not signal anything but that child. Called by the tests
//! that kill it and by the benchmarks.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use shipshape_scenarios::stage::OPERATOR;
use tokio::time::{Instant, sleep};

use crate::ControlPlane;

/// Where the controller's cloud is.
#[derive(Clone, Debug)]
pub enum CloudAt {
    /// The embedded one, in its own words.
    Embedded(SocketAddr),
    /// Services of Amazon Web Services, by the environment and nothing else.
    Aws(SocketAddr),
    /// There is none.
    Nowhere,
}

/// The controller's process, as often as it is started.
pub struct Controller {
    binary: PathBuf,
    variables: Vec<(&'static str, String)>,
    kubeconfig: PathBuf,
    folder: PathBuf,
    starts: usize,
    child: Option<Child>,
}

impl Controller {
    /// Builds the binary, if it is not fresh, and writes its configuration into `folder`. None runs
    /// yet. Terms are short, so that the next process takes over in about two seconds.
    pub fn prepare(kubeconfig: &Path, folder: &Path, cloud: &CloudAt) -> Result<Self> {
        let settings = "leaderElection: { leaseDuration: 2s, renewDeadline: 1500ms, retryPeriod: 300ms }\n\
                        settings: { machinePoll: 300ms }\n";
        Self::prepare_with(kubeconfig, folder, cloud, settings)
    }

    /// As `prepare`, with a configuration of the caller's.
    pub fn prepare_with(
        kubeconfig: &Path,
        folder: &Path,
        cloud: &CloudAt,
        settings: &str,
    ) -> Result<Self> {
        let (providers, variables) = match cloud {
            CloudAt::Embedded(address) => {
                let providers =
                    format!("providers: {{ embedded: {{ endpoint: \"{address}\" }} }}\n");
                (providers, Vec::new())
            }
            CloudAt::Aws(address) => {
                let variables = vec![
                    ("AWS_ENDPOINT_URL", format!("http://{address}")),
                    ("AWS_ACCESS_KEY_ID", "shipshape".to_owned()),
                    ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
                ];
                (String::new(), variables)
            }
            CloudAt::Nowhere => (String::new(), Vec::new()),
        };
        let binary = build()?;
        fs::write(
            folder.join("controller.yaml"),
            format!("{settings}{providers}"),
        )?;
        Ok(Self {
            binary,
            variables,
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
            // Several controllers run on one machine here.
            .args(["--metrics-bind-address", "0", "--health-probe-bind-address", "0"])
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", self.binary.display()))?;
        self.child = Some(child);
        Ok(())
    }

    /// Until it has read what there is: its watches are logged only when they end, so its lists of pods
    /// tell.
    pub async fn wait_until_at_work(&self, plane: &ControlPlane) -> Result<()> {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let entries = plane.audit()?;
            let mut ours = entries
                .iter()
                .filter(|entry| entry.user_agent.starts_with(OPERATOR));
            if ours.any(|entry| entry.is("list", "pods") && entry.succeeded()) {
                sleep(Duration::from_secs(3)).await;
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the controller does not work\n{}", self.last_words());
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// The program itself, whose other commands a test may use.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// The id of the process that runs now.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
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

/// Names a binary that was built elsewhere, to compare two states of the code.
const BINARY: &str = "SHIPSHAPE_BINARY";

/// The binary beside the one that runs now, built by the same cargo in the same profile. It speaks to every
/// cloud, as the image does, so that one build serves all tests.
pub fn build() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os(BINARY).filter(|binary| !binary.is_empty()) {
        return Ok(PathBuf::from(binary));
    }
    let here = std::env::current_exe()?;
    let folder = here
        .ancestors()
        .skip(1)
        .find(|folder| folder.file_name().is_none_or(|name| name != "deps"))
        .context("this program is nowhere")?;
    let profile = match folder.file_name().and_then(OsStr::to_str) {
        None | Some("debug") => "dev",
        Some(profile) => profile,
    };
    let status = cargo()
        .args([
            "build",
            "--quiet",
            "--profile",
            profile,
            "--package",
            "shipshape",
            // With ours beside it the features of what both use are the same, and nothing is built twice.
            "--package",
            env!("CARGO_PKG_NAME"),
            "--bin",
            "shipshape",
            "--features",
            "shipshape/aws",
        ])
        .status()
        .context("starting cargo")?;
    if !status.success() {
        bail!("the controller does not build");
    }
    Ok(folder.join("shipshape"))
}

/// Cargo as a person calls it. What cargo has told this program of its own package is kept from it: build scripts of
/// dependencies (ring's) run anew when they see another, and most of the workspace would be built again each time.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name.as_ref());
        }
    }
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_does_not_hear_which_package_has_called_it() {
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
        let cargo = cargo();
        let gone: Vec<_> = cargo
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .collect();
        for name in [
            "CARGO_PKG_NAME",
            "CARGO_PKG_VERSION_MINOR",
            "CARGO_MANIFEST_DIR",
        ] {
            assert!(gone.iter().any(|(one, _)| *one == name), "{name}: {gone:?}");
        }
    }
}
