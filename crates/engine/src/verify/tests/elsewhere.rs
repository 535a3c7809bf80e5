//! What a run elsewhere can tell: what it has checked, on which node, and what others say to it.

use super::super::control::tells_of;
use super::super::{is_name_server, is_run_due};
use super::*;

/// A report of one check with this target, and whether it is fine, besides one that is.
fn report_of(check: &str, target: &str, ok: bool) -> String {
    let own = report(&[(check, ok), ("network", true)]);
    own.replacen(
        "\"target\":\"target\"",
        &format!("\"target\":\"{target}\""),
        1,
    )
}

/// A run on this node, or by the controller where it has no name, that began and ended at these seconds.
fn run_on(name: &str, report: &str, began: i64, over: i64) -> WorkerView {
    let code = i32::from(report.contains("Failed"));
    let mut run = ended(&in_service(name), code, report, over);
    run.is_control = true;
    run.created = at(began);
    run
}

fn failing_at(target: &str) -> GateSnapshot {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    let failing = report_of("dns-endpoint", target, false);
    seen.worker = Observed::Present(ended(&node, 1, &failing, 40));
    seen.control = control(&[], 41, 50);
    seen
}

fn judged(seen: &GateSnapshot) -> (Option<VerificationVerdict>, Option<i32>) {
    let told = verification(&decide(seen, &settings(), at(51))).clone();
    (told.verdict, told.failed_attempts)
}

const INCONCLUSIVE: (Option<VerificationVerdict>, Option<i32>) =
    (Some(VerificationVerdict::Inconclusive), None);
const COUNTED: (Option<VerificationVerdict>, Option<i32>) = (None, Some(1));

#[test]
fn a_name_server_that_the_other_run_did_not_ask_is_not_compared() {
    let mut seen = failing_at("name. @10.0.0.1:53");
    for place in ["peer", ""] {
        if place.is_empty() {
            seen.control.candidate = Some(Place::Controller);
        }
        let with = |target: &str| {
            let mut seen = seen.clone();
            let report = report_of("dns-endpoint", target, true);
            seen.control.runs = vec![run_on(place, &report, 41, 50)];
            seen
        };
        assert_eq!(judged(&with("name. @10.0.0.1:53")), COUNTED, "{place}");
        assert_eq!(judged(&with("name. @10.0.0.2:53")), INCONCLUSIVE, "{place}");
    }
    // The one that it failed by is gone for good: what passes now lets the node be tried again.
    let report = report_of("dns-endpoint", "name. @10.0.0.2:53", true);
    seen.control = control(&[], 0, 0);
    seen.control.runs = vec![run_on("peer", &report, 41, 50)];
    let told = decide(&seen, &settings(), at(51)).status;
    let waits = told.waiting_for.clone().unwrap();
    assert!(waits.contains("was not checked on node peer"), "{waits}");
    let Observed::Present(record) = &mut seen.record else {
        panic!("there is a record");
    };
    record.status = Some(told);
    seen.worker = Observed::NotAsked;
    seen.control.runs = vec![run_on("peer", &report, 61, 70)];
    let again = decide(&seen, &settings(), at(71));
    let again = verification(&again);
    assert_eq!((again.attempt, again.failed_attempts), (Some(2), None));
}

#[test]
fn a_check_that_the_other_run_left_out_is_not_compared_but_other_targets_of_it_are() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    let failing = report_of("dns-udp", "name. @192.0.2.1:53", false);
    seen.worker = Observed::Present(ended(&node, 1, &failing, 40));
    seen.control = control(&[], 41, 50);
    let with = |report: &str| {
        let mut seen = seen.clone();
        seen.control.runs = vec![run_on("peer", report, 41, 50)];
        judged(&seen)
    };
    assert_eq!(with(&report(&[("network", true)])), INCONCLUSIVE);
    // A node with a wrong resolver asks whom nobody else asks.
    let right = report_of("dns-udp", "name. @10.96.0.10:53", true);
    assert_eq!(with(&right), COUNTED);
    // What was left out of a report was fine.
    let mut short: serde_json::Value = serde_json::from_str(&report(&[("network", true)])).unwrap();
    short["omitted"] = json!(7);
    assert_eq!(with(&short.to_string()), COUNTED);
}

