//! A lock is renewed while the work lasts, and nothing is done without it.

use jiff::SignedDuration;
use shipshape_api::node_patch_task::{ParkRecord, StepRecord};

use super::*;

fn after(minutes: i64) -> Timestamp {
    start() + SignedDuration::from_mins(minutes)
}

fn renewals(world: &TaskSnapshot, now: Timestamp) -> usize {
    let effects = decide(world, &Settings::default(), now).effects;
    effects
        .iter()
        .filter(|effect| matches!(effect, Effect::RenewLock { .. }))
        .count()
}

const WORK: [TaskStep; 6] = [
    TaskStep::Provision,
    TaskStep::Join,
    TaskStep::Cordon,
    TaskStep::Drain,
    TaskStep::Remove,
    TaskStep::Forget,
];

#[test]
fn a_young_lock_is_neither_looked_at_nor_renewed() {
    for step in WORK {
        let world = world_at(step);
        assert!(
            !is_lock_due(&world, &Settings::default(), after(4)),
            "{step:?}"
        );
        assert_eq!(renewals(&world, after(4)), 0, "{step:?}");
    }
}

#[test]
fn a_lock_is_renewed_in_every_step_of_the_work_after_a_third_of_its_lease() {
    for step in WORK {
        let mut world = world_at(step);
        world.lock = lock(OPERATION);
        assert!(
            is_lock_due(&world, &Settings::default(), after(5)),
            "{step:?}"
        );
        assert_eq!(renewals(&world, after(5)), 1, "{step:?}");
    }
}

#[test]
fn a_lock_that_was_renewed_lately_is_not_renewed_again() {
    let mut world = world_at(TaskStep::Join);
    world.lock = Observed::Present(LockView {
        renewed: Some(after(10)),
        ..lock(OPERATION).present().unwrap().clone()
    });
    assert_eq!(renewals(&world, after(14)), 0);
    assert_eq!(renewals(&world, after(15)), 1);
}

#[test]
fn nothing_is_done_to_a_node_whose_lock_is_lost_and_the_wait_says_why() {
    let unclear = Observed::Unknown("no answer".to_owned());
    let table = [
        (lock("another"), "node old, which ns/other has locked"),
        (
            Observed::Absent,
            "the lock of node old, which somebody has removed",
        ),
        (unclear, "cannot tell who holds the node's lock: no answer"),
    ];
    // However young the lock is: before the node is closed and before its machine ends it is read.
    for (found, words) in table {
        for step in [TaskStep::Cordon, TaskStep::Remove] {
            let mut world = world_at(step);
            world.lock = found.clone();
            let decision = decide(&world, &Settings::default(), after(1));
            assert!(effects(&decision).is_empty(), "{step:?}");
            assert_eq!(decision.status.waiting_for.as_deref(), Some(words));
            assert!(decision.wake.is_some());
        }
    }
}

#[test]
fn a_drain_does_not_go_on_under_the_lock_of_another() {
    let mut world = world_at(TaskStep::Drain);
    world.pods = Observed::Present(vec![pod("a")]);
    world.lock = lock("another");
    let decision = decide(&world, &Settings::default(), after(6));
    assert_eq!(decision.effects, []);
}

#[test]
fn a_lock_that_went_with_its_node_holds_nothing_up() {
    for found in [Observed::Absent, lock("another")] {
        let mut world = world_at(TaskStep::Forget);
        world.lock = found;
        world.old_node = Observed::Absent;
        let decision = decide(&world, &Settings::default(), after(6));
        assert_eq!(decision.status.step_name(), TaskStep::Release);
    }
}

#[test]
fn a_lock_that_goes_with_its_node_is_given_back_only_while_the_node_is_there() {
    let table = [
        (true, true, false),
        (true, false, true),
        (false, true, true),
    ];
    for (goes_with_node, is_node_gone, is_released) in table {
        let mut world = world_at(TaskStep::Done);
        world.task.metadata.finalizers = Some(vec![names::FINALIZER.to_owned()]);
        world.lock = Observed::Present(LockView {
            goes_with_node,
            ..lock(OPERATION).present().unwrap().clone()
        });
        world.old_node = if is_node_gone {
            Observed::Absent
        } else {
            world_at(TaskStep::Cordon).old_node
        };
        let effects = decide(&world, &Settings::default(), after(1)).effects;
        let names: Vec<&str> = effects.iter().map(Effect::name).collect();
        let wanted: &[&str] = if is_released {
            &["ReleaseLock", "DropFinalizer"]
        } else {
            &["DropFinalizer"]
        };
        assert_eq!(names, wanted, "{goes_with_node} {is_node_gone}");
    }
}

