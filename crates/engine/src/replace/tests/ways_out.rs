//! Tables for the ways out: deadlines, attempts, undo, calling off and modes.

use jiff::SignedDuration;
use shipshape_api::NodePatchRunSpec;
use shipshape_api::conditions::{OLD_DELETED, OVERDUE};
use shipshape_api::gates::{LabelTransfer, ReplacementMode};
use shipshape_api::node_patch_task::{UndoNext, UndoRecord};
use shipshape_api::{CspState, DrainOptions, OnDeadline, PendingNodeGoal};

use super::*;
use crate::condition::{Claim, Truth};
use crate::snapshot::PendingView;

pub(super) fn late() -> Timestamp {
    start() + SignedDuration::from_hours(2)
}

pub(super) fn next(world: &TaskSnapshot, at: Timestamp) -> TaskSnapshot {
    let mut world = world.clone();
    world.task.status = Some(decide(&world, &Settings::default(), at).status);
    world
}

fn undo_next(world: &TaskSnapshot) -> Option<UndoNext> {
    let undo = world.task.status.as_ref()?.undo.as_ref()?;
    Some(undo.next)
}

fn unknown<T>() -> Observed<T> {
    Observed::Unknown("no answer".to_owned())
}

pub(super) fn pending(goal: PendingNodeGoal, state: CspState) -> Observed<PendingView> {
    let state = Some(state);
    Observed::Present(PendingView { goal, state })
}

/// A world that gives no answer, seen by a task at `step`.
pub(super) fn silent(step: TaskStep) -> TaskSnapshot {
    TaskSnapshot {
        old_node: unknown(),
        new_node: unknown(),
        old_machine: unknown(),
        new_machine: unknown(),
        pending: unknown(),
        pods: unknown(),
        slot: unknown(),
        lock: unknown(),
        ..world_at(step)
    }
}

#[test]
fn every_step_that_waits_has_a_deadline_and_an_answer_to_it() {
    let table = [
        (TaskStep::Lock, TaskStep::Undo),
        (TaskStep::Provision, TaskStep::Undo),
        (TaskStep::Join, TaskStep::Undo),
        (TaskStep::Cordon, TaskStep::Undo),
        (TaskStep::Drain, TaskStep::Parked),
        (TaskStep::Remove, TaskStep::Remove),
        (TaskStep::Forget, TaskStep::Forget),
        (TaskStep::Release, TaskStep::Release),
    ];
    for (step, answer) in table {
        let world = silent(step);
        assert_eq!(step_of(&next(&world, start())), step, "in time");
        let after = next(&world, late());
        assert_eq!(step_of(&after), answer, "{step:?} past its deadline");
        let status = after.task.status.unwrap();
        let is_overdue = condition::is_true(&status.conditions, OVERDUE);
        assert_eq!(is_overdue, step == answer, "{step:?} says so and goes on");
        let is_named = status.waiting_for.is_some() || status.last_error.is_some();
        assert!(is_named, "{step:?} names a reason");
    }
}

#[test]
fn a_lost_replacement_is_tried_again_until_the_attempts_are_used_up() {
    let lost = [
        (PendingNodeGoal::Join, CspState::Terminating),
        (PendingNodeGoal::Join, CspState::Terminated),
        (PendingNodeGoal::Join, CspState::Failed),
        (PendingNodeGoal::Leave, CspState::Ready),
    ];
    for (goal, state) in lost {
        let mut world = world_at(TaskStep::Join);
        world.pending = pending(goal, state);
        world.task.spec.max_attempts = Some(2);
        let first = next(&world, start());
        assert_eq!(undo_next(&first), Some(UndoNext::Retry));
        world.task.status.as_mut().unwrap().attempt = Some(2);
        let last = next(&world, start());
        assert_eq!(undo_next(&last), Some(UndoNext::Fail));
    }
}

#[test]
fn a_machine_that_stays_beside_the_old_one_is_one_too_many() {
    let mut task = world_at(TaskStep::Done).task;
    let status = task.status.as_mut().unwrap();
    status.step.as_mut().unwrap().name = TaskStep::Failed;
    status.conditions.clear();
    assert!(!has_surplus(&task), "its new machine is gone");
    task.status.as_mut().unwrap().undo = Some(UndoRecord {
        reason: "CalledOff".to_owned(),
        message: String::new(),
        next: UndoNext::CallOff,
        keeps_machine: true,
    });
    assert!(has_surplus(&task) && !has_lost_place(&task));
    let claim = Claim {
        kind: OLD_DELETED,
        truth: Truth::True,
        reason: "MachineGone",
        message: String::new(),
    };
    let status = task.status.as_mut().unwrap();
    condition::set(&mut status.conditions, claim, None, start());
    assert!(!has_surplus(&task), "it stands in the place of the old one");
}