#[test]
fn one_node_where_it_passes_does_not_outvote_those_where_it_has_just_failed() {
    let target = "name. @10.0.0.1:53";
    let (fails, passes) = (
        report_of("dns-endpoint", target, false),
        report_of("dns-endpoint", target, true),
    );
    let seen = failing_at(target);
    let with = |others: &[(&str, &str, i64)]| {
        let mut seen = seen.clone();
        seen.control.runs = vec![run_on("local", &passes, 41, 50)];
        let others = others.iter();
        let others = others.map(|(name, report, over)| run_on(name, report, over - 3, *over));
        seen.control.runs.extend(others);
        judged(&seen)
    };
    assert_eq!(with(&[]), COUNTED);
    assert_eq!(with(&[("far", &fails, -10)]), INCONCLUSIVE);
    let mended = [("far", fails.as_str(), -10), ("far", passes.as_str(), 20)];
    assert_eq!(with(&mended), COUNTED, "it has passed there since");
    assert_eq!(with(&[("far", &fails, -90)]), COUNTED, "long ago");
    let other = report(&[("egress", false)]);
    assert_eq!(with(&[("far", &other, -10)]), COUNTED, "another check");
}

#[test]
fn a_run_of_the_controller_that_could_not_be_made_blames_nobody() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Present(ended(&node, 1, &report(&[("dns-udp", false)]), 40));
    for code in [2, 3, 10, -1] {
        seen.control = own_run(&[], 41, 50);
        let run = seen.control.runs.first_mut().unwrap();
        run.state = ended(&in_service(""), code, "no end within 300 s", 50).state;
        assert_eq!(judged(&seen), INCONCLUSIVE, "{code}");
    }
    // It may never be able to: the node is tried again after a pause, at no cost.
    let mut waiting = seen.clone();
    let told = decide(&seen, &settings(), at(51)).status;
    let Observed::Present(record) = &mut waiting.record else {
        panic!("there is a record");
    };
    record.status = Some(told);
    waiting.worker = Observed::NotAsked;
    waiting.control.runs[0].created = at(61);
    waiting.control.runs[0].state = ended(&in_service(""), 10, "killed", 62).state;
    let attempt = |now: i64| {
        let told = verification(&decide(&waiting, &settings(), at(now))).clone();
        (told.attempt, told.failed_attempts)
    };
    assert_eq!(attempt(70), (Some(1), None));
    assert_eq!(attempt(112), (Some(2), None));
}

#[test]
fn a_node_is_not_compared_with_itself() {
    let node = in_service("n");
    assert!(!tells_of(&run_on("n", &report(&[]), 0, 1), &node));
    assert!(tells_of(&run_on("peer", &report(&[]), 0, 1), &node));
    assert!(tells_of(&run_on("", &report(&[]), 0, 1), &node));
}

#[test]
fn only_pods_of_the_name_servers_own_namespace_are_name_servers() {
    let server = PodView {
        namespace: "kube-system".to_owned(),
        labels: crate::labels::Labels::from(
            &[("k8s-app".to_owned(), "kube-dns".to_owned())].into(),
        ),
        ready: true,
        ..PodView::default()
    };
    assert!(is_name_server(&server, &settings()));
    let spoilt: [fn(&mut PodView); 5] = [
        |pod| pod.namespace = "tenant".to_owned(),
        |pod| pod.mirror = true,
        |pod| pod.ready = false,
        |pod| pod.terminating = true,
        |pod| pod.labels = crate::labels::Labels::default(),
    ];
    for (place, spoil) in spoilt.iter().enumerate() {
        let mut other = server.clone();
        spoil(&mut other);
        assert!(!is_name_server(&other, &settings()), "{place}");
    }
    let mut elsewhere = settings();
    elsewhere.verification.dns_namespace = "tenant".to_owned();
    assert!(!is_name_server(&server, &elsewhere));
    elsewhere.verification.dns_namespace.clear();
    let told = elsewhere.check().unwrap_err();
    assert!(told.starts_with("verification.dnsNamespace"), "{told}");
}

