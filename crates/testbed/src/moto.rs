//! moto: Amazon's services as others play them, with a group whose machines become kwok's nodes.
//!
//! Owns the server's process and the script that sets the scene and reads it back. Called by the large
//! test on the real control plane.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use kube::Client;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::control_plane::free_ports;
use crate::fleet::{Registration, register};

/// One machine as moto has it.
#[derive(Clone, Debug, Deserialize)]
pub struct MotoMachine {
    /// Its id.
    pub id: String,
    /// Its zone.
    pub zone: String,
    /// `running`, `terminated` and so on.
    pub state: String,
    /// The image it was made from.
    pub image: String,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// The group as moto has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MotoGroup {
    /// Machines asked for.
    pub desired: usize,
    /// Most machines.
    pub max: usize,
    /// Ids of its machines, sorted.
    pub members: Vec<String>,
    /// Suspended processes.
    pub suspended: Vec<String>,
    /// Keys of its tags.
    pub tags: Vec<String>,
}

/// Everything that there is.
#[derive(Clone, Debug, Deserialize)]
pub struct Inventory {
    /// The group.
    pub group: MotoGroup,
    /// All machines that moto remembers.
    pub machines: Vec<MotoMachine>,
}

/// The server on a free loopback port; it ends with this value.
pub struct Moto {
    _server: Child,
    programs: PathBuf,
    address: SocketAddr,
}

impl Moto {
    /// Installs moto, if it is not there, and starts it.
    pub async fn start() -> Result<Self> {
        let installed = Command::new(folder().join("install.sh")).output().await?;
        if !installed.status.success() {
            bail!("{}", String::from_utf8_lossy(&installed.stderr));
        }
        let programs = PathBuf::from(String::from_utf8(installed.stdout)?.trim());
        let [port] = free_ports()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let server = Command::new(programs.join("moto_server"))
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("starting moto")?;
        let deadline = Instant::now() + Duration::from_mins(1);
        while TcpStream::connect(address).await.is_err() {
            if Instant::now() > deadline {
                bail!("moto does not listen on {address}");
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(Self {
            _server: server,
            programs,
            address,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes the group.
    pub async fn make(&self, machines: usize) -> Result<()> {
        self.ask(&["make", &machines.to_string()]).await?;
        Ok(())
    }

    /// What there is now.
    pub async fn inventory(&self) -> Result<Inventory> {
        Ok(serde_json::from_slice(&self.ask(&["inventory"]).await?)?)
    }

    /// Registers a Node for every machine that runs, until the handle is aborted.
    pub fn register_machines(&self, client: Client) -> Result<JoinHandle<Result<()>>> {
        let script = self.script(&["follow"]).into_std();
        let (sender, mut machines) = mpsc::unbounded_channel();
        let mut follower = Follower::start(script, sender)?;
        Ok(tokio::spawn(async move {
            while let Some(line) = machines.recv().await {
                let machine: MotoMachine = serde_json::from_str(&line)?;
                register(&client, &registration(&machine)).await?;
            }
            bail!(
                "the script that follows moto has ended: {:?}",
                follower.0.try_wait()
            )
        }))
    }

    async fn ask(&self, words: &[&str]) -> Result<Vec<u8>> {
        let answer = self.script(words).output().await?;
        if !answer.status.success() {
            bail!(
                "fleet.py {words:?}: {}",
                String::from_utf8_lossy(&answer.stderr)
            );
        }
        Ok(answer.stdout)
    }

    fn script(&self, words: &[&str]) -> Command {
        let mut script = Command::new(self.programs.join("python"));
        script.arg(folder().join("fleet.py"));
        script.arg(format!("http://{}", self.address));
        script.args(words).kill_on_drop(true);
        script
    }
}

/// The script that follows moto; it ends with this value.
struct Follower(std::process::Child);

impl Follower {
    /// Its lines come from a thread of their own: waiting for them blocks.
    fn start(
        mut script: std::process::Command,
        lines: mpsc::UnboundedSender<String>,
    ) -> Result<Self> {
        let mut child = script.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("it was piped")?;
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self(child))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        // An error here means that it is gone already, which is what we want.
        if self.0.kill().is_ok() {
            drop(self.0.wait());
        }
    }
}

fn registration(machine: &MotoMachine) -> Registration {
    Registration {
        name: format!("node-{}", machine.id),
        provider_id: format!("aws:///{}/{}", machine.zone, machine.id),
        zone: machine.zone.clone(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/moto")
}
