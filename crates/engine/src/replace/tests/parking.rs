//! Tables for parking: when a node is set aside, what it keeps, and what lets it come back.

use jiff::SignedDuration;
use shipshape_api::NodePatchRunSpec;
use shipshape_api::conditions::OLD_DELETED;
use shipshape_api::node_patch_task::UndoNext;

use super::ways_out::{late, next};
use super::*;
use crate::admit::Down;
use crate::drain::Refusal;
use crate::ledger::{Ledger, Role, Slot};
use crate::snapshot::RunView;

pub(super) fn parked() -> TaskSnapshot {
    let mut world = world_at(TaskStep::Drain);
    world.pods = Observed::Present(vec![PodView {
        owner: None,
        ..pod("bare")
    }]);
    let mut world = next(&world, late());
    assert_eq!(step_of(&world), TaskStep::Parked);
    world.old_node = Observed::Present(node("old"));
    world
}

#[test]
fn a_parked_node_takes_pods_again_and_gives_its_slot_back() {
    let mut world = parked();
    world.old_node = Observed::Present(NodeView {
        unschedulable: true,
        cordoned_by: Some(OPERATION.to_owned()),
        ..node("old")
    });
    assert_eq!(effects(&look(&world)), ["EnsureUncordoned"]);
    world.old_node = Observed::Present(node("old"));
    world.slot = Observed::Present(());
    assert_eq!(effects(&look(&world)), ["ReleaseSlot"]);
    world.slot = Observed::Absent;
    let decision = look(&world);
    assert_eq!(decision.effects, []);
    assert!(decision.status.waiting_for.unwrap().contains("bare"));
}

#[test]
fn a_parked_node_comes_back_when_the_way_is_free_with_a_slot_of_its_own() {
    let mut world = parked();
    world.run = RunView {
        spec: Some(Box::default()),
        ..RunView::default()
    };
    world.pods = Observed::Present(vec![pod("a")]);
    let mut world = next(&world, late());
    assert!(world.task.status.clone().unwrap().parked.unwrap().resuming);
    world.ledger = Observed::Present(Ledger::default());
    assert_eq!(effects(&look(&world)), ["GrantSlots"]);
    world.slot = Observed::Present(());
    assert_eq!(step_of(&next(&world, late())), TaskStep::Cordon);
}

#[test]
fn a_node_whose_pod_the_server_refused_comes_back_after_a_rest_and_no_sooner() {
    let mut draining = world_at(TaskStep::Drain);
    draining.pods = Observed::Present(vec![pod("a")]);
    let refusal = Refusal {
        budgets: Vec::new(),
        message: "webhook keep.example.com denied the request".to_owned(),
    };
    draining
        .around
        .refusals
        .insert(pod("a").uid.clone(), refusal);
    let mut world = next(&draining, late());
    assert_eq!(step_of(&world), TaskStep::Parked);
    world.old_node = Observed::Present(node("old"));
    world.slot = Observed::Absent;
    world.around.refusals.clear();
    let rest = Settings::default().retry_backoff_max;
    let second = SignedDuration::from_secs(1);
    let is_resuming = |world: &TaskSnapshot| {
        let status = world.task.status.as_ref().unwrap();
        status.parked.as_ref().unwrap().resuming
    };
    // Nobody asks the server while the node is parked: what it has said is all that is known.
    assert!(!is_resuming(&next(&world, late() + rest - second)));
    assert!(is_resuming(&next(&world, late() + rest)));
}

#[test]
fn a_parked_node_stays_while_the_run_is_paused_or_the_budget_is_full() {
    let mut world = parked();
    world.pods = Observed::Present(Vec::new());
    world.run.paused = true;
    let held = next(&world, late());
    assert!(!held.task.status.unwrap().parked.unwrap().resuming);
    world.run.paused = false;
    world.run.spec = Some(Box::new(NodePatchRunSpec {
        batch_size_non_important: Some(1),
        ..NodePatchRunSpec::default()
    }));
    let mut world = next(&world, late());
    world.ledger = Observed::Present(Ledger {
        resource_version: Some("1".to_owned()),
        slots: [slot_of_another("other")].into(),
        ..Ledger::default()
    });
    let decision = look(&world);
    assert_eq!(decision.effects, []);
    assert!(decision.status.waiting_for.unwrap().contains("batchSize"));
}

pub(super) fn slot_of_another(node: &str) -> (String, Slot) {
    let slot = Slot {
        node: node.to_owned(),
        owner: "run".to_owned(),
        task: format!("ns/{node}"),
        zone: String::new(),
        role: Role::Worker,
        important: false,
        surges: None,
        granted_at: start(),
    };
    (format!("{node}-uid"), slot)
}

