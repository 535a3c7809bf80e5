//! Others who have a say in the gate's taint: nobody is fought, and a wrong pool is told once.

use serde_json::json;

use super::*;
use crate::verify::neighbours::{PoolView, RuleView};

const KEY: &str = "node-ready/unverified";

fn rule(name: &str, spec: &serde_json::Value) -> RuleView {
    RuleView::of(name, &json!({ "spec": spec }))
}

fn of_key(key: &str) -> RuleView {
    rule(
        "net",
        &json!({ "taint": { "key": key, "effect": "NoSchedule" }, "nodeSelector": {} }),
    )
}

/// A node whose only attempt has passed, with what could be learnt of rules.
fn passed(rules: Observed<Vec<RuleView>>) -> GateSnapshot {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Present(ended(&node, 0, &report(&[("dns-udp", true)]), 5));
    seen.neighbours.rules = rules;
    seen
}

fn lifted(decision: &Decision<PendingNodeStatus>) -> Option<Vec<String>> {
    decision.effects.iter().find_map(|effect| {
        let Effect::Gate(GateEffect::ReleaseNode { taints, .. }) = effect else {
            return None;
        };
        Some(taints.iter().map(|taint| taint.key.clone()).collect())
    })
}

#[test]
fn whose_the_taint_is_decides_what_is_lifted() {
    let select = |selector: serde_json::Value| {
        rule(
            "net",
            &json!({ "taint": { "key": KEY }, "nodeSelector": selector }),
        )
    };
    let dry = rule("net", &json!({ "taint": { "key": KEY }, "dryRun": true }));
    let odd = select(json!({ "matchExpressions": [{ "key": "a", "operator": "Near" }] }));
    let ours = Some(vec![KEY.to_owned()]);
    let theirs = Some(Vec::new());
    let table = [
        ("not served", Observed::Absent, ours.clone()),
        ("no rules", Observed::Present(vec![]), ours.clone()),
        (
            "another key",
            Observed::Present(vec![of_key("readiness.k8s.io/net")]),
            ours.clone(),
        ),
        (
            "this key",
            Observed::Present(vec![of_key(KEY)]),
            theirs.clone(),
        ),
        (
            "other nodes",
            Observed::Present(vec![select(json!({ "matchLabels": { "pool": "gpu" } }))]),
            ours.clone(),
        ),
        ("a rule that only looks", Observed::Present(vec![dry]), ours),
        (
            "a selector nobody understands",
            Observed::Present(vec![odd]),
            theirs,
        ),
        ("no answer", Observed::Unknown("denied".to_owned()), None),
        ("not asked", Observed::NotAsked, None),
    ];
    for (what, rules, expected) in table {
        let decision = decide(&passed(rules), &settings(), at(6));
        assert_eq!(lifted(&decision), expected, "{what}");
    }
}

#[test]
fn a_taint_that_a_rule_manages_is_left_to_it_and_that_is_told_once() {
    let mut seen = passed(Observed::Present(vec![of_key(KEY)]));
    let decision = decide(&seen, &settings(), at(6));
    assert_eq!(
        verification(&decision).verdict,
        Some(VerificationVerdict::Verified)
    );
    let waits = decision.status.waiting_for.clone().unwrap();
    assert!(
        waits.contains("NodeReadinessRule net to lift taint node-ready/unverified"),
        "{waits}"
    );
    let told: Vec<_> = decision
        .notices
        .iter()
        .map(|notice| notice.reason)
        .collect();
    assert_eq!(told, ["Verified", "TaintOwnedElsewhere"]);
    // The label is there now, and the taint still is.
    seen.node = in_service("n");
    seen.node.taints.push(gate_taint());
    seen.node.network.verified = Some("True".to_owned());
    let mut record = recorded(&seen.node, verification(&decision).clone());
    record.status.as_mut().unwrap().waiting_for = Some(waits);
    seen.record = Observed::Present(record);
    let next = decide(&seen, &settings(), at(60));
    assert_eq!(effects(&next), Vec::<&str>::new());
    assert!(next.notices.is_empty());
    assert_eq!(next.status.waiting_for, decision.status.waiting_for);
    seen.node.taints.clear();
    let through = decide(&seen, &settings(), at(61));
    assert_eq!((through.status.waiting_for, through.wake), (None, None));
}

#[test]
fn while_nobody_can_tell_the_attempt_stays_open_and_nothing_counts() {
    let seen = passed(Observed::Unknown("denied".to_owned()));
    let decision = decide(&seen, &settings(), at(6));
    assert_eq!(effects(&decision), Vec::<&str>::new());
    let told = verification(&decision);
    assert_eq!((told.verdict, told.failed_attempts), (None, None));
    assert!(told.attempt_started_at.is_some(), "its pod is kept");
    assert!(decision.status.waiting_for.unwrap().contains("denied"));
    // Even past every deadline: the checks have passed.
    let late = decide(&seen, &settings(), at(100_000));
    assert_eq!(verification(&late).verdict, None);
}

#[test]
fn modes_that_lift_nothing_need_no_answer() {
    for mode in [Mode::PublishOnly, Mode::DryRun] {
        let mut settings = settings();
        settings.verification.mode = mode;
        let decision = decide(&passed(Observed::NotAsked), &settings, at(6));
        assert_eq!(
            verification(&decision).verdict,
            Some(VerificationVerdict::Verified)
        );
        assert_eq!(lifted(&decision), None);
    }
}

#[test]
fn a_pool_that_does_not_know_the_taint_as_a_startup_taint_is_told_once() {
    let pool = |spec: serde_json::Value| {
        let pool = PoolView::of("p", &json!({ "spec": { "template": { "spec": spec } } }));
        Observed::Present(vec![pool])
    };
    let taints = json!([{ "key": KEY, "effect": "NoSchedule" }]);
    let table = [
        (pool(json!({ "startupTaints": taints })), None),
        (
            pool(json!({ "taints": taints })),
            Some("under spec.template.spec.taints"),
        ),
        (
            pool(json!({ "taints": taints, "startupTaints": taints })),
            Some("under spec.template.spec.taints"),
        ),
        (
            pool(json!({})),
            Some("does not list in spec.template.spec.startupTaints"),
        ),
        (Observed::Present(vec![]), None),
        (Observed::Unknown("denied".to_owned()), None),
        (Observed::Absent, None),
    ];
    for (pools, expected) in table {
        let mut node = node("n");
        for (key, value) in [
            ("karpenter.sh/nodepool", "p"),
            ("karpenter.sh/registered", "true"),
        ] {
            node.labels.insert(key.to_owned(), value.to_owned());
        }
        let mut seen = snapshot(node.clone(), Some(Verification::default()));
        seen.neighbours.pools = pools;
        let decision = decide(&seen, &settings(), at(0));
        let told = decision
            .notices
            .first()
            .map(|notice| notice.message.as_str());
        match expected {
            Some(words) => assert!(told.unwrap().contains(words), "{told:?}"),
            None => assert_eq!(told, None),
        }
        let begun = verification(&decision).clone();
        seen.record = Observed::Present(recorded(&node, begun));
        assert!(decide(&seen, &settings(), at(1)).notices.is_empty(), "once");
    }
}