#[test]
fn a_task_that_never_had_the_lock_comes_to_its_end_without_it() {
    for found in [Observed::Absent, lock("another")] {
        let mut world = fair_world();
        world.lock = found;
        world.new_machine = Observed::Absent;
        world.new_node = Observed::Absent;
        world.run.call_off = Some("the run is gone".to_owned());
        for step in [TaskStep::Undo, TaskStep::Release, TaskStep::Failed] {
            let decision = decide(&world, &Settings::default(), after(1));
            assert_eq!(decision.status.step_name(), step);
            assert_eq!(decision.effects, []);
            world.task.status = Some(decision.status);
        }
    }
}

#[test]
fn a_task_whose_lock_was_taken_for_too_long_tries_again() {
    let mut world = fair_world();
    world.lock = lock("another");
    world.new_machine = Observed::Absent;
    world.new_node = Observed::Absent;
    let late = after(60);
    for step in [TaskStep::Undo, TaskStep::Backoff] {
        let decision = decide(&world, &Settings::default(), late);
        assert_eq!(decision.status.step_name(), step);
        world.task.status = Some(decision.status);
    }
    let later = late + Settings::default().retry_backoff;
    let decision = decide(&world, &Settings::default(), later);
    assert_eq!(decision.status.step_name(), TaskStep::Lock);
}

#[test]
fn a_terminate_first_task_that_is_tried_again_takes_its_lock_first() {
    let mut world = fair_world();
    world.lock = Observed::Absent;
    world.slot = Observed::Present(());
    let status = world.task.status.get_or_insert_default();
    status.terminate_first = Some(true);
    status.parked = Some(ParkRecord {
        reason: "AskedAgain".to_owned(),
        message: "a person asked for another try".to_owned(),
        since: Time(start()),
        resuming: true,
        turn_since: None,
    });
    status.step = Some(StepRecord {
        name: TaskStep::Parked,
        since: Time(start()),
        deadline: None,
    });
    let decision = decide(&world, &Settings::default(), after(1));
    assert_eq!(decision.status.step_name(), TaskStep::Lock);
}

#[test]
fn a_lock_that_somebody_removed_is_taken_anew_before_anything_else_is_done() {
    let unclear = Observed::Unknown("no answer".to_owned());
    // Whether the task is at work, as just read.
    let table = [
        (Observed::Present(()), true),
        (Observed::Absent, false),
        (Observed::NotAsked, false),
        (unclear, false),
    ];
    for (at_work, is_taken) in table {
        for step in WORK {
            let mut world = world_at(step);
            let record = world.task.status.as_mut().unwrap().step.as_mut().unwrap();
            record.deadline = None;
            world.pods = Observed::Present(vec![pod("a")]);
            world.lock = Observed::Absent;
            world.at_work = at_work.clone();
            let decision = decide(&world, &Settings::default(), after(6));
            let wanted: &[&str] = if is_taken { &["AcquireLock"] } else { &[] };
            assert_eq!(effects(&decision), wanted, "{step:?} {at_work:?}");
            let words = "the lock of node old, which somebody has removed";
            assert_eq!(decision.status.waiting_for.as_deref(), Some(words));
            // Its node has gone in the meantime, and so has its lock.
            world.old_node = Observed::Absent;
            let decision = decide(&world, &Settings::default(), after(6));
            assert!(!effects(&decision).contains(&"AcquireLock"), "{step:?}");
        }
    }
}

/// A task at this step that had the lock, whose node carries its cordon.
fn closed_at(step: TaskStep) -> TaskSnapshot {
    let mut world = world_at(TaskStep::Drain);
    world.old_node = Observed::Present(NodeView {
        unschedulable: true,
        cordoned_by: Some(OPERATION.to_owned()),
        ..node("old")
    });
    let status = world.task.status.as_mut().unwrap();
    status.parked = (step == TaskStep::Parked).then(|| ParkRecord {
        reason: "DrainTimedOut".to_owned(),
        message: "a pod is left".to_owned(),
        since: Time(start()),
        resuming: false,
        turn_since: None,
    });
    status.step = Some(StepRecord {
        name: step,
        since: Time(start()),
        deadline: None,
    });
    world
}

#[test]
fn the_way_back_goes_on_though_somebody_removed_the_lock() {
    for step in [TaskStep::Undo, TaskStep::Parked] {
        let mut world = closed_at(step);
        world.lock = Observed::Absent;
        let decision = decide(&world, &Settings::default(), after(6));
        assert_eq!(effects(&decision), ["EnsureUncordoned"], "{step:?}");
        world.lock = lock("another");
        let decision = decide(&world, &Settings::default(), after(6));
        assert!(effects(&decision).is_empty(), "{step:?}: it is another's");
    }
    let mut world = closed_at(TaskStep::Backoff);
    world.lock = Observed::Absent;
    let decision = decide(&world, &Settings::default(), after(60));
    assert_eq!(decision.status.step_name(), TaskStep::Lock);
}