#[test]
fn a_run_that_has_come_to_allow_fewer_attempts_is_heard() {
    let mut world = world_at(TaskStep::Join);
    world.pending = pending(PendingNodeGoal::Join, CspState::Failed);
    world.task.spec.max_attempts = Some(3);
    world.run.spec = Some(Box::new(NodePatchRunSpec {
        max_attempts: Some(1),
        ..NodePatchRunSpec::default()
    }));
    let ended = next(&world, start());
    assert_eq!(undo_next(&ended), Some(UndoNext::Fail));
}

#[test]
fn undo_lifts_our_cordon_then_removes_the_machine_then_its_node() {
    let mut world = next(&silent(TaskStep::Join), late());
    world.old_node = Observed::Present(NodeView {
        unschedulable: true,
        cordoned_by: Some(OPERATION.to_owned()),
        ..node("old")
    });
    world.new_node = Observed::Absent;
    world.pending = Observed::Absent;
    world.new_machine = Observed::Present(machine("m-new", MachineState::Ready));
    assert_eq!(effects(&look(&world)), ["EnsureUncordoned"]);
    world.old_node = Observed::Present(node("old"));
    assert_eq!(effects(&look(&world)), ["DeleteMachine"]);
    world.new_machine = Observed::Present(machine("m-new", MachineState::Terminating));
    assert_eq!(effects(&look(&world)), ["EnsurePending"]);
    world.pending = pending(PendingNodeGoal::Leave, CspState::Terminating);
    assert_eq!(effects(&look(&world)), Vec::<&str>::new());
    world.pending = Observed::Absent;
    world.new_machine = Observed::Absent;
    world.new_node = Observed::Present(NodeView {
        provider_id: Some("embedded:///a/m-new".into()),
        ..node("new")
    });
    assert_eq!(effects(&look(&world)), ["DeleteNode"]);
    world.new_node = Observed::Absent;
    let done = next(&world, start());
    assert_eq!(step_of(&done), TaskStep::Backoff);
    let status = done.task.status.unwrap();
    assert_eq!(status.attempt, Some(2));
    assert_eq!((status.replacement, status.new_machine), (None, None));
}

#[test]
fn a_cordon_of_somebody_else_survives_the_undo() {
    let mut world = next(&silent(TaskStep::Join), late());
    world.old_node = Observed::Present(NodeView {
        unschedulable: true,
        ..node("old")
    });
    world.new_machine = Observed::Absent;
    world.new_node = Observed::Absent;
    assert_eq!(effects(&look(&world)), Vec::<&str>::new());
}

#[test]
fn a_machine_that_was_only_asked_for_is_waited_for_before_the_undo_is_over() {
    let mut world = next(&silent(TaskStep::Provision), late());
    world.old_node = Observed::Present(node("old"));
    world.pending = Observed::Absent;
    world.new_machine = Observed::Absent;
    world.new_node = Observed::Absent;
    assert_eq!(step_of(&next(&world, late())), TaskStep::Undo);
    let later = late() + Settings::default().cloud_lag;
    assert_eq!(step_of(&next(&world, later)), TaskStep::Backoff);
}

#[test]
fn a_new_node_that_was_ready_is_emptied_before_its_machine_goes() {
    let mut world = world_at(TaskStep::Cordon);
    world.run.call_off = Some("somebody said so".to_owned());
    let mut world = next(&world, start());
    assert_eq!(step_of(&world), TaskStep::Undo);
    world.new_pods = Observed::Present(vec![pod("a")]);
    assert_eq!(effects(&look(&world)), ["EnsureCordoned"]);
    world.new_node = Observed::Present(NodeView {
        unschedulable: true,
        cordoned_by: Some(OPERATION.to_owned()),
        ..node("new")
    });
    assert_eq!(effects(&look(&world)), ["EvictPod"]);
    let kept = next(&world, late());
    assert!(
        kept.task
            .status
            .clone()
            .unwrap()
            .undo
            .unwrap()
            .keeps_machine
    );
    let decision = decide(&kept, &Settings::default(), late());
    assert_eq!(
        effects(&decision).last(),
        Some(&"EnsureUncordoned"),
        "past the deadline it stays and takes pods again"
    );
    world.new_pods = Observed::Present(Vec::new());
    assert_eq!(effects(&look(&world)), ["DeleteMachine"]);
}

