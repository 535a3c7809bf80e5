//! Tables for what a task may cost at most: daemons that are looked for before the old machine goes, machines
//! that attempts leave, and the room of a group.

use std::collections::BTreeMap;

use shipshape_api::NodePatchRunSpec;
use shipshape_api::gates::ReplacementMode;
use shipshape_api::node_patch_task::{ParkRecord, UndoNext};
use shipshape_api::selectors::PodSelector;

use super::ways_out::{late, next};
use super::*;
use crate::ledger::Ledger;
use crate::snapshot::RunView;

/// A task at the cordon whose machine goes first, with one required daemon.
fn goes_first() -> TaskSnapshot {
    let mut world = fair_world();
    world.task.spec.replacement = Some(ReplacementMode::TerminateFirst);
    world.task.spec.required_node_daemon_pod_selectors = vec![PodSelector::default()];
    world.new_machine = Observed::Absent;
    world.new_node = Observed::Absent;
    let world = next(&world, start());
    assert_eq!(step_of(&world), TaskStep::Cordon);
    world
}

fn daemon(ready: bool) -> PodView {
    PodView {
        ready,
        owner: Some(("DaemonSet".to_owned(), "cni".to_owned())),
        ..pod("cni")
    }
}

#[test]
fn a_machine_does_not_go_first_while_a_required_daemon_does_not_run_on_its_node() {
    let leaving = PodView {
        terminating: true,
        ..daemon(true)
    };
    for pods in [Vec::new(), vec![daemon(false)], vec![leaving]] {
        for unschedulable in [false, true] {
            let world = TaskSnapshot {
                old_node: Observed::Present(NodeView {
                    unschedulable,
                    ..node("old")
                }),
                pods: Observed::Present(pods.clone()),
                ..goes_first()
            };
            let decision = look(&world);
            assert_eq!(decision.effects, [], "{pods:?}");
            assert_eq!(step(&decision), TaskStep::Cordon, "{pods:?}");
            let said = decision.status.waiting_for.unwrap();
            assert!(
                said.contains("requiredNodeDaemonPodSelectors[0] on node old"),
                "{said}"
            );
        }
    }
    for pods in [Observed::NotAsked, Observed::Unknown("no".to_owned())] {
        let world = TaskSnapshot {
            pods,
            ..goes_first()
        };
        assert_eq!(look(&world).effects, []);
    }
    let world = TaskSnapshot {
        pods: Observed::Present(vec![daemon(true)]),
        ..goes_first()
    };
    assert_eq!(effects(&look(&world)), ["EnsureCordoned"]);
}

#[test]
fn a_machine_does_not_go_first_while_its_group_is_gone_or_cannot_be_read() {
    let mut full = world_at(TaskStep::Provision);
    full.task.spec.replacement = Some(ReplacementMode::SurgeElseTerminateFirst);
    full.new_machine = Observed::Absent;
    let record = full.task.status.as_mut().unwrap().replacement.as_mut();
    record.unwrap().no_room = Some("zone a is full".to_owned());
    let full = next(&full, start());
    let mut always = goes_first();
    always.task.spec.required_node_daemon_pod_selectors = Vec::new();
    for mut world in [full, always] {
        assert_eq!(step_of(&world), TaskStep::Cordon);
        world.old_node = Observed::Present(node("old"));
        world.old_machine = Observed::NotAsked;
        assert_eq!(effects(&look(&world)), ["EnsureCordoned"]);
        world.group = Observed::Unknown("denied".to_owned());
        let waiting = look(&world);
        assert_eq!(waiting.effects, []);
        assert_eq!(step(&waiting), TaskStep::Cordon);
        let said = waiting.status.waiting_for.unwrap();
        assert!(
            said.contains("group workers") && said.contains("denied"),
            "{said}"
        );
        let given_up = next(&world, late()).task.status.unwrap().undo.unwrap();
        assert!(
            given_up.message.contains("group workers"),
            "{}",
            given_up.message
        );
        world.group = Observed::Absent;
        let refused = look(&world);
        assert_eq!(refused.effects, []);
        let undo = refused.status.undo.unwrap();
        assert_eq!(
            (undo.next, undo.reason.as_str()),
            (UndoNext::Fail, "GroupUnknown")
        );
        assert!(
            undo.message.contains("group workers is not there"),
            "{}",
            undo.message
        );
    }
}

#[test]
fn a_broken_node_needs_its_daemons_placed_and_not_ready() {
    let world = TaskSnapshot {
        old_node: Observed::Present(NodeView {
            ready: false,
            ..node("old")
        }),
        pods: Observed::Present(vec![daemon(false)]),
        ..goes_first()
    };
    assert_eq!(effects(&look(&world)), ["EnsureCordoned"]);
}

