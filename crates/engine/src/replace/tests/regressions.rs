//! Defects of other systems that must not come back here; `docs/regressions.md` lists them.

use jiff::SignedDuration;
use shipshape_api::names;

use super::*;
use crate::machine::ReplacementRequest;

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
