//! `bench worker`: what a worker of the gate and a peer cost a node: size and memory.
//!
//! Owns the run: the released binary checks the network of loopback, where name server, API server and peer are, and its
//! memory is read while it waits to hand over its result. Nothing is sent elsewhere.

pub(crate) mod image;
mod servers;

use std::fs;
use std::io::{PipeReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use self::servers::Servers;
use super::table::Table;
use super::usage::{Process, machine, megabytes};
use super::{Figure, judge};
use crate::control_plane::free_ports;
use crate::controller::cargo;

/// Most memory of a worker: ten mebibytes.
const MEMORY: u64 = 10 << 20;
/// What a pipe holds unless somebody has changed it.
const PIPE_BYTES: usize = 1 << 16;
/// How long a process may take to get to where it is looked at.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// What is measured.
#[derive(clap::Args, Debug)]
pub struct Settings {
    /// The binary [default: built in the profile `release`, which takes minutes].
    #[arg(long, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// How often the worker is run; the highest figure counts.
    #[arg(long, default_value_t = 5)]
    pub runs: u32,
}

/// Runs worker and peer.
pub async fn run(settings: &Settings) -> Result<Figure> {
    let binary = match &settings.binary {
        Some(binary) => binary.clone(),
        None => build()?,
    };
    let folder = TempDir::new()?;
    let image = image::weigh(&binary, folder.path())?;
    let servers = Servers::start(folder.path())?;
    let peer = Peer::start(&binary).await?;
    fs::write(
        folder.path().join("settings.yaml"),
        servers.settings(folder.path(), peer.port),
    )?;
    let place = Place {
        binary: &binary,
        servers: &servers,
        folder: folder.path(),
    };
    let (full, took) = place.peak(Told::Everything, settings.runs).await?;
    let usual = if servers.are_at_usual_ports() {
        Some(place.peak(Told::Nothing, settings.runs).await?.0)
    } else {
        None
    };
    let serving = Process(peer.process.0.id()).peak()?;

    let mut table = Table::new(["worker", "seen", "goal"]);
    let goal = format!("≤ {}", megabytes(MEMORY));
    let seen = usual.map_or_else(|| "not measured: needs root".to_owned(), megabytes);
    table.row(["most resident, as the gate starts it", &seen, &goal]);
    table.row(["most resident, every check", &megabytes(full), ""]);
    table.row(["most resident, peer", &megabytes(serving), ""]);
    table.row(["longest run", &format!("{took:.1?}"), ""]);
    table.row(["binary", &megabytes(image.binary), ""]);
    for (kind, bytes) in &image.packed {
        let size = bytes.map_or_else(|| "not measured".to_owned(), megabytes);
        table.row([kind.as_str(), &size, ""]);
    }
    let text = format!(
        "{}\n{} runs, with {}\n{}",
        table.render(),
        settings.runs,
        image.contents,
        machine()
    );
    let complaint = format!("the worker: {seen} resident at most");
    Ok(Figure {
        text,
        last_line: format!(
            "worker: {seen} resident at most as the gate starts it, {} with every check",
            megabytes(full)
        ),
        shortfalls: judge([(usual.is_some_and(|usual| usual <= MEMORY), complaint)]),
    })
}

/// The binary as it is released.
fn build() -> Result<PathBuf> {
    let status = cargo()
        .args(["build", "--quiet", "--release", "--locked"])
        .args(["--package", "shipshape"])
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "the release does not build");
    let here = std::env::current_exe()?;
    let target = here.ancestors().nth(2).context("this program is nowhere")?;
    Ok(target.join("release").join("shipshape"))
}

/// What a worker is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// What the gate tells it: where the API server is and who vouches for it.
    Nothing,
    /// A file with every check there is.
    Everything,
}

/// Where workers run, and what they find there.
struct Place<'a> {
    binary: &'a Path,
    servers: &'a Servers,
    folder: &'a Path,
}

