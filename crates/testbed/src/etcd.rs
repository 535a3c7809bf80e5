//! A real etcd of three members with certificates, on free loopback ports.
//!
//! Owns its folder, its processes and when it is ready. Each member can be ended alone. Called by the
//! tests of the etcd client.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use shipshape_engine::etcd::{EtcdView, Health};
use shipshape_etcd::{Etcd, EtcdClient, EtcdSettings};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::binaries::Binaries;
use crate::control_plane::free_ports;
use crate::pki::{self, Authority};
use crate::process::Daemon;

/// Names of the members.
pub const MEMBERS: [&str; 3] = ["cp-1", "cp-2", "cp-3"];

/// How long all members together may take to agree.
const DEADLINE: Duration = Duration::from_mins(1);

/// A running etcd; it ends when this value is dropped.
pub struct EtcdCluster {
    // Dropped in this order: the processes first, the folder they write into last.
    members: Vec<Option<Daemon>>,
    endpoints: Vec<String>,
    folder: TempDir,
}

impl EtcdCluster {
    /// Starts all members and waits until each of them is well.
    pub async fn start() -> Result<Self> {
        // Only one provider may be active in a process; a second install is an error we do not mind.
        drop(rustls::crypto::ring::default_provider().install_default());
        let binary = Binaries::locate()?.path("etcd")?;
        let folder = tempfile::Builder::new()
            .prefix("shipshape-etcd-")
            .tempdir()?;
        let authority = Authority::create()?;
        pki::write(folder.path(), "ca.crt", &authority.certificate)?;
        for (name, pair) in [
            ("member", authority.member()?),
            ("client", authority.client("shipshape", None)?),
            ("stranger", Authority::create()?.client("stranger", None)?),
        ] {
            pki::write(folder.path(), &format!("{name}.crt"), &pair.certificate)?;
            pki::write(folder.path(), &format!("{name}.key"), &pair.key)?;
        }
        let ports: [u16; 6] = free_ports()?;
        let (clients, peers) = ports.split_at(MEMBERS.len());
        let endpoint = |port: &u16| format!("https://127.0.0.1:{port}");
        let mut cluster = Self {
            members: Vec::new(),
            endpoints: clients.iter().map(endpoint).collect(),
            folder,
        };
        for (place, name) in MEMBERS.into_iter().enumerate() {
            let flags = cluster.flags(place, peers);
            let daemon = Daemon::start(name, &binary, &flags, cluster.folder.path())?;
            cluster.members.push(Some(daemon));
        }
        cluster
            .wait_until("all members are well", |view| {
                let well = view
                    .members
                    .iter()
                    .filter(|one| one.health == Health::Healthy);
                well.count() == MEMBERS.len()
            })
            .await?;
        Ok(cluster)
    }

    fn flags(&self, place: usize, peers: &[u16]) -> Vec<String> {
        let name = MEMBERS.get(place).copied().unwrap_or_default();
        let client = self.endpoints.get(place).cloned().unwrap_or_default();
        let peer = |port: &u16| format!("http://127.0.0.1:{port}");
        let own = peers.get(place).map(peer).unwrap_or_default();
        let all: Vec<String> = MEMBERS
            .iter()
            .zip(peers)
            .map(|(name, port)| format!("{name}={}", peer(port)))
            .collect();
        let file = |file: &str| self.file(file).display().to_string();
        vec![
            format!("--name={name}"),
            format!("--data-dir={}", file(name)),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={own}"),
            format!("--initial-advertise-peer-urls={own}"),
            format!("--initial-cluster={}", all.join(",")),
            format!("--cert-file={}", file("member.crt")),
            format!("--key-file={}", file("member.key")),
            format!("--trusted-ca-file={}", file("ca.crt")),
            "--client-cert-auth".to_owned(),
            // The data ends with the test: durability would only cost time.
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ]
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Addresses of all members, in the order of their names.
    pub fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// A client that the members trust.
    pub fn client(&self) -> EtcdClient {
        self.client_as("client", Duration::from_secs(5))
    }

    /// A client with the certificate of `client`, or of a `stranger` that the members do not trust.
    pub fn client_as(&self, name: &str, timeout: Duration) -> EtcdClient {
        EtcdClient::new(EtcdSettings {
            ca_file: self.file("ca.crt"),
            cert_file: self.file(&format!("{name}.crt")),
            key_file: self.file(&format!("{name}.key")),
            timeout,
        })
    }

    /// Ends one member as a machine does that is switched off.
    pub fn kill(&mut self, place: usize) {
        if let Some(member) = self.members.get_mut(place) {
            drop(member.take());
        }
    }

    /// Looks until the members are as wanted; gives the view then.
    pub async fn wait_until(
        &self,
        what: &str,
        is_so: impl Fn(&EtcdView) -> bool,
    ) -> Result<EtcdView> {
        let deadline = Instant::now() + DEADLINE;
        let mut last = String::new();
        while Instant::now() < deadline {
            match self.client().look(&self.endpoints).await {
                Ok(view) if is_so(&view) => return Ok(view),
                Ok(view) => last = format!("{view:?}"),
                Err(error) => last = error.to_string(),
            }
            sleep(Duration::from_millis(100)).await;
        }
        let words = self.members.iter().flatten().map(|one| one.last_words(8));
        let words: Vec<String> = words.collect();
        bail!(
            "never came about: {what}; last: {last}\n{}",
            words.join("\n")
        )
    }
}
