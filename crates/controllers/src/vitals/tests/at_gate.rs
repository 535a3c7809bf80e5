//! The gate's metrics: counted once, bounded in their labels, gone with their node.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::{
    PendingNode, PendingNodeSpec, PendingNodeStatus, Verification, VerificationFinding,
    VerificationVerdict,
};
use shipshape_cluster::Clock;
use shipshape_cluster::queue::Queue;

use super::*;

fn second(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn finding(check: &str, ok: bool, milliseconds: i64) -> VerificationFinding {
    VerificationFinding {
        check: check.to_owned(),
        ok,
        milliseconds,
        ..VerificationFinding::default()
    }
}

/// An attempt that runs.
fn open() -> Verification {
    Verification {
        boot_id: Some("boot".to_owned()),
        attempt: Some(1),
        started_at: Some(second(100)),
        attempt_started_at: Some(second(100)),
        ..Verification::default()
    }
}

/// The same attempt, over.
fn over(verdict: Option<VerificationVerdict>, findings: &[VerificationFinding]) -> Verification {
    let mut failures = findings.iter().filter(|one| !one.ok);
    Verification {
        attempt_started_at: None,
        last_attempt_at: Some(second(100)),
        verdict,
        verdict_at: verdict.map(|_| second(145)),
        first_failing_check: failures.next().map(|one| one.check.clone()),
        findings: findings.to_vec(),
        ..open()
    }
}

fn record(node: &str, told: Option<Verification>) -> PendingNode {
    let mut record = PendingNode::new(
        &format!("node-{node}"),
        PendingNodeSpec {
            node_name: Some(node.to_owned()),
            node_uid: Some(format!("uid-{node}")),
            ..PendingNodeSpec::default()
        },
    );
    record.metadata.resource_version = Some("1".to_owned());
    record.status = Some(PendingNodeStatus {
        verification: told,
        ..PendingNodeStatus::default()
    });
    record
}

/// A term in whose records there is one node in each state.
pub(super) fn term(vitals: &Vitals) -> Term {
    let stores = Stores::new();
    let findings = [
        finding("dns-udp", true, 120),
        finding("api-version", true, 450),
    ];
    let verified = over(Some(VerificationVerdict::Verified), &findings);
    let retried = Verification {
        attempt: Some(4),
        ..open()
    };
    for (node, told) in [
        ("n1", Some(verified)),
        ("n2", Some(retried)),
        ("n3", Some(over(Some(VerificationVerdict::Failed), &[]))),
        ("n4", None),
    ] {
        stores.pending.learn(record(node, told));
    }
    let queues = Queues {
        runs: Queue::new(Clock::System),
        tasks: Queue::new(Clock::System),
        pending: Queue::new(Clock::System),
        gate: Queue::new(Clock::System),
    };
    vitals.begin_term(&stores, &queues)
}

/// One failed check on a node.
pub(super) fn fail(vitals: &Vitals, node: &str) {
    let failed = over(None, &[finding("dns-udp", false, 5000)]);
    vitals.saw_verification(node, Some(&open()), Some(&failed));
}

fn lacks(vitals: &Vitals, text: &str) {
    let all = vitals.metrics().unwrap();
    let samples = all.lines().filter(|line| !line.starts_with('#'));
    let found: Vec<&str> = samples.filter(|line| line.contains(text)).collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn the_series_of_each_node_tell_what_its_record_says() {
    let vitals = Vitals::default();
    let _term = term(&vitals);
    for line in [
        "kube_node_ready_verification_status{node=\"n1\",status=\"verified\"} 1",
        "kube_node_ready_verification_status{node=\"n2\",status=\"in_progress\"} 1",
        "kube_node_ready_verification_status{node=\"n3\",status=\"failed\"} 1",
        "kube_node_ready_verification_status{node=\"n4\",status=\"unverified\"} 1",
        "kube_node_ready_verification_duration_seconds{node=\"n1\"} 45.0",
        "kube_node_ready_retry_attempts_total{node=\"n2\"} 3",
        "kube_node_ready_controller_healthy 0",
        "node_check_status{node=\"n1\"} 1.0",
        "node_check_status{node=\"n3\"} 0.0",
        "node_check_dns_duration_seconds{node=\"n1\"} 0.12",
        "node_check_api_duration_seconds{node=\"n1\"} 0.45",
        "node_check_completion_timestamp{node=\"n1\"} 145.0",
        "shipshape_gate_nodes{state=\"failed\"} 1",
        "shipshape_gate_nodes{state=\"pending\"} 0",
        "shipshape_pending_nodes{goal=\"Join\"} 0",
    ] {
        has_line(&vitals, line);
    }
    lacks(&vitals, "node_check_completion_timestamp{node=\"n2\"}");
}

#[test]
fn a_verification_is_counted_once_and_by_its_first_failing_check() {
    let vitals = Vitals::default();
    let verified = over(
        Some(VerificationVerdict::Verified),
        &[finding("dns-udp", true, 4)],
    );
    let failed = over(
        Some(VerificationVerdict::Failed),
        &[finding("api-clock", false, 9), finding("dns-tcp", true, 3)],
    );
    for told in [&verified, &failed] {
        vitals.saw_verification("n1", Some(&open()), Some(told));
        vitals.saw_verification("n1", Some(told), Some(told));
    }
    for line in [
        "kube_node_ready_verifications_total{status=\"success\"} 1",
        "kube_node_ready_verifications_total{status=\"failed\"} 1",
        "kube_node_ready_verifications_total{status=\"inconclusive\"} 0",
        "kube_node_ready_worker_pods{status=\"succeeded\"} 1",
        "kube_node_ready_worker_pods{status=\"failed\"} 1",
        "shipshape_verifications_failed_total{check=\"api\"} 1",
        "shipshape_verifications_failed_total{check=\"dns\"} 0",
        "shipshape_check_results_total{check=\"dns\",result=\"passed\"} 2",
        "shipshape_check_duration_seconds_count{check=\"api\"} 1",
    ] {
        has_line(&vitals, line);
    }
}

#[test]
fn another_boot_is_another_verification() {
    let vitals = Vitals::default();
    let before = over(Some(VerificationVerdict::Verified), &[]);
    let now = Verification {
        boot_id: Some("another".to_owned()),
        ..before.clone()
    };
    vitals.saw_verification("n1", Some(&before), Some(&now));
    has_line(
        &vitals,
        "kube_node_ready_verifications_total{status=\"success\"} 1",
    );
    has_line(
        &vitals,
        "kube_node_ready_worker_pods{status=\"succeeded\"} 0",
    );
}

#[test]
fn the_series_of_a_node_go_with_it_and_with_the_term() {
    let vitals = Vitals::default();
    let term = term(&vitals);
    fail(&vitals, "n1");
    fail(&vitals, "n2");
    has_line(
        &vitals,
        "node_check_failures_total{node=\"n1\",check=\"dns\"} 1",
    );
    vitals.saw_node_go("n1");
    lacks(&vitals, "node_check_failures_total{node=\"n1\"");
    has_line(
        &vitals,
        "node_check_failures_total{node=\"n2\",check=\"dns\"} 1",
    );
    drop(term);
    lacks(&vitals, "node=\"");
}

#[test]
fn a_node_cannot_make_labels_by_what_it_reports() {
    let vitals = Vitals::default();
    let _term = term(&vitals);
    let odd = over(
        None,
        &[finding("x\"} 1\n", false, 1), finding("", false, 1)],
    );
    vitals.saw_verification("n1", Some(&open()), Some(&odd));
    has_line(
        &vitals,
        "node_check_failures_total{node=\"n1\",check=\"other\"} 2",
    );
    lacks(&vitals, "x\\\"");
}

#[test]
fn the_time_to_a_verified_node_has_no_label() {
    let vitals = Vitals::default();
    vitals.saw_opening(42.0);
    has_line(
        &vitals,
        "shipshape_node_created_to_verified_seconds_sum 42.0",
    );
    has_line(
        &vitals,
        "shipshape_node_created_to_verified_seconds_bucket{le=\"60.0\"} 1",
    );
    has_line(
        &vitals,
        "shipshape_node_created_to_verified_seconds_bucket{le=\"30.0\"} 0",
    );
}
