//! Whose fault a failure is: what a pod's end says, and what the rest of the cluster says to it.

use super::*;

#[test]
fn a_failure_is_compared_before_it_counts() {
    let node = node("n");
    let failing = report(&[("dns-udp", false), ("network", true)]);
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Present(ended(&node, 1, &failing, 40));
    let verdict = |control: ControlView, now: i64| {
        let mut seen = seen.clone();
        seen.control = control;
        let decision = decide(&seen, &settings(), at(now));
        let told = verification(&decision).clone();
        (told.verdict, told.failed_attempts, effects(&decision))
    };
    let nothing_yet = ControlView {
        runs: Vec::new(),
        ..control(&[], 0, 0)
    };
    assert_eq!(verdict(nothing_yet, 41), (None, None, vec!["EnsureWorker"]));
    let too_old = control(&[], -30, 10);
    assert_eq!(verdict(too_old, 41), (None, None, vec!["EnsureWorker"]));
    let mut running = control(&[], 41, 0);
    running.runs.first_mut().unwrap().state = WorkerState::Running;
    assert_eq!(verdict(running, 45), (None, None, vec![]));
    let (shared, counted, _) = verdict(control(&["dns-udp"], 41, 70), 71);
    assert_eq!(
        (shared, counted),
        (Some(VerificationVerdict::Inconclusive), None)
    );
    let (other, counted, _) = verdict(control(&["egress"], 41, 70), 71);
    assert_eq!(
        (other, counted),
        (None, Some(1)),
        "another check fails there"
    );
    let alone = |has_dns| ControlView {
        has_dns,
        ..ControlView::default()
    };
    assert_eq!(
        verdict(alone(false), 41).0,
        Some(VerificationVerdict::Inconclusive)
    );
    assert_eq!(verdict(alone(true), 41).1, Some(1));
}

#[test]
fn where_no_node_is_in_service_the_controller_compares() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    let failing = report(&[("dns-udp", false), ("network", true)]);
    seen.worker = Observed::Present(ended(&node, 1, &failing, 40));
    seen.name_servers = vec!["10.0.0.2".parse().unwrap()];
    let look = |control: ControlView| {
        let mut seen = seen.clone();
        seen.control = control;
        let decision = decide(&seen, &settings(), at(51));
        let told = verification(&decision).clone();
        (told.verdict, told.failed_attempts, decision)
    };
    let (verdict, counted, decision) = look(ControlView {
        runs: Vec::new(),
        ..own_run(&[], 0, 0)
    });
    assert_eq!((verdict, counted), (None, None));
    let [Effect::Gate(GateEffect::CheckFromHere(variables))] = decision.effects.as_slice() else {
        panic!("{:?}", decision.effects);
    };
    let endpoints = ("DNS_ENDPOINTS".to_owned(), "10.0.0.2".to_owned());
    assert!(variables.contains(&endpoints), "{variables:?}");
    let waits = decision.status.waiting_for.unwrap();
    assert!(waits.contains("from the controller"), "{waits}");
    let too_old = own_run(&[("dns-udp", false)], -30, 10);
    assert_eq!(effects(&look(too_old).2), ["CheckFromHere"]);
    let inconclusive = (Some(VerificationVerdict::Inconclusive), None);
    let shared = look(own_run(&[("dns-udp", false)], 41, 50));
    assert_eq!((shared.0, shared.1), inconclusive);
    let waits = shared.2.status.waiting_for.unwrap();
    assert!(
        waits.contains("dns-udp fails from the controller too"),
        "{waits}"
    );
    let counts = [
        ("it passes there", vec![("dns-udp", true)]),
        (
            "another fails there",
            vec![("dns-udp", true), ("network", false)],
        ),
        ("it is not checked there", vec![("network", true)]),
    ];
    for (why, checks) in counts {
        let (verdict, counted, _) = look(own_run(&checks, 41, 50));
        assert_eq!((verdict, counted), (None, Some(1)), "{why}");
    }
    let no_name_server = ControlView {
        has_dns: false,
        ..own_run(&[], 0, 0)
    };
    let (verdict, counted, decision) = look(no_name_server);
    assert_eq!(
        (verdict, counted),
        inconclusive,
        "the cluster is being built"
    );
    assert!(!effects(&decision).contains(&"CheckFromHere"));
}

