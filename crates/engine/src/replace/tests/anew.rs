//! Tables for a Node that somebody deletes while its machine lives, and that its kubelet registers anew.

use jiff::SignedDuration;
use shipshape_api::conditions::DRAINED;
use shipshape_api::gates::ReplacementMode;
use shipshape_api::node_patch_task::{EtcdRecord, MemberRecord, UndoNext};

use super::ways_out::next;
use super::*;

fn on_machine(name: &str, uid: &str, id: &str) -> NodeView {
    NodeView {
        uid: uid.to_owned(),
        provider_id: Some(format!("embedded:///a/{id}").as_str().into()),
        ..node(name)
    }
}

/// The old machine's Node as its kubelet has registered it anew.
fn reborn() -> NodeView {
    on_machine("old", "reborn", "m-old")
}

fn with_reborn(step: TaskStep, reborn: &NodeView, pods: Vec<PodView>) -> TaskSnapshot {
    TaskSnapshot {
        old_node: Observed::Present(reborn.clone()),
        anew: Observed::Present(reborn.clone()),
        anew_pods: Observed::Present(pods.clone()),
        pods: Observed::Present(pods),
        ..world_at(step)
    }
}

fn after_the_lag() -> Timestamp {
    start() + Settings::default().cloud_lag
}

#[test]
fn a_node_that_came_back_before_the_removal_ends_the_task_and_keeps_its_machine() {
    for step in [TaskStep::Cordon, TaskStep::Drain] {
        let world = with_reborn(step, &reborn(), Vec::new());
        let decision = look(&world);
        assert_eq!(decision.effects, [], "{step:?}");
        assert_eq!(decision.status.step_name(), TaskStep::Undo, "{step:?}");
        let undo = decision.status.undo.unwrap();
        assert_eq!(undo.next, UndoNext::Leave);
        assert!(undo.message.contains("registered anew"), "{}", undo.message);
        assert!(undo.message.contains("m-old"), "{}", undo.message);
    }
}

#[test]
fn a_machine_that_is_an_open_node_again_is_never_ended() {
    let elsewhere = on_machine("renamed", "reborn", "m-old");
    let closed = NodeView {
        unschedulable: true,
        ..reborn()
    };
    let table = [
        ("open and empty", reborn(), Vec::new()),
        ("open with a pod", reborn(), vec![pod("a")]),
        ("under another name", elsewhere, Vec::new()),
        ("closed by somebody, with a pod", closed, vec![pod("a")]),
    ];
    for (what, reborn, pods) in table {
        for forced in [None, Some(true)] {
            let mut world = with_reborn(TaskStep::Remove, &reborn, pods.clone());
            if reborn.name != "old" {
                world.old_node = Observed::Absent;
                world.pods = Observed::Present(Vec::new());
            }
            world.task.status.as_mut().unwrap().forced = forced;
            let first = look(&world);
            assert_eq!(first.effects, [], "{what}");
            assert_eq!(step(&first), TaskStep::Remove, "{what}: the end may be on");
            assert!(condition::is_false(&first.status.conditions, DRAINED));
            let noted = next(&world, start());
            let waiting = look(&noted);
            assert_eq!(waiting.effects, [], "{what}");
            assert_eq!(step(&waiting), TaskStep::Remove, "{what}");
            assert_eq!(waiting.wake, Some(after_the_lag()), "{what}");
            let sure = next(&noted, after_the_lag());
            assert_eq!(step_of(&sure), TaskStep::Undo, "{what}");
            let undo = sure.task.status.unwrap().undo.unwrap();
            assert_eq!(undo.next, UndoNext::Leave, "{what}");
        }
    }
}

#[test]
fn an_end_that_the_cloud_shows_late_is_followed_although_the_node_came_back() {
    let noted = next(
        &with_reborn(TaskStep::Remove, &reborn(), Vec::new()),
        start(),
    );
    let ending = TaskSnapshot {
        old_machine: Observed::Present(machine("m-old", MachineState::Terminating)),
        ..noted
    };
    assert_eq!(effects(&look(&ending)), ["EnsurePending"]);
}

#[test]
fn a_machine_whose_other_node_is_closed_and_empty_or_gone_is_ended() {
    let closed = NodeView {
        unschedulable: true,
        ..reborn()
    };
    let world = with_reborn(TaskStep::Remove, &closed, Vec::new());
    assert_eq!(effects(&look(&world)), ["DeleteMachine"]);
    let mut gone = next(
        &with_reborn(TaskStep::Remove, &reborn(), Vec::new()),
        start(),
    );
    gone.old_node = Observed::Absent;
    gone.anew = Observed::Absent;
    let decision = look(&gone);
    assert_eq!(effects(&decision), ["DeleteMachine"]);
    assert!(
        condition::is_true(&decision.status.conditions, DRAINED),
        "should it come back once more, the cloud gets its time again"
    );
}

