//! The kinds of `shipshape.dev/v1alpha1` and every name that Shipshape writes into a cluster or a
//! cloud.
//!
//! Owns types, schemas and names. Must not depend on a client or an async runtime, and must not
//! decide anything: rules that a manifest must obey are in its schema, all others in the engine.
//! Everybody else calls it.

#![expect(
    clippy::duplicated_attributes,
    reason = "two printer columns of one type repeat the word for it"
)]

pub mod autoscaling_strategy;
pub mod conditions;
mod definitions;
pub mod direct_update;
pub mod drain;
pub mod gates;
pub mod names;
pub mod node_patch_run;
pub mod node_patch_task;
pub mod node_version;
pub mod pending_node;
pub mod provider;
pub mod reasons;
#[cfg(feature = "render")]
pub mod render;
pub mod scaling_group;
pub mod scheduled_update;
mod schema;
pub mod selectors;
pub mod update;
pub mod update_schedule;

pub use autoscaling_strategy::{
    AutoscalingStrategy, AutoscalingStrategySpec, AutoscalingStrategyStatus,
};
pub use definitions::crds;
pub use direct_update::{DirectUpdate, DirectUpdateSpec, DirectUpdateStatus};
pub use drain::{DrainOptions, OnDeadline, PodRule};
pub use node_patch_run::{NodePatchRun, NodePatchRunSpec, NodePatchRunStatus, RunState};
pub use node_patch_task::{
    NodePatchTask, NodePatchTaskSpec, NodePatchTaskStatus, TaskAction, TaskPhase, TaskStep,
    phase_of,
};
pub use node_version::{NodeVersion, NodeVersionSpec, NodeVersionStatus};
pub use pending_node::{
    CspState, PendingNode, PendingNodeGoal, PendingNodeSpec, PendingNodeStatus, Verification,
    VerificationEvidence, VerificationFinding, VerificationVerdict,
};
pub use provider::{AwsProvider, ProviderRef};
pub use scaling_group::{ScalingGroup, ScalingGroupRole, ScalingGroupSpec, ScalingGroupStatus};
pub use scheduled_update::{ScheduledUpdate, ScheduledUpdateSpec, ScheduledUpdateStatus};
pub use update_schedule::{UpdateSchedule, UpdateScheduleSpec, UpdateScheduleStatus};

#[cfg(test)]
mod tests;
