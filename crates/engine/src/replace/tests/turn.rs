//! Tables for the turn of a task that is set aside when its run is called off.

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

#[test]
fn a_turn_that_does_not_come_leaves_the_new_node_in_service() {
    let mut world = called_off();
    world.ledger = full_ledger();
    let mut world = next(&world, late());
    let deadlines = Settings::default().deadlines;
    let past = late() + deadlines.undo + deadlines.release;
    let mut moving = world.clone();
    if let Observed::Present(ledger) = &mut moving.ledger {
        ledger
            .slots
            .values_mut()
            .for_each(|slot| slot.granted_at = late() + Settings::default().resync);
    }
    assert_eq!(
        step_of(&next(&moving, past)),
        TaskStep::Parked,
        "others get their turn"
    );
    let mut unknown = world.clone();
    unknown.slot = Observed::Unknown("no answer".to_owned());
    assert_eq!(step_of(&next(&unknown, past)), TaskStep::Undo);
    world.slot = Observed::Absent;
    let left = next(&world, past);
    assert_eq!(step_of(&left), TaskStep::Undo);
    let undo = left.task.status.as_ref().unwrap().undo.clone().unwrap();
    assert!(undo.keeps_machine);
    assert!(
        undo.message.contains("its turn to be put back"),
        "{}",
        undo.message
    );
    assert!(!effects(&look(&left)).contains(&"EnsureCordoned"));
}

#[test]
fn an_attempt_without_a_node_in_service_is_put_back_at_once_and_so_is_one_whose_run_is_gone() {
    let mut world = called_off();
    world.task.status.as_mut().unwrap().new_node_name = None;
    assert_eq!(step_of(&next(&world, late())), TaskStep::Undo);
    let mut world = called_off();
    world.run.spec = None;
    assert_eq!(step_of(&next(&world, late())), TaskStep::Undo);
}
