//! Tables for slots that nobody works under any more.

use super::*;
use crate::ledger::Slotless;

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
    let table: [(_, &[&str]); 3] = [
        (completed, &[]),
        (aborted, &["MarkNode"]),
        (deleted, &["MarkNode"]),
    ];
    for (mut snapshot, put_back) in table {
        snapshot.ledger = Observed::Unknown("no answer".to_owned());
        snapshot.marked = vec![target("a")];
        let decision = look(&snapshot);
        assert_eq!(
            names_of(&decision),
            put_back,
            "a person who calls it off is not kept waiting"
        );
        snapshot.marked.clear();
        let decision = look(&snapshot);
        assert_eq!(names_of(&decision), Vec::<&str>::new());
        assert!(!is_over(&decision.status));
        assert!(decision.status.waiting_for.unwrap().contains("no answer"));
    }
}

fn lost(names: &[&str]) -> Slotless {
    let at_work: Vec<NodePatchTask> = names
        .iter()
        .map(|name| {
            let mut task = task_at(name, TaskStep::Drain);
            task.spec.node_uid = format!("{name}-uid");
            task.spec.run_uid = "another-run".to_owned();
            task
        })
        .collect();
    let role = |_: &NodePatchTask| Role::Worker;
    Slotless::among(at_work.iter(), &Ledger::default(), role, now())
}

#[test]
fn tasks_at_work_count_though_the_ledger_is_lost_and_are_written_into_it_again() {
    let snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: Observed::Present(Ledger::default()),
        slotless: lost(&["x", "y"]),
        ..planned()
    };
    let decision = look(&snapshot);
    assert_eq!(names_of(&decision), ["GrantSlots"], "no task is made");
    let Some(Effect::GrantSlots { ledger, slots }) = decision.effects.first() else {
        panic!("{:?}", decision.effects)
    };
    let written: Vec<&str> = ledger.slots.keys().map(String::as_str).collect();
    assert_eq!((written, slots.len()), (vec!["x-uid", "y-uid"], 0));
    assert_eq!(ledger.slots["x-uid"].owner, "another-run");
    let [notice] = decision.notices.as_slice() else {
        panic!("{:?}", decision.notices)
    };
    assert!(notice.warning && notice.message.contains("x and 1 more"));
    // With one lost of two the other may begin, by the same write.
    let one = RunSnapshot {
        slotless: lost(&["x"]),
        ..snapshot
    };
    let decision = look(&one);
    assert_eq!(created(&decision), ["a"]);
}

#[test]
fn a_task_that_is_set_aside_or_over_needs_no_slot_and_one_that_is_put_back_is_no_wonder() {
    let found = |step| {
        let task = task_at("x", step);
        let role = |_: &NodePatchTask| Role::Worker;
        let found = Slotless::among(std::iter::once(&task), &Ledger::default(), role, now());
        (found.slots.len(), found.nodes.len())
    };
    assert_eq!(found(TaskStep::Lock), (1, 1));
    assert_eq!(found(TaskStep::Backoff), (1, 1));
    assert_eq!(found(TaskStep::Undo), (1, 0));
    for over in [TaskStep::Parked, TaskStep::Release, TaskStep::Failed] {
        assert_eq!(found(over), (0, 0));
    }
}

#[test]
fn a_stray_key_costs_one_slot_and_is_told_once() {
    let stray = |slots: &[(String, Slot)]| {
        let Observed::Present(read) = ledger(slots) else {
            panic!("it is there")
        };
        Observed::Present(Ledger {
            unreadable: [("note".to_owned(), "x".to_owned())].into(),
            ..read
        })
    };
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1"), waiting("b", "z1")],
        ledger: stray(&[]),
        ..planned()
    };
    let decision = look(&snapshot);
    assert_eq!(created(&decision), ["a"], "one of two");
    let held_by = decision.status.waiting_for.clone().unwrap();
    assert!(held_by.contains("\"note\""), "{held_by}");
    let told: Vec<_> = decision.notices.iter().map(|one| one.reason).collect();
    assert_eq!(told, ["LedgerKeyUnreadable"]);
    snapshot.run.status = Some(decision.status);
    assert_eq!(look(&snapshot).notices, [], "told once");
    snapshot.ledger = ledger(&[]);
    let mended = look(&snapshot).status.conditions;
    assert!(condition::is_true(&mended, "LedgerReadable"));
    snapshot.run.spec.abort = Some(true);
    snapshot.ledger = stray(&[]);
    snapshot.others = 1;
    assert!(is_over(&look(&snapshot).status), "an ending goes on");
}

#[test]
fn nodes_that_cannot_begin_let_the_others_pass_and_are_begun_all_the_same_past_a_deadline() {
    let unclear = |name| Waiting {
        group: Observed::Unknown("no provider id yet".to_owned()),
        ..waiting(name, "z1")
    };
    let mut snapshot = RunSnapshot {
        waiting: vec![unclear("a"), waiting("b", "z1")],
        ledger: ledger(&[]),
        ..planned()
    };
    let decision = look(&snapshot);
    assert_eq!(created(&decision), ["b"], "the next one goes first");
    assert!(!condition::is_true(&decision.status.conditions, "HeldUp"));
    snapshot.waiting.pop();
    let stuck = look(&snapshot);
    assert_eq!(created(&stuck), Vec::<&str>::new());
    let told: Vec<_> = stuck.notices.iter().map(|one| one.reason).collect();
    assert_eq!(told, ["HeldUp"]);
    assert!(condition::is_true(&stuck.status.conditions, "HeldUp"));
    snapshot.run.status = Some(stuck.status);
    let limit = Settings::default().deadlines.lock;
    let before = now() + limit - SignedDuration::from_secs(1);
    let early = decide(&snapshot, &Settings::default(), before);
    assert_eq!((created(&early).len(), early.notices.len()), (0, 0));
    let late = decide(&snapshot, &Settings::default(), now() + limit);
    assert_eq!(created(&late), ["a"]);
    // While somebody else of the run is at work, nobody is forced.
    snapshot.open = vec![task_at("b", TaskStep::Drain).into()];
    let busy = decide(&snapshot, &Settings::default(), now() + limit);
    assert_eq!(created(&busy), Vec::<&str>::new());
    snapshot.open.clear();
    snapshot.waiting.clear();
    let over = look(&snapshot).status;
    assert!(condition::is_false(&over.conditions, "HeldUp"));
}

#[test]
fn an_iteration_beyond_the_plan_does_not_end_the_run() {
    for iteration in [77, -3] {
        let mut snapshot = planned();
        snapshot.run.status.as_mut().unwrap().current_iteration = Some(iteration);
        let decision = look(&snapshot);
        assert_eq!(decision.status.current_iteration, Some(0));
        assert_eq!(decision.effects, []);
        let told: Vec<_> = decision.notices.iter().map(|one| one.reason).collect();
        assert_eq!(told, ["IterationUnknown"]);
    }
}

#[test]
fn nodes_that_were_never_begun_are_not_said_to_have_left() {
    let mut snapshot = RunSnapshot {
        succeeded: 1,
        untried: 2,
        others: 1,
        ..planned()
    };
    snapshot.run.status.as_mut().unwrap().current_iteration = Some(2);
    let decision = look(&snapshot);
    assert_eq!(decision.status.left, None);
    let message = &decision.notices.last().unwrap().message;
    assert!(
        message.contains("2 are there and were never begun"),
        "{message}"
    );
}
