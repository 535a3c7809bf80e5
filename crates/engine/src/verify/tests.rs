//! The gate on paper: a small world of one node that each test disturbs in its own way.

mod comparison;
mod elsewhere;
mod neighbours;
mod passing;
mod races;
mod removals;
mod worker_pod;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use shipshape_api::{PendingNode, PendingNodeStatus, Verification, VerificationVerdict};

use super::control::{ControlView, Place};
use super::effect::GateEffect;
use super::neighbours::Neighbours;
use super::outcome::{Ending, Trouble, WorkerState, WorkerView};
use super::settings::{Backoff, GateSettings, Mode};
use super::{GateSnapshot, decide, is_compared, is_late_daemon, record, worker};
use crate::decision::{Decision, Effect};
use crate::view::{NodeView, Observed, PodView, TaintView};

const BOOT: &str = "boot-1";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn settings() -> GateSettings {
    let mut settings = GateSettings::default();
    settings.worker.image.repository = "shipshape".to_owned();
    settings.worker.image.tag = "1".to_owned();
    settings.worker.namespace = Some("shipshape-system".to_owned());
    settings
}

fn gate_taint() -> TaintView {
    TaintView {
        key: "node-ready/unverified".to_owned(),
        effect: "NoSchedule".to_owned(),
    }
}

fn node(name: &str) -> NodeView {
    NodeView {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        resource_version: "7".to_owned(),
        ready: true,
        boot_id: BOOT.to_owned(),
        taints: vec![gate_taint()],
        ..NodeView::default()
    }
}

fn in_service(name: &str) -> NodeView {
    let mut node = node(name);
    node.taints.clear();
    node.labels
        .insert("node-ready/verified".to_owned(), "true".to_owned());
    node
}

fn recorded(node: &NodeView, verification: Verification) -> PendingNode {
    let mut record = record::of_node(node);
    record.metadata.uid = Some("record-uid".to_owned());
    record.status = Some(PendingNodeStatus {
        verification: Some(verification),
        ..PendingNodeStatus::default()
    });
    record
}

/// The first attempt at the node, begun at 0.
fn under_way(node: &NodeView) -> Verification {
    Verification {
        node_uid: Some(node.uid.clone()),
        boot_id: Some(node.boot_id.clone()),
        attempt: Some(1),
        started_at: Some(Time(at(0))),
        attempt_started_at: Some(Time(at(0))),
        ..Verification::default()
    }
}

fn with_verdict(node: &NodeView, verdict: VerificationVerdict) -> Verification {
    Verification {
        attempt_started_at: None,
        verdict: Some(verdict),
        verdict_at: Some(Time(at(10))),
        first_failing_check: Some("dns-udp".to_owned()),
        ..under_way(node)
    }
}

fn snapshot(node: NodeView, record: Option<Verification>) -> GateSnapshot {
    GateSnapshot {
        record: record.map(|it| recorded(&node, it)).into(),
        node,
        worker: Observed::Absent,
        leftovers: Vec::new(),
        name_servers: Vec::new(),
        daemons: Vec::new(),
        control: ControlView::default(),
        removal: Observed::NotAsked,
        neighbours: Neighbours {
            rules: Observed::Absent,
            pools: Observed::Absent,
        },
    }
}

/// A report in the form of `shipshape verify`: each check, and whether it is fine.
fn report(checks: &[(&str, bool)]) -> String {
    let findings: Vec<_> = checks
        .iter()
        .map(|(check, ok)| {
            let mut finding = json!({
                "check": check, "target": "target", "ok": ok, "message": "words", "milliseconds": 3,
            });
            if !ok {
                finding["phase"] = json!("dns");
            }
            finding
        })
        .collect();
    let passed = checks.iter().all(|(_, ok)| *ok);
    let verdict = if passed { "Passed" } else { "Failed" };
    json!({ "verdict": verdict, "findings": findings }).to_string()
}

/// A pod of the node that has ended like this, at the second.
fn ended(node: &NodeView, code: i32, message: &str, second: i64) -> WorkerView {
    let pod = json!({
        "metadata": {
            "name": worker::worker_name(node, 1), "namespace": "shipshape-system", "uid": "pod-uid",
            "creationTimestamp": Time(at(1)),
            "labels": { "shipshape.dev/verifier": "node" },
            "annotations": { "shipshape.dev/verifies": node.name },
            "ownerReferences": [{
                "apiVersion": "shipshape.dev/v1alpha1", "kind": "PendingNode", "name": "record",
                "uid": "record-uid",
            }],
        },
        "spec": { "containers": [{ "name": "verify", "image": "shipshape:1" }] },
        "status": {
            "phase": if code == 0 { "Succeeded" } else { "Failed" },
            "containerStatuses": [{
                "name": "verify", "image": "shipshape:1", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "terminated": {
                    "exitCode": code, "message": message, "finishedAt": Time(at(second)),
                } },
            }],
        },
    });
    WorkerView::of(&serde_json::from_value(pod).unwrap())
}

