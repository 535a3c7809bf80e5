//! The blocks of the configuration file that are not the gate's.
//!
//! Owns their keys, defaults and bounds. Must not apply anything.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use jiff::SignedDuration;
use serde::Deserialize;
use shipshape_engine::span::written;
use shipshape_engine::syntax;

use crate::cli::LogFormat;
use crate::namespace;

/// Where metrics are served.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Metrics {
    /// Whether they are.
    pub(crate) enabled: bool,
    /// On which port.
    pub(crate) port: u16,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            enabled: true,
            port: 8080,
        }
    }
}

/// Where health is served.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Health {
    /// On which port.
    pub(crate) port: u16,
}

impl Default for Health {
    fn default() -> Self {
        Self { port: 8081 }
    }
}

/// The logs.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Logging {
    /// Least important level that is logged.
    pub(crate) level: Option<String>,
    /// Their form.
    pub(crate) format: Option<LogFormat>,
}

/// How the cluster is reached.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Kubernetes {
    /// A kubeconfig file.
    pub(crate) kubeconfig_path: Option<PathBuf>,
    /// Taken and of no effect: the server's own fairness decides.
    pub(crate) qps: Option<f64>,
    /// Taken and of no effect.
    pub(crate) burst: Option<u32>,
}

/// How etcd is reached.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Etcd {
    /// Addresses of members; found from the pods of kubeadm unless given.
    #[serde(default)]
    pub(crate) endpoints: Vec<String>,
    /// Certificates that the members' own are checked against.
    pub(crate) ca_file: PathBuf,
    /// Our certificate.
    pub(crate) cert_file: PathBuf,
    /// Its key.
    pub(crate) key_file: PathBuf,
    /// How long one answer may take.
    #[serde(default = "five_seconds")]
    pub(crate) timeout: SignedDuration,
}

fn five_seconds() -> SignedDuration {
    SignedDuration::from_secs(5)
}

/// Who leads.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct LeaderElection {
    /// Whether a lease decides.
    pub(crate) enabled: bool,
    /// Name of the lease.
    pub(crate) id: Option<String>,
    /// Namespace of the lease; the operator's own unless given.
    pub(crate) namespace: Option<String>,
    /// How long others wait before they take over.
    pub(crate) lease_duration: SignedDuration,
    /// How long the leader works on without a renewal.
    pub(crate) renew_deadline: SignedDuration,
    /// Time between attempts.
    pub(crate) retry_period: SignedDuration,
}

/// The clouds.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Providers {
    /// A cloud of the embedded cluster that another process serves on loopback.
    pub(crate) embedded: Option<Embedded>,
    /// Amazon Web Services; read only where the binary was built for it.
    pub(crate) aws: Aws,
}

/// What may be done to groups of Amazon Web Services, and how fast.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Aws {
    /// Whether the maximum of a group may be raised for a replacement.
    pub(crate) raise_max: bool,
    /// Whether groups launch replacements themselves, where the service can.
    pub(crate) group_launch: bool,
    /// Reads a second, over a long time.
    pub(crate) reads_per_second: Option<u32>,
    /// Changes a second, over a long time.
    pub(crate) writes_per_second: Option<u32>,
}

impl Default for Aws {
    fn default() -> Self {
        Self {
            raise_max: false,
            group_launch: true,
            reads_per_second: None,
            writes_per_second: None,
        }
    }
}

/// Where an embedded cloud is served.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Embedded {
    /// Address and port.
    pub(crate) endpoint: SocketAddr,
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            enabled: true,
            id: None,
            namespace: None,
            lease_duration: SignedDuration::from_secs(15),
            renew_deadline: SignedDuration::from_secs(10),
            retry_period: SignedDuration::from_secs(2),
        }
    }
}

impl Metrics {
    pub(super) fn check(&self, health: &Health) -> anyhow::Result<()> {
        // Port 0 is another one each time.
        anyhow::ensure!(
            !self.enabled || self.port == 0 || self.port != health.port,
            "metrics.port is {}, and so is health.port; right would be two different ports, such as 8080 and 8081",
            self.port
        );
        Ok(())
    }
}

impl Kubernetes {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let qps = self.qps.unwrap_or_default();
        anyhow::ensure!(
            qps.is_finite() && qps >= 0.0,
            "kubernetes.qps is {qps}; right would be a number from 0 up, such as 50"
        );
        Ok(())
    }
}

/// The name, if a lease can have it; else what would be right.
pub(crate) fn lease_name(name: &str) -> Result<String, String> {
    syntax::is_subdomain(name)
        .then(|| name.to_owned())
        .ok_or_else(|| {
            format!(
                "{name:?} is not a name of a lease; right would be lower-case letters, digits, '-' and '.', with a \
                 letter or digit at both ends, such as shipshape-controller"
            )
        })
}

impl LeaderElection {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if let Some(id) = &self.id {
            lease_name(id).map_err(|wrong| anyhow::anyhow!("leaderElection.id: {wrong}"))?;
        }
        if let Some(name) = &self.namespace {
            namespace::checked(name)
                .map_err(|wrong| anyhow::anyhow!("leaderElection.namespace: {wrong}"))?;
        }
        let Self {
            lease_duration: lease,
            renew_deadline: renew,
            retry_period: retry,
            ..
        } = self;
        anyhow::ensure!(
            retry.is_positive() && retry < renew,
            "leaderElection.retryPeriod is {}; right would be a time above 0s and below renewDeadline, \
             which is {}",
            written(*retry),
            written(*renew)
        );
        anyhow::ensure!(
            renew < lease,
            "leaderElection.renewDeadline is {}; right would be a time below leaseDuration, which is {}",
            written(*renew),
            written(*lease)
        );
        Ok(())
    }
}

impl Etcd {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for endpoint in &self.endpoints {
            anyhow::ensure!(
                endpoint.starts_with("https://"),
                "etcd.endpoints: {endpoint:?} must begin with https://"
            );
        }
        anyhow::ensure!(
            self.timeout.is_positive(),
            "etcd.timeout is {}; right would be a time above 0s, such as 5s",
            written(self.timeout)
        );
        let files = [
            ("caFile", &self.ca_file),
            ("certFile", &self.cert_file),
            ("keyFile", &self.key_file),
        ];
        for (key, file) in files {
            std::fs::File::open(file)
                .with_context(|| format!("etcd.{key}: cannot read {}", file.display()))?;
        }
        Ok(())
    }
}
