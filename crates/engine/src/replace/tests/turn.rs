//! Tables for the turn of a task that is set aside when its run is called off.

use jiff::SignedDuration;
use shipshape_api::node_patch_task::UndoRecord;

use super::parking::{is_resuming, parked, slot_of_another};
use super::ways_out::{late, next};
use super::*;
use crate::admit::Down;
use crate::ledger::{Ledger, Role};

/// A parked task whose new node is in service and whose run is called off, before it has its turn.
fn called_off() -> TaskSnapshot {
    let mut world = parked();
    world.run.spec = Some(Box::default());
    world.run.call_off = Some("spec.abort of run r is true".to_owned());
    world.slot = Observed::Absent;
    assert!(world.task.status.as_ref().unwrap().new_node_name.is_some());
    let mut world = next(&world, late());
    assert_eq!(step_of(&world), TaskStep::Parked, "it waits for its turn");
    assert!(is_resuming(&world));
    world.ledger = Observed::Present(Ledger::default());
    world
}

fn full_ledger() -> Observed<Ledger> {
    Observed::Present(Ledger {
        slots: ["x", "y"].map(slot_of_another).into(),
        ..Ledger::default()
    })
}

#[test]
fn a_new_node_in_service_leaves_it_with_a_slot_when_its_task_is_called_off() {
    let mut world = called_off();
    assert_eq!(effects(&look(&world)), ["GrantSlots"]);
    world.ledger = full_ledger();
    let waits = look(&world);
    assert_eq!(effects(&waits), Vec::<&str>::new());
    let reason = waits.status.waiting_for.unwrap();
    assert!(
        reason.starts_with("its turn to be put back: 2 node(s) in flight"),
        "{reason}"
    );
    world.slot = Observed::Present(());
    assert_eq!(step_of(&next(&world, late())), TaskStep::Undo);
}

#[test]
fn a_node_that_is_down_and_words_that_nobody_can_read_keep_no_attempt_from_being_put_back() {
    let mut world = called_off();
    world.run.spec.as_mut().unwrap().batch_size_non_important = Some(1);
    world.down = vec![Down {
        node: "other".to_owned(),
        zone: "z1".to_owned(),
        role: Role::Worker,
    }];
    let unread = ("x".to_owned(), "?".to_owned());
    world.ledger = Observed::Present(Ledger {
        unreadable: [unread].into(),
        ..Ledger::default()
    });
    assert_eq!(effects(&look(&world)), ["GrantSlots"]);
}

/// How long a task waits for its turn while nobody of its run gets one.
fn patience() -> SignedDuration {
    let deadlines = Settings::default().deadlines;
    deadlines.undo + deadlines.release
}

fn undo_of(world: &TaskSnapshot) -> UndoRecord {
    let status = world.task.status.as_ref().unwrap();
    status.undo.clone().unwrap()
}

#[test]
fn a_turn_that_does_not_come_leaves_the_new_node_in_service() {
    let mut world = called_off();
    world.ledger = full_ledger();
    let mut world = next(&world, late());
    let past = late() + patience();
    let mut unknown = world.clone();
    unknown.slot = Observed::Unknown("no answer".to_owned());
    assert_eq!(step_of(&next(&unknown, past)), TaskStep::Undo);
    let before = past - SignedDuration::from_secs(1);
    assert_eq!(step_of(&next(&world, before)), TaskStep::Parked);
    world.slot = Observed::Absent;
    let left = next(&world, past);
    assert_eq!(step_of(&left), TaskStep::Undo);
    let undo = undo_of(&left);
    assert!(undo.keeps_machine);
    assert!(
        undo.message.contains("its turn to be put back"),
        "{}",
        undo.message
    );
    assert!(!effects(&look(&left)).contains(&"EnsureCordoned"));
}

#[test]
fn while_others_of_its_run_get_their_turn_a_task_waits_on() {
    let mut world = called_off();
    world.ledger = full_ledger();
    let some = late() + patience() / 2;
    let Observed::Present(ledger) = &mut world.ledger else {
        unreachable!()
    };
    for slot in ledger.slots.values_mut() {
        slot.granted_at = some;
        slot.owner.clone_from(&world.task.spec.run_uid);
    }
    let mut world = next(&world, some);
    let past = late() + patience();
    assert_eq!(step_of(&next(&world, past)), TaskStep::Parked);
    world.ledger = full_ledger();
    assert_eq!(
        step_of(&next(&world, past)),
        TaskStep::Parked,
        "their slots are given back"
    );
    assert_eq!(step_of(&next(&world, some + patience())), TaskStep::Undo);
}

