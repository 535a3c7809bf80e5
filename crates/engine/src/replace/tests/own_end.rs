//! Tables for old machines that end by themselves, where their group makes others in their place.

use shipshape_api::gates::ReplacementMode;
use shipshape_api::node_patch_task::UndoNext;
use shipshape_api::{DrainOptions, OnDeadline};

use super::*;

/// A task that lets the old machine go first, as far as `step`.
fn old_first_at(step: TaskStep) -> TaskSnapshot {
    let mut world = world_at(step);
    world.task.spec.replacement = Some(ReplacementMode::TerminateFirst);
    world.task.status.as_mut().unwrap().terminate_first = Some(true);
    world
}

fn is_left_to_group(decision: &Decision<NodePatchTaskStatus>) -> bool {
    let undo = decision.status.undo.as_ref();
    let message = undo.map(|undo| undo.message.as_str()).unwrap_or_default();
    let is_left = undo.is_some_and(|undo| undo.next == UndoNext::Leave);
    assert_eq!(is_left, step(decision) == TaskStep::Undo, "{decision:?}");
    assert_eq!(
        is_left,
        message.contains("m-old of node old has ended by itself")
    );
    is_left
}

#[test]
fn an_old_machine_that_ended_by_itself_before_its_turn_is_left_to_its_group() {
    let gone = [
        Observed::Absent,
        Observed::Present(machine("m-old", MachineState::Terminating)),
        Observed::Present(machine("m-old", MachineState::Terminated)),
    ];
    for at in [TaskStep::Cordon, TaskStep::Drain] {
        for old in &gone {
            let mut world = old_first_at(at);
            world.old_node = Observed::Absent;
            world.old_machine = old.clone();
            assert!(is_left_to_group(&look(&world)), "{at:?}");
        }
    }
    let mut emptied = old_first_at(TaskStep::Drain);
    emptied.old_machine = Observed::Absent;
    assert!(is_left_to_group(&look(&emptied)), "its Node is still there");
}

#[test]
fn an_old_machine_that_runs_or_was_not_asked_about_is_removed_as_ever() {
    let runs = Observed::Present(machine("m-old", MachineState::Ready));
    for old in [runs, Observed::NotAsked] {
        let mut world = old_first_at(TaskStep::Drain);
        world.old_node = Observed::Absent;
        world.old_machine = old;
        let decision = look(&world);
        assert!(!is_left_to_group(&decision));
        assert_eq!(step(&decision), TaskStep::Remove);
    }
    let mut world = old_first_at(TaskStep::Drain);
    world.old_node = Observed::Absent;
    world.old_machine = Observed::Unknown("throttled".to_owned());
    let decision = look(&world);
    assert_eq!(step(&decision), TaskStep::Drain, "it may be either");
    assert!(decision.status.waiting_for.unwrap().contains("throttled"));
}

#[test]
fn an_end_that_may_have_been_asked_for_is_nobodys_own() {
    let mut world = old_first_at(TaskStep::Remove);
    assert_eq!(effects(&look(&world)), ["DeleteMachine"]);
    world.pods = Observed::Present(vec![pod("a")]);
    world.task.status = Some(look(&world).status);
    assert_eq!(step_of(&world), TaskStep::Cordon);
    world.old_node = Observed::Absent;
    world.old_machine = Observed::Absent;
    let decision = look(&world);
    assert!(!is_left_to_group(&decision));
    assert_eq!(
        step(&decision),
        TaskStep::Remove,
        "its place is ours to fill"
    );
}

#[test]
fn nobody_calls_a_task_off_whose_old_machine_may_be_ending_unseen() {
    let mut world = world_at(TaskStep::Remove);
    world.pods = Observed::Present(vec![pod("a")]);
    world.task.status = Some(look(&world).status);
    assert_eq!(step_of(&world), TaskStep::Cordon);
    world.run.call_off = Some("spec.abort of run r is true".to_owned());
    let later = start() + Settings::default().deadlines.remove;
    let unknown = [
        Observed::Unknown("throttled".to_owned()),
        Observed::Present(machine("m-old", MachineState::Terminating)),
        Observed::Absent,
        Observed::NotAsked,
    ];
    for old in unknown {
        world.old_machine = old;
        for at in [start(), later] {
            let decision = decide(&world, &Settings::default(), at);
            assert_ne!(step(&decision), TaskStep::Undo, "{:?}", world.old_machine);
        }
    }
    world.old_machine = Observed::Present(machine("m-old", MachineState::Ready));
    assert_ne!(step(&look(&world)), TaskStep::Undo, "it may show yet");
    let decision = decide(&world, &Settings::default(), later);
    assert_eq!(step(&decision), TaskStep::Undo, "it does not end");
    assert!(!may_be_ending(&decision.status));
}

/// A task whose pods came back while its old machine was about to go.
fn come_back() -> TaskSnapshot {
    let mut world = world_at(TaskStep::Remove);
    world.pods = Observed::Present(vec![pod("a")]);
    world.task.status = Some(look(&world).status);
    assert_eq!(step_of(&world), TaskStep::Cordon);
    world
}

