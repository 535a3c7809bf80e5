//! Settings of the gate, with the keys of the controller's configuration file.
//!
//! Owns the defaults; what a file may say beyond its types is in `check`. Must not read anything: the binary parses its
//! file into this value and hands it down. Names and units are those that kube-node-ready's users have in
//! their files.

mod check;
mod exact;

use std::collections::BTreeMap;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Container, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::{Deserialize, Serialize};
use shipshape_api::{ProviderRef, names};

pub(super) use check::CONTAINER;
pub use check::{check_label, check_taint, is_foreign_taint};

/// Failures without which no node fails.
pub(super) const LEAST_FAILURES: i32 = 2;

/// All settings of the gate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GateSettings {
    /// The pods that run the checks.
    pub worker: WorkerSettings,
    /// Attempts and pauses between them.
    pub reconciliation: ReconciliationSettings,
    /// Which nodes, and what becomes of them.
    pub node_management: NodeManagementSettings,
    /// What the gate may do, and what it looks at.
    pub verification: VerificationSettings,
}

/// The pods that run the checks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct WorkerSettings {
    /// Image with the `shipshape` binary.
    pub image: ImageSettings,
    /// Namespace of the pods; the operator's own unless given.
    pub namespace: Option<String>,
    /// Their service account; no token of it is mounted.
    pub service_account_name: Option<String>,
    /// Their priority class; `system-node-critical` unless given.
    pub priority_class_name: Option<String>,
    /// A ConfigMap whose key `worker-config.yaml` holds settings of the checks.
    pub config_map_name: Option<String>,
    /// What they ask for and may use.
    pub resources: ResourceSettings,
    /// Bounds of one attempt.
    pub job: JobSettings,
    /// Seconds for all checks of one attempt together; 300 unless given.
    pub timeout_seconds: Option<u32>,
    /// Seconds for one check.
    pub check_timeout_seconds: Option<u32>,
    /// Names that are resolved.
    pub dns_test_domains: Vec<String>,
    /// One more name server.
    pub cluster_dns_ip: Option<String>,
    /// Tolerations besides those that every worker needs.
    #[serde(deserialize_with = "exact::list")]
    pub tolerations: Vec<Toleration>,
    /// Containers that run before the checks.
    #[serde(deserialize_with = "exact::list")]
    pub init_containers: Vec<Container>,
}

/// An image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ImageSettings {
    /// Registry and name.
    pub repository: String,
    /// Tag.
    pub tag: String,
    /// When it is pulled; `IfNotPresent` unless given.
    pub pull_policy: Option<String>,
}

/// What a worker asks for and may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ResourceSettings {
    /// What it asks for, by name: also `nvidia.com/gpu` and the like.
    pub requests: BTreeMap<String, Quantity>,
    /// What it may use at most. Never `cpu`: a throttled check looks like a slow network.
    pub limits: BTreeMap<String, Quantity>,
}

impl Default for ResourceSettings {
    fn default() -> Self {
        let amounts = |list: &[(&str, &str)]| {
            let entries = list.iter();
            let entry = |(name, amount): &(&str, &str)| {
                ((*name).to_owned(), Quantity((*amount).to_owned()))
            };
            entries.map(entry).collect()
        };
        Self {
            requests: amounts(&[("cpu", "50m"), ("memory", "64Mi")]),
            limits: amounts(&[("memory", "64Mi")]),
        }
    }
}

/// Bounds of one attempt. The keys are those of a Job, though a worker is a bare pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct JobSettings {
    /// How long an attempt may take, pull of the image included.
    pub active_deadline_seconds: u32,
    /// Taken and of no effect: an attempt is one pod.
    pub backoff_limit: Option<u32>,
    /// Taken and of no effect.
    pub completions: Option<u32>,
    /// Taken and of no effect.
    pub parallelism: Option<u32>,
    /// Taken and of no effect: a pod goes as soon as its result is stored.
    pub ttl_seconds_after_finished: Option<u32>,
}

impl Default for JobSettings {
    fn default() -> Self {
        Self {
            active_deadline_seconds: 300,
            backoff_limit: None,
            completions: None,
            parallelism: None,
            ttl_seconds_after_finished: None,
        }
    }
}

/// How the pause between two attempts grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backoff {
    /// One second, doubled with each failure, at most half a minute.
    #[default]
    Exponential,
    /// Five seconds each time.
    Linear,
}

/// Attempts and pauses between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ReconciliationSettings {
    /// How often the checks are repeated on a node in service while what they need is out of order.
    pub interval_seconds: u32,
    /// How many attempts may fail, two at least.
    pub max_retries: i32,
    /// How the pause between two attempts grows.
    pub retry_backoff: Backoff,
}