#[test]
fn a_parked_node_is_tried_again_in_the_last_round() {
    let mut world = parked();
    world.run.last_round = true;
    let rest = Settings::default().park_rest;
    assert!(
        !next(&world, late())
            .task
            .status
            .unwrap()
            .parked
            .unwrap()
            .resuming
    );
    let after = next(&world, late() + rest);
    assert!(after.task.status.unwrap().parked.unwrap().resuming);
}

#[test]
fn a_parked_node_looks_again_when_its_rest_is_over() {
    let mut world = parked();
    world.run.last_round = true;
    let parked_at = world.task.status.clone().unwrap().parked.unwrap().since.0;
    let over = parked_at + Settings::default().park_rest;
    let early = over - SignedDuration::from_secs(5);
    let wake = |world: &TaskSnapshot| decide(world, &Settings::default(), early).wake;
    assert_eq!(wake(&world), Some(over));
    world.run.last_round = false;
    assert_eq!(wake(&world), Some(early + Settings::default().resync));
}

/// A task that has failed and that a person wants to be tried again.
fn asked_again() -> TaskSnapshot {
    let mut world = world_at(TaskStep::Lock);
    world.run.call_off = Some("x".to_owned());
    let mut world = next(&world, start());
    world.new_machine = Observed::Absent;
    world.new_node = Observed::Absent;
    let mut world = next(&world, start());
    world.lock = Observed::Absent;
    let mut world = next(&world, start());
    world.run.call_off = None;
    assert_eq!(step_of(&world), TaskStep::Failed);
    let wish = (names::ANNOTATION_RETRY.to_owned(), "1".to_owned());
    world.task.metadata.annotations = Some([wish].into());
    assert_eq!(effects(&look(&world)), ["EnsureFinalizer"]);
    world.task.metadata.finalizers = Some(vec![names::FINALIZER.to_owned()]);
    world
}

#[test]
fn a_failure_that_is_tried_again_stays_one() {
    let mut world = asked_again();
    let undo = world.task.status.as_mut().unwrap().undo.as_mut().unwrap();
    undo.next = UndoNext::Fail;
    let again = next(&world, start());
    assert_eq!(again.task.status.unwrap().failed_before, Some(1));
}

#[test]
fn a_failed_task_is_tried_again_when_a_person_asks() {
    let mut again = next(&asked_again(), start());
    assert_eq!(step_of(&again), TaskStep::Parked);
    let status = again.task.status.as_ref().unwrap();
    assert_eq!(status.attempt, Some(2), "its tokens are new ones");
    assert_eq!(status.failed_before, None, "it was called off");
    assert!(!condition::is_true(&status.conditions, OLD_DELETED));
    again.slot = Observed::Present(());
    assert_eq!(
        effects(&look(&again)),
        ["ReleaseSlot"],
        "the run may be giving it away"
    );
    again.slot = Observed::Absent;
    assert!(is_resuming(&next(&again, start())));
}

fn has_left(world: &TaskSnapshot) -> bool {
    let after = next(world, late()).task.status.unwrap();
    let undo = after.undo.as_ref();
    let has_left = undo.is_some_and(|undo| undo.next == UndoNext::Leave);
    let step = after.step_name();
    let way = if has_left {
        TaskStep::Undo
    } else {
        TaskStep::Cordon
    };
    assert_eq!(step, way);
    has_left
}

#[test]
fn a_set_aside_task_without_a_new_machine_ends_when_its_node_has_left() {
    let mut again = next(&asked_again(), start());
    again.ledger = Observed::Present(Ledger::default());
    again.old_node = Observed::Absent;
    assert!(has_left(&again), "a retry has forgotten its attempt");
    again.task.status.as_mut().unwrap().terminate_first = Some(true);
    assert!(has_left(&again), "nothing of it has begun either");

    let mut aside = parked();
    aside.old_node = Observed::Absent;
    assert!(!has_left(&aside), "its new machine takes the place");
    aside.task.status.as_mut().unwrap().new_machine = None;
    assert!(has_left(&aside));
    aside.task.status.as_mut().unwrap().terminate_first = Some(true);
    assert!(!has_left(&aside), "its machine may run");
}

pub(super) fn is_resuming(world: &TaskSnapshot) -> bool {
    let status = world.task.status.as_ref().unwrap();
    status.parked.as_ref().unwrap().resuming
}

