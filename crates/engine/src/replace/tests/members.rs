//! Tables for control planes: which member of etcd leaves when, and what stops it.

use shipshape_api::conditions::ETCD_MEMBER_REMOVED;
use shipshape_api::gates::ReplacementMode;
use shipshape_api::names::LABEL_CONTROL_PLANE;
use shipshape_api::node_patch_task::UndoNext;
use shipshape_api::{DrainOptions, OnDeadline};

use super::ways_out::{late, next};
use super::*;
use crate::etcd::{EtcdView, Health, MemberId, MemberView};

fn member(name: &str) -> MemberView {
    MemberView {
        id: MemberId(format!("id-{name}")),
        name: name.to_owned(),
        is_learner: false,
        leads: false,
        health: Health::Healthy,
    }
}

fn etcd(members: &[MemberView]) -> Observed<EtcdView> {
    Observed::Present(EtcdView {
        members: members.to_vec(),
        alarms: Vec::new(),
    })
}

fn all(names: &[&str]) -> Observed<EtcdView> {
    etcd(&names.iter().map(|name| member(name)).collect::<Vec<_>>())
}

fn sick(name: &str) -> MemberView {
    MemberView {
        health: Health::Sick("no answer".to_owned()),
        ..member(name)
    }
}

fn control_plane(name: &str) -> NodeView {
    NodeView {
        labels: [(LABEL_CONTROL_PLANE.to_owned(), String::new())].into(),
        ..node(name)
    }
}

/// A control plane's task in a fair world, before anything has begun.
fn fresh() -> TaskSnapshot {
    TaskSnapshot {
        old_node: Observed::Present(control_plane("old")),
        new_node: Observed::Present(control_plane("new")),
        etcd: all(&["old", "b", "c"]),
        ..fair_world()
    }
}

/// The same, seen by a task that has come as far as `step`.
fn at(step: TaskStep) -> TaskSnapshot {
    let mut world = fresh();
    while step_of(&world) != step {
        let before = step_of(&world);
        if before == TaskStep::Join {
            world.etcd = all(&["old", "b", "c", "new"]);
        }
        if before == TaskStep::Cordon {
            world.old_node = Observed::Present(NodeView {
                unschedulable: true,
                cordoned_by: Some(OPERATION.to_owned()),
                ..control_plane("old")
            });
        }
        if before == TaskStep::RemoveMember {
            world.etcd = all(&["b", "c", "new"]);
        }
        world = next(&world, start());
        assert_ne!(step_of(&world), before, "stuck on the way to {step:?}");
    }
    world
}

fn waits_for(world: &TaskSnapshot) -> String {
    let decision = look(world);
    assert_eq!(effects(&decision), Vec::<&str>::new());
    decision.status.waiting_for.unwrap_or_default()
}

#[test]
fn the_member_leaves_between_the_drain_and_the_machine() {
    let world = at(TaskStep::RemoveMember);
    let decision = look(&world);
    let [Effect::RemoveEtcdMember(id)] = decision.effects.as_slice() else {
        panic!("{:?}", decision.effects)
    };
    assert_eq!(id.0, "id-old");
    // The first look only writes down that it is meant.
    let read = world.task.status.as_ref();
    assert!(!is_recorded(read, &decision.status, &decision.effects));
    let mut world = world;
    world.task.status = Some(decision.status);
    let decision = look(&world);
    let read = world.task.status.as_ref();
    assert!(is_recorded(read, &decision.status, &decision.effects));
    world.etcd = all(&["b", "c", "new"]);
    let gone = look(&world);
    assert_eq!(step(&gone), TaskStep::Remove);
    let conditions = &gone.status.conditions;
    assert!(condition::is_true(conditions, ETCD_MEMBER_REMOVED));
    world.task.status = Some(gone.status);
    assert_eq!(effects(&look(&world)), ["DeleteMachine"]);
}

#[test]
fn a_worker_and_a_control_plane_without_a_member_have_no_such_step() {
    assert_eq!(world_at(TaskStep::Done).task.status.unwrap().etcd, None);
    let mut world = fresh();
    world.etcd = Observed::Absent;
    world = next(&world, start());
    assert_eq!(step_of(&world), TaskStep::Provision);
    assert_eq!(world.task.status.unwrap().etcd, None);
}

#[test]
fn without_a_clear_word_of_etcd_nothing_begins_and_nothing_ends() {
    let unknown = Observed::Unknown("timeout".to_owned());
    let steps = [
        TaskStep::Lock,
        TaskStep::Join,
        TaskStep::RemoveMember,
        TaskStep::Remove,
    ];
    for step in steps {
        let mut world = at(step);
        world.etcd = unknown.clone();
        assert!(waits_for(&world).contains("timeout"), "{step:?}");
        if step != TaskStep::Lock {
            world.etcd = Observed::Absent;
            assert!(waits_for(&world).contains("found any more"), "{step:?}");
        }
    }
}