fn stuck(node: &NodeView, check: &'static str) -> WorkerView {
    WorkerView {
        state: WorkerState::Waiting(Trouble {
            check,
            message: "words".to_owned(),
        }),
        ..ended(node, 0, "", 5)
    }
}

/// A control that began and ended at these seconds, with these checks failing.
fn control(failing: &[&str], began: i64, over: i64) -> ControlView {
    let peer = in_service("peer");
    let mut checks: Vec<_> = failing.iter().map(|check| (*check, false)).collect();
    let all = ["api-clock", "dns-udp", "network", "egress"];
    let fine = all.iter().filter(|check| !failing.contains(check));
    checks.extend(fine.map(|check| (*check, true)));
    let code = i32::from(!failing.is_empty());
    let mut run = ended(&peer, code, &report(&checks), over);
    run.is_control = true;
    run.created = at(began);
    ControlView {
        runs: vec![run],
        candidate: Some(Place::Node(Box::new(peer))),
        has_dns: true,
    }
}

/// The same from the controller, where no node is in service.
fn own_run(checks: &[(&str, bool)], began: i64, over: i64) -> ControlView {
    let code = i32::from(checks.iter().any(|(_, ok)| !ok));
    let mut run = ended(&in_service(""), code, &report(checks), over);
    run.is_control = true;
    run.created = at(began);
    ControlView {
        runs: vec![run],
        candidate: Some(Place::Controller),
        has_dns: true,
    }
}

fn verification(decision: &Decision<PendingNodeStatus>) -> &Verification {
    decision.status.verification.as_ref().unwrap()
}

fn effects(decision: &Decision<PendingNodeStatus>) -> Vec<&'static str> {
    decision.effects.iter().map(Effect::name).collect()
}

#[test]
fn who_is_verified_follows_from_taint_label_and_record() {
    let plain = |tainted: bool, labelled: bool| {
        let mut node = in_service("n");
        if tainted {
            node.taints.push(gate_taint());
        }
        if !labelled {
            node.labels.clear();
        }
        node
    };
    let mut open = settings();
    open.node_management.taints.clear();
    let table = [
        ("tainted", plain(true, false), settings(), true),
        (
            "tainted and labelled by itself",
            plain(true, true),
            settings(),
            true,
        ),
        (
            "old node of the cluster",
            plain(false, false),
            settings(),
            false,
        ),
        ("verified", plain(false, true), settings(), false),
        (
            "no taints: unlabelled",
            plain(false, false),
            open.clone(),
            true,
        ),
        ("no taints: labelled", plain(false, true), open, false),
    ];
    for (what, node, settings, expected) in table {
        let decision = decide(&snapshot(node, None), &settings, at(0));
        let is_followed = effects(&decision) == ["EnsurePending"];
        assert_eq!(is_followed, expected, "{what}");
    }
}

#[test]
fn a_taint_of_another_effect_is_not_the_gates() {
    let mut node = node("n");
    node.taints[0].effect = "NoExecute".to_owned();
    let decision = decide(&snapshot(node, None), &settings(), at(0));
    assert!(effects(&decision).is_empty());
}

#[test]
fn the_attempt_is_recorded_with_its_pod_and_the_pod_is_made_after_the_record() {
    let node = node("n");
    let fresh = Verification::default();
    let decision = decide(&snapshot(node.clone(), Some(fresh)), &settings(), at(0));
    let told = verification(&decision);
    assert_eq!(told.attempt, Some(1));
    assert_eq!(told.attempt_started_at, Some(Time(at(0))));
    assert_eq!(told.boot_id.as_deref(), Some(BOOT));
    let [made @ Effect::Gate(GateEffect::EnsureWorker(pod))] = decision.effects.as_slice() else {
        panic!("{:?}", effects(&decision));
    };
    assert!(made.needs_record());
    assert_eq!(pod.metadata.name, Some(worker::worker_name(&node, 1)));
}

#[test]
fn a_node_that_is_not_far_enough_is_waited_for_and_nothing_counts() {
    let mut unready = node("n");
    unready.ready = false;
    let mut unconnected = node("n");
    unconnected.network.unavailable = true;
    let mut agentless = node("n");
    agentless.taints.push(TaintView {
        key: "node.cilium.io/agent-not-ready".to_owned(),
        effect: "NoSchedule".to_owned(),
    });
    let mut unregistered = node("n");
    unregistered
        .labels
        .insert("karpenter.sh/nodepool".to_owned(), "default".to_owned());
    for node in [unready, unconnected, agentless, unregistered] {
        let decision = decide(
            &snapshot(node, Some(Verification::default())),
            &settings(),
            at(0),
        );
        assert!(effects(&decision).is_empty());
        assert_eq!(verification(&decision).attempt, None);
        assert!(decision.status.waiting_for.is_some());
    }
}