/// A parked task whose way is free, of a run with room, before it asks for its slot.
fn resuming() -> TaskSnapshot {
    let mut world = parked();
    world.run.spec = Some(Box::default());
    world.pods = Observed::Present(vec![pod("a")]);
    world.ledger = Observed::Present(Ledger::default());
    let world = next(&world, late());
    assert!(is_resuming(&world));
    world
}

#[test]
fn a_pause_holds_a_node_that_was_about_to_come_back_until_it_has_its_slot() {
    let mut again = next(&asked_again(), start());
    again.slot = Observed::Absent;
    let mut again = next(&again, start());
    again.ledger = Observed::Present(Ledger::default());
    again.run.spec = Some(Box::default());
    for mut world in [resuming(), again] {
        assert_eq!(effects(&look(&world)), ["GrantSlots"]);
        world.run.paused = true;
        let held = look(&world);
        assert_eq!(effects(&held), Vec::<&str>::new());
        let waits = held.status.waiting_for.unwrap();
        assert!(waits.contains("spec.paused"), "{waits}");
        world.slot = Observed::Present(());
        assert_ne!(
            step_of(&next(&world, late())),
            TaskStep::Parked,
            "it has begun"
        );
    }
}

#[test]
fn a_pause_after_failures_holds_what_comes_back_by_itself_and_not_what_a_person_wants() {
    let mut world = parked();
    world.pods = Observed::Present(vec![pod("a")]);
    world.run.braked = true;
    assert!(!is_resuming(&next(&world, late())));
    let wish = (names::ANNOTATION_RETRY.to_owned(), "1".to_owned());
    world.task.metadata.annotations = Some([wish].into());
    assert!(is_resuming(&next(&world, late())));
    world.run.paused = true;
    assert!(!is_resuming(&next(&world, late())), "that one means all");
    let waits = look(&world).status.waiting_for.unwrap();
    assert!(waits.contains("spec.paused"), "{waits}");
}

#[test]
fn failures_that_come_while_a_node_waits_for_its_slot_hold_it_back_unless_a_person_has_asked_for_it()
 {
    let mut world = resuming();
    world.run.braked = true;
    let held = next(&world, late());
    assert_eq!(effects(&look(&world)), Vec::<&str>::new());
    assert!(!is_resuming(&held));
    assert!(!is_resuming(&next(&held, late())));

    let mut aside = parked();
    aside.pods = Observed::Present(vec![pod("a")]);
    aside.run.spec = Some(Box::default());
    aside.ledger = Observed::Present(Ledger::default());
    let wish = (names::ANNOTATION_RETRY.to_owned(), "1".to_owned());
    aside.task.metadata.annotations = Some([wish].into());
    let mut asked = next(&aside, late());
    asked.run.braked = true;
    assert_eq!(effects(&look(&asked)), ["GrantSlots"]);
}

#[test]
fn a_cordon_by_a_person_is_never_taken_for_that_of_a_task_whose_cordon_they_had_lifted() {
    let opened = NodeView {
        cordoned_by: Some(OPERATION.to_owned()),
        ..node("old")
    };
    let mut aside = parked();
    aside.old_node = Observed::Present(opened.clone());
    assert_eq!(effects(&look(&aside)), ["EnsureUncordoned"], "set aside");
    let mut world = world_at(TaskStep::Drain);
    world.run.call_off = Some("spec.abort of run r is true".to_owned());
    let mut undoing = next(&world, start());
    undoing.old_node = Observed::Present(opened);
    assert_eq!(step_of(&undoing), TaskStep::Undo);
    assert_eq!(effects(&look(&undoing)).first(), Some(&"EnsureUncordoned"));
}

#[test]
fn nodes_that_are_down_count_for_one_that_comes_back_too() {
    let down = |name: &str| Down {
        node: name.to_owned(),
        zone: String::new(),
        role: Role::Worker,
    };
    let mut world = resuming();
    world.run.spec.as_mut().unwrap().batch_size_non_important = Some(2);
    world.down = vec![down("x"), down("old")];
    assert_eq!(effects(&look(&world)), ["GrantSlots"], "its own does not");
    world.down = vec![down("x"), down("y")];
    let held = look(&world);
    assert_eq!(effects(&held), Vec::<&str>::new());
    let waits = held.status.waiting_for.unwrap();
    assert!(waits.contains("2 not ready (first: x)"), "{waits}");
    world.down = vec![down("x"), down("y"), down("old")];
    assert_eq!(effects(&look(&world)), ["GrantSlots"], "it is down itself");
}