#[test]
fn name_servers_are_looked_for_whenever_checks_are_to_be_run() {
    let tainted = node("n");
    let in_service = in_service("n");
    let mut unlabelled = in_service.clone();
    unlabelled.labels.clear();
    let mut rebooted = in_service.clone();
    rebooted.boot_id = "another".to_owned();
    let told = |verdict| Some(with_verdict(&in_service, verdict));
    let (verified, failed) = (VerificationVerdict::Verified, VerificationVerdict::Failed);
    let table = [
        (
            "a first attempt",
            &tainted,
            Some(Verification::default()),
            true,
        ),
        (
            "a worker that vanished",
            &tainted,
            Some(under_way(&tainted)),
            true,
        ),
        ("a label put back", &in_service, told(failed), true),
        ("a label taken off", &unlabelled, told(verified), true),
        ("a reboot", &rebooted, told(verified), true),
        ("at rest", &in_service, told(verified), false),
        ("failed", &unlabelled, told(failed), false),
        ("new", &tainted, None, false),
    ];
    for (what, node, told, expected) in table {
        let seen = snapshot(node.clone(), told);
        assert_eq!(is_run_due(&seen, &settings(), at(60)), expected, "{what}");
    }
}

#[test]
fn name_servers_that_listen_elsewhere_than_at_53_need_not_be_asked_each() {
    let node = node("n");
    let mut seen = snapshot(node, Some(Verification::default()));
    seen.name_servers = vec!["10.0.0.2".parse().unwrap()];
    for is_wanted in [true, false] {
        let mut settings = settings();
        settings.verification.dns_endpoints = is_wanted;
        let decision = decide(&seen, &settings, at(0));
        let [Effect::Gate(GateEffect::EnsureWorker(pod))] = decision.effects.as_slice() else {
            panic!("{:?}", decision.effects);
        };
        let containers = &pod.spec.as_ref().unwrap().containers;
        let mut variables = containers.iter().flat_map(|one| one.env.iter().flatten());
        let is_told = variables.any(|one| one.name == "DNS_ENDPOINTS");
        assert_eq!(is_told, is_wanted);
    }
}

#[test]
fn an_inconclusive_node_says_what_it_waits_for_and_nothing_that_is_over() {
    let node = node("n");
    let waits = |words: &str| {
        let told = with_verdict(&node, VerificationVerdict::Inconclusive);
        let mut seen = snapshot(node.clone(), Some(told));
        seen.node.network.verified = Some("Unknown".to_owned());
        seen.control = control(&["dns-udp"], 41, 50);
        seen.control.runs[0].state = WorkerState::Running;
        let Observed::Present(record) = &mut seen.record else {
            panic!("there is a record");
        };
        record.status.as_mut().unwrap().waiting_for = Some(words.to_owned());
        let decision = decide(&seen, &settings(), at(45));
        assert!(effects(&decision).is_empty(), "a run is under way");
        decision.status.waiting_for.unwrap()
    };
    let cause = "a cause elsewhere to go: dns-udp fails on node peer too, which is in service";
    assert_eq!(waits(cause), cause);
    for over in [
        "the API server to allow it: exceeded quota",
        "the node to be ready",
    ] {
        let now = waits(over);
        assert!(
            now.starts_with("a cause elsewhere to go: dns-udp failed"),
            "{now}"
        );
    }
}

#[test]
fn a_cluster_without_a_name_server_to_see_tries_its_first_nodes_again() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Present(ended(&node, 1, &report(&[("network", false)]), 40));
    let told = verification(&decide(&seen, &settings(), at(41))).clone();
    assert_eq!(told.verdict, Some(VerificationVerdict::Inconclusive));
    seen.record = Observed::Present(recorded(&node, told));
    seen.worker = Observed::NotAsked;
    let look = |second| verification(&decide(&seen, &settings(), at(second))).clone();
    assert_eq!(look(60).attempt, Some(1));
    let again = look(102);
    assert_eq!((again.attempt, again.failed_attempts), (Some(2), None));
}

#[test]
fn one_failure_alone_never_fails_a_node() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Present(ended(&node, 1, &report(&[("dns-udp", false)]), 40));
    seen.control = control(&[], 41, 70);
    let mut strict = settings();
    strict.reconciliation.max_retries = 1;
    let first = decide(&seen, &strict, at(71));
    let told = verification(&first);
    assert_eq!((told.verdict, told.failed_attempts), (None, Some(1)));
    let said = &first.notices.first().unwrap().message;
    assert!(said.contains("1 of 2"), "{said}");
}
