//! Defects of other systems that must not come back here; `docs/regressions.md` lists them.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use shipshape_api::conditions::OLD_DELETED;
use shipshape_api::names;
use shipshape_api::node_patch_task::{DetachRecord, DrainRecord};

use super::ways_out::{late, next};
use super::*;
use crate::machine::ReplacementRequest;
use crate::view::AttachmentView;

fn asked(world: &TaskSnapshot, at: Timestamp) -> ReplacementRequest {
    let decision = decide(world, &Settings::default(), at);
    let Some(Effect::EnsureReplacement(request)) = decision.effects.first() else {
        panic!("{:?}", decision.effects)
    };
    request.clone()
}

#[test]
fn after_a_crash_the_same_machine_is_asked_for_again_and_no_other() {
    let world = TaskSnapshot {
        new_machine: Observed::Absent,
        ..world_at(TaskStep::Provision)
    };
    let later = start() + SignedDuration::from_secs(90);
    assert_eq!(asked(&world, start()), asked(&world, later));
}

#[test]
fn the_call_that_makes_a_machine_says_whose_it_is() {
    let world = TaskSnapshot {
        new_machine: Observed::Absent,
        ..world_at(TaskStep::Provision)
    };
    let request = asked(&world, start());
    let tag = |key: &str| request.tags.get(key).map(String::as_str);
    assert_eq!(tag(names::TAG_TOKEN), Some(request.token.as_str()));
    assert_eq!(tag(names::TAG_REPLACES), Some("m-old"));
    assert!(tag(names::TAG_TASK).is_some_and(|task| task.contains('/')));
    assert_eq!(
        tag(names::TAG_RUN_UID),
        Some(world.task.spec.run_uid.as_str())
    );
}

#[test]
fn a_drain_is_over_when_the_pod_list_says_so_whatever_was_called_before() {
    let mut world = world_at(TaskStep::Drain);
    world.old_node = Observed::Present(NodeView {
        unschedulable: true,
        ..node("old")
    });
    world.pods = Observed::Present(vec![pod("web")]);
    let asked = look(&world);
    assert_eq!(effects(&asked), ["EvictPod"]);
    assert_eq!(step(&asked), TaskStep::Drain, "an answer is no progress");
    world.task.status = Some(asked.status);
    world.pods = Observed::Present(Vec::new());
    assert_eq!(step(&look(&world)), TaskStep::Remove);
}

#[test]
fn the_old_node_object_goes_once_its_machine_is_gone() {
    let mut world = world_at(TaskStep::Forget);
    world.old_node = Observed::Present(node("old"));
    let decision = look(&world);
    assert_eq!(effects(&decision), ["DeleteNode"]);
    assert_eq!(step(&decision), TaskStep::Forget);
    world.old_node = Observed::Absent;
    assert_ne!(step(&look(&world)), TaskStep::Forget);
}

/// The cloud had made the machine after all, but did not show it yet when the deadline passed: another
/// token would have made a second one (seed 686).
#[test]
fn a_node_that_was_set_aside_for_want_of_room_asks_under_the_same_token_again() {
    let token = |world: &TaskSnapshot| {
        let status = world.task.status.clone().unwrap();
        status.replacement.unwrap().token
    };
    let mut world = world_at(TaskStep::Provision);
    let asked = token(&world);
    world.new_machine = Observed::Absent;
    world.run.last_round = true;
    let record = world.task.status.as_mut().unwrap().replacement.as_mut();
    record.unwrap().no_room = Some("zone a is full".to_owned());
    let mut world = next(&world, late());
    let status = world.task.status.as_mut().unwrap();
    assert_eq!(status.attempt, Some(2));
    status.parked.as_mut().unwrap().resuming = true;
    world.slot = Observed::Present(());
    let mut world = next(&world, late());
    assert_eq!(step_of(&world), TaskStep::Lock);
    world = next(&world, late());
    assert_eq!(
        (step_of(&world), token(&world)),
        (TaskStep::Provision, asked)
    );
}

#[test]
fn a_task_whose_old_machine_is_gone_asks_for_the_new_one_when_it_is_tried_again() {
    let mut world = world_at(TaskStep::Provision);
    let status = world.task.status.as_mut().unwrap();
    status.step.as_mut().unwrap().name = TaskStep::Failed;
    status.terminate_first = Some(true);
    let gone: Condition = serde_json::from_value(serde_json::json!({
        "type": OLD_DELETED, "status": "True", "reason": "MachineGone",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }))
    .unwrap();
    status.conditions.push(gone);
    world.old_node = Observed::Absent;
    world.old_machine = Observed::Absent;
    world.new_machine = Observed::Absent;
    world.lock = Observed::Absent;
    let wish = (names::ANNOTATION_RETRY.to_owned(), "1".to_owned());
    world.task.metadata.annotations = Some([wish].into());
    world.task.metadata.finalizers = Some(vec![names::FINALIZER.to_owned()]);
    assert!(has_lost_place(&world.task));
    world = next(&world, start());
    assert!(!has_lost_place(&world.task), "it is tried again");
    assert_eq!(step_of(&world), TaskStep::Backoff);
    world = next(&world, late());
    assert_eq!(step_of(&world), TaskStep::Provision);
    let decision = decide(&world, &Settings::default(), late());
    assert_eq!(effects(&decision), ["EnsureReplacement"]);
}

/// The cloud showed the machine only after the attempt was given up; by then it was a node with pods.
#[test]
fn a_machine_that_shows_up_during_the_undo_is_emptied_and_its_node_goes_too() {
    let mut world = world_at(TaskStep::Provision);
    world.new_machine = Observed::Absent;
    world = next(&world, late());
    assert_eq!(step_of(&world), TaskStep::Undo);
    world.new_machine = Observed::Present(machine("m-new", MachineState::Ready));
    world.new_pods = Observed::Present(vec![pod("web")]);
    let decision = look(&world);
    assert_eq!(effects(&decision), ["EnsureCordoned"]);
    let recorded = decision.status.new_machine.clone().unwrap();
    assert_eq!(recorded.id, "m-new");
    world.task.status = Some(decision.status);
    world.new_node = Observed::Present(NodeView {
        unschedulable: true,
        ..node("new")
    });
    assert_eq!(effects(&look(&world)), ["EvictPod"]);
}

/// The pods of a node that somebody had opened came back, and had only what the drain before had left over.
#[test]
fn a_drain_that_begins_again_has_its_whole_time_and_counts_anew() {
    let mut world = world_at(TaskStep::Remove);
    let status = world.task.status.as_mut().unwrap();
    status.drain = Some(DrainRecord {
        total: 30,
        detaching: vec![DetachRecord {
            volume: "data".to_owned(),
            since: Time(start()),
        }],
        ..DrainRecord::default()
    });
    world.pods = Observed::Present(vec![pod("a")]);
    world = next(&next(&world, late()), late());
    assert_eq!(step_of(&world), TaskStep::Drain);
    let deadline = late() + Settings::default().deadlines.drain;
    let step = world.task.status.clone().unwrap().step.unwrap();
    assert_eq!(step.deadline, Some(Time(deadline)));
    world = next(&world, late());
    let record = world.task.status.clone().unwrap().drain.unwrap();
    assert_eq!((record.total, record.remaining), (1, 1));
    // The pod is gone, and its volume is just being detached.
    world.pods = Observed::Present(Vec::new());
    world.around.attachments = vec![AttachmentView {
        volume: "data".to_owned(),
        ..AttachmentView::default()
    }];
    assert_eq!(step_of(&next(&world, late())), TaskStep::Drain);
}
