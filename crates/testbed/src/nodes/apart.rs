//! Namespaces of one's own for nodes: network, mounts and processes.
//!
//! Owns the way there and what must not stay behind. All that runs there ends with its first process, and that ends
//! with us, however we end. Cgroups and the folder of a run are removed afterwards; those of a run that was killed, when
//! the next one begins. One run at a time has the machine. Called by tests with real nodes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::binaries::nodes::{Parts, script, scripts};
use crate::controller;

/// Tells the process in there which folder is its own.
const FOLDER: &str = "SHIPSHAPE_NODES_FOLDER";
/// How the folder of a run begins.
const PREFIX: &str = "nodes-run-";

/// The folder of this run, where we are in such namespaces.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Runs this same program with these words in namespaces of its own. Needs root, and waits for another such run.
pub fn run(words: &[&str]) -> Result<ExitStatus> {
    let parts = Parts::locate()?;
    parts.check()?;
    let cache = parts
        .programs()
        .parent()
        .context("the cache folder has no parent")?;
    let lock = cache.join("nodes-run.lock");
    let lock = File::create(&lock).with_context(|| format!("creating {}", lock.display()))?;
    lock.lock().context("waiting for another run with nodes")?;
    sweep(cache)?;
    // What is needed from outside, is needed now.
    controller::build()?;
    let folder = TempDir::with_prefix_in(PREFIX, cache)?;
    let status = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "unshare"])
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child"])
        .arg("--mount-proc")
        .arg(scripts().join("apart.sh"))
        .arg(std::env::current_exe()?)
        .args(words)
        .env(FOLDER, folder.path())
        .status()
        .context("starting unshare")?;
    drop(folder);
    sweep(cache)?;
    Ok(status)
}

/// Removes what a run has left. Nobody else's can be there while the lock is held.
fn sweep(cache: &Path) -> Result<()> {
    script("node.sh", &[Path::new("sweep")])?;
    for entry in fs::read_dir(cache)? {
        let entry = entry?;
        let is_left = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_left && entry.file_type()?.is_dir() {
            let path = entry.path();
            fs::remove_dir_all(&path).with_context(|| format!("removing {}", path.display()))?;
        }
    }
    Ok(())
}

/// An error that says how to get there, for whoever starts nodes elsewhere.
pub(super) fn own_folder() -> Result<PathBuf> {
    let folder = folder().context("nodes are started in namespaces of their own: nodes::apart")?;
    ensure!(folder.is_dir(), "{} is not there", folder.display());
    Ok(folder)
}
