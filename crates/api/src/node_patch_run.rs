//! NodePatchRun: cycle these nodes once.
//!
//! Owns the spec as a person writes it. Its status is in `status`. Read by the run controller and
//! by `plan`.

mod preflight;
mod status;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use preflight::{FindingRecord, PreflightRecord};
pub use status::{
    AutoscalerRecord, AutoscalerTarget, CANDIDATES_MAX, Candidate, NodePatchRunStatus, Partition,
    RunPlan, RunState, UID_DIGITS, Wave,
};

use crate::drain::DrainOptions;
use crate::gates::{LabelTransfer, OutdatedTaintEffect, ReplacementMode, Stability};
use crate::provider::ProviderRef;
use crate::schema;
use crate::selectors::PodSelector;

/// What a run shall do.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "shipshape.dev",
    version = "v1alpha1",
    kind = "NodePatchRun",
    namespaced,
    status = "NodePatchRunStatus",
    shortname = "npr",
    category = "shipshape",
    derive = "PartialEq",
    derive = "Default",
    // Tasks keep the provider that they were made with, and cannot follow a change.
    validation = Rule::new(
        "!has(oldSelf.status) || !has(oldSelf.status.plan) || \
         self.spec.provider.type == oldSelf.spec.provider.type"
    )
    .message("provider.type cannot be changed once the run has its plan; create a new run")
    .field_path(".spec.provider.type"),
    doc = "Cycles a selection of nodes once: each is replaced by a fresh machine of its group.",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Done", type_ = "integer", json_path = ".status.completed"),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.failed"),
    printcolumn(name = "Total", type_ = "integer", json_path = ".status.total"),
    printcolumn(
        name = "Waiting for",
        type_ = "string",
        json_path = ".status.waitingFor"
    ),
    printcolumn(
        name = "Provider",
        type_ = "string",
        json_path = ".spec.provider.type",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::strict)]
pub struct NodePatchRunSpec {
    /// Stops new tasks; those under way go on. A run that is created paused is planned and changes nothing; one that
    /// is paused later keeps its marks on nodes and its hold of the autoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub paused: Option<bool>,
    /// Ends the run for good: nodes under way are put back as they were, unless their old machine is
    /// already on its way out; those are finished. It cannot be taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false), transform = schema::rule(
        "self || !oldSelf",
        "abort cannot be taken back; create a new run"
    ))]
    pub abort: Option<bool>,
    /// When failures pause the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// Nodes to take; absent or empty means all. The run is planned by it once: a change counts until the first node is
    /// marked as outdated. Outdated nodes that are taken only later get the last wave; those in the plan stay in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub node_selector: Option<LabelSelector>,
    /// Nodes to leave out, even if nodeSelector takes them; an empty one leaves out every node. A change counts for as
    /// long as one of nodeSelector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub exclude_node_selector: Option<LabelSelector>,
    /// Whether control plane nodes are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub exclude_control_plane: Option<bool>,
    /// How many parts the nodes are split into, each mixed across zones; one part is done before
    /// the next begins. A zone with fewer nodes than that is in the first parts alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::count(1, 2), extend("maximum" = 100))]
    pub partition_iterations: Option<i32>,
    /// Most important nodes in work at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::count(1, 1))]
    pub batch_size_important: Option<i32>,
    /// Most other nodes in work at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::count(1, 2))]
    pub batch_size_non_important: Option<i32>,
    /// Most nodes of one zone in work at once; 0 means no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::count(0, 0))]
    pub max_concurrent_per_zone: Option<i32>,
    /// Most nodes that may begin within an hour; 0 means no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::count(0, 0))]
    pub max_per_hour: Option<i32>,
    /// How often a node is tried before its task counts as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::count(1, 3), extend("maximum" = 100))]
    pub max_attempts: Option<i32>,
    /// A few nodes that go first, alone, and are watched before the others follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// Whether the new machine comes before the old one goes. A task keeps the mode that it began with: a change
    /// counts for nodes that begin later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<ReplacementMode>,
    /// What the taint on all nodes of the plan asks of the scheduler until they are replaced. Absent means:
    /// to prefer other nodes; and in a cluster of more than a hundred nodes, of which the scheduler looks at
    /// a part only, not to use the first nodes of the plan, half of the cluster at most, until a pod finds no
    /// place. `NoSchedule` closes all nodes of the plan; they take pods again only where a task takes its
    /// attempt back and a pod finds no place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outdated_taint_effect: Option<OutdatedTaintEffect>,
    /// Pods that make the node they run on important.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic(schema::ENTRIES))]
    pub important_pod_selectors: Vec<PodSelector>,
    /// Pods of which at least one each must be ready on a new node before it counts as ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic(schema::ENTRIES))]
    pub required_node_daemon_pod_selectors: Vec<PodSelector>,
    /// When the important pods count as stable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stability: Option<Stability>,
    /// Which labels of the old node the new one gets; absent means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_transfer: Option<LabelTransfer>,
    /// How the pods of a node are moved away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainOptions>,
    /// Whether and how the cluster autoscaler is held off during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaler_control: Option<AutoscalerControl>,
    /// The cloud that the nodes run in.
    pub provider: ProviderRef,
}