#[test]
fn an_undo_of_a_node_that_was_ready_for_a_moment_empties_it_and_has_an_end() {
    let mut world = world_at(TaskStep::Join);
    world.run.call_off = Some("somebody said so".to_owned());
    let mut world = next(&world, start());
    assert_eq!(step_of(&world), TaskStep::Undo);
    let sick = |unschedulable: bool| {
        Observed::Present(NodeView {
            ready: false,
            unschedulable,
            ..node("new")
        })
    };
    world.new_node = sick(false);
    world.new_machine = Observed::Present(machine("m-new", MachineState::Ready));
    let begun = pod("a");
    let never_begun = PodView {
        pending: true,
        ..pod("a")
    };
    world.new_pods = Observed::Present(vec![never_begun]);
    assert_eq!(effects(&look(&world)), ["DeleteMachine"]);
    world.new_pods = Observed::Present(vec![begun]);
    assert_eq!(effects(&look(&world)), ["EnsureCordoned"]);
    world.new_node = sick(true);
    assert_eq!(effects(&look(&world)), ["EvictPod"]);
    let past = decide(&world, &Settings::default(), late());
    assert!(effects(&past).contains(&"DeleteMachine"), "{past:?}");
    assert!(!past.status.undo.unwrap().keeps_machine);
}

#[test]
fn a_new_machine_whose_end_was_asked_for_is_not_kept_at_the_deadline() {
    let mut world = world_at(TaskStep::Cordon);
    world.run.call_off = Some("somebody said so".to_owned());
    let mut world = next(&world, start());
    for state in [MachineState::Terminating, MachineState::Ready] {
        world.new_machine = Observed::Present(machine("m-new", state));
        world.new_pods = Observed::Present(vec![pod("a")]);
        let past = next(&world, late());
        let keeps_machine = past.task.status.unwrap().undo.unwrap().keeps_machine;
        assert_eq!(keeps_machine, state == MachineState::Ready);
    }
}

/// A leader that was held up may have read the old node before the task was turned, and close it after.
#[test]
fn an_undo_gives_the_old_node_another_version_before_it_closes_the_new_one() {
    let mut world = world_at(TaskStep::Cordon);
    let run = world.task.spec.run_uid.clone();
    let marked = |renewed: Option<i64>| {
        Observed::Present(NodeView {
            marks: vec![run.clone()],
            renewed_marks: renewed
                .map(|second| (run.clone(), Timestamp::from_second(second).unwrap()))
                .into_iter()
                .collect(),
            ..node("old")
        })
    };
    world.old_node = marked(None);
    assert_eq!(effects(&look(&world)), ["EnsureCordoned"]);
    world.run.call_off = Some("somebody said so".to_owned());
    let turned = start() + SignedDuration::from_millis(1700);
    let mut world = next(&world, turned);
    world.new_pods = Observed::Present(vec![pod("a")]);
    let now = start().as_second() + 1;
    for before in [None, Some(now - 1), Some(now + 60)] {
        // An earlier attempt may have been given up by a leader whose clock was ahead.
        world.old_node = marked(before);
        let decision = look(&world);
        let [Effect::RenewMark { node, at }] = decision.effects.as_slice() else {
            panic!("{:?}", decision.effects);
        };
        assert_eq!((node.name.as_str(), &node.operation), ("old", &run));
        assert_eq!(at.as_second(), now);
        assert_eq!(at.subsec_nanosecond(), 0, "a taint tells whole seconds");
    }
    world.old_node = marked(None);
    let past = decide(&world, &Settings::default(), late());
    assert!(!effects(&past).contains(&"RenewMark"), "{past:?}");
    world.old_node = marked(Some(now));
    let decision = look(&world);
    let [Effect::EnsureCordoned(node)] = decision.effects.as_slice() else {
        panic!("{:?}", decision.effects);
    };
    assert_eq!(node.name, "new");
}

