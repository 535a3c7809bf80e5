//! What a preflight came to, for the status of a run and for people.
//!
//! Owns the words and the bounds: twenty findings are named, the rest is counted.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::conditions::PREFLIGHT;
use shipshape_api::node_patch_run::{FindingRecord, PreflightRecord};

use super::{Finding, Weight};
use crate::condition::{Claim, Truth};
use crate::decision::Notice;

/// Findings that a status names.
const NAMED_MAX: usize = 20;
/// Findings that one sentence names.
const TOLD_MAX: usize = 3;

/// What a preflight came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// For the status.
    pub record: PreflightRecord,
    /// Whether nothing is in the way.
    pub truth: Truth,
    /// For the events.
    pub notice: Notice,
}

/// Puts the findings of a wave into words. `looked` says where: plan, wave, nodes and dry runs; its
/// findings are filled in here.
pub fn report(findings: &[Finding], looked: PreflightRecord) -> Report {
    let named = findings.iter().take(NAMED_MAX).map(finding_record);
    let record = PreflightRecord {
        findings: named.collect(),
        more: number(findings.len().saturating_sub(NAMED_MAX)),
        ..looked
    };
    let blocking: Vec<&Finding> = of_weight(findings, Weight::Blocks);
    let lossy = pods_of_weight(findings, Weight::Loses);
    let mut message = sentence(&record, &blocking);
    if lossy > 0 {
        message.push_str(&format!("; {lossy} pod(s) would lose something"));
    }
    let (truth, reason) = match blocking.as_slice() {
        [] => (Truth::True, "NothingInTheWay"),
        _ => (Truth::False, "DrainsWillBlock"),
    };
    let notice = match truth {
        Truth::False => Notice::warning(reason, message),
        Truth::True | Truth::Unknown => Notice::normal(reason, message),
    };
    Report {
        record,
        truth,
        notice,
    }
}

impl Report {
    /// The condition that says what was found.
    pub fn claim(&self) -> Claim<'_> {
        Claim {
            kind: PREFLIGHT,
            truth: self.truth,
            reason: self.notice.reason,
            message: self.notice.message.clone(),
        }
    }

    /// The wave that a preflight looked at, without findings yet.
    pub fn looked(plan_version: &str, iteration: i32, at: Timestamp) -> PreflightRecord {
        PreflightRecord {
            plan_version: plan_version.to_owned(),
            iteration,
            at: Time(at),
            nodes: 0,
            dry_runs: 0,
            findings: Vec::new(),
            more: 0,
        }
    }
}

/// How many pods there are findings of this weight about: one pod may have several.
pub fn pods_of_weight(findings: &[Finding], weight: Weight) -> usize {
    by_pod(&of_weight(findings, weight)).len()
}

/// Findings with those of one pod together, in the order of the first of each.
fn by_pod<'a>(findings: &[&'a Finding]) -> Vec<(&'a Finding, Vec<&'a str>)> {
    let mut pods: Vec<(&Finding, Vec<&str>)> = Vec::new();
    let mut places: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for finding in findings {
        let pod = &finding.pod;
        let place = *places
            .entry((&pod.namespace, &pod.name, &pod.uid))
            .or_insert(pods.len());
        match pods.get_mut(place) {
            Some((_, told)) => told.push(&finding.sentence),
            None => pods.push((finding, vec![&finding.sentence])),
        }
    }
    pods
}

fn of_weight(findings: &[Finding], weight: Weight) -> Vec<&Finding> {
    findings.iter().filter(|one| one.weight == weight).collect()
}

fn sentence(record: &PreflightRecord, blocking: &[&Finding]) -> String {
    let nodes = record.nodes;
    if blocking.is_empty() {
        return format!("nothing was found that would hold up the {nodes} node(s) of the wave");
    }
    let pods = by_pod(blocking);
    let told: Vec<String> = pods
        .iter()
        .take(TOLD_MAX)
        .map(|(one, told)| {
            format!(
                "pod {}/{} on node {}: {}",
                one.pod.namespace,
                one.pod.name,
                one.node,
                told.join(", and ")
            )
        })
        .collect();
    let more = pods.len().saturating_sub(TOLD_MAX);
    let rest = match more {
        0 => String::new(),
        _ => format!("; and {more} more"),
    };
    format!(
        "{} pod(s) on the {nodes} node(s) of the wave cannot be evicted: {}{rest}",
        pods.len(),
        told.join("; ")
    )
}

fn finding_record(finding: &Finding) -> FindingRecord {
    FindingRecord {
        node: finding.node.clone(),
        namespace: finding.pod.namespace.clone(),
        pod: finding.pod.name.clone(),
        budget: Some(finding.budget.clone()).filter(|budget| !budget.is_empty()),
        reason: finding.reason.to_owned(),
        message: finding.sentence.clone(),
        remedy: finding.remedy.clone(),
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
