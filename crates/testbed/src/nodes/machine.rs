//! One machine of a cluster: a container with an init of its own, from its files to the commands that run in it.
//!
//! Owns its folder and the process that boots it. Must not know of Kubernetes beyond the programs and files that it is
//! given. Called by `nodes`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::json;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::command::said;
use crate::binaries::nodes::scripts;
use crate::binaries::{Binaries, nodes::Parts};
use crate::process::Daemon;

/// How long a boot may take.
const BOOT: Duration = Duration::from_mins(1);
/// How long a command may take that only looks.
const LOOK: Duration = Duration::from_secs(30);

/// A machine that runs.
pub struct Machine {
    name: String,
    number: u8,
    folder: PathBuf,
    console: Daemon,
}

impl Machine {
    /// Makes the files of a machine, boots it, and waits until its init is content.
    pub(super) async fn boot(number: u8, parts: &Parts, run: &Path) -> Result<Self> {
        let name = format!("n{number}");
        let folder = run.join(&name);
        prepare(&folder, &name, number, parts)?;
        let words = [
            "run".to_owned(),
            folder.display().to_string(),
            name.clone(),
            parts.rootfs().display().to_string(),
            run.join("share").display().to_string(),
        ];
        let console = Daemon::start("console", &scripts().join("node.sh"), &words, &folder)?;
        let mut machine = Self {
            name,
            number,
            folder,
            console,
        };
        machine.wait_until_up().await?;
        Ok(machine)
    }

    /// Its name, which is that of its Node too.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address.
    pub fn address(&self) -> String {
        address(self.number)
    }

    /// The network of its pods.
    pub fn pods(&self) -> String {
        pods(self.number)
    }

    /// A file of it, as the host sees it, if it has been written since it was made.
    pub fn file(&self, path: &str) -> PathBuf {
        self.folder.join("upper").join(path.trim_start_matches('/'))
    }

    /// The process that keeps it, which is in the machine's own cgroups.
    pub(super) fn keeper(&self) -> u32 {
        self.console.pid()
    }

    /// Runs a command in it that only looks or is quick; returns what it says.
    pub async fn look(&self, words: &[&str]) -> Result<String> {
        self.run(words, LOOK).await
    }

    /// Runs a command in it; returns what it says. An error has all of its words.
    pub async fn run(&self, words: &[&str], limit: Duration) -> Result<String> {
        let mut command = Command::new(scripts().join("node.sh"));
        command.arg("enter").arg(&self.folder).args(words);
        let what = format!("{} on {}", words.join(" "), self.name);
        said(&mut command, &what, limit).await
    }

    async fn wait_until_up(&mut self) -> Result<()> {
        let deadline = Instant::now() + BOOT;
        loop {
            if let Some(ending) = self.console.ending()? {
                let words = self.console.last_words(20);
                bail!("{} ended while it booted: {ending}\n{words}", self.name);
            }
            // It says `starting` with a code of failure.
            let state = self.look(&["systemctl", "is-system-running"]).await;
            let state = match state {
                Ok(state) => state,
                Err(error) => error.to_string(),
            };
            if state.trim() == "running" {
                return Ok(());
            }
            if Instant::now() > deadline {
                let words = self.console.last_words(20);
                bail!("{} is not up after {BOOT:?}: {state}\n{words}", self.name);
            }
            sleep(Duration::from_millis(200)).await;
        }
    }
}

pub(super) fn address(number: u8) -> String {
    format!("10.200.0.{}", 10 + number)
}

/// The same that the control plane gives to nodes in the order in which they join.
fn pods(number: u8) -> String {
    format!("10.244.{}.0/24", number - 1)
}

/// What tells this machine from others, and the programs that an installer of Kubernetes brings.
fn prepare(folder: &Path, name: &str, number: u8, parts: &Parts) -> Result<()> {
    let upper = folder.join("upper");
    copy(&scripts().join("rootfs"), &upper)?;
    let programs = upper.join("usr/bin");
    fs::create_dir_all(&programs)?;
    let kubectl = Binaries::locate()?.path("kubectl")?;
    for program in [
        parts.programs().join("kubelet"),
        parts.programs().join("kubeadm"),
        kubectl,
    ] {
        let to = programs.join(program.file_name().context("a program has a name")?);
        fs::copy(&program, to).with_context(|| format!("copying {}", program.display()))?;
    }
    // Every pod's packets pass the host's own tables, so that services work on any kernel; no bridge, no filter for one.
    let network = json!({
        "cniVersion": "1.0.0", "name": "pods", "plugins": [
            { "type": "ptp", "mtu": 1500, "ipam": {
                "type": "host-local",
                "ranges": [[{ "subnet": pods(number) }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            } },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    });
    let files = [
        ("etc/shipshape/number", number.to_string()),
        ("etc/hostname", format!("{name}\n")),
        ("etc/hosts", format!("127.0.0.1 localhost {name}\n")),
        // Nobody answers there; an empty file would be an error to CoreDNS.
        ("etc/resolv.conf", "nameserver 10.200.0.1\n".to_owned()),
        ("etc/cni/net.d/10-pods.conflist", network.to_string()),
    ];
    for (path, text) in files {
        let path = upper.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