#[test]
fn the_controller_has_no_say_about_images() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Present(stuck(&node, "worker-image"));
    seen.control = own_run(&[("dns-udp", true)], 312, 330);
    let decision = decide(&seen, &settings(), at(331));
    let told = verification(&decision);
    assert_eq!(told.verdict, Some(VerificationVerdict::Inconclusive));
    assert_eq!(told.failed_attempts, None);
    assert!(!effects(&decision).contains(&"CheckFromHere"));
}

#[test]
fn an_inconclusive_node_is_tried_again_once_the_controller_passes() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Present(ended(&node, 1, &report(&[("dns-udp", false)]), 40));
    seen.control = own_run(&[("dns-udp", false)], 41, 50);
    let told = decide(&seen, &settings(), at(51)).status;
    seen.worker = Observed::Absent;
    let Observed::Present(record) = &mut seen.record else {
        panic!("there is a record");
    };
    record.status = Some(told);
    let again = |control: ControlView, now: i64| {
        let mut seen = seen.clone();
        seen.control = control;
        let mut effects = effects(&decide(&seen, &settings(), at(now)));
        effects.retain(|effect| ["CheckFromHere", "EnsureWorker"].contains(effect));
        effects
    };
    assert!(
        again(own_run(&[("dns-udp", false)], 41, 50), 55).is_empty(),
        "not yet"
    );
    assert_eq!(
        again(own_run(&[("dns-udp", false)], 41, 50), 200),
        ["CheckFromHere"]
    );
    assert_eq!(
        again(own_run(&[("dns-udp", true)], 200, 205), 206),
        ["EnsureWorker"]
    );
}

#[test]
fn a_comparison_that_could_not_be_made_blames_nobody() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Present(ended(&node, 1, &report(&[("network", false)]), 40));
    seen.control = control(&[], 41, 70);
    let run = seen.control.runs.first_mut().unwrap();
    let trouble = Trouble {
        check: "worker-schedule",
        message: "Insufficient memory".to_owned(),
    };
    run.state = WorkerState::Ended(Box::new(Ending::of_trouble(
        &trouble,
        "shipshape:1",
        at(70),
    )));
    let decision = decide(&seen, &settings(), at(71));
    assert_eq!(
        verification(&decision).verdict,
        Some(VerificationVerdict::Inconclusive)
    );
    let waits = decision.status.waiting_for.unwrap();
    assert!(waits.contains("Insufficient memory"), "{waits}");
}

#[test]
fn an_outage_that_ends_between_the_attempt_and_its_comparison_blames_nobody() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Present(ended(&node, 1, &report(&[("dns-udp", false)]), 40));
    let verdict = |earlier: ControlView| {
        let mut seen = seen.clone();
        seen.control = control(&[], 41, 50);
        seen.control.runs.extend(earlier.runs);
        let told = verification(&decide(&seen, &settings(), at(51))).clone();
        (told.verdict, told.failed_attempts)
    };
    let inconclusive = (Some(VerificationVerdict::Inconclusive), None);
    assert_eq!(verdict(control(&["dns-udp"], 25, 35)), inconclusive);
    let of_node = (None, Some(1));
    assert_eq!(verdict(control(&["egress"], 25, 35)), of_node, "another");
    assert_eq!(verdict(control(&["dns-udp"], -20, -9)), of_node, "before");
}

