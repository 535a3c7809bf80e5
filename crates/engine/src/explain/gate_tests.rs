//! Words about nodes at the gate.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::{
    PendingNode, PendingNodeStatus, Verification, VerificationFinding, VerificationVerdict,
};

use super::Explanation;
use super::gate::{GateScene, at_gate, is_at_gate, pending};
use crate::verify::record;
use crate::verify::settings::{GateSettings, Mode};
use crate::view::{NodeView, TaintView};

fn second(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

fn node() -> NodeView {
    NodeView {
        name: "n1".to_owned(),
        uid: "uid-1".to_owned(),
        ready: true,
        boot_id: "boot".to_owned(),
        taints: vec![TaintView {
            key: "node-ready/unverified".to_owned(),
            effect: "NoSchedule".to_owned(),
        }],
        ..NodeView::default()
    }
}

fn failure() -> VerificationFinding {
    VerificationFinding {
        check: "api-version".to_owned(),
        target: "https://10.96.0.1:443/version".to_owned(),
        ok: false,
        phase: Some("tls".to_owned()),
        message: "the handshake did not end".to_owned(),
        milliseconds: 5000,
    }
}

fn told(verification: Verification, settings: &GateSettings) -> Explanation {
    let records = [recorded(verification)];
    let scene = GateScene {
        records: &records,
        settings,
        is_assumed: false,
    };
    assert!(is_at_gate("n1", Some(&node()), &scene));
    at_gate("n1", Some(&node()), &scene).unwrap()
}

fn recorded(verification: Verification) -> PendingNode {
    let mut record = record::of_node(&node());
    record.status = Some(PendingNodeStatus {
        verification: Some(verification),
        waiting_for: Some("the checks to end".to_owned()),
        ..PendingNodeStatus::default()
    });
    record
}

fn attempt(number: i32) -> Verification {
    Verification {
        node_uid: Some("uid-1".to_owned()),
        boot_id: Some("boot".to_owned()),
        attempt: Some(number),
        started_at: Some(second(100)),
        attempt_started_at: Some(second(130)),
        ..Verification::default()
    }
}

fn failed(verdict: Option<VerificationVerdict>) -> Verification {
    Verification {
        attempt_started_at: None,
        last_attempt_at: Some(second(130)),
        failed_attempts: Some(2),
        first_failing_check: Some("api-version".to_owned()),
        findings: vec![failure()],
        verdict,
        verdict_at: verdict.map(|_| second(140)),
        ..attempt(2)
    }
}

#[test]
fn an_attempt_tells_its_number_its_time_and_what_follows() {
    let told = told(attempt(1), &GateSettings::default());
    assert!(told.state.contains("attempt 1, 0 of 5"), "{told:?}");
    assert_eq!(told.waits_for.as_deref(), Some("the checks to end"));
    assert_eq!(told.since, Timestamp::from_second(130).ok());
    assert_eq!(told.until, Timestamp::from_second(1000).ok());
    assert!(told.then.unwrap().contains("stays, with its taint"));
}

#[test]
fn a_pause_ends_in_the_next_attempt_and_says_how_many_may_fail() {
    let paused = Verification {
        next_attempt_at: Some(second(150)),
        ..failed(None)
    };
    let told = told(paused, &GateSettings::default());
    assert_eq!(told.until, Timestamp::from_second(150).ok());
    assert_eq!(told.then.as_deref(), Some("attempt 3 begins"));
    let notes = told.notes.join("\n");
    assert!(
        notes.contains("api-version of https://10.96.0.1:443/version failed at tls"),
        "{notes}"
    );
    assert!(notes.contains("3 more may fail"), "{notes}");
    assert!(told.helps.join("\n").contains("path MTU"));
}

#[test]
fn a_failed_node_is_told_who_removes_it_or_that_nobody_does() {
    let mut settings = GateSettings::default();
    let verdict = Some(VerificationVerdict::Failed);
    let kept = told(failed(verdict), &settings);
    assert!(kept.state.contains("2 of 5 attempts failed"));
    assert!(kept.notes.join("\n").contains("until a person sees to it"));
    assert!(
        kept.helps
            .join("\n")
            .contains("kubectl delete pendingnode node-n1-")
    );
    settings.node_management.delete_failed_nodes = true;
    let removed = told(failed(verdict), &settings);
    assert!(
        removed
            .notes
            .join("\n")
            .contains("else the Node object alone is deleted")
    );
    let mut karpenters = node();
    karpenters
        .labels
        .insert("karpenter.sh/nodepool".to_owned(), "default".to_owned());
    let records = [recorded(failed(verdict))];
    let scene = GateScene {
        records: &records,
        settings: &settings,
        is_assumed: false,
    };
    let removed = at_gate("n1", Some(&karpenters), &scene).unwrap();
    assert!(
        removed
            .notes
            .join("\n")
            .contains("the NodeClaim of Karpenter is deleted")
    );
    settings.verification.mode = Mode::DryRun;
    assert!(
        told(failed(verdict), &settings)
            .notes
            .join("\n")
            .contains("changes no node")
    );
}

#[test]
fn failures_beyond_a_limit_that_was_lowered_are_no_part_of_it() {
    let mut settings = GateSettings::default();
    settings.reconciliation.max_retries = 2;
    let third = |verdict| Verification {
        failed_attempts: Some(3),
        ..failed(verdict)
    };
    let over = told(third(Some(VerificationVerdict::Failed)), &settings);
    assert!(
        over.state.contains("3 attempts failed, 2 allowed"),
        "{}",
        over.state
    );
    let going_on = told(third(None), &settings);
    let words = format!("{} {}", going_on.state, going_on.notes.join("\n"));
    assert!(words.contains("3 attempts failed, 2 allowed"), "{words}");
    assert!(words.contains("1 more may fail; then"), "{words}");
}

#[test]
fn an_inconclusive_node_points_at_the_cluster() {
    let told = told(
        failed(Some(VerificationVerdict::Inconclusive)),
        &GateSettings::default(),
    );
    assert!(told.state.contains("inconclusive"));
    assert!(told.helps.join("\n").contains("for the whole cluster"));
    assert_eq!(told.until, None);
}

#[test]
fn a_node_without_a_record_is_told_why() {
    let settings = GateSettings::default();
    let mut other = recorded(attempt(1));
    other.spec.node_uid = Some("uid-of-another".to_owned());
    let seen = [other];
    let state = |node: &NodeView, records: &[PendingNode], is_assumed| {
        let scene = GateScene {
            records,
            settings: &settings,
            is_assumed,
        };
        at_gate("n1", Some(node), &scene).map(|told| (told.state, told.helps.join("\n")))
    };
    let (waits, help) = state(&node(), &[], true).unwrap();
    assert!(waits.contains("no controller has taken note"), "{waits}");
    assert!(help.contains("release-nodes"), "{help}");
    let (_, help) = state(&node(), &seen, true).unwrap();
    assert!(help.contains("see that a controller leads"), "{help}");
    let mut open = node();
    open.taints.clear();
    assert_eq!(state(&open, &[], true), None, "no gate, so nothing to say");
    let (without, help) = state(&open, &seen, true).unwrap();
    assert!(
        without.contains("does not carry the taint node-ready/unverified=true:NoSchedule"),
        "{without}"
    );
    assert!(help.contains("kubectl taint node n1"), "{help}");
    open.labels
        .insert("node-ready/verified".to_owned(), "true".to_owned());
    assert!(
        state(&open, &[], false)
            .unwrap()
            .0
            .contains("through the gate")
    );
}

#[test]
fn a_record_of_another_node_of_that_name_is_told_apart() {
    let settings = GateSettings::default();
    let records = [recorded(failed(Some(VerificationVerdict::Failed)))];
    let scene = GateScene {
        records: &records,
        settings: &settings,
        is_assumed: false,
    };
    let mut stranger = node();
    stranger.uid = "uid-2".to_owned();
    let words = at_gate("n1", Some(&stranger), &scene).unwrap();
    assert!(words.state.contains("no controller has taken note"));
    let words = pending(&records[0], Some(&stranger), &scene);
    assert!(
        words
            .notes
            .join("\n")
            .contains("another node has that name")
    );
    let mut machine = records[0].clone();
    machine.spec.node_uid = None;
    assert!(pending(&machine, None, &scene).state.contains("shall Join"));
}

#[test]
fn assumed_settings_are_said_to_be_assumed() {
    let records = [recorded(attempt(1))];
    let scene = GateScene {
        records: &records,
        settings: &GateSettings::default(),
        is_assumed: true,
    };
    let words = at_gate("n1", Some(&node()), &scene).unwrap();
    assert!(words.notes.join("\n").contains("--config FILE"));
}

#[test]
fn one_that_failed_in_service_is_told_of_without_a_taint_and_can_be_tried_again() {
    let mut settings = GateSettings::default();
    settings.node_management.delete_failed_nodes = true;
    let records = [recorded(failed(Some(VerificationVerdict::Failed)))];
    let scene = GateScene {
        records: &records,
        settings: &settings,
        is_assumed: false,
    };
    let mut live = node();
    live.taints.clear();
    live.network.verified = Some("False".to_owned());
    let told = at_gate("n1", Some(&live), &scene).unwrap();
    let words = format!("{told:?}");
    assert!(words.contains("stays in service"), "{words}");
    assert!(!words.contains("with its taint"), "{words}");
    assert!(!words.contains("is removed, as"), "{words}");
    let name = records[0].metadata.name.as_deref().unwrap();
    assert!(words.contains(&format!("kubectl delete pendingnode {name}")));
    // What it advises works.
    assert!(crate::verify::is_new_to_us(&live, &settings));
}
