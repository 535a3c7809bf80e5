//! How others see a node at the gate.

use shipshape_api::names;

use super::super::has_failed;
use super::super::passage::{Passage, passage};
use super::super::refusal::{Refuser, refused};
use super::*;

fn seen(node: &NodeView, told: Option<Verification>, settings: &GateSettings) -> Passage {
    let record = told.map(|told| recorded(node, told));
    passage(node, record.as_ref(), Some(settings))
}

fn is_shut(passage: &Passage, is_bounded: bool) -> bool {
    matches!(passage, Passage::Shut { is_bounded: is, .. } if *is == is_bounded)
}

#[test]
fn a_node_counts_once_its_verdict_is_stored_and_its_taint_is_gone() {
    let (gated, open) = (node("n"), in_service("n"));
    let verdict = |of: &NodeView, verdict| Some(with_verdict(of, verdict));
    let verified = VerificationVerdict::Verified;
    let gate = settings();
    assert!(
        is_shut(&seen(&gated, None, &gate), false),
        "nobody has looked"
    );
    assert!(is_shut(&seen(&gated, Some(under_way(&gated)), &gate), true));
    assert!(is_shut(
        &seen(&gated, verdict(&gated, verified), &gate),
        false
    ));
    assert_eq!(seen(&open, verdict(&open, verified), &gate), Passage::Open);
    let inconclusive = verdict(&gated, VerificationVerdict::Inconclusive);
    assert!(is_shut(&seen(&gated, inconclusive, &gate), true));
    let failed = verdict(&gated, VerificationVerdict::Failed);
    assert!(matches!(seen(&gated, failed, &gate), Passage::Failed(_)));
}

#[test]
fn the_word_of_another_boot_or_another_node_counts_for_nothing() {
    let open = in_service("n");
    let gate = settings();
    let mut earlier = with_verdict(&open, VerificationVerdict::Verified);
    earlier.boot_id = Some("boot-0".to_owned());
    assert!(is_shut(&seen(&open, Some(earlier), &gate), false));
    let mut stranger = node("n");
    stranger.uid = "other".to_owned();
    let record = recorded(&open, with_verdict(&open, VerificationVerdict::Verified));
    assert!(is_shut(
        &passage(&stranger, Some(&record), Some(&gate)),
        false
    ));
}

#[test]
fn a_label_or_condition_that_the_node_set_itself_does_not_make_it_count() {
    let mut node = node("n");
    let (key, value) = names::DEFAULT_VERIFIED_LABEL;
    node.labels.insert(key.to_owned(), value.to_owned());
    node.network.verified = Some("True".to_owned());
    assert!(is_shut(&seen(&node, None, &settings()), false));
    let told = Some(under_way(&node));
    assert!(is_shut(&seen(&node, told, &settings()), true));
}

#[test]
fn nodes_that_no_gate_is_about_are_never_waited_for() {
    let mut plain = in_service("n");
    plain.labels.clear();
    assert_eq!(seen(&plain, None, &settings()), Passage::Open);
    assert_eq!(passage(&node("n"), None, None), Passage::Open);
    let mut looks = settings();
    looks.verification.mode = Mode::DryRun;
    let failed = with_verdict(&plain, VerificationVerdict::Failed);
    assert_eq!(seen(&plain, Some(failed), &looks), Passage::Open);
}

/// Pods that are evicted would find no place there.
#[test]
fn a_node_that_carries_the_taint_is_waited_for_by_a_gate_that_only_looks_too() {
    let mut looks = settings();
    looks.verification.mode = Mode::DryRun;
    let verified = with_verdict(&node("n"), VerificationVerdict::Verified);
    let Passage::Shut { why, is_bounded } = seen(&node("n"), Some(verified), &looks) else {
        panic!("it is closed to pods")
    };
    assert!(!is_bounded);
    assert!(why.contains("somebody to lift the taint"), "{why}");
}

#[test]
fn a_node_that_has_failed_on_this_boot_is_no_comparison() {
    let node = in_service("n");
    let failed = recorded(&node, with_verdict(&node, VerificationVerdict::Failed));
    assert!(has_failed(&node, &failed));
    let verified = recorded(&node, with_verdict(&node, VerificationVerdict::Verified));
    assert!(!has_failed(&node, &verified));
    let mut booted = node.clone();
    booted.boot_id = "another".to_owned();
    assert!(!has_failed(&booted, &failed), "it was on another boot");
    let mut stranger = node;
    stranger.uid = "another".to_owned();
    assert!(!has_failed(&stranger, &failed));
}

#[test]
fn what_the_server_refuses_is_told_once_and_as_long_as_it_is_asked_for() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(Verification::default()));
    let begun = decide(&seen, &settings(), at(0));
    let why = "cannot create Pod: namespaces \"x\" not found";
    let (told, notice) = refused(&begun.status, Refuser::ApiServer, why).unwrap();
    assert!(told.waiting_for.as_ref().unwrap().contains(why));
    assert!(notice.warning && notice.message.contains(why));
    assert_eq!(told.verification, begun.status.verification);
    // The next pass asks again and has nothing new to say.
    let mut record = recorded(&node, Verification::default());
    record.status = Some(told.clone());
    seen.record = Observed::Present(record);
    let next = decide(&seen, &settings(), at(5));
    assert_eq!(effects(&next), ["EnsureWorker"]);
    assert_eq!(next.status.waiting_for, told.waiting_for);
    assert_eq!(refused(&next.status, Refuser::ApiServer, why), None);
    // Once it is allowed the words go.
    let mut worker = stuck(&node, "worker-sandbox");
    worker.state = WorkerState::Running;
    seen.worker = Observed::Present(worker);
    let open = decide(&seen, &settings(), at(6));
    assert_eq!(
        open.status.waiting_for.as_deref(),
        Some("the checks to end")
    );
}

#[test]
fn an_open_attempt_says_what_keeps_its_pod_from_the_checks() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    let mut wait = |check: &'static str, message: &str, second: i64| {
        let mut worker = stuck(&node, check);
        worker.state = WorkerState::Waiting(Trouble {
            check,
            message: message.to_owned(),
        });
        seen.worker = Observed::Present(worker);
        let decision = decide(&seen, &settings(), at(second));
        let words = decision.status.waiting_for.clone().unwrap();
        let mut record = recorded(&node, under_way(&node));
        record.status = Some(decision.status);
        seen.record = Observed::Present(record);
        words
    };
    let usual = "the checks to end";
    assert_eq!(wait("worker-sandbox", "ContainerCreating: ", 2), usual);
    let pull = wait("worker-image", "ErrImagePull: not found", 3);
    assert!(
        pull.contains("worker-image") && pull.contains("not found"),
        "{pull}"
    );
    let again = wait("worker-image", "ImagePullBackOff: Back-off", 4);
    assert_eq!(again, pull, "or each try would be a write");
    assert_eq!(wait("worker-sandbox", "PodInitializing: ", 5), usual);
}