#[test]
fn an_image_that_cannot_be_had_is_compared_with_a_run_that_pulls_it_too() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Present(stuck(&node, "worker-image"));
    seen.control = control(&[], 312, 330);
    let decision = decide(&seen, &settings(), at(331));
    assert_eq!(verification(&decision).failed_attempts, None);
    let [Effect::Gate(GateEffect::EnsureWorker(pod))] = decision.effects.as_slice() else {
        panic!("{:?}", decision.effects);
    };
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let policy = container.image_pull_policy.as_deref();
    assert_eq!(policy, Some("Always"), "the node has the image already");
    seen.control.runs[0].pulls = true;
    let decision = decide(&seen, &settings(), at(331));
    assert_eq!(verification(&decision).failed_attempts, Some(1));
}

#[test]
fn trouble_with_the_pod_is_told_apart_and_compared_like_a_check() {
    let node = node("n");
    for check in ["worker-image", "worker-sandbox", "worker-schedule"] {
        let mut seen = snapshot(node.clone(), Some(under_way(&node)));
        seen.worker = Observed::Present(stuck(&node, check));
        seen.control = control(&[], 312, 330);
        seen.control.runs[0].pulls = true;
        let early = decide(&seen, &settings(), at(100));
        assert_eq!(
            verification(&early).attempt_started_at,
            Some(Time(at(0))),
            "{check}"
        );
        let late = decide(&seen, &settings(), at(331));
        let told = verification(&late);
        assert_eq!(told.first_failing_check.as_deref(), Some(check));
        assert_eq!(
            told.failed_attempts,
            Some(1),
            "{check} shows on this node alone"
        );
        // The same trouble elsewhere: nobody is at fault.
        let trouble = Trouble {
            check,
            message: "words".to_owned(),
        };
        let run = seen.control.runs.first_mut().unwrap();
        run.state = WorkerState::Ended(Box::new(Ending::of_trouble(
            &trouble,
            "shipshape:1",
            at(330),
        )));
        let shared = decide(&seen, &settings(), at(331));
        let verdict = verification(&shared).verdict;
        assert_eq!(verdict, Some(VerificationVerdict::Inconclusive), "{check}");
    }
}

#[test]
fn only_code_zero_without_a_failure_is_a_pass() {
    let node = node("n");
    let table = [
        (0, report(&[("network", true)]), true, ""),
        (0, String::new(), false, "worker-exit"),
        (0, "done".to_owned(), false, "worker-exit"),
        (0, report(&[]), false, "worker-exit"),
        (0, report(&[("network", false)]), false, "network"),
        (1, report(&[("network", false)]), false, "network"),
        (1, "not json".to_owned(), false, "worker-exit"),
        (2, report(&[]), false, "worker-exit"),
        (3, "no authority".to_owned(), false, "worker-exit"),
        (137, "OOMKilled".to_owned(), false, "worker-exit"),
    ];
    for (code, message, passes, check) in table {
        let view = ended(&node, code, &message, 5);
        let WorkerState::Ended(ending) = view.state else {
            panic!("{code}");
        };
        assert_eq!(ending.passed, passes, "{code} {message}");
        let first = ending.failures().next().map(|one| one.check.clone());
        assert_eq!(first.unwrap_or_default(), check, "{code} {message}");
    }
}

#[test]
fn an_inconclusive_node_waits_for_the_cause_and_costs_one_run_elsewhere_at_a_time() {
    let node = node("n");
    let mut told = with_verdict(&node, VerificationVerdict::Inconclusive);
    let failing = ended(&node, 1, &report(&[("dns-udp", false)]), 5);
    let WorkerState::Ended(ending) = failing.state else {
        panic!("it has ended");
    };
    told.findings = ending.findings;
    let mut seen = snapshot(node, Some(told));
    seen.node.network.verified = Some("Unknown".to_owned());
    let next = |control: ControlView, now: i64| {
        let mut seen = seen.clone();
        seen.control = control;
        let decision = decide(&seen, &settings(), at(now));
        let attempt = verification(&decision).attempt;
        (attempt, effects(&decision), decision.wake)
    };
    let still = control(&["dns-udp"], 11, 20);
    assert_eq!(next(still.clone(), 25), (Some(1), vec![], Some(at(30))));
    assert_eq!(next(still, 31).1, ["EnsureWorker"]);
    let (attempt, made, _) = next(control(&[], 11, 20), 21);
    assert_eq!(
        (attempt, made),
        (Some(2), vec!["EnsureWorker"]),
        "the cause is gone"
    );
    let alone = ControlView::default();
    assert_eq!(next(alone.clone(), 30).0, Some(1));
    let with_dns = ControlView {
        has_dns: true,
        ..alone
    };
    assert_eq!(next(with_dns, 30).0, Some(2));
}

