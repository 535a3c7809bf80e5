//! Tables for the brake and the waves: what failures and parked nodes hold back, and until when.

use shipshape_api::conditions::OLD_DELETED;

use super::*;

/// A run with a failure behind it and a node that waits to begin.
fn after_a_failure() -> RunSnapshot {
    RunSnapshot {
        waiting: vec![waiting("b", "z1")],
        ledger: ledger(&[]),
        failed: 1,
        succeeded: 1,
        ..planned()
    }
}

fn pausing_after(failures: i32, snapshot: &mut RunSnapshot) {
    snapshot.run.spec.failure_policy = Some(shipshape_api::node_patch_run::FailurePolicy {
        enabled: Some(true),
        pause_after_failures: Some(failures),
    });
}

fn acknowledge(count: &str, snapshot: &mut RunSnapshot) {
    let note = (names::ANNOTATION_ACKNOWLEDGED.to_owned(), count.to_owned());
    snapshot.run.metadata.annotations = Some([note].into());
}

fn tried_again(step: TaskStep) -> NodePatchTask {
    let mut task = task_at("a", step);
    let status = task.status.as_mut().unwrap();
    status.failed_before = Some(1);
    if step == TaskStep::Parked {
        status.parked = Some(set_aside(false));
    }
    task
}

fn set_aside(resuming: bool) -> ParkRecord {
    ParkRecord {
        reason: "NoCapacity".to_owned(),
        message: "full".to_owned(),
        since: Time(now()),
        resuming,
        turn_since: None,
    }
}

#[test]
fn another_try_of_a_failed_node_lifts_no_pause_whatever_becomes_of_it() {
    let mut snapshot = after_a_failure();
    pausing_after(1, &mut snapshot);
    let failed = look(&snapshot);
    assert_eq!(created(&failed), [""; 0]);
    assert_eq!(failed.status.failures, Some(1));
    snapshot.failed = 0;
    snapshot.failed_before = 1;
    snapshot.open = vec![tried_again(TaskStep::Join).into()];
    assert_eq!(look(&snapshot).status.paused, Some(true), "under way");
    snapshot.open.clear();
    snapshot.succeeded = 2;
    assert_eq!(look(&snapshot).status.paused, Some(true), "it came through");
    acknowledge("1", &mut snapshot);
    assert_eq!(created(&look(&snapshot)), ["b"]);
}

#[test]
fn the_end_of_a_failed_tasks_object_lifts_no_pause() {
    let mut snapshot = after_a_failure();
    pausing_after(1, &mut snapshot);
    snapshot.run.status = Some(look(&snapshot).status);
    snapshot.failed = 0;
    assert_eq!(look(&snapshot).status.paused, Some(true));
}

#[test]
fn a_failure_that_was_acknowledged_hides_none_that_comes_after_it() {
    let mut snapshot = after_a_failure();
    pausing_after(1, &mut snapshot);
    acknowledge("1", &mut snapshot);
    assert_eq!(created(&look(&snapshot)), ["b"]);
    snapshot.failed_before = 1;
    let again = look(&snapshot);
    assert_eq!(
        created(&again),
        [""; 0],
        "the first came through, another failed"
    );
    let reason = again.status.pause_reason.unwrap();
    assert!(reason.contains("1 node(s) failed"), "{reason}");
}

#[test]
fn a_place_that_is_empty_pauses_the_run_until_its_new_node_is_ready() {
    let mut task = tried_again(TaskStep::Join);
    let status = task.status.as_mut().unwrap();
    let gone = Claim {
        kind: OLD_DELETED,
        truth: Truth::True,
        reason: "MachineGone",
        message: "gone".to_owned(),
    };
    condition::set(&mut status.conditions, gone, None, now());
    let mut snapshot = RunSnapshot {
        failed: 0,
        failed_before: 1,
        open: vec![task.into()],
        ..after_a_failure()
    };
    let reason = look(&snapshot).status.pause_reason.unwrap();
    assert!(
        reason.starts_with("a node is gone without a replacement"),
        "{reason}"
    );
    let status = Arc::make_mut(&mut snapshot.open[0])
        .status
        .as_mut()
        .unwrap();
    status.new_node_name = Some("new".to_owned());
    assert_eq!(created(&look(&snapshot)), ["b"]);
}