#[test]
fn an_undo_renews_no_mark_where_no_machine_was_asked_for() {
    let mut world = world_at(TaskStep::Lock);
    let run = world.task.spec.run_uid.clone();
    world.old_node = Observed::Present(NodeView {
        marks: vec![run],
        ..node("old")
    });
    world.run.call_off = Some("somebody said so".to_owned());
    let mut world = next(&world, start());
    world.new_machine = Observed::Absent;
    world.new_node = Observed::Absent;
    assert_eq!(effects(&look(&world)), Vec::<&str>::new());
}

#[test]
fn a_task_is_called_off_up_to_the_removal_and_finished_from_there() {
    let table = [
        (TaskStep::Lock, true),
        (TaskStep::Provision, true),
        (TaskStep::Join, true),
        (TaskStep::Cordon, true),
        (TaskStep::Drain, true),
        (TaskStep::Remove, false),
        (TaskStep::Forget, false),
        (TaskStep::Release, false),
    ];
    for (step, is_undone) in table {
        let mut world = world_at(step);
        world.run.call_off = Some("somebody said so".to_owned());
        world.pods = Observed::Present(vec![pod("a")]);
        let after = next(&world, start());
        assert_eq!(step_of(&after) == TaskStep::Undo, is_undone, "{step:?}");
    }
}

#[test]
fn a_called_off_task_ends_as_failed_and_is_not_tried_again() {
    let mut world = world_at(TaskStep::Lock);
    world.run.call_off = Some("somebody said so".to_owned());
    let mut world = next(&world, start());
    world.new_machine = Observed::Absent;
    world.new_node = Observed::Absent;
    let mut world = next(&world, start());
    assert_eq!(step_of(&world), TaskStep::Release);
    world.lock = Observed::Absent;
    let world = next(&world, start());
    assert_eq!(step_of(&world), TaskStep::Failed);
    assert_eq!(look(&world).effects, []);
}

#[test]
fn a_node_that_left_before_the_start_ends_the_task_well() {
    let mut world = fair_world();
    world.old_node = Observed::Absent;
    let mut world = next(&world, start());
    assert_eq!(undo_next(&world), Some(UndoNext::Leave));
    world.new_machine = Observed::Absent;
    world.new_node = Observed::Absent;
    let mut world = next(&world, start());
    world.lock = Observed::Absent;
    assert_eq!(step_of(&next(&world, start())), TaskStep::Done);
}

#[test]
fn the_run_says_what_follows_a_drain_past_its_deadline() {
    for (rule, step) in [
        (OnDeadline::Park, TaskStep::Parked),
        (OnDeadline::Fail, TaskStep::Undo),
        (OnDeadline::Force, TaskStep::Remove),
    ] {
        let mut world = world_at(TaskStep::Drain);
        world.pods = Observed::Present(vec![pod("a")]);
        world.task.spec.drain = Some(DrainOptions {
            on_deadline: Some(rule),
            ..DrainOptions::default()
        });
        let after = next(&world, late());
        assert_eq!(step_of(&after), step);
        if rule == OnDeadline::Force {
            assert_eq!(effects(&look(&after)), ["DeleteMachine"]);
        }
    }
}

#[test]
fn labels_are_recorded_from_the_old_node_and_only_missing_ones_are_added() {
    let mut world = fair_world();
    world.task.spec.label_transfer = Some(LabelTransfer {
        prefixes: vec!["example.com/".to_owned()],
        ..LabelTransfer::default()
    });
    let labels = |value: &str| {
        [("example.com/pool".to_owned(), value.to_owned())]
            .into_iter()
            .collect()
    };
    world.old_node = Observed::Present(NodeView {
        labels: labels("blue"),
        ..node("old")
    });
    let world = next(&next(&next(&world, start()), start()), start());
    assert_eq!(step_of(&world), TaskStep::Transfer);
    assert_eq!(effects(&look(&world)), ["EnsureLabels"]);
    let mut other = world.clone();
    other.new_node = Observed::Present(NodeView {
        labels: labels("red"),
        ..node("new")
    });
    assert_eq!(look(&other).effects, [], "never overwritten");
    assert_eq!(step_of(&next(&other, start())), TaskStep::Cordon);
}