#[test]
fn a_node_without_its_daemon_is_set_aside_and_comes_back_with_it() {
    let world = next(&goes_first(), late());
    assert_eq!(step_of(&world), TaskStep::Parked);
    let record = world.task.status.clone().unwrap().parked.unwrap();
    assert_eq!(record.reason, "RequiredDaemonMissing");
    let still = next(&world, late());
    assert!(!still.task.status.unwrap().parked.unwrap().resuming);
    let mut better = world.clone();
    better.pods = Observed::Present(vec![daemon(true)]);
    let back = next(&better, late());
    assert!(back.task.status.unwrap().parked.unwrap().resuming);
}

#[test]
fn a_machine_that_comes_after_its_replacement_goes_without_that_look() {
    let mut world = world_at(TaskStep::Cordon);
    world.task.spec.required_node_daemon_pod_selectors = vec![PodSelector::default()];
    world.old_node = Observed::Present(node("old"));
    world.pods = Observed::NotAsked;
    assert_eq!(effects(&look(&world)), ["EnsureCordoned"]);
}

#[test]
fn no_attempt_follows_one_whose_machine_stays() {
    let mut world = world_at(TaskStep::Cordon);
    world.new_node = Observed::Unknown("no answer".to_owned());
    let mut undoing = next(&world, late());
    let undo = undoing.task.status.clone().unwrap().undo.unwrap();
    assert_eq!(undo.next, UndoNext::Retry);
    undoing.new_node = Observed::Present(NodeView {
        unschedulable: true,
        cordoned_by: Some(OPERATION.to_owned()),
        ..node("new")
    });
    undoing.new_pods = Observed::Present(vec![pod("a")]);
    let later = late() + Settings::default().deadlines.undo;
    let mut kept = next(&undoing, later);
    let undo = kept.task.status.clone().unwrap().undo.unwrap();
    assert!(undo.keeps_machine);
    assert_eq!(undo.next, UndoNext::Fail);
    assert!(undo.message.contains("m-new stays"), "{}", undo.message);
    kept.new_node = Observed::Present(node("new"));
    for _ in 0..3 {
        kept = next(&kept, later);
    }
    assert_eq!(step_of(&kept), TaskStep::Failed);
}

/// A task without a machine that asks for a slot again.
fn asks_again() -> TaskSnapshot {
    let mut world = fair_world();
    let mut status = look(&world).status;
    status.replacement = None;
    status.parked = Some(ParkRecord {
        reason: "NoCapacity".to_owned(),
        message: "no room".to_owned(),
        since: Time(start()),
        resuming: true,
        turn_since: None,
    });
    status.step.as_mut().unwrap().name = TaskStep::Parked;
    world.task.status = Some(status);
    world.ledger = Observed::Present(Ledger::default());
    world.run = RunView {
        spec: Some(Box::<NodePatchRunSpec>::default()),
        ..RunView::default()
    };
    world
}

#[test]
fn a_task_that_asks_for_a_slot_again_needs_room_in_its_group() {
    let mut world = asks_again();
    assert_eq!(effects(&look(&world)), ["GrantSlots"]);
    world.on_their_way = BTreeMap::from([("workers".into(), 2)]);
    let decision = look(&world);
    assert_eq!(decision.effects, []);
    let said = decision.status.waiting_for.unwrap();
    assert!(said.contains("group workers has 3 of at most 5"), "{said}");
    world.run.last_round = true;
    assert_eq!(
        effects(&look(&world)),
        ["GrantSlots"],
        "at last the cloud says so, and that counts as an attempt"
    );
}

#[test]
fn a_node_without_provider_id_is_set_aside_at_once_and_comes_back_with_one() {
    let mut world = fair_world();
    let id = world.old_node.present().unwrap().provider_id.clone();
    assert!(id.is_some());
    if let Observed::Present(node) = &mut world.old_node {
        node.provider_id = None;
    }
    let mut parked = next(&world, start());
    assert_eq!(step_of(&parked), TaskStep::Parked);
    let record = parked.task.status.clone().unwrap().parked.unwrap();
    assert_eq!(record.reason, "NoProviderId");
    assert!(record.message.contains("to help: "), "{}", record.message);
    parked.slot = Observed::Absent;
    parked.pods = Observed::Present(Vec::new());
    let resuming = |world: &TaskSnapshot| {
        let parked = next(world, start()).task.status.unwrap().parked;
        parked.unwrap().resuming
    };
    assert!(!resuming(&parked));
    if let Observed::Present(node) = &mut parked.old_node {
        node.provider_id = id;
    }
    assert!(resuming(&parked));
}