#[test]
fn a_node_on_its_way_back_that_gets_no_slot_keeps_no_run_waiting() {
    let mut aside = task_at("a", TaskStep::Parked);
    aside.status.as_mut().unwrap().parked = Some(set_aside(true));
    let snapshot = RunSnapshot {
        succeeded: 0,
        open: vec![aside.into()],
        ..after_a_failure()
    };
    let waits = look(&snapshot);
    assert_eq!(waits.status.pause_reason, None, "it may come through");
    let reason = waits.status.waiting_for.unwrap();
    assert!(reason.contains("a first replacement"), "{reason}");
    let settings = Settings::default();
    let past = decide(&snapshot, &settings, now() + settings.deadlines.lock);
    let reason = past.status.pause_reason.unwrap();
    assert!(
        reason.contains("no replacement has come through"),
        "{reason}"
    );
}

/// A run whose first wave are canaries, with none of them waiting.
fn canaries(soak: &str) -> RunSnapshot {
    let mut fresh = snapshot();
    fresh.run.spec.canary = Some(Canary {
        nodes: 1,
        soak: Some(soak.to_owned()),
    });
    fresh.run.status = Some(look(&fresh).status);
    fresh.run.status = Some(look(&fresh).status);
    fresh
}

#[test]
fn a_canary_that_is_set_aside_has_not_passed() {
    let mut wave = canaries("10m");
    wave.open = vec![tried_again(TaskStep::Parked).into()];
    let held = look(&wave);
    assert_eq!(held.status.current_iteration, Some(0));
    assert_eq!(held.status.last_round, Some(true), "it is tried again");
    assert_eq!(held.status.soak_until, None, "nothing is watched yet");
    assert_eq!(held.status.waiting_for.as_deref(), Some("parked nodes: a"));

    wave.run.status = Some(held.status);
    wave.open.clear();
    wave.failed = 1;
    let failed = look(&wave);
    assert!(failed.status.pause_reason.unwrap().contains("canary"));
    wave.failed = 0;
    wave.run.status.as_mut().unwrap().failures = None;
    let passed = decide(
        &wave,
        &Settings::default(),
        now() + SignedDuration::from_mins(10),
    );
    assert_eq!(passed.status.current_iteration, Some(0));
    let watched = passed.status.soak_until.unwrap().0;
    assert_eq!(watched, now() + SignedDuration::from_mins(20));
}

#[test]
fn canaries_are_watched_anew_after_one_was_tried_again() {
    let mut wave = canaries("10m");
    wave.run.status = Some(look(&wave).status);
    assert!(wave.run.status.as_ref().unwrap().soak_until.is_some());
    wave.open = vec![tried_again(TaskStep::Join).into()];
    wave.failed_before = 1;
    acknowledge("1", &mut wave);
    assert_eq!(look(&wave).status.soak_until, None);
}

#[test]
fn the_last_round_of_a_wave_is_over_when_the_others_follow() {
    let mut wave = canaries("0s");
    wave.open = vec![tried_again(TaskStep::Parked).into()];
    wave.run.status = Some(look(&wave).status);
    wave.open.clear();
    let next = look(&wave);
    assert_eq!(next.status.current_iteration, Some(1));
    assert_eq!(next.status.last_round, None);
}

#[test]
fn a_wave_with_a_failure_pauses_though_some_of_it_are_set_aside() {
    let mut wave = canaries("10m");
    wave.open = vec![tried_again(TaskStep::Parked).into()];
    wave.failed = 1;
    let held = look(&wave);
    assert!(held.status.pause_reason.unwrap().contains("canary"));
    assert_eq!(held.status.last_round, None, "nor are those tried on");
    acknowledge("1", &mut wave);
    assert_eq!(look(&wave).status.last_round, Some(true));
    wave.run.spec.paused = Some(true);
    assert_eq!(
        look(&wave).status.waiting_for.as_deref(),
        Some("spec.paused to be lifted")
    );
}

