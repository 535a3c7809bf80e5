//! What came of the checks of a node's network, as a PendingNode's status tells it.
//!
//! Owns the words and their bounds: a status is evidence that outlives the node's pods, and must not grow
//! with every attempt. Who writes them and when is the engine's business.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Most findings that a status keeps.
pub const FINDINGS_MAX: usize = 16;
/// Longest text of a finding, in bytes.
pub const TEXT_MAX: usize = 512;
/// Most addresses, and most routes, that a status keeps.
pub const EVIDENCE_MAX: usize = 16;

/// How far the verification of a node has come. It is about one boot of one Node object; another boot or
/// another UID begins anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// UID of the Node.
    #[serde(rename = "nodeUID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::UID))]
    pub node_uid: Option<String>,
    /// The boot of its machine.
    #[serde(rename = "bootID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::WORD))]
    pub boot_id: Option<String>,
    /// When this boot was seen first. From then on its daemons are waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seen_at: Option<Time>,
    /// Number of the latest attempt, from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::at_least(1))]
    pub attempt: Option<i32>,
    /// How many attempts count against the node; those that were inconclusive do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::at_least(0))]
    pub failed_attempts: Option<i32>,
    /// What is known of the node's network; absent while that is not settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerificationVerdict>,
    /// Since when the deadline of the whole verification counts. An inconclusive attempt sets it anew, and it moves by
    /// the time that a comparison took or in which nobody could look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When the latest attempt began; absent between two attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_started_at: Option<Time>,
    /// When the latest attempt has had its time, by the settings that it began with; absent between two
    /// attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_deadline: Option<Time>,
    /// When the latest attempt ended, while its failure is compared. The node's own clock has its say only
    /// as far as that can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_ended_at: Option<Time>,
    /// When the latest attempt that is over began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt_at: Option<Time>,
    /// When the next attempt begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Time>,
    /// When the verdict was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict_at: Option<Time>,
    /// The check that failed first in the latest attempt that is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::WORD))]
    pub first_failing_check: Option<String>,
    /// What the checks of the latest attempt saw, failures first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::atomic(16))]
    pub findings: Vec<VerificationFinding>,
    /// How many findings were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::at_least(0))]
    pub omitted: Option<i32>,
    /// The network as the node saw it when a check failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<VerificationEvidence>,
}

/// What is known of a node's network.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum VerificationVerdict {
    /// Every check passed on this boot.
    Verified,
    /// Checks failed that pass elsewhere, as often as settings allow.
    Failed,
    /// What failed here fails elsewhere too, or nobody can tell: nothing follows for the node.
    Inconclusive,
}

/// What one check saw at one target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerificationFinding {
    /// Which check.
    #[schemars(transform = schema::text(schema::WORD))]
    pub check: String,
    /// What was asked, of whom.
    #[schemars(transform = schema::text(512))]
    pub target: String,
    /// Whether it is fine.
    pub ok: bool,
    /// Where on its way it failed: dns, connect, tls or http.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(transform = schema::text(schema::WORD))]
    pub phase: Option<String>,
    /// What was seen.
    #[schemars(transform = schema::text(512))]
    pub message: String,
    /// How long it took.
    #[schemars(transform = schema::at_least(0))]
    pub milliseconds: i64,
}

/// The network as a node saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerificationEvidence {
    /// The beginning of the resolver's settings.
    #[schemars(transform = schema::text(512))]
    pub resolv_conf: String,
    /// Own addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::texts(16, 512))]
    pub addresses: Vec<String>,
    /// Routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = schema::texts(16, 512))]
    pub routes: Vec<String>,
}
