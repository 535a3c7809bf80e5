//! The controller's configuration file.
//!
//! Owns the keys and their defaults; `docs/controller.md` documents them. A wrong file gets a
//! sentence with its line and field.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use jiff::SignedDuration;
use serde::Deserialize;
use shipshape_api::names;
use shipshape_engine::settings::Settings;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Namespace of the operator's own objects.
    pub(crate) namespace: String,
    /// Namespace of the node locks; that of the operator unless given.
    pub(crate) lock_namespace: Option<String>,
    /// Who leads when several replicas run.
    pub(crate) leader_election: LeaderElection,
    /// Deadlines and other constants of decisions.
    pub(crate) settings: Settings,
    /// The clouds.
    pub(crate) providers: Providers,
}

/// Who leads.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct LeaderElection {
    /// Whether a lease decides.
    pub(crate) enabled: bool,
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

impl Default for Config {
    fn default() -> Self {
        Self {
            namespace: names::DEFAULT_NAMESPACE.to_owned(),
            lock_namespace: None,
            leader_election: LeaderElection::default(),
            settings: Settings::default(),
            providers: Providers::default(),
        }
    }
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            enabled: true,
            lease_duration: SignedDuration::from_secs(15),
            renew_deadline: SignedDuration::from_secs(10),
            retry_period: SignedDuration::from_secs(2),
        }
    }
}

impl Config {
    /// Reads the file, or takes the defaults when there is none.
    pub(crate) fn load(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read --config {}", path.display()))?;
        let config: Self = shipshape_scenarios::yaml::read(&text)
            .map_err(|message| anyhow::anyhow!("{}: {message}", path.display()))?;
        config.check().with_context(|| path.display().to_string())?;
        Ok(config)
    }

    fn check(&self) -> anyhow::Result<()> {
        let LeaderElection {
            lease_duration,
            renew_deadline,
            retry_period,
            ..
        } = &self.leader_election;
        anyhow::ensure!(
            renew_deadline < lease_duration,
            "leaderElection.renewDeadline {renew_deadline:#} must be less than leaseDuration \
             {lease_duration:#}"
        );
        anyhow::ensure!(
            retry_period.is_positive() && retry_period < renew_deadline,
            "leaderElection.retryPeriod {retry_period:#} must be above 0 and less than \
             renewDeadline {renew_deadline:#}"
        );
        anyhow::ensure!(!self.namespace.is_empty(), "namespace must not be empty");
        Ok(())
    }
}