#[test]
fn no_deadline_takes_a_replacement_back_whose_old_machine_may_be_ending_unseen() {
    let mut world = come_back();
    world.old_machine = Observed::Present(machine("m-old", MachineState::Ready));
    world.new_node = Observed::Absent;
    let deadlines = Settings::default().deadlines;
    let late = start() + deadlines.cordon;
    let decision = decide(&world, &Settings::default(), late);
    assert_eq!(step(&decision), TaskStep::Cordon, "{decision:?}");
    assert!(condition::is_true(&decision.status.conditions, "Overdue"));
    let later = start() + deadlines.remove;
    let decision = decide(&world, &Settings::default(), later);
    assert_eq!(step(&decision), TaskStep::Undo, "it does not end");
}

#[test]
fn an_end_that_shows_after_the_task_came_back_is_gone_on_with() {
    let ended = [
        Observed::Absent,
        Observed::Present(machine("m-old", MachineState::Terminated)),
    ];
    for old in ended {
        let mut world = come_back();
        world.old_machine = old;
        world.new_node = Observed::Absent;
        assert_eq!(step(&look(&world)), TaskStep::Remove);
    }
}

#[test]
fn pods_that_came_back_to_a_machine_that_is_ending_are_moved_while_it_is_there() {
    let mut world = come_back();
    world.old_machine = Observed::Present(machine("m-old", MachineState::Terminating));
    world.new_node = Observed::Absent;
    world.old_node = Observed::Present(node("old"));
    assert_eq!(effects(&look(&world)), ["EnsureCordoned"]);

    world.old_node = Observed::Present(NodeView {
        unschedulable: true,
        ..node("old")
    });
    let drain = look(&world);
    assert_eq!(step(&drain), TaskStep::Drain);
    world.task.status = Some(drain.status);
    assert_eq!(effects(&look(&world)), ["EvictPod"]);
    world.pods = Observed::Present(Vec::new());
    assert_eq!(step(&look(&world)), TaskStep::Remove);
}

#[test]
fn nothing_is_waited_for_after_the_drain_once_the_old_machine_is_seen_to_end() {
    let mut world = come_back();
    let status = world.task.status.as_mut().unwrap();
    status.step.as_mut().unwrap().name = TaskStep::Recover;
    world.unstable = Observed::Present(vec!["shop/web-1".to_owned()]);
    world.run.call_off = Some("spec.abort of run r is true".to_owned());
    for old in [
        Observed::Absent,
        Observed::Present(machine("m-old", MachineState::Terminating)),
    ] {
        world.old_machine = old;
        let later = start() + Settings::default().deadlines.remove;
        let decision = decide(&world, &Settings::default(), later);
        assert_eq!(step(&decision), TaskStep::Remove);
    }
}

#[test]
fn an_end_long_after_one_may_have_been_asked_for_is_the_machines_own() {
    let mut world = old_first_at(TaskStep::Remove);
    world.pods = Observed::Present(vec![pod("a")]);
    world.task.status = Some(look(&world).status);
    world.old_machine = Observed::Present(machine("m-old", MachineState::Ready));
    let later = start() + Settings::default().deadlines.remove;
    let stood = decide(&world, &Settings::default(), later);
    world.task.status = Some(stood.status);
    world.old_node = Observed::Absent;
    world.old_machine = Observed::Absent;
    let decision = decide(&world, &Settings::default(), later);
    assert!(is_left_to_group(&decision), "{decision:?}");
}

#[test]
fn a_node_that_is_registered_anew_on_a_machine_that_may_be_ending_is_waited_for() {
    let mut world = come_back();
    let reborn = NodeView {
        uid: "reborn".to_owned(),
        provider_id: Some("embedded:///a/m-old".into()),
        ..node("old")
    };
    world.old_node = Observed::Present(reborn);
    world.old_machine = Observed::Unknown("throttled".to_owned());
    let decision = look(&world);
    assert_eq!(step(&decision), TaskStep::Cordon, "{decision:?}");
    let waits = decision.status.waiting_for.unwrap();
    assert!(waits.contains("the cloud to show whether"), "{waits}");
    world.old_machine = Observed::Present(machine("m-old", MachineState::Terminating));
    assert_eq!(step(&look(&world)), TaskStep::Remove);
}

#[test]
fn a_forced_drain_of_a_machine_that_ended_by_itself_is_left_to_its_group_too() {
    let mut world = old_first_at(TaskStep::Drain);
    world.task.spec.drain = Some(DrainOptions {
        on_deadline: Some(OnDeadline::Force),
        ..DrainOptions::default()
    });
    world.pods = Observed::Present(vec![pod("a")]);
    world.task.status = Some(look(&world).status);
    world.old_machine = Observed::Absent;
    let late = start() + Settings::default().deadlines.drain;
    let decision = decide(&world, &Settings::default(), late);
    assert!(is_left_to_group(&decision));
}

#[test]
fn with_a_replacement_that_serves_a_person_is_told_that_the_group_may_be_larger() {
    let mut world = world_at(TaskStep::Drain);
    world.old_node = Observed::Absent;
    let decision = look(&world);
    assert_eq!(step(&decision), TaskStep::Remove);
    let told = decision.notices.iter().find(|one| one.warning).unwrap();
    assert_eq!(told.reason, "NodeLeftByItself");
    assert!(told.message.contains("group workers may have made another"));
}
