//! A replacement that must pass the gate: it counts once it is verified, and not before.

use shipshape_api::conditions::OVERDUE;
use shipshape_api::node_patch_task::UndoNext;

use super::*;
use crate::verify::passage::Passage;
use crate::view::TaintView;

fn shut(is_bounded: bool) -> Passage {
    Passage::Shut {
        why: "the verification of node new".to_owned(),
        is_bounded,
    }
}

fn failed() -> Passage {
    Passage::Failed("node new has failed its verification".to_owned())
}

fn at(step: TaskStep, passage: Passage) -> TaskSnapshot {
    TaskSnapshot {
        passage,
        ..world_at(step)
    }
}

#[test]
fn a_replacement_counts_as_ready_only_when_it_is_through_the_gate() {
    let waiting = look(&at(TaskStep::Join, shut(true)));
    assert_eq!(waiting.status.step_name(), TaskStep::Join);
    assert_eq!(
        waiting.status.waiting_for.as_deref(),
        Some("the verification of node new")
    );
    assert!(waiting.effects.is_empty(), "{:?}", waiting.effects);
    let through = look(&at(TaskStep::Join, Passage::Open));
    assert_eq!(through.status.step_name(), TaskStep::Cordon);
}

#[test]
fn a_replacement_that_fails_at_the_gate_is_put_back_and_the_old_node_stays() {
    let mut world = at(TaskStep::Join, failed());
    world.task.spec.max_attempts = Some(2);
    let decision = look(&world);
    assert_eq!(decision.status.step_name(), TaskStep::Undo);
    let undo = decision.status.undo.clone().unwrap();
    assert_eq!(
        (undo.reason.as_str(), undo.next),
        ("ReplacementUnfit", UndoNext::Retry)
    );
    assert!(decision.effects.is_empty(), "{:?}", decision.effects);
    world.task.status.as_mut().unwrap().attempt = Some(2);
    let last = look(&world).status.undo.unwrap();
    assert_eq!(last.next, UndoNext::Fail);
}

#[test]
fn a_join_that_the_gate_holds_up_is_late_and_not_lost() {
    let late = start() + jiff::SignedDuration::from_hours(9);
    let held = at(TaskStep::Join, shut(true));
    let decision = decide(&held, &Settings::default(), late);
    assert_eq!(decision.status.step_name(), TaskStep::Join);
    assert!(condition::is_true(&decision.status.conditions, OVERDUE));
    // Where nothing at the gate sees to an end, the deadline does.
    let lost = at(TaskStep::Join, shut(false));
    let decision = decide(&lost, &Settings::default(), late);
    assert_eq!(decision.status.step_name(), TaskStep::Undo);
}

#[test]
fn what_follows_a_late_gate_has_its_whole_time() {
    let hours = |count| start() + jiff::SignedDuration::from_hours(count);
    let mut world = at(TaskStep::Join, shut(true));
    let mut status = decide(&world, &Settings::default(), hours(9)).status;
    world.passage = Passage::Open;
    world.new_node = Observed::Present(NodeView {
        taints: vec![TaintView {
            key: "ebs.csi.aws.com/agent-not-ready".to_owned(),
            effect: "NoSchedule".to_owned(),
        }],
        ..node("new")
    });
    for (now, wanted) in [(hours(9), TaskStep::Join), (hours(18), TaskStep::Undo)] {
        world.task.status = Some(status);
        status = decide(&world, &Settings::default(), now).status;
        assert_eq!(status.step_name(), wanted, "{status:?}");
    }
}

#[test]
fn no_old_node_is_closed_or_removed_while_its_replacement_is_back_at_the_gate() {
    for step in [TaskStep::Cordon, TaskStep::Remove] {
        for passage in [shut(true), failed()] {
            let mut world = at(step, passage);
            world.old_machine = Observed::Present(machine("m-old", MachineState::Ready));
            let decision = look(&world);
            assert!(decision.effects.is_empty(), "{step:?}");
            assert_eq!(decision.status.step_name(), step);
        }
        let mut world = at(step, Passage::Open);
        world.old_machine = Observed::Present(machine("m-old", MachineState::Ready));
        assert!(!look(&world).effects.is_empty(), "{step:?}");
    }
}
