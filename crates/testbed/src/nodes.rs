//! A cluster of real nodes: kubeadm, kubelet, containerd, kube-proxy and CoreDNS, on machines that are containers.
//!
//! Owns the machines and the order in which they join. It runs only where `apart` has made namespaces for it: no way
//! leads out of there, and nothing outlives them. Must not know what is tried on the nodes. Called by tests of the
//! tier with real pods.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client};
use shipshape_engine::view::NodeView;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use self::command::said;
use crate::binaries::Binaries;
use crate::binaries::nodes::Parts;
use crate::{ControlPlane, kubeconfig};

pub mod apart;
mod command;
pub mod image;
mod kubeadm;
mod machine;
pub mod memory;

pub use kubeadm::Taint;
pub use machine::Machine;

/// How long `kubeadm init` and `kubeadm join` may take.
const JOIN: Duration = Duration::from_mins(5);
/// How long the import of an image may take.
const IMPORT: Duration = Duration::from_mins(2);
/// How long a node may take to be Ready, and the addons of the first.
const READY: Duration = Duration::from_mins(2);
/// What a node without the control plane runs.
const OF_EVERY_NODE: [&str; 2] = ["pause", "kube-proxy"];

/// Machines that run, the first with the control plane. They end with the namespaces that they are in.
pub struct Cluster {
    parts: Parts,
    folder: PathBuf,
    kubeconfig: PathBuf,
    machines: Vec<Machine>,
    /// Names of images that the caller has given.
    added: Vec<String>,
}

impl Cluster {
    /// Boots a machine, makes a control plane on it, and waits until names are resolved there.
    pub async fn start() -> Result<Self> {
        let parts = Parts::locate()?;
        parts.check()?;
        let folder = apart::own_folder()?;
        let share = folder.join("share/images");
        fs::create_dir_all(&share)?;
        let mut images = Vec::new();
        for entry in fs::read_dir(parts.images())? {
            let image = entry?.path();
            let name = image.file_name().context("an image has a name")?;
            // On the same file system, as both are in the cache folder.
            fs::hard_link(&image, share.join(name))?;
            let stem = image.file_stem().context("an image has a name")?;
            images.push(stem.to_string_lossy().into_owned());
        }
        let machine = Machine::boot(1, &parts, &folder).await?;
        let file = kubeadm::init(machine.name(), 1);
        fs::write(folder.join("share/init.yaml"), file)?;
        let images: Vec<&str> = images.iter().map(String::as_str).collect();
        import(&machine, &images).await?;
        let words = ["kubeadm", "init", "--config", "/share/init.yaml"];
        machine.run(&words, JOIN).await?;
        let kubeconfig = machine.file("/etc/kubernetes/admin.conf");
        let cluster = Self {
            parts,
            folder,
            kubeconfig,
            machines: vec![machine],
            added: Vec::new(),
        };
        cluster.wait_for_node("n1").await?;
        cluster.wait_for_addons().await?;
        Ok(cluster)
    }