#[test]
fn the_time_of_an_outage_does_not_count_against_the_deadline() {
    let node = node("n");
    let told = with_verdict(&node, VerificationVerdict::Inconclusive);
    let mut seen = snapshot(node, Some(told));
    seen.control = control(&[], 90_000, 90_001);
    let decision = decide(&seen, &settings(), at(90_002));
    assert_eq!(verification(&decision).started_at, Some(Time(at(90_002))));
    assert_eq!(verification(&decision).failed_attempts, None);
}

#[test]
fn a_status_stays_small_whatever_a_pod_says() {
    let node = node("n");
    let many: Vec<_> = (0..200).map(|_| ("dns-endpoint", false)).collect();
    let long = report(&many).replace("words", &"w".repeat(9000));
    let WorkerState::Ended(ending) = ended(&node, 1, &long, 5).state else {
        panic!("it has ended");
    };
    assert_eq!(ending.findings.len(), 16);
    assert_eq!(ending.omitted, 184);
    assert!(ending.findings.iter().all(|one| one.message.len() <= 512));
}

/// Every state of a record beside every state of a worker, before and after both deadlines.
fn all_sights() -> Vec<(GateSnapshot, Timestamp)> {
    let node = node("n");
    let mut rebooted = under_way(&node);
    rebooted.boot_id = Some("another".to_owned());
    let mut pausing = under_way(&node);
    pausing.attempt_started_at = None;
    pausing.next_attempt_at = Some(Time(at(20)));
    let mut records = vec![None, Some(under_way(&node)), Some(rebooted), Some(pausing)];
    records.extend(
        [
            VerificationVerdict::Verified,
            VerificationVerdict::Failed,
            VerificationVerdict::Inconclusive,
        ]
        .map(|verdict| Some(with_verdict(&node, verdict))),
    );
    let failing = report(&[("dns-udp", false)]);
    let running = WorkerView {
        state: WorkerState::Running,
        ..stuck(&node, "worker-image")
    };
    let mut strange = running.clone();
    strange.owner_uid = Some("somebody".to_owned());
    let workers = [
        Observed::Absent,
        Observed::NotAsked,
        Observed::Unknown("no answer".to_owned()),
        Observed::Present(ended(&node, 0, &report(&[("dns-udp", true)]), 5)),
        Observed::Present(ended(&node, 1, &failing, 5)),
        Observed::Present(stuck(&node, "worker-image")),
        Observed::Present(running),
        Observed::Present(strange),
    ];
    let mut sights = Vec::new();
    for record in &records {
        for worker in &workers {
            for second in [6, 312, 901] {
                let mut seen = snapshot(node.clone(), record.clone());
                seen.worker = worker.clone();
                sights.push((seen, at(second)));
            }
        }
    }
    sights
}

#[test]
fn the_rest_of_the_cluster_counts_only_where_something_is_compared() {
    let controls = || [control(&[], 6, 7), control(&["dns-udp"], 6, 7)];
    let (mut compared, mut unread) = (0, 0);
    for (mut seen, now) in all_sights() {
        let is_read = is_compared(&seen, &settings(), now);
        let blind = format!("{:?}", decide(&seen, &settings(), now));
        let is_other = controls().into_iter().any(|control| {
            seen.control = control;
            blind != format!("{:?}", decide(&seen, &settings(), now))
        });
        assert!(is_read || !is_other, "{:?} at {now}", seen.worker);
        compared += usize::from(is_read && is_other);
        unread += usize::from(!is_read);
    }
    assert!(compared > 0 && unread > compared, "{compared} and {unread}");
}