impl ReconciliationSettings {
    /// How many failures it takes to fail a node: never one alone, because an outage of all may be over by the
    /// time of the comparison, and would be put on the node.
    pub fn most_failures(&self) -> i32 {
        self.max_retries.max(LEAST_FAILURES)
    }
}

impl Default for ReconciliationSettings {
    fn default() -> Self {
        Self {
            interval_seconds: 10,
            max_retries: 5,
            retry_backoff: Backoff::default(),
        }
    }
}

/// Which nodes, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct NodeManagementSettings {
    /// Whether a node that has failed is removed.
    pub delete_failed_nodes: bool,
    /// Taints that the gate lifts. Nodes that carry one are verified; with an empty list all are that
    /// lack the label.
    #[serde(deserialize_with = "exact::list")]
    pub taints: Vec<Taint>,
    /// Label that a verified node gets.
    pub verified_label: LabelSettings,
    /// How many failed nodes may be removed.
    pub deletion_budget: DeletionBudget,
    /// The cloud whose machines are removed where neither Karpenter nor Cluster API knows the node.
    pub provider: Option<ProviderRef>,
}

/// A label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSettings {
    /// Its key.
    pub key: String,
    /// Its value.
    #[serde(default)]
    pub value: String,
}

/// How many failed nodes may be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DeletionBudget {
    /// Most removals in one group within an hour.
    pub max_per_hour: usize,
    /// Most removals in one group within an hour, in percent of its nodes, but one at least.
    pub max_percent_per_hour: usize,
    /// So many nodes that failed by the same check within an hour stop all removals: then the node is
    /// hardly at fault.
    pub storm_threshold: usize,
}

impl Default for DeletionBudget {
    fn default() -> Self {
        Self {
            max_per_hour: 3,
            max_percent_per_hour: 10,
            storm_threshold: 5,
        }
    }
}

impl Default for NodeManagementSettings {
    fn default() -> Self {
        let (key, value, effect) = names::DEFAULT_GATE_TAINT;
        let (label, labelled) = names::DEFAULT_VERIFIED_LABEL;
        Self {
            delete_failed_nodes: false,
            taints: vec![Taint {
                key: key.to_owned(),
                value: Some(value.to_owned()),
                effect: effect.to_owned(),
                time_added: None,
            }],
            verified_label: LabelSettings {
                key: label.to_owned(),
                value: labelled.to_owned(),
            },
            deletion_budget: DeletionBudget::default(),
            provider: None,
        }
    }
}

/// What the gate may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Lifts the taint and sets the label itself.
    #[default]
    Gate,
    /// Writes the condition and touches neither taints nor labels.
    PublishOnly,
    /// Verifies and reports, and changes no node.
    DryRun,
}

/// What the gate may do, and what it looks at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct VerificationSettings {
    /// What it may do.
    pub mode: Mode,
    /// How long the whole verification of a node may take before it has failed.
    pub deadline_seconds: u32,
    /// How long pods of DaemonSets with the system's own priority may take to be ready on a node before its
    /// network is checked without them; 0 waits for none.
    pub daemons_within_seconds: u32,
    /// Labels of the name servers' pods, by which it is known whether there are any yet.
    pub dns_pods: BTreeMap<String, String>,
    /// Namespace of those pods.
    pub dns_namespace: String,
    /// Whether workers ask each of those pods by itself, at port 53.
    pub dns_endpoints: bool,
}

impl Default for VerificationSettings {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            deadline_seconds: 900,
            daemons_within_seconds: 120,
            dns_pods: [("k8s-app".to_owned(), "kube-dns".to_owned())].into(),
            dns_namespace: "kube-system".to_owned(),
            dns_endpoints: true,
        }
    }
}

impl GateSettings {
    /// How long an attempt may take.
    pub fn attempt_deadline(&self) -> SignedDuration {
        SignedDuration::from_secs(self.worker.job.active_deadline_seconds.into())
    }

    /// How long the whole verification may take.
    pub fn deadline(&self) -> SignedDuration {
        SignedDuration::from_secs(self.verification.deadline_seconds.into())
    }

    /// How long the daemons of a node are waited for.
    pub fn daemons_within(&self) -> SignedDuration {
        SignedDuration::from_secs(self.verification.daemons_within_seconds.into())
    }

    /// Between two runs of the checks on a node in service.
    pub fn interval(&self) -> SignedDuration {
        SignedDuration::from_secs(self.reconciliation.interval_seconds.max(1).into())
    }
}
