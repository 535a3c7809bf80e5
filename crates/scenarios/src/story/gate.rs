//! The gate of a story: how nodes stand at it, seen from outside, and when none of them moves any more.
//!
//! Owns the counting. Must not change anything.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use shipshape_api::{PendingNode, Verification, VerificationVerdict, names};
use shipshape_engine::view::NodeView;

use crate::observer::Observer;
use crate::scenario::{GateCheck, Scenario};
use crate::stage::{OPERATOR, Stage};

/// What is remembered of nodes that are there. Of one that is gone it may take a while to go.
fn records(observer: &Observer) -> Vec<Arc<PendingNode>> {
    let nodes = observer.nodes.list();
    let there: BTreeSet<String> = nodes.iter().filter_map(|node| node.uid()).collect();
    let mut records = observer.pending.list();
    records.retain(|record| {
        let uid = record.spec.node_uid.as_ref();
        uid.is_some_and(|uid| there.contains(uid))
    });
    records
}

fn told(record: &PendingNode) -> Option<&Verification> {
    record.status.as_ref()?.verification.as_ref()
}

/// How many nodes have this verdict.
pub(super) fn verdicts(observer: &Observer, verdict: VerificationVerdict) -> usize {
    let records = records(observer);
    let told = records.iter().filter_map(|record| told(record));
    told.filter(|told| told.verdict == Some(verdict)).count()
}

/// A sum over all nodes.
fn sum(observer: &Observer, count: fn(&Verification) -> Option<i32>) -> usize {
    let records = records(observer);
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

/// What the operator has removed: machines by the cloud's log, Node objects by its requests.
fn removed(stage: &Stage) -> usize {
    let calls = stage.cloud.log();
    let machines = calls.iter().filter(|call| {
        call.caller == OPERATOR && call.call == "deleteMachine" && call.took_effect()
    });
    let (requests, _) = (stage.requests)(0);
    let nodes = requests.iter().filter(|(_, request)| {
        request.verb == "delete"
            && request.resource == "nodes"
            && request.subresource.is_empty()
            && request.took_effect()
    });
    machines.count() + nodes.count()
}

/// What is not as expected at the gate.
pub(super) fn differences(stage: &Stage, observer: &Observer, expected: &GateCheck) -> Vec<String> {
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
    // Asked for only where it counts: it reads whole logs.
    let removals = expected.removed.map(|expected| {
        let is = removed(stage);
        ("removed", Some(expected), is)
    });
    let wrong = table
        .into_iter()
        .chain(removals)
        .filter_map(|(what, expected, is)| {
            let expected = expected.filter(|expected| !expected.allows(is))?;
            Some(format!("at the gate, {what} is {is}, expected {expected}"))
        });
    wrong.collect()
}

/// Waits until it stands at the gate as expected and no node is under way.
pub(super) async fn settled(stage: &Stage, scenario: &Scenario, observer: &Observer) {
    let Some(settings) = &scenario.gate else {
        return;
    };
    while !all_settled(stage, scenario, observer) {
        // Nodes tell of no change, so they are looked at now and then.
        tokio::select! {
            () = observer.runs_changed.notified() => {}
            () = tokio::time::sleep(Duration::from_secs(5)) => {}
        }
    }
    // Runs that served as comparison go a little later.
    let a_while = Duration::try_from(settings.interval() * 6);
    tokio::time::sleep(a_while.unwrap_or_default()).await;
}

fn all_settled(stage: &Stage, scenario: &Scenario, observer: &Observer) -> bool {
    let records = records(observer);
    let mut all = records.iter();
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
    differences(stage, observer, &scenario.expect.gate).is_empty()
        && all.all(|record| is_over(record))
}
