//! The gate of a story: how nodes stand at it, seen from outside, and when none of them moves any more.
//!
//! Owns the counting. Must not change anything.

use std::time::Duration;

use shipshape_api::{PendingNode, Verification, VerificationVerdict, names};
use shipshape_engine::view::NodeView;

use crate::observer::Observer;
use crate::scenario::{GateCheck, Scenario};

/// What is remembered of one node.
fn told(record: &PendingNode) -> Option<&Verification> {
    record.spec.node_uid.as_ref()?;
    record.status.as_ref()?.verification.as_ref()
}

/// How many nodes have this verdict.
pub(super) fn verdicts(observer: &Observer, verdict: VerificationVerdict) -> usize {
    let records = observer.pending.list();
    let told = records.iter().filter_map(|record| told(record));
    told.filter(|told| told.verdict == Some(verdict)).count()
}

/// A sum over all nodes.
fn sum(observer: &Observer, count: fn(&Verification) -> Option<i32>) -> usize {
    let records = observer.pending.list();
    let counts = records
        .iter()
        .filter_map(|record| count(told(record)?))
        .filter_map(|count| usize::try_from(count).ok());
    counts.sum()
}

/// How many attempts were made.
pub(super) fn attempts(observer: &Observer) -> usize {
    sum(observer, |told| told.attempt)
}

/// What is not as expected at the gate.
pub(super) fn differences(observer: &Observer, expected: &GateCheck) -> Vec<String> {
    let (key, _, effect) = names::DEFAULT_GATE_TAINT;
    let nodes = observer.nodes.list();
    let gated = nodes.iter().filter(|node| {
        let taints = NodeView::of(node).taints;
        taints
            .iter()
            .any(|taint| taint.key == key && taint.effect == effect)
    });
    let of = |verdict| verdicts(observer, verdict);
    let table = [
        (
            "verified",
            expected.verified,
            of(VerificationVerdict::Verified),
        ),
        ("unfit", expected.unfit, of(VerificationVerdict::Failed)),
        (
            "inconclusive",
            expected.inconclusive,
            of(VerificationVerdict::Inconclusive),
        ),
        ("gated", expected.gated, gated.count()),
        ("attempts", expected.attempts, attempts(observer)),
        (
            "failedAttempts",
            expected.failed_attempts,
            sum(observer, |told| told.failed_attempts),
        ),
    ];
    let wrong = table.into_iter().filter_map(|(what, expected, is)| {
        let expected = expected.filter(|expected| *expected != is)?;
        Some(format!("at the gate, {what} is {is}, expected {expected}"))
    });
    wrong.collect()
}

/// Waits until it stands at the gate as expected and no node is under way.
pub(super) async fn settled(scenario: &Scenario, observer: &Observer) {
    if scenario.gate.is_none() {
        return;
    }
    while !all_settled(scenario, observer) {
        // Nodes tell of no change, so they are looked at now and then.
        tokio::select! {
            () = observer.runs_changed.notified() => {}
            () = tokio::time::sleep(Duration::from_secs(5)) => {}
        }
    }
    // Runs that served as comparison go a little later.
    tokio::time::sleep(Duration::from_mins(1)).await;
}

fn all_settled(scenario: &Scenario, observer: &Observer) -> bool {
    let records = observer.pending.list();
    let mut all = records.iter().filter(|one| one.spec.node_uid.is_some());
    let is_over = |record: &PendingNode| {
        let told = told(record);
        told.is_some_and(|told| {
            told.attempt_started_at.is_none()
                && matches!(
                    told.verdict,
                    Some(VerificationVerdict::Verified | VerificationVerdict::Failed)
                )
        })
    };
    differences(observer, &scenario.expect.gate).is_empty() && all.all(|record| is_over(record))
}