/// A verdict's way with a node whose clock is off by so many seconds: looks until one is reached.
fn counted_with_clock(off: i64) -> (Option<i32>, Option<Time>, usize) {
    let node = node("n");
    let mut told = under_way(&node);
    told.failed_attempts = Some(3);
    let mut seen = snapshot(node.clone(), Some(told));
    let failing = report(&[("dns-udp", false)]);
    seen.worker = Observed::Present(ended(&node, 1, &failing, 40 + off));
    seen.control = ControlView {
        runs: Vec::new(),
        ..control(&[], 0, 0)
    };
    let mut pods = 0;
    for second in (41..200).step_by(5) {
        let decision = decide(&seen, &settings(), at(second));
        let told = verification(&decision).clone();
        if told.failed_attempts == Some(4) {
            return (told.failed_attempts, told.next_attempt_at, pods);
        }
        if effects(&decision).contains(&"EnsureWorker") {
            pods += 1;
            seen.control = control(&[], second, second + 3);
        }
        seen.record = Observed::Present(recorded(&node, told));
    }
    (None, None, pods)
}

#[test]
fn the_clock_of_a_node_neither_hides_its_failure_nor_spares_it_the_pause() {
    assert_eq!(
        counted_with_clock(0),
        (Some(4), Some(Time(at(48))), 1),
        "right"
    );
    for day in [86_400, -86_400] {
        let seen_then = Some(Time(at(49)));
        assert_eq!(counted_with_clock(day), (Some(4), seen_then, 1), "{day}");
    }
}

#[test]
fn the_clock_of_a_node_in_service_neither_hides_nor_keeps_its_run() {
    let node = node("n");
    for day in [86_400, -86_400] {
        let mut seen = snapshot(node.clone(), Some(under_way(&node)));
        seen.worker = Observed::Present(ended(&node, 1, &report(&[("dns-udp", false)]), 40));
        seen.control = control(&[], 41, 44 + day);
        let told = decide(&seen, &settings(), at(45));
        assert_eq!(verification(&told).failed_attempts, Some(1), "{day}");
        let run = seen.control.runs.first().unwrap();
        let gone = super::super::control::retire(run, &settings(), at(102));
        assert_eq!(gone, super::super::control::Retirement::Now, "{day}");
        // One that waits for a cause elsewhere to go asks again after the interval.
        let waits = with_verdict(&node, VerificationVerdict::Inconclusive);
        let mut seen = snapshot(node.clone(), Some(waits));
        seen.control = control(&["dns-udp"], 41, 44 + day);
        let verification = seen.record.present().unwrap().status.clone().unwrap();
        let mut verification = verification.verification.unwrap();
        verification.findings = ended_findings();
        seen.record = Observed::Present(recorded(&node, verification));
        let decision = decide(&seen, &settings(), at(60));
        assert_eq!(
            effects(&decision),
            ["PublishVerdict", "EnsureWorker"],
            "{day}"
        );
    }
}

fn ended_findings() -> Vec<shipshape_api::VerificationFinding> {
    let ended = ended(&node("n"), 1, &report(&[("dns-udp", false)]), 5);
    match ended.state {
        WorkerState::Ended(ending) => ending.findings,
        WorkerState::Waiting(_) | WorkerState::Running => Vec::new(),
    }
}

