//! How far a run has come.
//!
//! Owns the status of NodePatchRun: written by the run controller, read by everybody.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::PreflightRecord;
use crate::schema;

/// How far a run has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::strict)]
pub struct NodePatchRunStatus {
    /// The generation of the spec that this status was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How the run stands, in one word that follows from the spec and the rest of the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<RunState>,
    /// Since when it stands so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_since: Option<Time>,
    /// What holds for the run, one of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The nodes to cycle and their order, made once; outdated nodes that join later get a wave at its
    /// end.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "write_shared",
        deserialize_with = "read_shared"
    )]
    pub plan: Option<Arc<RunPlan>>,
    /// Index of the partition in work; equal to the number of partitions when all are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_iteration: Option<i32>,
    /// Nodes of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<i32>,
    /// Important nodes in work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight_important: Option<i32>,
    /// Other nodes in work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight_non_important: Option<i32>,
    /// Nodes that are done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<i32>,
    /// Nodes whose task failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// How often nodes have failed, those that were tried again since among them: the annotation
    /// `shipshape.dev/acknowledged-failures` counts by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<i32>,
    /// Nodes whose task is set aside and will be tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parked: Option<i32>,
    /// Nodes of the plan that had left by themselves before their turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<i32>,
    /// Whether all outdated nodes carry the mark that keeps moved pods away from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked: Option<bool>,
    /// Whether those marks also forbid the autoscaler to remove the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down_forbidden: Option<bool>,
    /// Why nodes that were closed to new pods take them again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub reopened: Option<String>,
    /// Whether what was changed about the cloud's groups is put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups_restored: Option<bool>,
    /// Until when the canary nodes are watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak_until: Option<Time>,
    /// Whether nothing but parked nodes is left, of the run or of a wave that the others wait for, so that these are
    /// tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_round: Option<bool>,
    /// Whether no new tasks are started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Why no new tasks are started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub pause_reason: Option<String>,
    /// What the run waits for, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub waiting_for: Option<String>,
    /// What was found before the first node of the wave was touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightRecord>,
    /// What was saved of the cluster autoscaler before it was held off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<AutoscalerRecord>,
    /// The last thing that went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::SENTENCE))]
    pub last_error: Option<String>,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RunState {
    /// It goes through its plan.
    #[default]
    Active,
    /// No further node begins, by somebody's wish or after failures; those under way go on.
    Paused,
    /// It is called off or deleted, and puts back what it has changed.
    Ending,
    /// Every node of the plan has had its turn.
    Completed,
    /// It was called off, and everything is put back.
    Aborted,
    /// It asks for something that the controller cannot do; condition Accepted says what.
    Refused,
}

/// A plan is shared by all copies of a run, because it is long and never changes.
#[expect(clippy::ref_option, reason = "the form that serde asks for")]
fn write_shared<S: Serializer>(
    plan: &Option<Arc<RunPlan>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    plan.as_deref().serialize(serializer)
}

fn read_shared<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Arc<RunPlan>>, D::Error> {
    Ok(Option::deserialize(deserializer)?.map(Arc::new))
}

/// Most nodes of a plan that names its candidates with their zones.
pub const CANDIDATES_MAX: usize = 1000;

/// How many digits of [`Partition::uids`] stand for one node.
pub const UID_DIGITS: usize = 8;

/// The nodes to cycle and their order. It is made once and grows with the cluster, so each node costs
/// its name and a few bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunPlan {
    /// Fingerprint of the nodes and zones that the plan was made from.
    #[schemars(transform = schema::text(schema::WORD))]
    pub plan_version: String,
    /// The nodes with their zones, for people; left out of a plan of more than 1000 nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic(1000))]
    pub candidates: Vec<Candidate>,
    /// The parts the nodes are split into, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic(100))]
    pub partitions: Vec<Partition>,
    /// How many nodes from the beginning take no new pods until they are replaced: all where
    /// `spec.outdatedTaintEffect` was `NoSchedule`; where it was absent, in a cluster of more than a hundred
    /// nodes, half of them at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::at_least(0))]
    pub closed: Option<i32>,
}

/// One node of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Name of the node.
    #[schemars(transform = schema::text(schema::NAME))]
    pub name: String,
    /// Zone of the node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(transform = schema::text(schema::WORD))]
    pub zone: String,
}

/// One part of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Partition {
    /// Place in the order, from 0.
    #[schemars(transform = schema::at_least(0))]
    pub index: i32,
    /// What sets its nodes apart; absent for an even share of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave: Option<Wave>,
    /// Names of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::strings(schema::NODES, schema::NAME))]
    pub nodes: Vec<String>,
    /// Eight hexadecimal digits for each of the nodes, in their order: the beginning of a digest of its
    /// UID. Another node of the same name is not part of the plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(transform = schema::text(8 * schema::NODES))]
    pub uids: String,
}

impl RunPlan {
    /// How many nodes there are.
    pub fn total(&self) -> usize {
        self.partitions.iter().map(|part| part.nodes.len()).sum()
    }
}

impl Partition {
    /// The digits that stand for the UID of the node at a place.
    pub fn digits(&self, place: usize) -> Option<&str> {
        let from = place.checked_mul(UID_DIGITS)?;
        self.uids.get(from..from.checked_add(UID_DIGITS)?)
    }
}

/// What sets the nodes of a partition apart from the others.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Wave {
    /// Control planes, one at a time, before everything else.
    ControlPlanes,
    /// Canaries, which are watched before the others follow.
    Canaries,
}

/// What was saved of the cluster autoscaler before it was held off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerRecord {
    /// Whether it is held off now.
    pub scaled_down: bool,
    /// The Deployments and their replica counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::keyed(schema::ENTRIES, &["namespace", "name"]))]
    pub targets: Vec<AutoscalerTarget>,
}

/// One Deployment that is held at zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerTarget {
    /// Namespace of the Deployment.
    #[schemars(transform = schema::text(63))]
    pub namespace: String,
    /// Name of the Deployment.
    #[schemars(transform = schema::text(schema::NAME))]
    pub name: String,
    /// Replicas to put back.
    #[schemars(transform = schema::at_least(0))]
    pub original_replicas: i32,
    /// When it was scaled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scaled_at: Option<Time>,
}
