//! Metrics with a node's name, read from the gate's records whenever somebody asks.
//!
//! Owns the series that kube-node-ready promises for each node. Nothing is kept for them between two
//! scrapes: a node that is gone has no record and so no series. A scrape goes once over the records that
//! are in memory anyway.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use shipshape_api::{PendingNode, Verification, VerificationVerdict};
use shipshape_engine::verify::kind::kind_of;

use super::TermView;
use super::gate::seconds_of;

/// How a node can stand at the gate.
pub(super) const STATES: [&str; 6] = [
    "unverified",
    "pending",
    "in_progress",
    "verified",
    "failed",
    "inconclusive",
];

/// How the node of a record stands; `None` for a record that is not of the gate.
pub(super) fn state_of(record: &PendingNode) -> Option<&'static str> {
    record.spec.node_uid.as_ref()?;
    let status = record.status.as_ref();
    let told = status.and_then(|status| status.verification.as_ref());
    Some(told.map_or("unverified", |told| match told.verdict {
        Some(VerificationVerdict::Verified) => "verified",
        Some(VerificationVerdict::Failed) => "failed",
        Some(VerificationVerdict::Inconclusive) => "inconclusive",
        None if told.attempt_started_at.is_some() => "in_progress",
        None if told.attempt.is_some() => "pending",
        None => "unverified",
    }))
}

/// Reads the records of the term that is going on.
pub(super) struct PerNode(pub(super) Arc<Mutex<Option<TermView>>>);

impl fmt::Debug for PerNode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PerNode").finish()
    }
}

impl PerNode {
    fn records(&self) -> Vec<Arc<PendingNode>> {
        let term = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let records = term.as_ref().map(|term| term.stores.pending.list());
        records.unwrap_or_default()
    }
}

impl Collector for PerNode {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let records = self.records();
        // A node that was replaced under its name has two records for a moment: the newer one counts.
        let mut newest: BTreeMap<&str, &PendingNode> = BTreeMap::new();
        for record in &records {
            let Some(node) = record.spec.node_name.as_deref() else {
                continue;
            };
            let made = |one: &PendingNode| one.metadata.creation_timestamp.as_ref().map(|it| it.0);
            let known = newest.entry(node).or_insert(record);
            if made(known) < made(record) {
                *known = record;
            }
        }
        let rows: Vec<Row<'_>> = newest.into_values().filter_map(Row::of).collect();
        encode_states(&mut encoder, &rows)?;
        encode_retries(&mut encoder, &rows)?;
        for (name, help, value) in GAUGES {
            let gauge = MetricType::Gauge;
            let mut family = encoder.encode_descriptor(name, help, None, gauge)?;
            for row in &rows {
                if let Some(value) = value(row) {
                    let labels = [("node", row.node)];
                    ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}

fn encode_states(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>]) -> fmt::Result {
    let name = "kube_node_ready_verification_status";
    let help = "How a node stands at the gate; 1 for the state that it is in";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for row in rows {
        let labels = [("node", row.node), ("status", row.state)];
        ConstGauge::new(1_i64).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn encode_retries(encoder: &mut DescriptorEncoder<'_>, rows: &[Row<'_>]) -> fmt::Result {
    let name = "kube_node_ready_retry_attempts";
    let help = "Attempts at a node after the first, on its present boot";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for row in rows {
        let retries = row.told.and_then(|told| told.attempt).unwrap_or_default() - 1;
        let retries = u64::try_from(retries).unwrap_or_default();
        let labels = [("node", row.node)];
        ConstCounter::new(retries).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

type Value = fn(&Row<'_>) -> Option<f64>;

/// Name, help and value of each gauge that has no other label.
const GAUGES: [(&str, &str, Value); 5] = [
    (
        "kube_node_ready_verification_duration_seconds",
        "From the first attempt at a node to its verdict",
        |row| row.duration(),
    ),
    (
        "node_check_status",
        "Whether every check has passed on a node",
        |row| Some(row.status()),
    ),
    (
        "node_check_dns_duration_seconds",
        "The slowest question for a name in the latest attempt at a node",
        |row| row.slowest("dns"),
    ),
    (
        "node_check_api_duration_seconds",
        "The slowest check of the API server in the latest attempt at a node",
        |row| row.slowest("api"),
    ),
    (
        "node_check_completion_timestamp",
        "When the verdict on a node was reached, in seconds since 1970",
        |row| row.completion(),
    ),
];

/// What is told of one node.
struct Row<'a> {
    node: &'a str,
    state: &'static str,
    told: Option<&'a Verification>,
}

impl<'a> Row<'a> {
    fn of(record: &'a PendingNode) -> Option<Self> {
        let status = record.status.as_ref();
        Some(Self {
            state: state_of(record)?,
            node: record.spec.node_name.as_deref()?,
            told: status.and_then(|status| status.verification.as_ref()),
        })
    }

    fn duration(&self) -> Option<f64> {
        let began = self.told?.started_at.as_ref()?.0;
        let ended = self.told?.verdict_at.as_ref()?.0;
        Some(ended.duration_since(began).as_secs_f64())
    }

    fn status(&self) -> f64 {
        f64::from(u8::from(self.state == "verified"))
    }

    fn slowest(&self, kind: &str) -> Option<f64> {
        let findings = self.told?.findings.iter();
        let seconds = findings.filter(|one| kind_of(&one.check) == kind);
        seconds.map(seconds_of).reduce(f64::max)
    }

    fn completion(&self) -> Option<f64> {
        let ended = self.told?.verdict_at.as_ref()?.0;
        Some(
            ended
                .duration_since(jiff::Timestamp::UNIX_EPOCH)
                .as_secs_f64(),
        )
    }
}