#[test]
fn a_daemon_that_the_network_hangs_on_is_waited_for_but_not_for_ever() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(Verification::default()));
    seen.daemons = vec!["kube-system/kube-proxy-1".to_owned()];
    let Observed::Present(record) = &mut seen.record else {
        panic!("there is a record");
    };
    record.metadata.creation_timestamp = Some(Time(at(0)));
    record.status = None;
    let look = |seen: &GateSnapshot, now: i64| {
        let decision = decide(seen, &settings(), at(now));
        let begins = effects(&decision).contains(&"EnsureWorker");
        (begins, decision)
    };
    let (begins, early) = look(&seen, 100);
    assert!(!begins);
    let waits = early.status.waiting_for.clone().unwrap();
    assert!(
        waits.contains("kube-system/kube-proxy-1 to be ready"),
        "{waits}"
    );
    assert_eq!(early.wake, Some(at(120)));
    assert!(look(&seen, 120).0, "it has had its time");
    // Another boot has the same time, from its first look on.
    let mut rebooted = seen.clone();
    let Observed::Present(record) = &mut rebooted.record else {
        panic!("there is a record");
    };
    record.status = Some(early.status);
    rebooted.node.boot_id = "another".to_owned();
    let (begins, again) = look(&rebooted, 5_000);
    assert!(!begins);
    assert_eq!(again.wake, Some(at(5_120)));
    // Its first sight is stored: the condition has said Unknown since the boot before.
    let Observed::Present(record) = &mut rebooted.record else {
        panic!("there is a record");
    };
    record.status = Some(again.status);
    let (begins, later) = look(&rebooted, 5_001);
    assert!(!begins);
    assert_eq!(later.wake, Some(at(5_120)));
    assert!(look(&rebooted, 5_120).0, "it has had its time");
    // A first status that is written late does not prolong it.
    let mut told = seen.clone();
    let Observed::Present(record) = &mut told.record else {
        panic!("there is a record");
    };
    record.status = Some(look(&seen, 90).1.status);
    assert_eq!(look(&told, 95).1.wake, Some(at(120)));
    seen.daemons.clear();
    assert!(look(&seen, 1).0, "nothing is late");
}

#[test]
fn only_daemons_with_the_systems_priority_are_waited_for() {
    let daemon = |kind: &str, critical: bool, ready: bool| PodView {
        owner: Some((kind.to_owned(), "name".to_owned())),
        critical,
        ready,
        ..PodView::default()
    };
    assert!(is_late_daemon(&daemon("DaemonSet", true, false)));
    assert!(!is_late_daemon(&daemon("DaemonSet", true, true)));
    assert!(!is_late_daemon(&daemon("DaemonSet", false, false)));
    assert!(!is_late_daemon(&daemon("ReplicaSet", true, false)));
}

#[test]
fn a_passed_attempt_opens_the_gate_before_the_verdict_is_stored_and_the_pod_goes_after() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Present(ended(&node, 0, &report(&[("dns-udp", true)]), 5));
    let decision = decide(&seen, &settings(), at(6));
    assert_eq!(
        verification(&decision).verdict,
        Some(VerificationVerdict::Verified)
    );
    assert_eq!(effects(&decision), ["ReleaseNode"]);
    assert!(!decision.effects[0].needs_record());
    let gone = Effect::Gate(GateEffect::DeleteWorker(ended(&node, 0, "", 5).target()));
    assert!(gone.needs_record(), "the result is stored first");
    assert_eq!(decision.wake, None);
}

#[test]
fn modes_differ_in_what_they_touch() {
    let node = node("n");
    let table = [
        (Mode::Gate, vec!["ReleaseNode"]),
        (Mode::PublishOnly, vec!["PublishVerdict"]),
        (Mode::DryRun, vec![]),
    ];
    for (mode, expected) in table {
        let mut settings = settings();
        settings.verification.mode = mode;
        let mut seen = snapshot(node.clone(), Some(under_way(&node)));
        seen.worker = Observed::Present(ended(&node, 0, &report(&[("network", true)]), 5));
        let decision = decide(&seen, &settings, at(6));
        assert_eq!(effects(&decision), expected, "{mode:?}");
        assert_eq!(
            verification(&decision).verdict,
            Some(VerificationVerdict::Verified)
        );
    }
}

#[test]
fn publish_only_says_early_that_nothing_is_known_and_the_gate_does_not() {
    let node = node("n");
    for (mode, expected) in [
        (Mode::PublishOnly, vec!["PublishVerdict", "EnsureWorker"]),
        (Mode::Gate, vec!["EnsureWorker"]),
    ] {
        let mut settings = settings();
        settings.verification.mode = mode;
        let decision = decide(
            &snapshot(node.clone(), Some(Verification::default())),
            &settings,
            at(0),
        );
        assert_eq!(effects(&decision), expected, "{mode:?}");
    }
}