#[test]
fn a_member_that_runs_and_is_not_in_the_list_is_waited_for() {
    let mut world = fresh();
    world.etcd = all(&["b", "c"]);
    let mut etcd = pod("etcd");
    etcd.namespace = "kube-system".to_owned();
    etcd.labels = [("component", "etcd")].into();
    etcd.mirror = true;
    world.pods = Observed::Present(vec![etcd]);
    assert!(waits_for(&world).contains("to know member old"));
}

#[test]
fn the_new_node_counts_once_its_member_votes() {
    let mut world = at(TaskStep::Join);
    assert!(waits_for(&world).contains("no member new yet"));
    let learner = MemberView {
        is_learner: true,
        ..member("new")
    };
    world.etcd = etcd(&[member("old"), member("b"), member("c"), learner]);
    assert!(waits_for(&world).contains("still a learner"));
    world.etcd = all(&["old", "b", "c", "new"]);
    assert_eq!(step(&look(&world)), TaskStep::Cordon);
}

#[test]
fn a_member_that_never_comes_ends_the_attempt_like_any_failed_join() {
    let world = next(&at(TaskStep::Join), late());
    assert_eq!(step_of(&world), TaskStep::Undo);
    let status = world.task.status.unwrap();
    assert_eq!(status.undo.unwrap().next, UndoNext::Retry);
    assert_eq!(status.etcd.unwrap().new.unwrap().name, "new");
}

#[test]
fn a_sick_member_holds_the_removal_back_with_a_sentence() {
    let mut world = at(TaskStep::RemoveMember);
    world.etcd = etcd(&[member("old"), member("b"), sick("c"), member("new")]);
    assert_eq!(
        waits_for(&world),
        "etcd member old: 3 of 4 members healthy, quorum is 3: member c: no answer"
    );
    let parked = next(&world, late());
    assert_eq!(step_of(&parked), TaskStep::Parked);
    let mut back = parked;
    back.slot = Observed::Absent;
    back.old_node = Observed::Present(control_plane("old"));
    assert_eq!(step_of(&next(&back, late())), TaskStep::Parked);
    back.etcd = all(&["old", "b", "c", "new"]);
    let resumed = look(&back).status.parked.unwrap();
    assert!(resumed.resuming);
}

#[test]
fn the_old_machine_stays_while_another_member_is_sick() {
    let mut world = at(TaskStep::Remove);
    world.etcd = etcd(&[member("b"), sick("c"), member("new")]);
    assert!(waits_for(&world).contains("2 of 3 members healthy"));
    world.etcd = all(&["old", "b", "c", "new"]);
    assert_eq!(step(&look(&world)), TaskStep::RemoveMember);
}

#[test]
fn a_leader_hands_over_before_it_leaves() {
    let mut world = at(TaskStep::RemoveMember);
    let leader = MemberView {
        leads: true,
        ..member("old")
    };
    world.etcd = etcd(&[leader, member("b"), member("c"), member("new")]);
    let decision = look(&world);
    let (from, to) = (MemberId("id-old".into()), MemberId("id-new".into()));
    assert_eq!(decision.effects, [Effect::MoveEtcdLeader { from, to }]);
    let record = decision.status.etcd.unwrap();
    assert_eq!(record.old.removal_since, None);
}

#[test]
fn nodes_are_looked_at_once_more_before_the_member_leaves() {
    let mut opened = at(TaskStep::RemoveMember);
    opened.old_node = Observed::Present(control_plane("old"));
    assert_eq!(step(&look(&opened)), TaskStep::Cordon);
    let mut unready = at(TaskStep::RemoveMember);
    unready.new_node = Observed::Present(NodeView {
        ready: false,
        ..control_plane("new")
    });
    assert!(waits_for(&unready).contains("ready again"));
}

#[test]
fn there_is_no_way_back_once_the_removal_was_asked_for() {
    let mut world = at(TaskStep::RemoveMember);
    world.run.call_off = Some("spec.abort".to_owned());
    assert_eq!(step(&look(&world)), TaskStep::Undo);
    world.run.call_off = None;
    world = next(&world, start());
    world.run.call_off = Some("spec.abort".to_owned());
    assert_eq!(effects(&look(&world)), ["RemoveEtcdMember"]);
    let overdue = next(&world, late());
    assert_eq!(step_of(&overdue), TaskStep::RemoveMember);
    world.old_node = Observed::Present(control_plane("old"));
    let opened = next(&world, start());
    assert_eq!(step_of(&opened), TaskStep::Cordon);
    assert_eq!(step_of(&next(&opened, late())), TaskStep::Cordon);
}

#[test]
fn an_undo_takes_the_new_member_out_before_its_machine_ends() {
    let mut world = at(TaskStep::RemoveMember);
    world.run.call_off = Some("spec.abort".to_owned());
    world = next(&world, start());
    assert_eq!(step_of(&world), TaskStep::Undo);
    world.old_node = Observed::Present(control_plane("old"));
    world.new_node = Observed::Present(NodeView {
        unschedulable: true,
        cordoned_by: Some(OPERATION.to_owned()),
        ..control_plane("new")
    });
    world.new_pods = Observed::Present(Vec::new());
    let asked = look(&world);
    let id = MemberId("id-new".to_owned());
    assert_eq!(asked.effects, [Effect::RemoveEtcdMember(id)]);
    world.task.status = Some(asked.status);
    // Without its member the machine is of no use to its group.
    let overdue = next(&world, late());
    let undo = overdue.task.status.unwrap().undo.unwrap();
    assert!(!undo.keeps_machine);
    world.etcd = all(&["old", "b", "c"]);
    assert_eq!(effects(&look(&world)), ["DeleteMachine"]);
}