#[test]
fn required_daemons_must_be_ready_on_the_new_node() {
    let mut world = world_at(TaskStep::Join);
    world.task.spec.required_node_daemon_pod_selectors =
        vec![shipshape_api::selectors::PodSelector::default()];
    world.new_pods = Observed::Present(vec![pod("cni")]);
    assert_eq!(step_of(&next(&world, start())), TaskStep::Join);
    world.new_pods = Observed::Present(vec![PodView {
        ready: true,
        ..pod("cni")
    }]);
    assert_eq!(step_of(&next(&world, start())), TaskStep::Cordon);
}

#[test]
fn terminate_first_empties_and_removes_the_old_machine_before_the_new_one_is_asked_for() {
    let mut world = fair_world();
    world.task.spec.replacement = Some(ReplacementMode::TerminateFirst);
    world.new_machine = Observed::Absent;
    world.new_node = Observed::Absent;
    let mut steps = Vec::new();
    for _ in 0..12 {
        steps.push(step_of(&world));
        match step_of(&world) {
            TaskStep::Cordon => {
                world.old_node = Observed::Present(NodeView {
                    unschedulable: true,
                    ..node("old")
                });
            }
            TaskStep::Remove => world.old_machine = Observed::Absent,
            TaskStep::Forget => world.old_node = Observed::Absent,
            TaskStep::Provision => {
                assert_eq!(effects(&look(&world)), ["EnsureReplacement"]);
                let made = machine("m-new", MachineState::Ready);
                world.new_machine = Observed::Present(completed(made));
            }
            TaskStep::Join => world.new_node = Observed::Present(node("new")),
            TaskStep::Release => world.lock = Observed::Absent,
            TaskStep::Done => break,
            TaskStep::Lock
            | TaskStep::Transfer
            | TaskStep::Settle
            | TaskStep::Drain
            | TaskStep::Recover
            | TaskStep::RemoveMember
            | TaskStep::Undo
            | TaskStep::Backoff
            | TaskStep::Parked
            | TaskStep::Failed => {}
        }
        world = next(&world, start());
    }
    assert_eq!(
        steps,
        [
            TaskStep::Lock,
            TaskStep::Cordon,
            TaskStep::Drain,
            TaskStep::Remove,
            TaskStep::Forget,
            TaskStep::Provision,
            TaskStep::Join,
            TaskStep::Release,
            TaskStep::Done
        ]
    );
}

#[test]
fn the_old_machine_goes_first_for_want_of_room_only_when_the_run_says_so() {
    for (mode, step) in [
        (ReplacementMode::Surge, TaskStep::Provision),
        (ReplacementMode::SurgeElseTerminateFirst, TaskStep::Cordon),
    ] {
        let mut world = world_at(TaskStep::Provision);
        world.task.spec.replacement = Some(mode);
        world.new_machine = Observed::Absent;
        let record = world.task.status.as_mut().unwrap().replacement.as_mut();
        record.unwrap().no_room = Some("zone a is full".to_owned());
        assert_eq!(step_of(&next(&world, start())), step);
    }
}

#[test]
fn want_of_room_sets_the_node_aside_and_counts_only_in_the_last_round() {
    let mut world = world_at(TaskStep::Provision);
    world.new_machine = Observed::Absent;
    let record = world.task.status.as_mut().unwrap().replacement.as_mut();
    record.unwrap().no_room = Some("zone a is full".to_owned());
    let parked = next(&world, late());
    assert_eq!(step_of(&parked), TaskStep::Parked);
    assert_eq!(parked.task.status.clone().unwrap().attempt, Some(1));
    let again = late() + Settings::default().retry_backoff_max;
    assert!(
        !next(&parked, late())
            .task
            .status
            .unwrap()
            .parked
            .unwrap()
            .resuming
    );
    assert!(
        next(&parked, again)
            .task
            .status
            .unwrap()
            .parked
            .unwrap()
            .resuming
    );
    world.run.last_round = true;
    let counted = next(&world, late());
    assert_eq!(counted.task.status.unwrap().attempt, Some(2));
}

#[test]
fn protection_that_the_cloud_still_shows_is_waited_for_and_not_hammered() {
    let mut world = world_at(TaskStep::Release);
    world.new_machine = Observed::Present(Machine {
        protected: true,
        ..machine("m-new", MachineState::Ready)
    });
    assert!(look(&world).wake.unwrap() > start());
}
