//! Every race at the gate that others have lost, and what it must come to.

use super::*;

#[test]
fn a_taint_that_comes_back_is_lifted_by_the_stored_verdict_without_a_second_worker() {
    let mut node = in_service("n");
    node.taints.push(gate_taint());
    node.network.verified = Some("True".to_owned());
    let told = with_verdict(&node, VerificationVerdict::Verified);
    let decision = decide(&snapshot(node, Some(told)), &settings(), at(60));
    assert_eq!(effects(&decision), ["ReleaseNode"]);
}

#[test]
fn a_verified_node_at_rest_is_left_alone() {
    let mut node = in_service("n");
    node.network.verified = Some("True".to_owned());
    let told = with_verdict(&node, VerificationVerdict::Verified);
    let decision = decide(&snapshot(node, Some(told)), &settings(), at(60));
    assert!(effects(&decision).is_empty());
    assert_eq!(decision.wake, None);
}

#[test]
fn a_label_that_is_taken_off_asks_for_another_attempt_even_without_a_taint() {
    let mut node = in_service("n");
    node.labels.clear();
    node.network.verified = Some("True".to_owned());
    let told = with_verdict(&node, VerificationVerdict::Verified);
    let decision = decide(&snapshot(node.clone(), Some(told)), &settings(), at(60));
    assert_eq!(effects(&decision), ["PublishVerdict", "EnsureWorker"]);
    assert_eq!(
        verification(&decision).attempt,
        Some(2),
        "a name of its own"
    );
    assert_ne!(worker::worker_name(&node, 1), worker::worker_name(&node, 2));
}

#[test]
fn a_reboot_begins_anew_though_label_and_object_are_the_same() {
    let mut node = in_service("n");
    node.network.verified = Some("True".to_owned());
    let told = with_verdict(&node, VerificationVerdict::Verified);
    node.boot_id = "boot-2".to_owned();
    let decision = decide(&snapshot(node.clone(), Some(told)), &settings(), at(60));
    let now = verification(&decision);
    assert_eq!(now.boot_id.as_deref(), Some("boot-2"));
    assert_eq!((now.verdict, now.attempt), (None, Some(1)));
    assert_eq!(effects(&decision), ["PublishVerdict", "EnsureWorker"]);
    let before = NodeView {
        boot_id: BOOT.to_owned(),
        ..node.clone()
    };
    assert_ne!(
        worker::worker_name(&before, 1),
        worker::worker_name(&node, 1)
    );
}

#[test]
fn a_failed_node_that_reboots_gets_another_chance() {
    let mut node = node("n");
    let told = with_verdict(&node, VerificationVerdict::Failed);
    node.boot_id = "boot-2".to_owned();
    let decision = decide(&snapshot(node, Some(told)), &settings(), at(60));
    assert_eq!(verification(&decision).attempt, Some(1));
    assert_eq!(verification(&decision).failed_attempts, None);
}

#[test]
fn a_new_node_under_an_old_name_has_a_record_and_a_worker_of_its_own() {
    let old = node("n");
    let stranger = NodeView {
        uid: "stranger".to_owned(),
        ..old.clone()
    };
    assert_ne!(record::record_name(&old), record::record_name(&stranger));
    assert_ne!(
        worker::worker_name(&old, 1),
        worker::worker_name(&stranger, 1)
    );
    let owner = record::of_node(&stranger)
        .metadata
        .owner_references
        .unwrap();
    assert_eq!(owner[0].uid, "stranger");
}

#[test]
fn a_node_that_goes_in_the_middle_is_left_to_go() {
    let mut node = node("n");
    node.deleting = true;
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Present(ended(&node, 0, &report(&[("network", true)]), 5));
    let decision = decide(&seen, &settings(), at(6));
    assert!(effects(&decision).is_empty());
    let decision = decide(&snapshot(node, None), &settings(), at(6));
    assert!(effects(&decision).is_empty());
}

#[test]
fn a_worker_that_vanished_is_made_again_under_its_name_until_its_time_is_up() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    let decision = decide(&seen, &settings(), at(100));
    let [Effect::Gate(GateEffect::EnsureWorker(pod))] = decision.effects.as_slice() else {
        panic!("{:?}", effects(&decision));
    };
    assert_eq!(pod.metadata.name, Some(worker::worker_name(&node, 1)));
    assert_eq!(
        verification(&decision).attempt,
        Some(1),
        "a restart makes no second attempt"
    );
    let Observed::Present(record) = &mut seen.record else {
        panic!("there is a record");
    };
    record.status = Some(decision.status);
    let late = decide(&seen, &settings(), at(312));
    assert_eq!(verification(&late).attempt, Some(2));
    assert_eq!(effects(&late), ["EnsureWorker"]);
}

#[test]
fn a_node_that_was_never_checked_has_not_failed() {
    let node = node("n");
    let mut strange = stuck(&node, "worker-image");
    strange.owner_uid = Some("somebody".to_owned());
    for worker in [Observed::Absent, Observed::Present(strange)] {
        for now in [312, 1_500, 90_000] {
            let mut told = under_way(&node);
            told.failed_attempts = Some(4);
            let mut seen = snapshot(node.clone(), Some(told));
            seen.worker = worker.clone();
            seen.control = control(&[], now - 1, now);
            let decision = decide(&seen, &settings(), at(now));
            let told = verification(&decision);
            assert_eq!((told.verdict, told.failed_attempts), (None, Some(4)));
            assert_eq!(
                told.started_at,
                Some(Time(at(now))),
                "the whole has its time"
            );
            assert_eq!(effects(&decision), ["EnsureWorker"]);
            // While it is not ready there is nobody to check.
            seen.node.ready = false;
            let waits = decide(&seen, &settings(), at(now));
            assert_eq!(verification(&waits).attempt, Some(1));
            assert!(effects(&waits).is_empty());
        }
    }
}