#[test]
fn the_pause_grows_from_the_end_of_the_attempt() {
    let node = node("n");
    let table = [
        (Backoff::Exponential, 0, 1),
        (Backoff::Exponential, 2, 4),
        (Backoff::Exponential, 3, 8),
        (Backoff::Linear, 3, 5),
    ];
    for (backoff, before, pause) in table {
        let mut settings = settings();
        settings.reconciliation.retry_backoff = backoff;
        let mut told = under_way(&node);
        told.failed_attempts = Some(before);
        let mut seen = snapshot(node.clone(), Some(told));
        seen.worker = Observed::Present(ended(&node, 1, &report(&[("dns-udp", false)]), 40));
        seen.control = control(&[], 40, 40);
        let decision = decide(&seen, &settings, at(40));
        let told = verification(&decision);
        assert_eq!(told.failed_attempts, Some(before + 1));
        assert_eq!(
            told.next_attempt_at,
            Some(Time(at(40 + pause))),
            "{backoff:?}"
        );
        assert_eq!(told.first_failing_check.as_deref(), Some("dns-udp"));
    }
}

#[test]
fn the_last_attempt_that_may_fail_ends_it() {
    let node = node("n");
    let mut told = under_way(&node);
    told.failed_attempts = Some(4);
    let mut seen = snapshot(node.clone(), Some(told));
    seen.worker = Observed::Present(ended(&node, 1, &report(&[("network", false)]), 40));
    seen.control = control(&[], 41, 70);
    let decision = decide(&seen, &settings(), at(71));
    assert_eq!(
        verification(&decision).verdict,
        Some(VerificationVerdict::Failed)
    );
    assert_eq!(decision.notices.len(), 1);
    // It is told to the Node, keeps its taint, and is not tried again.
    seen.record = Observed::Present(recorded(&node, verification(&decision).clone()));
    seen.worker = Observed::Absent;
    let next = decide(&seen, &settings(), at(5000));
    assert_eq!(effects(&next), ["PublishVerdict"]);
    assert_eq!(verification(&next), verification(&decision));
}

#[test]
fn the_deadline_of_the_whole_ends_it_too() {
    let node = node("n");
    let mut told = under_way(&node);
    told.attempt_started_at = Some(Time(at(700)));
    told.failed_attempts = Some(1);
    let mut seen = snapshot(node.clone(), Some(told.clone()));
    seen.worker = Observed::Present(ended(&node, 1, &report(&[("network", false)]), 900));
    seen.control = control(&[], 900, 910);
    let decision = decide(&seen, &settings(), at(911));
    assert_eq!(
        verification(&decision).verdict,
        Some(VerificationVerdict::Failed)
    );
    assert_eq!(verification(&decision).failed_attempts, Some(2));
    // One failure alone fails no node, and the attempt that follows has its own time.
    told.failed_attempts = None;
    seen.record = Observed::Present(recorded(&node, told));
    let first = decide(&seen, &settings(), at(911));
    assert_eq!(verification(&first).verdict, None);
    assert_eq!(verification(&first).failed_attempts, Some(1));
    let mut again = verification(&first).clone();
    again.attempt_started_at = Some(Time(at(920)));
    seen.record = Observed::Present(recorded(&node, again));
    seen.worker = Observed::Absent;
    let asked = decide(&seen, &settings(), at(921));
    assert_eq!(effects(&asked), ["EnsureWorker"]);
}

type Spoil = fn(&mut GateSettings);

#[test]
fn settings_are_refused_by_their_key() {
    let wrong = |change: fn(&mut GateSettings)| {
        let mut settings = settings();
        change(&mut settings);
        settings.check().unwrap_err()
    };
    assert_eq!(settings().check(), Ok(()));
    let table: [(Spoil, &str); 6] = [
        (|it| it.worker.image.tag.clear(), "worker.image.tag"),
        (
            |it| it.worker.job.active_deadline_seconds = 9,
            "worker.job.activeDeadlineSeconds",
        ),
        (
            |it| it.reconciliation.max_retries = 0,
            "reconciliation.maxRetries",
        ),
        (
            |it| it.reconciliation.interval_seconds = 0,
            "reconciliation.intervalSeconds",
        ),
        (
            |it| it.node_management.taints[0].effect = "Never".to_owned(),
            "nodeManagement.taints[0].effect",
        ),
        (
            |it| it.node_management.verified_label.key.clear(),
            "nodeManagement.verifiedLabel.key",
        ),
    ];
    for (change, key) in table {
        let told = wrong(change);
        assert!(told.starts_with(key), "{told}");
    }
}

fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}
