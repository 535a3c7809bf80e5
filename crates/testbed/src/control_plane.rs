//! Starts and stops one real control plane on free loopback ports.
//!
//! Owns the temporary folder, the children and their readiness. Admission is the API server's
//! default set plus NodeRestriction, with one exception: without controllers nobody makes the
//! `default` service accounts, so the ServiceAccount plugin is off there. Called by tests, by the
//! conformance run and by `testbed up`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::Request;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::audit::{self, AuditEntry};
use crate::binaries::Binaries;
use crate::kubeconfig;
use crate::pki::{self, Authority};
use crate::process::Daemon;

mod flags;

/// What to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// kube-controller-manager and kube-scheduler too, not only etcd and kube-apiserver.
    pub controllers: bool,
    /// How long all parts together may take to become ready.
    pub deadline: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            controllers: true,
            deadline: Duration::from_mins(1),
        }
    }
}

/// A running control plane; it ends when this value is dropped.
pub struct ControlPlane {
    // Dropped in this order: the children first, the folder they write into last.
    daemons: Vec<Daemon>,
    kubeconfig: PathBuf,
    audit_log: PathBuf,
    server: String,
    folder: TempDir,
}

/// What the flags of all parts are made of.
pub(crate) struct Layout {
    folder: PathBuf,
    etcd_client: u16,
    etcd_peer: u16,
    secure: u16,
    metrics: [u16; 2],
    controllers: bool,
}

impl ControlPlane {
    /// Starts all parts and waits until they are ready.
    pub async fn start(options: Options) -> Result<Self> {
        let binaries = Binaries::locate()?;
        let folder = tempfile::Builder::new()
            .prefix("shipshape-testbed-")
            .tempdir()?;
        let layout = Layout::choose(folder.path(), options.controllers)?;
        let server = format!("https://127.0.0.1:{}", layout.secure);
        let kubeconfig = write_files(&layout, &server)?;
        let audit_log = folder.path().join("audit.log");
        let mut plane = Self {
            daemons: Vec::new(),
            kubeconfig,
            audit_log,
            server,
            folder,
        };
        let deadline = Instant::now() + options.deadline;
        plane.launch("etcd", &binaries, &layout.etcd())?;
        plane.launch("kube-apiserver", &binaries, &layout.api_server())?;
        plane.wait_ready(deadline).await?;
        if options.controllers {
            plane.launch(
                "kube-controller-manager",
                &binaries,
                &layout.controller_manager(),
            )?;
            plane.launch("kube-scheduler", &binaries, &layout.scheduler())?;
            plane
                .wait_for(
                    "/api/v1/namespaces/default/serviceaccounts/default",
                    deadline,
                )
                .await?;
        }
        Ok(plane)
    }

    /// The administrator's kubeconfig file.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The folder with logs and keys; gone when the control plane is.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The base address of the API.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The process id of one part, for tests that stop or kill it.
    pub fn pid(&self, name: &str) -> Option<u32> {
        self.daemons
            .iter()
            .find(|daemon| daemon.name() == name)
            .map(Daemon::pid)
    }

    /// An administrator's client that names itself `user_agent` in the audit log and never
    /// repeats a request on its own.
    pub async fn client(&self, user_agent: &str) -> Result<Client> {
        Self::client_of(&self.kubeconfig, user_agent).await
    }