#[test]
fn time_in_which_nobody_could_look_is_not_the_nodes() {
    let node = node("n");
    // The API server was away: the comparison comes late.
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Present(ended(&node, 1, &report(&[("network", false)]), 40));
    seen.control = control(&[], 5_000, 5_010);
    let decision = decide(&seen, &settings(), at(5_011));
    let told = verification(&decision).clone();
    assert_eq!((told.verdict, told.failed_attempts), (None, Some(1)));
    assert_eq!(told.started_at, Some(Time(at(4_971))));
    // So was the controller: the next attempt comes late.
    seen.worker = Observed::NotAsked;
    seen.record = Observed::Present(recorded(&node, told));
    let decision = decide(&seen, &settings(), at(9_000));
    let told = verification(&decision);
    assert_eq!(told.attempt, Some(2));
    assert_eq!(told.started_at, Some(Time(at(4_971 + 9_000 - 5_011))));
}

#[test]
fn a_worker_that_nobody_could_see_is_neither_made_again_nor_counted() {
    let node = node("n");
    let mut seen = snapshot(node.clone(), Some(under_way(&node)));
    seen.worker = Observed::Unknown("the API is away".to_owned());
    let decision = decide(&seen, &settings(), at(5000));
    assert!(effects(&decision).is_empty());
    assert_eq!(verification(&decision), &under_way(&node));
}

#[test]
fn the_result_of_a_strangers_pod_opens_nothing() {
    let node = node("n");
    let mut forged = ended(&node, 0, &report(&[("network", true)]), 5);
    forged.owner_uid = Some("somebody".to_owned());
    let mut leaving = ended(&node, 0, &report(&[("network", true)]), 5);
    leaving.terminating = true;
    for worker in [forged, leaving] {
        let mut seen = snapshot(node.clone(), Some(under_way(&node)));
        seen.worker = Observed::Present(worker);
        let decision = decide(&seen, &settings(), at(6));
        assert!(effects(&decision).is_empty());
        assert_eq!(verification(&decision).verdict, None);
    }
}

#[test]
fn a_condition_that_the_node_set_itself_is_put_right_and_opens_nothing() {
    let mut node = node("n");
    node.network.verified = Some("True".to_owned());
    let fresh = Verification::default();
    let decision = decide(&snapshot(node, Some(fresh)), &settings(), at(0));
    assert_eq!(effects(&decision), ["PublishVerdict", "EnsureWorker"]);
}

#[test]
fn pods_of_earlier_attempts_go() {
    let node = in_service("n");
    let told = with_verdict(&node, VerificationVerdict::Verified);
    let mut seen = snapshot(node.clone(), Some(told));
    seen.node.network.verified = Some("True".to_owned());
    seen.leftovers = vec![ended(&node, 0, "", 5).target()];
    assert_eq!(
        effects(&decide(&seen, &settings(), at(60))),
        ["DeleteWorker"]
    );
}

#[test]
fn a_dry_run_does_not_verify_again_because_it_set_no_label() {
    let node = node("n");
    let mut settings = settings();
    settings.verification.mode = Mode::DryRun;
    let told = with_verdict(&node, VerificationVerdict::Verified);
    let decision = decide(&snapshot(node, Some(told)), &settings, at(60));
    assert!(effects(&decision).is_empty());
    assert_eq!(verification(&decision).attempt, Some(1));
}

#[test]
fn a_new_node_that_is_not_ready_yet_costs_no_write_until_that_has_lasted() {
    let mut node = node("n");
    node.ready = false;
    let mut seen = snapshot(node, Some(Verification::default()));
    let Observed::Present(record) = &mut seen.record else {
        panic!("there is one");
    };
    record.status = None;
    record.metadata.creation_timestamp = Some(Time(at(0)));
    let early = decide(&seen, &settings(), at(5));
    assert_eq!(early.status, PendingNodeStatus::default());
    assert!(early.wake.is_some());
    let late = decide(&seen, &settings(), at(90));
    assert_eq!(
        late.status.waiting_for.as_deref(),
        Some("the node to be ready")
    );
}

#[test]
fn a_node_that_failed_in_service_can_be_had_verified_again() {
    let mut node = in_service("n");
    node.network.verified = Some("False".to_owned());
    node.labels.clear();
    // Its record was deleted.
    let decision = decide(&snapshot(node.clone(), None), &settings(), at(0));
    assert_eq!(effects(&decision), ["EnsurePending"]);
    // Its label was set.
    let failed = with_verdict(&node, VerificationVerdict::Failed);
    let rests = decide(
        &snapshot(node.clone(), Some(failed.clone())),
        &settings(),
        at(90),
    );
    assert_eq!(
        verification(&rests).verdict,
        Some(VerificationVerdict::Failed)
    );
    node.labels = in_service("n").labels;
    let decision = decide(&snapshot(node.clone(), Some(failed)), &settings(), at(90));
    let told = verification(&decision);
    assert_eq!((told.verdict, told.attempt), (None, Some(2)));
    assert!(effects(&decision).contains(&"EnsureWorker"));
}

#[test]
fn the_label_of_a_node_that_fails_in_service_goes_before_that_is_stored() {
    let node = in_service("n");
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
    let label = decision
        .effects
        .iter()
        .find(|effect| effect.name() == "EnsureLabels");
    assert!(
        !label.unwrap().needs_record(),
        "else it would look like a wish to try again"
    );
}