#[test]
fn a_slot_that_is_free_is_taken_however_late_it_is() {
    let world = called_off();
    let decision = decide(&world, &Settings::default(), late() + patience());
    assert!(effects(&decision).contains(&"GrantSlots"));
    let mut waited = parked();
    waited.run.spec = Some(Box::default());
    waited.run.call_off = Some("spec.abort of run r is true".to_owned());
    waited.slot = Observed::Absent;
    waited.ledger = full_ledger();
    let record = waited
        .task
        .status
        .as_mut()
        .unwrap()
        .parked
        .as_mut()
        .unwrap();
    record.resuming = true;
    let waited = next(&waited, late() + patience());
    let again = next(&waited, late() + patience());
    assert_eq!(
        step_of(&again),
        TaskStep::Parked,
        "the wait begins with the call"
    );
}

#[test]
fn a_run_that_waits_for_the_lock_of_a_node_does_not_keep_it_from_being_put_back() {
    let mut world = called_off();
    let (_, slot) = slot_of_another("old");
    world.ledger = Observed::Present(Ledger {
        slots: [(world.task.spec.node_uid.clone(), slot)].into(),
        ..Ledger::default()
    });
    let next = next(&world, late());
    assert_eq!(step_of(&next), TaskStep::Undo);
    assert!(!undo_of(&next).keeps_machine);
}

#[test]
fn nor_does_one_that_waits_for_its_new_node() {
    let mut world = called_off();
    let (uid, mut slot) = slot_of_another("new");
    slot.node = world
        .task
        .status
        .as_ref()
        .unwrap()
        .new_node_name
        .clone()
        .unwrap();
    world.ledger = Observed::Present(Ledger {
        slots: [(uid, slot), slot_of_another("x")].into(),
        ..Ledger::default()
    });
    assert_eq!(step_of(&next(&world, late())), TaskStep::Undo);
}

#[test]
fn while_the_old_node_is_down_its_new_machine_serves_in_its_place() {
    let mut world = called_off();
    world.slot = Observed::Present(());
    world.old_node = Observed::Present(NodeView {
        ready: false,
        ..node("old")
    });
    let waits = look(&world);
    assert!(
        waits
            .status
            .waiting_for
            .unwrap()
            .contains("to be ready again, or gone")
    );
    let left = next(&next(&world, late()), late() + patience());
    assert!(undo_of(&left).keeps_machine);
    world.old_node = Observed::Present(node("old"));
    assert!(!undo_of(&next(&world, late())).keeps_machine);
}

#[test]
fn the_new_machine_of_a_node_that_is_gone_stays_in_its_place() {
    let mut world = called_off();
    world.old_node = Observed::Absent;
    let next = next(&world, late());
    assert_eq!(step_of(&next), TaskStep::Undo);
    assert!(undo_of(&next).keeps_machine);
}

#[test]
fn important_pods_of_the_new_node_count_on_the_way_back() {
    let mut world = called_off();
    let run = world.run.spec.as_mut().unwrap();
    run.important_pod_selectors = serde_json::from_value(
        serde_json::json!([{ "labelSelector": { "matchLabels": { "app": "db" } } }]),
    )
    .unwrap();
    let grants_important = |world: &TaskSnapshot| match &look(world).effects[..] {
        [Effect::GrantSlots { slots, .. }] => slots[0].1.important,
        other => panic!("{other:?}"),
    };
    assert!(!grants_important(&world));
    world.new_pods = Observed::Present(vec![PodView {
        labels: [("app".to_owned(), "db".to_owned())].into(),
        ..pod("db")
    }]);
    assert!(grants_important(&world));
}

#[test]
fn an_attempt_without_a_node_in_service_is_put_back_at_once() {
    let mut world = called_off();
    world.task.status.as_mut().unwrap().new_node_name = None;
    assert_eq!(step_of(&next(&world, late())), TaskStep::Undo);
}

#[test]
fn what_a_run_that_is_gone_has_set_aside_is_put_back_one_by_one() {
    let mut world = called_off();
    world.run.spec = None;
    world.ledger = Observed::Present(Ledger {
        slots: [slot_of_another("x")].into(),
        ..Ledger::default()
    });
    assert_eq!(effects(&look(&world)), Vec::<&str>::new());
    world.ledger = Observed::Present(Ledger::default());
    assert_eq!(effects(&look(&world)), ["GrantSlots"]);
}
