//! Tables for slots that nobody works under any more.

use super::*;

#[test]
fn slots_that_nobody_works_under_are_given_back_by_the_write_that_grants_the_next() {
    let snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&[slot("x", "z1"), slot("y", "z1")]),
        abandoned: vec![("x-uid".to_owned(), "ns/task-x".to_owned())],
        ..planned()
    };
    let decision = look(&snapshot);
    assert_eq!(names_of(&decision), ["GrantSlots", "EnsureTask"]);
    let Some(Effect::GrantSlots { ledger, slots }) = decision.effects.first() else {
        panic!("{:?}", decision.effects)
    };
    let left: Vec<&str> = ledger.slots.keys().map(String::as_str).collect();
    assert_eq!((left, slots.len()), (vec!["y-uid"], 1));
}

#[test]
fn slots_of_tasks_that_are_over_are_given_back_though_nobody_waits_and_before_the_end() {
    for iteration in [0, 2] {
        let mut snapshot = RunSnapshot {
            ledger: ledger(&[slot("x", "z1")]),
            abandoned: vec![("x-uid".to_owned(), "ns/task-x".to_owned())],
            ..planned()
        };
        snapshot.run.status.as_mut().unwrap().current_iteration = Some(iteration);
        let decision = look(&snapshot);
        assert_eq!(names_of(&decision).first(), Some(&"GrantSlots"));
        assert!(!is_over(&decision.status));
    }
}

#[test]
fn the_slot_of_a_task_that_is_made_again_stays() {
    let node = waiting("a", "z1");
    let (uid, mut held) = slot("a", "z1");
    held.task.clone_from(&node.task);
    let snapshot = RunSnapshot {
        abandoned: vec![(uid.clone(), node.task.clone())],
        ledger: ledger(&[(uid, held)]),
        waiting: vec![node],
        ..planned()
    };
    assert_eq!(names_of(&look(&snapshot)), ["EnsureTask"]);
}

#[test]
fn a_run_that_ends_gives_back_the_slot_of_a_task_that_it_never_made() {
    for is_deleted in [true, false] {
        let node = waiting("a", "z1");
        let (uid, mut held) = slot("a", "z1");
        held.task.clone_from(&node.task);
        let mut snapshot = RunSnapshot {
            abandoned: vec![(uid.clone(), node.task.clone())],
            ledger: ledger(&[(uid, held)]),
            waiting: vec![node],
            ..planned()
        };
        if is_deleted {
            snapshot.run.metadata.deletion_timestamp = Some(Time(now()));
        } else {
            snapshot.run.spec.abort = Some(true);
        }
        assert_eq!(names_of(&look(&snapshot)), ["GrantSlots"]);
    }
}

#[test]
fn no_run_ends_while_nobody_can_tell_which_slots_are_taken() {
    let mut completed = planned();
    completed.run.status.as_mut().unwrap().current_iteration = Some(1);
    let mut aborted = planned();
    aborted.run.spec.abort = Some(true);
    let mut deleted = planned();
    deleted.run.metadata.deletion_timestamp = Some(Time(now()));
    for mut snapshot in [completed, aborted, deleted] {
        snapshot.ledger = Observed::Unknown("no answer".to_owned());
        let decision = look(&snapshot);
        assert_eq!(names_of(&decision), Vec::<&str>::new());
        assert!(!is_over(&decision.status));
        assert!(decision.status.waiting_for.unwrap().contains("no answer"));
    }
}