#[test]
fn a_target_that_was_cut_is_compared_as_far_as_it_goes() {
    let node = node("n");
    let failing = report(&[("dns-udp", false)]);
    let whole = "kubernetes.default.svc.cluster.local. over UDP from 10.0.0.10";
    let shared = |own: &str, other: &str| {
        let mut seen = snapshot(node.clone(), Some(under_way(&node)));
        let own = failing.replace("\"target\":\"target\"", &format!("\"target\":\"{own}\""));
        seen.worker = Observed::Present(ended(&node, 1, &own, 40));
        seen.control = control(&[], 41, 70);
        let other = failing.replace("\"target\":\"target\"", &format!("\"target\":\"{other}\""));
        let run = seen.control.runs.first_mut().unwrap();
        run.state = ended(&node, 1, &other, 70).state;
        let told = decide(&seen, &settings(), at(71));
        verification(&told).verdict == Some(VerificationVerdict::Inconclusive)
    };
    assert!(shared(whole, whole));
    assert!(shared(whole, "kubernetes.default…"));
    assert!(shared("kubernetes.def…", whole));
    assert!(shared("kubernetes.def…", "kubernetes.default…"));
    assert!(!shared(whole, "kubernetes.default"));
    assert!(!shared(whole, "example.com…"));
}

#[test]
fn a_changed_time_for_an_attempt_is_that_of_the_next_one() {
    let node = node("n");
    let fresh = Verification::default();
    let begun = decide(&snapshot(node.clone(), Some(fresh)), &settings(), at(0));
    let mut shorter = settings();
    shorter.worker.job.active_deadline_seconds = 10;
    let mut seen = snapshot(node.clone(), Some(verification(&begun).clone()));
    let mut worker = stuck(&node, "worker-image");
    worker.may_run = Some(SignedDuration::from_secs(300));
    seen.worker = Observed::Present(worker);
    seen.control = control(&[], 101, 110);
    for (second, is_over) in [(100, false), (309, false), (312, true)] {
        assert_eq!(
            is_compared(&seen, &shorter, at(second)),
            is_over,
            "{second}"
        );
    }
    seen.worker = Observed::Absent;
    let made = decide(&seen, &shorter, at(100));
    assert_eq!(effects(&made), ["EnsureWorker"], "its time is not up");
}

#[test]
fn without_a_node_in_service_trouble_with_the_pod_is_nobodys_fault_and_is_tried_again() {
    let node = node("n");
    let alone = ControlView {
        has_dns: true,
        ..ControlView::default()
    };
    for code in [2, 3, 10] {
        let mut seen = snapshot(node.clone(), Some(under_way(&node)));
        seen.worker = Observed::Present(ended(&node, code, "dnsTestDomains: wrong", 40));
        seen.control = alone.clone();
        let decision = decide(&seen, &settings(), at(41));
        let told = verification(&decision).clone();
        let verdict = (told.verdict, told.failed_attempts);
        assert_eq!(
            verdict,
            (Some(VerificationVerdict::Inconclusive), None),
            "{code}"
        );
        let waits = decision.status.waiting_for.unwrap();
        assert!(waits.contains("no node is in service"), "{waits}");
        seen.record = Observed::Present(recorded(&node, told));
        seen.worker = Observed::NotAsked;
        let soon = decide(&seen, &settings(), at(60));
        assert_eq!(verification(&soon).attempt, Some(1));
        let later = decide(&seen, &settings(), at(102));
        assert_eq!(
            verification(&later).attempt,
            Some(2),
            "or it would wait for ever"
        );
        assert_eq!(verification(&later).failed_attempts, None);
    }
}

#[test]
fn nobody_claims_a_comparison_that_was_not_made() {
    let node = node("n");
    let mut told = under_way(&node);
    told.failed_attempts = Some(4);
    let mut seen = snapshot(node.clone(), Some(told));
    seen.worker = Observed::Present(ended(&node, 1, &report(&[("dns-udp", false)]), 40));
    seen.control.has_dns = true;
    let words = |seen: &GateSnapshot| {
        let decision = decide(seen, &settings(), at(71));
        assert_eq!(
            verification(&decision).verdict,
            Some(VerificationVerdict::Failed)
        );
        decision.notices.first().unwrap().message.clone()
    };
    let alone = words(&seen);
    assert!(!alone.contains("passes"), "{alone}");
    assert!(alone.contains("no node in service to compare"), "{alone}");
    seen.control = control(&[], 41, 70);
    let compared = words(&seen);
    assert!(compared.contains("passes on node peer"), "{compared}");
}