impl NodePatchRunSpec {
    /// Whether new tasks are stopped.
    pub fn paused(&self) -> bool {
        self.paused.unwrap_or(false)
    }

    /// Whether the run shall end for good.
    pub fn abort(&self) -> bool {
        self.abort.unwrap_or(false)
    }

    /// Most nodes that may begin within an hour, if there is such a limit.
    pub fn max_per_hour(&self) -> Option<i32> {
        self.max_per_hour.filter(|limit| *limit > 0)
    }

    /// How often a node is tried.
    pub fn max_attempts(&self) -> i32 {
        self.max_attempts.unwrap_or(3).max(1)
    }

    /// Whether control plane nodes are left out.
    pub fn exclude_control_plane(&self) -> bool {
        self.exclude_control_plane.unwrap_or(true)
    }

    /// How many parts the nodes are split into.
    pub fn partition_iterations(&self) -> i32 {
        self.partition_iterations.unwrap_or(2).max(1)
    }

    /// Most important nodes in work at once.
    pub fn batch_size_important(&self) -> i32 {
        self.batch_size_important.unwrap_or(1).max(1)
    }

    /// Most other nodes in work at once.
    pub fn batch_size_non_important(&self) -> i32 {
        self.batch_size_non_important.unwrap_or(2).max(1)
    }

    /// Most nodes of one zone in work at once, if there is such a limit.
    pub fn max_concurrent_per_zone(&self) -> Option<i32> {
        self.max_concurrent_per_zone.filter(|limit| *limit > 0)
    }

    /// Whether the cluster autoscaler is kept from removing nodes.
    pub fn forbids_scale_down(&self) -> bool {
        let control = self.autoscaler_control.as_ref();
        control.is_some_and(AutoscalerControl::forbids_scale_down)
    }

    /// After how many failed tasks the run pauses, if it does.
    pub fn pause_after_failures(&self) -> Option<i32> {
        let policy = self.failure_policy.as_ref()?;
        let enabled = policy.enabled.unwrap_or(false);
        enabled.then(|| policy.pause_after_failures.unwrap_or(1).max(1))
    }
}

/// When failures pause a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicy {
    /// Whether failed tasks are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub enabled: Option<bool>,
    /// How many failed tasks pause the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::count(1, 1))]
    pub pause_after_failures: Option<i32>,
}

/// A few nodes that go first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Canary {
    /// How many nodes go first, taken from all zones in turn.
    #[schemars(transform = schema::at_least(1))]
    pub nodes: i32,
    /// How long they are watched before the others follow, for example 10m; absent or 0 means not
    /// at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::duration)]
    pub soak: Option<String>,
}

/// Whether and how the cluster autoscaler is held off during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerControl {
    /// Whether it is held off at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub enabled: Option<bool>,
    /// What is done about it. ForbidScaleDown needs no Deployment to be named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<AutoscalerMode>,
    /// Deployments to scale to zero; absent means none, and empty is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::filled_deployment_selector")]
    pub deployment_selector: Option<LabelSelector>,
    /// Namespace of the Deployments; empty or absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::namespace)]
    pub namespace: Option<String>,
    /// Whether the replica count is put back even if somebody changed it meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub force_restore: Option<bool>,
}

/// What is done about the cluster autoscaler.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum AutoscalerMode {
    /// Its Deployments are scaled to zero: it neither removes nor adds nodes during the run.
    #[default]
    ScaleToZero,
    /// It may not remove the nodes of the plan nor their replacements during the run, by the annotation
    /// cluster-autoscaler.kubernetes.io/scale-down-disabled on each; it may add nodes. A node that has
    /// the annotation already is left as it is.
    ForbidScaleDown,
}

impl AutoscalerControl {
    /// Whether the autoscaler is held off at all.
    pub fn enabled(&self) -> bool {
        self.enabled.unwrap_or(false)
    }

    /// Whether its Deployments are scaled to zero.
    pub fn scales_to_zero(&self) -> bool {
        self.enabled() && self.mode.unwrap_or_default() == AutoscalerMode::ScaleToZero
    }

    /// Whether it is kept from removing nodes.
    pub fn forbids_scale_down(&self) -> bool {
        self.enabled() && self.mode.unwrap_or_default() == AutoscalerMode::ForbidScaleDown
    }

    /// Whether the replica count is put back even if somebody changed it meanwhile.
    pub fn force_restore(&self) -> bool {
        self.force_restore.unwrap_or(true)
    }
}