    /// Boots one more machine and lets it join with these taints; returns when its Node is Ready.
    pub async fn join(&mut self, taints: &[Taint<'_>]) -> Result<&Machine> {
        let number = u8::try_from(self.machines.len() + 1)?;
        // Others know the ways to nine.
        ensure!(number < 10, "there is no room for another machine");
        let machine = Machine::boot(number, &self.parts, &self.folder).await?;
        let name = machine.name().to_owned();
        let file = format!("join-{name}.yaml");
        let share = self.folder.join("share");
        fs::write(share.join(&file), kubeadm::join(&name, taints))?;
        import(&machine, &OF_EVERY_NODE).await?;
        let added: Vec<&str> = self.added.iter().map(String::as_str).collect();
        import(&machine, &added).await?;
        let config = format!("/share/{file}");
        let words = ["kubeadm", "join", "--config", &config];
        machine.run(&words, JOIN).await?;
        self.machines.push(machine);
        self.wait_for_node(&name).await?;
        self.machines.last().context("it has just joined")
    }

    /// Gives an image of the caller's, packed as `image` does, to all machines, and to those that join later.
    pub async fn add_image(&mut self, archive: &Path) -> Result<()> {
        let name = archive.file_stem().context("an image has a name")?;
        let name = name.to_string_lossy();
        let to = self.folder.join(format!("share/images/{name}.tar"));
        fs::copy(archive, to)?;
        for machine in &self.machines {
            import(machine, &[&name]).await?;
        }
        self.added.push(name.into_owned());
        Ok(())
    }

    /// A machine by its number, from one.
    pub fn machine(&self, number: usize) -> Result<&Machine> {
        let index = number.checked_sub(1).context("machines count from one")?;
        let machine = self.machines.get(index);
        machine.with_context(|| format!("there is no machine {number}"))
    }

    /// The folder of this run; it goes with it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The administrator's kubeconfig file.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// An administrator's client.
    pub async fn client(&self) -> Result<Client> {
        ControlPlane::client_of(&self.kubeconfig, "shipshape-testbed").await
    }

    /// A kubeconfig file for a service account, by a token of an hour.
    pub async fn account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let made = accounts
            .create_token_request(name, &PostParams::default(), &TokenRequest::default())
            .await
            .with_context(|| format!("asking for a token of {namespace}/{name}"))?;
        let token = made.status.context("no token came")?.token;
        let authority = self.machine(1)?.file("/etc/kubernetes/pki/ca.crt");
        let authority = fs::read_to_string(authority)?;
        let server = format!("https://{}", kubeadm::ENDPOINT);
        let text = kubeconfig::with_token(&server, &authority, &token).to_string();
        let file = self.folder.join(format!("{namespace}-{name}.kubeconfig"));
        fs::write(&file, text)?;
        Ok(file)
    }

    /// What kubectl says to these words, as the administrator.
    pub async fn kubectl(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(Binaries::locate()?.path("kubectl")?);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(words);
        let what = format!("kubectl {}", words.join(" "));
        said(&mut command, &what, Duration::from_mins(1)).await
    }

    async fn wait_for_node(&self, name: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client().await?);
        let what = format!("node {name} to be Ready");
        self.wait(&what, async || {
            let node = nodes.get_opt(name).await?;
            Ok(node.is_some_and(|node| NodeView::of(&node).ready))
        })
        .await
    }

    async fn wait_for_addons(&self) -> Result<()> {
        let client = self.client().await?;
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), "kube-system");
        self.wait("CoreDNS to be ready", async || {
            let status = deployments.get("coredns").await?.status;
            Ok(status.and_then(|it| it.ready_replicas) == Some(2))
        })
        .await?;
        let daemons: Api<DaemonSet> = Api::namespaced(client, "kube-system");
        self.wait("kube-proxy to be ready", async || {
            let status = daemons.get("kube-proxy").await?.status;
            Ok(status.is_some_and(|it| it.number_ready > 0))
        })
        .await
    }

    /// Asks until it is so. An API server that has just started may refuse anything for a while.
    async fn wait(&self, what: &str, is_so: impl AsyncFn() -> kube::Result<bool>) -> Result<()> {
        let deadline = Instant::now() + READY;
        loop {
            let answer = is_so().await;
            if matches!(answer, Ok(true)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let words = ["get", "nodes,pods", "--all-namespaces", "--output", "wide"];
                let seen = match self.kubectl(&words).await {
                    Ok(seen) => seen,
                    Err(error) => error.to_string(),
                };
                bail!("waited {READY:?} for {what}: {answer:?}\n{seen}");
            }
            sleep(Duration::from_millis(300)).await;
        }
    }
}

/// Imports images of the share into a machine's containerd.
async fn import(machine: &Machine, names: &[&str]) -> Result<()> {
    for name in names {
        let file = format!("/share/images/{name}.tar");
        let words = ["ctr", "--namespace", "k8s.io", "images", "import", &file];
        machine.run(&words, IMPORT).await?;
    }
    Ok(())
}