#[test]
fn a_look_that_nobody_took_or_that_failed_ends_no_machine() {
    for anew in [
        Observed::NotAsked,
        Observed::Unknown("no answer".to_owned()),
    ] {
        let world = TaskSnapshot {
            anew,
            ..world_at(TaskStep::Remove)
        };
        assert_eq!(look(&world).effects, []);
        let mut unseen = with_reborn(TaskStep::Remove, &reborn(), Vec::new());
        unseen.anew_pods = Observed::NotAsked;
        assert_eq!(look(&unseen).effects, []);
    }
}

#[test]
fn a_node_that_does_not_name_its_machine_yet_is_waited_for() {
    let nameless = NodeView {
        provider_id: None,
        ..reborn()
    };
    for step in [TaskStep::Cordon, TaskStep::Drain] {
        let decision = look(&with_reborn(step, &nameless, Vec::new()));
        assert_eq!(decision.effects, [], "{step:?}");
        assert_eq!(decision.status.step_name(), step, "{step:?}");
        let said = decision.status.waiting_for.unwrap();
        assert!(said.contains("which machine"), "{said}");
    }
}

#[test]
fn a_stranger_on_another_machine_does_not_hold_the_task_up() {
    let stranger = on_machine("old", "stranger", "m-other");
    let world = TaskSnapshot {
        old_node: Observed::Present(stranger),
        ..world_at(TaskStep::Drain)
    };
    assert_eq!(step(&look(&world)), TaskStep::Remove);
}

#[test]
fn a_control_plane_whose_member_has_left_waits_for_a_person_to_close_the_node() {
    let mut world = with_reborn(TaskStep::Remove, &reborn(), vec![pod("a")]);
    world.task.status.as_mut().unwrap().etcd = Some(EtcdRecord {
        old: MemberRecord {
            name: "old".to_owned(),
            id: Some("1".to_owned()),
            removal_since: Some(Time(start())),
        },
        new: None,
    });
    for at in [start(), after_the_lag()] {
        let decision = decide(&world, &Settings::default(), at);
        assert_eq!(decision.effects, []);
        assert_eq!(step(&decision), TaskStep::Remove);
        let said = decision.status.waiting_for.unwrap();
        assert!(said.contains("cordon and drain node old"), "{said}");
    }
}

#[test]
fn a_parked_task_ends_when_its_node_came_back() {
    let mut world = next(
        &TaskSnapshot {
            pods: Observed::Unknown("no answer".to_owned()),
            ..world_at(TaskStep::Drain)
        },
        start() + SignedDuration::from_hours(2),
    );
    assert_eq!(step_of(&world), TaskStep::Parked);
    world.old_node = Observed::Present(reborn());
    let decision = look(&world);
    assert_eq!(step(&decision), TaskStep::Undo);
    assert_eq!(decision.status.undo.unwrap().next, UndoNext::Leave);
}

#[test]
fn with_the_old_machine_first_it_stays_too() {
    let mut world = fair_world();
    world.task.spec.replacement = Some(ReplacementMode::TerminateFirst);
    world.task.status = Some(look(&world).status);
    assert_eq!(step_of(&world), TaskStep::Cordon);
    world.old_node = Observed::Present(reborn());
    assert_eq!(step(&look(&world)), TaskStep::Undo);
}

#[test]
fn an_undo_leaves_a_stranger_alone_that_has_the_new_nodes_name() {
    let mut world = world_at(TaskStep::Cordon);
    world.run.call_off = Some("spec.abort".to_owned());
    world.new_machine = Observed::Present(machine("m-new", MachineState::Ready));
    let mut undoing = next(&world, start());
    assert_eq!(step_of(&undoing), TaskStep::Undo);
    undoing.new_pods = Observed::Present(vec![pod("a")]);
    undoing.new_node = Observed::Present(on_machine("new", "stranger", "m-other"));
    assert_eq!(effects(&look(&undoing)), ["DeleteMachine"]);
    undoing.new_node = Observed::Present(on_machine("new", "reborn", "m-new"));
    assert_eq!(
        effects(&look(&undoing)),
        ["EnsureCordoned"],
        "registered anew, it is still the new machine's and emptied first"
    );
}
