//! How others see a node at the gate.

use shipshape_api::names;

use super::super::passage::{Passage, passage};
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
    let failed = with_verdict(&node("n"), VerificationVerdict::Failed);
    assert_eq!(seen(&node("n"), Some(failed), &looks), Passage::Open);
}