impl Place<'_> {
    /// The most memory of some runs, and the time of the longest.
    async fn peak(&self, told: Told, runs: u32) -> Result<(u64, Duration)> {
        let (mut peak, mut took) = (0, Duration::ZERO);
        for _ in 0..runs.max(1) {
            let begin = Instant::now();
            peak = peak.max(self.peak_of_one(told).await?);
            took = took.max(begin.elapsed());
        }
        Ok((peak, took))
    }

    fn command(&self, told: Told) -> Command {
        let config = self.folder.join("settings.yaml");
        let mut command = match told {
            Told::Everything => Command::new(self.binary),
            // A resolver's settings of its own; the process stays the same when it becomes the worker.
            Told::Nothing => {
                let mut command = Command::new("unshare");
                let script = "mount --bind \"$1\" /etc/resolv.conf && shift && exec env -i \"$@\"";
                command.args(["--mount", "sh", "-c", script, "sh"]);
                command.arg(self.folder.join("resolv.conf"));
                command
            }
        };
        let (host, port) = (self.servers.api.ip(), self.servers.api.port());
        if told == Told::Nothing {
            command
                .arg(format!("KUBERNETES_SERVICE_HOST={host}"))
                .arg(format!("KUBERNETES_SERVICE_PORT={port}"))
                .arg(self.binary);
        }
        command.args(["verify", "--output", "json"]);
        command.arg("--ca-file").arg(self.folder.join("ca.crt"));
        if told == Told::Everything {
            command
                .args(["--k8s-service-host", &host.to_string()])
                .args(["--k8s-service-port", &port.to_string()])
                .arg("--config")
                .arg(config)
                .env_clear();
        }
        command
    }

    /// Runs the checks once. The result is left in a file, then written into a pipe that is full: there the process waits
    /// until its memory was read.
    async fn peak_of_one(&self, told: Told) -> Result<u64> {
        let left = self.folder.join("termination-log");
        fs::write(&left, "")?;
        let (mut reader, mut writer) = std::io::pipe()?;
        writer.write_all(&vec![b'\n'; PIPE_BYTES])?;
        let log = self.folder.join("worker.log");
        let child = self
            .command(told)
            .arg("--termination-log")
            .arg(&left)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(fs::File::create(&log)?)
            .spawn()
            .with_context(|| format!("starting {}", self.binary.display()))?;
        let mut child = Reaped(child);
        let end = Instant::now() + PATIENCE;
        while fs::read(&left)?.is_empty() {
            ensure!(Instant::now() < end, "the worker does not come to an end");
            if let Some(status) = child.0.try_wait()? {
                let log = fs::read_to_string(&log)?;
                bail!("the worker left no result: {status}\n{log}");
            }
            sleep(PAUSE).await;
        }
        // It writes the file, then gets stuck.
        sleep(PAUSE * 5).await;
        let peak = Process(child.0.id()).peak()?;
        let said = rest_of(&mut reader)?;
        let status = child.0.wait()?;
        ensure!(
            status.success(),
            "the checks do not pass on loopback: {said}"
        );
        Ok(peak)
    }
}

fn rest_of(reader: &mut PipeReader) -> Result<String> {
    let mut said = String::new();
    reader.read_to_string(&mut said)?;
    Ok(said.trim().to_owned())
}

/// A child that does not outlive its owner.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // An error here means that it is gone already, which is what we want.
        if self.0.kill().is_ok() {
            drop(self.0.wait());
        }
    }
}

/// The other end of two checks.
struct Peer {
    process: Reaped,
    port: u16,
}

impl Peer {
    async fn start(binary: &Path) -> Result<Self> {
        let [port] = free_ports()?;
        let child = Command::new(binary)
            .args(["peer", "--log-level", "warn", "--listen"])
            .arg(format!("127.0.0.1:{port}"))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        let process = Reaped(child);
        let peer = Self { process, port };
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(Instant::now() < end, "the peer does not listen");
            sleep(PAUSE).await;
        }
        Ok(peer)
    }
}