#[test]
fn nodes_that_are_set_aside_are_not_tried_on_in_the_last_round_of_a_run_that_failures_pause() {
    let mut snapshot = RunSnapshot {
        open: vec![task_at("a", TaskStep::Parked).into()],
        waiting: Vec::new(),
        ..after_a_failure()
    };
    let plan = snapshot.run.status.as_ref().unwrap().plan.as_ref().unwrap();
    let last = i32::try_from(plan.partitions.len()).unwrap();
    snapshot.run.status.as_mut().unwrap().current_iteration = Some(last);
    assert_eq!(
        look(&snapshot).status.last_round,
        Some(true),
        "nobody asked for a pause"
    );
    pausing_after(1, &mut snapshot);
    snapshot.run.status.as_mut().unwrap().last_round = Some(true);
    let held = look(&snapshot);
    assert!(held.status.pause_reason.is_some());
    assert_eq!(held.status.last_round, None);
    acknowledge("1", &mut snapshot);
    assert_eq!(look(&snapshot).status.last_round, Some(true));
}

#[test]
fn another_try_of_one_node_resumes_no_run_in_which_nothing_has_come_through() {
    let mut snapshot = RunSnapshot {
        succeeded: 0,
        ..after_a_failure()
    };
    snapshot.run.status = Some(look(&snapshot).status);
    assert_eq!(snapshot.run.status.as_ref().unwrap().paused, Some(true));
    snapshot.failed = 0;
    snapshot.failed_before = 1;
    snapshot.open = vec![tried_again(TaskStep::Join).into()];
    assert_eq!(look(&snapshot).status.paused, Some(true));
    let status = Arc::make_mut(&mut snapshot.open[0])
        .status
        .as_mut()
        .unwrap();
    status.new_node_name = Some("new".to_owned());
    assert_eq!(
        look(&snapshot).status.paused,
        None,
        "a first replacement is there"
    );
}

#[test]
fn no_node_begins_while_one_that_was_called_off_waits_for_its_turn() {
    let mut waits = task_at("a", TaskStep::Parked);
    waits.status.as_mut().unwrap().parked = Some(ParkRecord {
        turn_since: Some(Time(now())),
        ..set_aside(true)
    });
    let snapshot = RunSnapshot {
        open: vec![waits.into()],
        waiting: vec![waiting("b", "z1")],
        ledger: ledger(&[]),
        ..planned()
    };
    let held = look(&snapshot);
    assert_eq!(created(&held), [""; 0]);
    assert!(
        held.status
            .waiting_for
            .unwrap()
            .contains("to be put back first: a")
    );
}

#[test]
fn an_acknowledgement_that_is_no_count_is_told_with_what_would_be_right() {
    let mut snapshot = after_a_failure();
    pausing_after(1, &mut snapshot);
    acknowledge("-5", &mut snapshot);
    let reason = look(&snapshot).status.waiting_for.unwrap();
    assert!(
        reason.contains("is \"-5\", which is no count: \"1\" would"),
        "{reason}"
    );
}

#[test]
fn failures_stop_nodes_that_are_set_aside_while_others_are_at_work() {
    let at_work = task_at("b", TaskStep::Drain);
    let mut last = RunSnapshot {
        waiting: Vec::new(),
        open: vec![tried_again(TaskStep::Parked).into(), at_work.clone().into()],
        ..after_a_failure()
    };
    last.run.status.as_mut().unwrap().last_round = Some(true);
    pausing_after(1, &mut last);
    let mut wave = canaries("10m");
    wave.open.clone_from(&last.open);
    wave.failed = 1;
    for snapshot in [last, wave] {
        let held = look(&snapshot).status;
        assert_eq!((held.paused, held.last_round), (Some(true), None));
        assert!(held.waiting_for.unwrap().contains("tasks in flight"));
    }
}

#[test]
fn another_try_of_one_canary_resumes_no_run_that_has_paused_for_it() {
    let mut wave = canaries("10m");
    wave.failed = 1;
    wave.run.status = Some(look(&wave).status);
    wave.failed = 0;
    wave.failed_before = 1;
    wave.open = vec![tried_again(TaskStep::Join).into()];
    assert_eq!(look(&wave).status.paused, Some(true));
}

#[test]
fn a_task_that_somebody_has_called_off_is_no_failure() {
    let mut snapshot = after_a_failure();
    snapshot.called_off = 1;
    pausing_after(1, &mut snapshot);
    let on = look(&snapshot);
    assert_eq!(created(&on), ["b"]);
    assert_eq!((on.status.failed, on.status.failures), (Some(1), None));
}
