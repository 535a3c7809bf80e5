//! DirectUpdate: upgrade these nodes in place, now.
//!
//! Owns the spec as a person writes it. Its status is in `status`. Read by the update controller.

mod status;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use status::{
    BackupInfo, DirectUpdateStatus, NodeUpdate, NodeUpdatePhase, PreflightCheck, PreflightResults,
    UpdatePhase, UpdateSummary, UpgradePath,
};

use crate::schema;
use crate::update::{self, AirGapped, Canary, Component, DEFAULT_COMPONENTS, Strategy};

/// What shall be upgraded, and how.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "shipshape.dev",
    version = "v1alpha1",
    kind = "DirectUpdate",
    status = "DirectUpdateStatus",
    shortname = "du",
    category = "shipshape",
    derive = "PartialEq",
    derive = "Default",
    doc = "Upgrades nodes in place, now.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.targetVersion"),
    printcolumn(
        name = "Progress",
        type_ = "integer",
        json_path = ".status.summary.completed"
    ),
    printcolumn(name = "Total", type_ = "integer", json_path = ".status.summary.total"),
    printcolumn(
        name = "Waiting for",
        type_ = "string",
        json_path = ".status.waitingFor"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::strict)]
pub struct DirectUpdateSpec {
    /// Kubernetes version to reach, for example 1.35.2.
    #[schemars(transform = update::target_version)]
    pub target_version: String,
    /// Parts of the nodes to upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = update::components(&DEFAULT_COMPONENTS))]
    pub components: Option<Vec<Component>>,
    /// In which order nodes are upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = Strategy::default()))]
    pub strategy: Option<Strategy>,
    /// Most worker nodes in work at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::count(1, 1))]
    pub concurrency: Option<i32>,
    /// Nodes that go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// Labels that a node must have to be upgraded; absent means all nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(transform = schema::label_map("nodeSelector", schema::ENTRIES))]
    pub node_selector: BTreeMap<String, String>,
    /// Whether the cluster is checked before anything moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub preflight_checks: Option<bool>,
    /// Upgrades without a way to the internet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub air_gapped: Option<AirGapped>,
    /// Whether the upgrade is only planned and shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub dry_run: Option<bool>,
    /// How long the whole upgrade may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::duration, extend("default" = "2h"))]
    pub operation_timeout: Option<String>,
    /// How long one node may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::duration, extend("default" = "30m"))]
    pub node_timeout: Option<String>,
}

impl DirectUpdateSpec {
    /// Parts of the nodes to upgrade.
    pub fn components(&self) -> &[Component] {
        self.components.as_deref().unwrap_or(&DEFAULT_COMPONENTS)
    }

    /// In which order nodes are upgraded.
    pub fn strategy(&self) -> Strategy {
        self.strategy.unwrap_or_default()
    }

    /// Most worker nodes in work at once.
    pub fn concurrency(&self) -> i32 {
        self.concurrency.unwrap_or(1).max(1)
    }

    /// Whether the cluster is checked before anything moves.
    pub fn preflight_checks(&self) -> bool {
        self.preflight_checks.unwrap_or(true)
    }

    /// Whether the upgrade is only planned and shown.
    pub fn dry_run(&self) -> bool {
        self.dry_run.unwrap_or(false)
    }

    /// How long the whole upgrade may take, Go style.
    pub fn operation_timeout(&self) -> &str {
        self.operation_timeout.as_deref().unwrap_or("2h")
    }

    /// How long one node may take, Go style.
    pub fn node_timeout(&self) -> &str {
        self.node_timeout.as_deref().unwrap_or("30m")
    }
}
