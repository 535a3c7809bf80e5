//! A control plane that outlives the command that started it.
//!
//! Owns the state file in the target folder. `up` starts this binary again as `serve`, which
//! holds the control plane until it is told to end. Called by the command line alone.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep};

use crate::{ControlPlane, Options};

/// What `down` must know.
#[derive(Serialize, Deserialize)]
struct State {
    pid: u32,
    kubeconfig: PathBuf,
}

/// Starts a control plane in the background, or finds the one that runs; returns its kubeconfig.
pub async fn up() -> Result<PathBuf> {
    if let Some(state) = read_state()? {
        return Ok(state.kubeconfig);
    }
    let folder = state_folder();
    fs::create_dir_all(&folder)?;
    let log_path = folder.join("serve.log");
    let log = File::create(&log_path)?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("serve")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()?;
    let deadline = Instant::now() + Duration::from_secs(90);
    while Instant::now() < deadline {
        if let Some(state) = read_state()? {
            return Ok(state.kubeconfig);
        }
        if child.try_wait()?.is_some() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    bail!(
        "no control plane came up:\n{}",
        fs::read_to_string(log_path).unwrap_or_default()
    )
}

/// Holds a control plane until SIGTERM or SIGINT.
pub async fn serve() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let state = State {
        pid: std::process::id(),
        kubeconfig: plane.kubeconfig().to_path_buf(),
    };
    let written = state_folder().join("state.new");
    fs::write(&written, serde_json::to_vec(&state)?)?;
    fs::rename(&written, state_file())?;
    let mut end = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        biased;
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
    }
    drop(plane);
    fs::remove_file(state_file()).context("removing the state file")
}

/// Ends the control plane that `up` started; says what happened.
pub async fn down() -> Result<String> {
    let Some(state) = read_state()? else {
        return Ok("down already".into());
    };
    // Our own child, by its id: the state file is only believed while that process is a `serve`.
    let status = Command::new("kill")
        .args(["-TERM", &state.pid.to_string()])
        .status()?;
    if !status.success() {
        bail!("could not signal process {}", state.pid);
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if !state_file().exists() {
            return Ok("down".into());
        }
        sleep(Duration::from_millis(50)).await;
    }
    bail!("process {} did not end in time", state.pid)
}

/// The state, when the process it names still runs.
fn read_state() -> Result<Option<State>> {
    let Ok(text) = fs::read(state_file()) else {
        return Ok(None);
    };
    let state: State = serde_json::from_slice(&text).context("reading the state file")?;
    let line = fs::read(format!("/proc/{}/cmdline", state.pid)).unwrap_or_default();
    let alive = line.split(|byte| *byte == 0).any(|word| word == b"serve");
    Ok(alive.then_some(state))
}

fn state_file() -> PathBuf {
    state_folder().join("state.json")
}

fn state_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/testbed")
}
