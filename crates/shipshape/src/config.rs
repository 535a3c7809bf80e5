//! The controller's configuration file.
//!
//! Owns the keys and their defaults; `docs/controller.md` documents them. A wrong file gets a
//! sentence with its line and field.

mod legacy;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use jiff::SignedDuration;
use serde::Deserialize;
use shipshape_api::names;
use shipshape_controllers::Tuning;
use shipshape_engine::settings::Settings;
use shipshape_engine::span::written;
use shipshape_engine::verify::settings::{
    GateSettings, NodeManagementSettings, ReconciliationSettings, VerificationSettings,
    WorkerSettings,
};

use crate::cli::LogFormat;
use crate::namespace;
use legacy::Legacy;

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
    /// Where metrics are served, unless a flag says so.
    pub(crate) metrics: Metrics,
    /// Where health is served, unless a flag says so.
    pub(crate) health: Health,
    /// Form and level of the logs, unless a flag says so.
    pub(crate) logging: Logging,
    /// How the cluster is reached, unless a flag says so.
    pub(crate) kubernetes: Kubernetes,
}

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
            metrics: Metrics::default(),
            health: Health::default(),
            logging: Logging::default(),
            kubernetes: Kubernetes::default(),
        }
    }
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
        let mut gate = GateSettings {
            worker,
            reconciliation: self.reconciliation.clone().unwrap_or_default(),
            node_management: self.node_management.clone().unwrap_or_default(),
            verification: self.verification.clone().unwrap_or_default(),
        };
        if let Some(legacy) = &self.config {
            legacy.apply(&mut gate);
        }
        Some(gate)
    }

    /// A file that speaks of the gate and leaves out its pods would have no gate, without a word.
    fn check_gate(&self) -> anyhow::Result<()> {
        if let Some(gate) = self.gate() {
            return gate.check().map_err(anyhow::Error::msg);
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
        self.etcd.as_ref().map_or(Ok(()), Etcd::check)
    }
}

impl LeaderElection {
    fn check(&self) -> anyhow::Result<()> {
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
    fn check(&self) -> anyhow::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Option<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let loaded = Config::load(Some(file.path()));
        loaded.err().map(|error| format!("{error:#}"))
    }

    /// What users of kube-node-ready have in their files.
    const SEED: &str = r#"
worker:
  image: { repository: example/shipshape, tag: "1", pullPolicy: IfNotPresent }
  namespace: kube-system
  serviceAccountName: worker
  priorityClassName: system-node-critical
  configMapName: worker-config
  timeoutSeconds: 300
  checkTimeoutSeconds: 10
  dnsTestDomains: [kubernetes.default.svc.cluster.local]
  resources:
    requests: { cpu: 50m, memory: 64Mi }
    limits: { memory: 64Mi, nvidia.com/gpu: "1" }
  job: { activeDeadlineSeconds: 300, backoffLimit: 2, completions: 1, ttlSecondsAfterFinished: 600 }
  tolerations: [{ key: dedicated, operator: Exists }]
  initContainers: [{ name: wait, image: busybox, command: [sleep, "1"] }]
reconciliation: { intervalSeconds: 30, maxRetries: 5, retryBackoff: exponential }
nodeManagement:
  deleteFailedNodes: false
  taints: [{ key: node-ready/unverified, value: "true", effect: NoSchedule }]
  verifiedLabel: { key: node-ready/verified, value: "true" }
leaderElection: { enabled: true, id: kube-node-ready-leader, namespace: kube-system }
metrics: { enabled: true, port: 8080 }
health: { port: 8081 }
logging: { level: info, format: json }
kubernetes: { kubeconfigPath: "", qps: 50, burst: 100 }
"#;

    #[test]
    fn the_examples_of_the_gate_are_taken() {
        for name in [
            "controller",
            "controller-cluster-autoscaler",
            "controller-publish-only",
        ] {
            let path = format!(
                "{}/../../examples/gate/{name}.yaml",
                env!("CARGO_MANIFEST_DIR")
            );
            let config = Config::load(Some(Path::new(&path))).unwrap();
            assert!(config.gate().is_some(), "{name}");
        }
    }

    #[test]
    fn a_file_of_the_gates_predecessor_is_taken_as_it_is() {
        assert_eq!(refusal(SEED), None);
        let config: Config = shipshape_scenarios::yaml::read(SEED).unwrap();
        let gate = config.gate().unwrap();
        assert_eq!(gate.reconciliation.interval_seconds, 30);
        assert_eq!(gate.worker.tolerations.len(), 1);
        assert_eq!(gate.worker.init_containers[0].name, "wait");
        assert!(
            Config::default().gate().is_none(),
            "no gate unless asked for"
        );
    }