    /// A kubeconfig file for a service account, by a token of an hour.
    pub async fn account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> =
            Api::namespaced(self.client("shipshape-testbed").await?, namespace);
        let made = accounts
            .create_token_request(name, &PostParams::default(), &TokenRequest::default())
            .await
            .with_context(|| format!("asking for a token of {namespace}/{name}"))?;
        let token = made.status.context("no token came")?.token;
        let authority = std::fs::read_to_string(self.folder().join("ca.crt"))?;
        let text = kubeconfig::with_token(&self.server, &authority, &token).to_string();
        pki::write(
            self.folder(),
            &format!("{namespace}-{name}.kubeconfig"),
            &text,
        )
    }

    /// A client from any kubeconfig file, under the name `user_agent`.
    pub async fn client_of(file: &Path, user_agent: &str) -> Result<Client> {
        let mut config = config_of(file).await?;
        config
            .headers
            .push((http::header::USER_AGENT, user_agent.parse()?));
        Ok(Client::try_from(config)?)
    }

    /// A client of whoever the token is for.
    pub async fn client_with_token(&self, token: &str) -> Result<Client> {
        let mut config = self.config().await?;
        config.auth_info = AuthInfo {
            token: Some(token.to_owned().into()),
            ..AuthInfo::default()
        };
        Ok(Client::try_from(config)?)
    }

    /// What an administrator's client is made from.
    pub(crate) async fn config(&self) -> Result<Config> {
        config_of(&self.kubeconfig).await
    }

    /// Where the audit log is.
    pub(crate) fn audit_log(&self) -> &Path {
        &self.audit_log
    }

    /// Every request that the API server has answered so far, in the order in which they came in.
    pub fn audit(&self) -> Result<Vec<AuditEntry>> {
        audit::read_in_order(&self.audit_log)
    }

    fn launch(&mut self, name: &'static str, binaries: &Binaries, flags: &[String]) -> Result<()> {
        let binary = binaries.path(name)?;
        self.daemons
            .push(Daemon::start(name, &binary, flags, self.folder.path())?);
        Ok(())
    }

    async fn wait_ready(&mut self, deadline: Instant) -> Result<()> {
        self.wait_for("/readyz", deadline).await?;
        self.wait_for("/api/v1/namespaces/default", deadline).await
    }

    /// Asks for `path` until it answers 200, a child dies, or the deadline passes.
    async fn wait_for(&mut self, path: &str, deadline: Instant) -> Result<()> {
        let client = self.client("shipshape-testbed").await?;
        let mut last = String::from("no answer yet");
        while Instant::now() < deadline {
            for daemon in &mut self.daemons {
                if let Some(ending) = daemon.ending()? {
                    bail!(
                        "{} ended: {ending}\n{}",
                        daemon.name(),
                        daemon.last_words(20)
                    );
                }
            }
            match client.send(Request::get(path).body(Body::empty())?).await {
                Ok(answer) if answer.status().is_success() => return Ok(()),
                Ok(answer) => last = format!("{path} answered {}", answer.status()),
                Err(error) => last = format!("{path}: {error}"),
            }
            sleep(Duration::from_millis(50)).await;
        }
        let words: Vec<String> = self
            .daemons
            .iter()
            .map(|daemon| daemon.last_words(8))
            .collect();
        bail!(
            "the control plane was not ready in time ({last})\n{}",
            words.join("\n")
        )
    }
}

async fn config_of(file: &Path) -> Result<Config> {
    // Only one provider may be active in a process; a second install is an error we do not mind.
    drop(rustls::crypto::ring::default_provider().install_default());
    let file = Kubeconfig::read_from(file)?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(config)
}

impl Layout {
    fn choose(folder: &Path, controllers: bool) -> Result<Self> {
        let [etcd_client, etcd_peer, secure, metrics_one, metrics_two] = free_ports()?;
        Ok(Self {
            folder: folder.to_path_buf(),
            etcd_client,
            etcd_peer,
            secure,
            metrics: [metrics_one, metrics_two],
            controllers,
        })
    }
}

/// Free ports, all held at once while choosing, so that no two are the same.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").context("no free loopback port")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// Certificates, keys, kubeconfigs and the audit policy; returns the administrator's kubeconfig.
fn write_files(layout: &Layout, server: &str) -> Result<PathBuf> {
    let folder = layout.folder.as_path();
    let authority = Authority::create()?;
    pki::write(folder, "ca.crt", &authority.certificate)?;
    let serving = authority.serving()?;
    pki::write(folder, "serving.crt", &serving.certificate)?;
    pki::write(folder, "serving.key", &serving.key)?;
    pki::write_token_keys(folder)?;
    pki::write(folder, "audit-policy.json", audit::POLICY)?;
    let config = |file: &str, user: &str, group: Option<&str>| -> Result<PathBuf> {
        let pair = authority.client(user, group)?;
        let text = kubeconfig::render(server, &authority.certificate, &pair).to_string();
        pki::write(folder, file, &text)
    };
    config(
        "kube-controller-manager.kubeconfig",
        "system:kube-controller-manager",
        None,
    )?;
    config("kube-scheduler.kubeconfig", "system:kube-scheduler", None)?;
    config(
        "admin.kubeconfig",
        "shipshape-testbed",
        Some("system:masters"),
    )
}
