//! The controller's configuration file.
//!
//! Owns the keys and their defaults; `docs/controller.md` documents them. A wrong file gets a
//! sentence with its line and field.

mod blocks;
mod legacy;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;
use shipshape_api::names;
use shipshape_controllers::Tuning;
use shipshape_engine::settings::Settings;
use shipshape_engine::verify::settings::{
    GateSettings, NodeManagementSettings, ReconciliationSettings, VerificationSettings,
    WorkerSettings,
};

use crate::controller::built_in;
use crate::namespace;
#[cfg(feature = "aws")]
pub(crate) use blocks::Aws;
pub(crate) use blocks::{Etcd, LeaderElection, lease_name};
use blocks::{Health, Kubernetes, Logging, Metrics, Providers};
use legacy::{Legacy, Taken};
use shipshape_verifier::Overrides;

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
    /// How etcd is reached, where control planes with a member shall be replaced.
    pub(crate) etcd: Option<Etcd>,
    /// The pods that check new nodes; where they are named, new nodes must pass the gate.
    pub(crate) worker: Option<WorkerSettings>,
    /// Attempts of the gate and pauses between them.
    pub(crate) reconciliation: Option<ReconciliationSettings>,
    /// Which nodes the gate is about, and what becomes of them.
    pub(crate) node_management: Option<NodeManagementSettings>,
    /// What the gate may do.
    pub(crate) verification: Option<VerificationSettings>,
    /// The same in the words of older files.
    pub(crate) config: Option<Legacy>,
    /// What of it counts.
    #[serde(skip)]
    taken: Taken,
    /// Where metrics are served, unless a flag says so.
    pub(crate) metrics: Metrics,
    /// Where health is served, unless a flag says so.
    pub(crate) health: Health,
    /// Form and level of the logs, unless a flag says so.
    pub(crate) logging: Logging,
    /// How the cluster is reached, unless a flag says so.
    pub(crate) kubernetes: Kubernetes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            namespace: names::DEFAULT_NAMESPACE.to_owned(),
            lock_namespace: None,
            leader_election: LeaderElection::default(),
            settings: Settings::default(),
            providers: Providers::default(),
            etcd: None,
            worker: None,
            reconciliation: None,
            node_management: None,
            verification: None,
            config: None,
            taken: Taken::default(),
            metrics: Metrics::default(),
            health: Health::default(),
            logging: Logging::default(),
            kubernetes: Kubernetes::default(),
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
        Self::of_text(path, &text)
    }

    /// What the file says that has this text.
    pub(crate) fn of_text(path: &Path, text: &str) -> anyhow::Result<Self> {
        let config =
            Self::read(text).map_err(|message| anyhow::anyhow!("{}: {message}", path.display()))?;
        config.check().with_context(|| path.display().to_string())?;
        Ok(config)
    }

    fn read(text: &str) -> Result<Self, String> {
        let mut config: Self = shipshape_scenarios::yaml::read(text)?;
        if let (Some(older), Some(mut gate)) = (&config.config, config.gate()) {
            // Which keys were written cannot be told from their values: one may equal its default.
            let written: Value = shipshape_scenarios::yaml::read(text)?;
            config.taken = older.apply(&mut gate, &written)?;
            config.worker = Some(gate.worker);
            config.reconciliation = Some(gate.reconciliation);
            config.node_management = Some(gate.node_management);
        }
        Ok(config)
    }

    /// What applies at once when the file changes.
    pub(crate) fn tuned(&self) -> (&Settings, Option<GateSettings>) {
        (&self.settings, self.gate())
    }

    /// The same, as the operator takes it.
    pub(crate) fn tuning(&self) -> Tuning {
        Tuning {
            settings: Arc::new(self.settings.clone()),
            gate: self.gate().map(Arc::new),
        }
    }

    /// What a process takes from the file when it starts and at no other time: blocks and what is in them.
    pub(crate) fn fixed(&self) -> Vec<(&'static str, String)> {
        // Taken apart in full, so that a block that is added has to find its place.
        let Self {
            namespace,
            lock_namespace,
            leader_election,
            settings: _,
            providers,
            etcd,
            worker: _,
            reconciliation: _,
            node_management: _,
            verification: _,
            config: _,
            taken: _,
            metrics,
            health,
            logging,
            kubernetes,
        } = self;
        vec![
            ("namespace", namespace.clone()),
            ("lockNamespace", format!("{lock_namespace:?}")),
            ("leaderElection", format!("{leader_election:?}")),
            ("providers", format!("{providers:?}")),
            ("etcd", format!("{etcd:?}")),
            ("metrics", format!("{metrics:?}")),
            ("health", format!("{health:?}")),
            ("logging", format!("{logging:?}")),
            ("kubernetes", format!("{kubernetes:?}")),
        ]
    }

    /// Settings of the gate, where the file names a worker.
    pub(crate) fn gate(&self) -> Option<GateSettings> {
        let worker = self.worker.clone()?;
        Some(GateSettings {
            worker,
            reconciliation: self.reconciliation.clone().unwrap_or_default(),
            node_management: self.node_management.clone().unwrap_or_default(),
            verification: self.verification.clone().unwrap_or_default(),
        })
    }

    /// A cloud that this process will not speak to would let every removal wait.
    fn check_cloud(&self, gate: &GateSettings) -> Result<(), String> {
        let Some(cloud) = &gate.node_management.provider else {
            return Ok(());
        };
        let mut known = built_in().to_vec();
        known.extend(self.providers.embedded.as_ref().map(|_| "embedded"));
        let wanted = cloud.r#type.as_str();
        if !known.contains(&wanted) {
            let right = match (wanted, known.as_slice()) {
                ("aws", _) => "a binary that is built with feature aws".to_owned(),
                ("embedded", _) => "its address under providers.embedded".to_owned(),
                (_, []) => "none: this binary is built for no cloud".to_owned(),
                (_, known) => format!("one of {}", known.join(", ")),
            };
            return Err(format!(
                "nodeManagement.provider.type is {wanted:?}, which is not spoken to here; right would be {right}"
            ));
        }
        if wanted == "aws" && cloud.aws.is_none() {
            let told = "nodeManagement.provider.aws is missing; right would be its settings, such as aws: { region: \
                        eu-west-1 }";
            return Err(told.to_owned());
        }
        Ok(())
    }

    /// A file that speaks of the gate and leaves out its pods would have no gate, without a word.
    fn check_gate(&self) -> anyhow::Result<()> {
        if let Some(gate) = self.gate() {
            let checked = gate.check().and_then(|()| check_handed_down(&gate));
            let checked = checked.and_then(|()| self.check_cloud(&gate));
            return checked.map_err(|told| anyhow::Error::msg(self.taken.by_its_key(told)));
        }
        let blocks = [
            ("reconciliation", self.reconciliation.is_some()),
            ("nodeManagement", self.node_management.is_some()),
            ("verification", self.verification.is_some()),
            ("config", self.config.is_some()),
        ];
        for (block, is_given) in blocks {
            anyhow::ensure!(
                !is_given,
                "{block} is given and worker is not, so no node would be verified; name worker.image, or leave \
                 {block} out"
            );
        }
        Ok(())
    }

    fn check(&self) -> anyhow::Result<()> {
        self.settings.check()?;
        self.leader_election.check()?;
        let lock_namespace = self.lock_namespace.as_ref();
        let named = [
            ("namespace", Some(&self.namespace)),
            ("lockNamespace", lock_namespace),
        ];
        for (key, name) in named {
            if let Some(name) = name {
                namespace::checked(name).map_err(|wrong| anyhow::anyhow!("{key}: {wrong}"))?;
            }
        }
        self.check_gate()?;
        self.kubernetes.check()?;
        self.metrics.check(&self.health)?;
        self.etcd.as_ref().map_or(Ok(()), Etcd::check)
    }
}

/// What the checks are told must pass their own rules, or each worker would end with wrong settings.
fn check_handed_down(gate: &GateSettings) -> Result<(), String> {
    let worker = &gate.worker;
    let names = Some(worker.dns_test_domains.clone()).filter(|names| !names.is_empty());
    let overrides = Overrides {
        dns_test_domains: names,
        cluster_dns_ip: worker.cluster_dns_ip.clone(),
        check_timeout: worker.check_timeout_seconds.map(u64::from),
        initial_timeout: worker.timeout_seconds.map(u64::from),
        // What is not known here, such as the API server's address, is left out.
        dry_run: true,
        ..Overrides::default()
    };
    let checked = shipshape_verifier::Settings::of("", overrides);
    checked.map(|_| ()).map_err(|wrong| {
        let path = wrong
            .path
            .replace("initialCheckTimeoutSeconds", "timeoutSeconds");
        format!("worker.{path}: {}", wrong.complaint)
    })
}

#[cfg(test)]
mod tests;