    #[test]
    fn the_older_block_is_taken_where_the_new_keys_say_nothing() {
        let older = "
config:
  taintKey: my-custom/unverified
  dnsTestDomains: [cluster.example]
  maxRetries: 10
  initialTimeout: 600s
worker: { image: { repository: r, tag: t }, dnsTestDomains: [new.example] }
";
        let config: Config = shipshape_scenarios::yaml::read(older).unwrap();
        let gate = config.gate().unwrap();
        assert_eq!(gate.node_management.taints[0].key, "my-custom/unverified");
        assert_eq!(gate.node_management.taints[0].effect, "NoSchedule");
        assert_eq!(gate.reconciliation.max_retries, 10);
        assert_eq!(gate.worker.timeout_seconds, Some(600));
        assert_eq!(gate.worker.dns_test_domains, ["new.example"]);
    }

    #[test]
    fn a_wrong_key_of_the_gate_is_refused_by_its_path() {
        let table = [
            ("maxRetries: 5", "maxTries: 5", "reconciliation.maxTries"),
            (
                "maxRetries: 5",
                "maxRetries: 0",
                "reconciliation.maxRetries",
            ),
            ("exponential", "random", "reconciliation.retryBackoff"),
            ("tag: \"1\"", "tag: \"\"", "worker.image.tag"),
            (
                "effect: NoSchedule",
                "effect: Never",
                "nodeManagement.taints[0].effect",
            ),
            (
                "limits: { memory",
                "limits: { cpu: 1, memory",
                "worker.resources.limits.cpu",
            ),
            ("format: json", "format: yaml", "logging.format"),
            ("qps: 50", "qpss: 50", "kubernetes.qpss"),
        ];
        for (right, wrong, path) in table {
            let told = refusal(&SEED.replace(right, wrong)).unwrap();
            assert!(told.contains(path), "{path}: {told}");
        }
    }

    #[test]
    fn a_time_or_a_namespace_that_makes_no_sense_is_refused_by_its_field() {
        assert_eq!(refusal("settings: { cloudLag: 0s }"), None);
        let table = [
            (
                "settings: { deadlines: { join: -5m } }",
                "settings.deadlines.join is -5m; right would be",
            ),
            (
                "settings: { sweep: { every: 0s } }",
                "settings.sweep.every is 0s; right would be",
            ),
            (
                "leaderElection: { retryPeriod: -1s }",
                "leaderElection.retryPeriod is -1s; right would be",
            ),
            (
                "leaderElection: { leaseDuration: 0s }",
                "leaderElection.renewDeadline is 10s; right would be",
            ),
            ("namespace: ''", "namespace: \"\" is not"),
            ("namespace: Ship_Shape", "namespace: \"Ship_Shape\" is not"),
            ("lockNamespace: a/b", "lockNamespace: \"a/b\" is not"),
        ];
        for (text, expected) in table {
            let told = refusal(text).unwrap();
            assert!(told.contains(expected), "{text}\n{told}");
        }
    }

    #[test]
    fn settings_of_the_gate_without_its_pods_are_refused() {
        for block in [
            "reconciliation: { maxRetries: 3 }",
            "nodeManagement: { deleteFailedNodes: true }",
            "verification: { mode: DryRun }",
            "config: { maxRetries: 3 }",
        ] {
            let told = refusal(block).unwrap();
            assert!(told.contains("name worker.image"), "{block}: {told}");
        }
    }

    #[test]
    fn an_etcd_block_that_is_of_no_use_is_refused_by_its_field() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let there = file.path().display();
        let files =
            |ca: &str| format!("etcd: {{ caFile: {ca}, certFile: {there}, keyFile: {there}");
        let whole = files(&there.to_string());
        assert_eq!(refusal(&format!("{whole} }}")), None);
        let table = [
            (format!("{} }}", files("/no/such/file")), "etcd.caFile"),
            (format!("{whole}, timeout: 0s }}"), "etcd.timeout"),
            (
                format!("{whole}, endpoints: [\"10.0.0.4:2379\"] }}"),
                "etcd.endpoints",
            ),
            (format!("etcd: {{ caFile: {there} }}"), "certFile"),
        ];
        for (text, field) in table {
            let told = refusal(&text).unwrap();
            assert!(told.contains(field), "{told}");
        }
    }
}