#[test]
fn the_member_of_a_new_machine_that_died_is_taken_out_too() {
    let mut world = next(&at(TaskStep::Join), late());
    world.old_node = Observed::Present(control_plane("old"));
    world.new_machine = Observed::Present(machine("m-new", MachineState::Terminated));
    world.new_node = Observed::Absent;
    world.etcd = etcd(&[member("old"), member("b"), member("c"), sick("new")]);
    assert_eq!(effects(&look(&world)), ["RemoveEtcdMember"]);
    world.etcd = etcd(&[member("old"), sick("b"), sick("c"), sick("new")]);
    assert!(waits_for(&world).contains("quorum would be 2"));
}

#[test]
fn the_old_machine_goes_first_only_where_three_members_vote() {
    let terminate_first = |names: &[&str]| {
        let mut world = fresh();
        world.task.spec.replacement = Some(ReplacementMode::TerminateFirst);
        world.etcd = all(names);
        world = next(&world, start());
        assert_eq!(step_of(&world), TaskStep::Cordon);
        world.old_node = Observed::Present(NodeView {
            unschedulable: true,
            ..control_plane("old")
        });
        world = next(&next(&world, start()), start());
        assert_eq!(step_of(&world), TaskStep::RemoveMember);
        world
    };
    let three = terminate_first(&["old", "b", "c"]);
    assert_eq!(effects(&look(&three)), ["RemoveEtcdMember"]);
    for few in [&["old", "b"][..], &["old"]] {
        let waits = waits_for(&terminate_first(few));
        assert!(waits.contains("none may go before"), "{waits}");
    }
}

/// The cloud showed the machine late: the attempt was given up before its node or member was seen
/// (seed 1913).
#[test]
fn a_new_machine_that_may_just_be_joining_ends_only_while_etcd_could_bear_it() {
    let mut world = at(TaskStep::Provision);
    world.new_machine = Observed::Absent;
    world = next(&world, late());
    assert_eq!(step_of(&world), TaskStep::Undo);
    world.old_node = Observed::Present(control_plane("old"));
    world.new_machine = Observed::Present(machine("m-new", MachineState::Creating));
    world.new_node = Observed::Absent;
    world.etcd = etcd(&[sick("old"), member("b"), member("c")]);
    assert_eq!(effects(&look(&world)), Vec::<&str>::new());
    assert!(waits_for(&world).contains("would make quorum 3"));
    world.etcd = Observed::Unknown("no answer".to_owned());
    assert_eq!(effects(&look(&world)), Vec::<&str>::new());
    world.etcd = all(&["old", "b", "c"]);
    assert_eq!(effects(&look(&world)), ["DeleteMachine"]);
    world.etcd = all(&["old", "b", "c", "new"]);
    world.new_node = Observed::Present(NodeView {
        unschedulable: true,
        ..control_plane("new")
    });
    world.new_pods = Observed::Present(Vec::new());
    assert_eq!(effects(&look(&world)), ["RemoveEtcdMember"]);
}

#[test]
fn what_one_drain_was_forced_to_is_no_leave_for_the_next() {
    let mut world = at(TaskStep::Drain);
    world.task.spec.drain = Some(DrainOptions {
        on_deadline: Some(OnDeadline::Force),
        ..DrainOptions::default()
    });
    world.pods = Observed::Present(vec![pod("a")]);
    world = next(&world, late());
    assert_eq!(step_of(&world), TaskStep::RemoveMember);
    assert_eq!(world.task.status.as_ref().unwrap().forced, Some(true));
    world.etcd = etcd(&[member("old"), sick("b"), member("c"), member("new")]);
    let later = late() + Settings::default().deadlines.remove_member;
    world = next(&world, later);
    assert_eq!(step_of(&world), TaskStep::Parked);
    // It has its turn again, and its pods leave this time.
    world.etcd = all(&["old", "b", "c", "new"]);
    world.slot = Observed::Present(());
    world.pods = Observed::Present(Vec::new());
    let parked = world.task.status.as_mut().unwrap().parked.as_mut();
    parked.unwrap().resuming = true;
    for _ in 0..3 {
        world = next(&world, later);
    }
    assert_eq!(step_of(&world), TaskStep::RemoveMember);
    world.pods = Observed::Present(vec![pod("late")]);
    let decision = decide(&world, &Settings::default(), later);
    assert_eq!(effects(&decision), ["RenewLock"], "nothing is removed");
    assert_eq!(step(&decision), TaskStep::Cordon, "it is drained again");
}
