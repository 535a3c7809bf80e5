//! Tables for the gates: pods must be stable before the drain and after it.

use jiff::SignedDuration;
use shipshape_api::gates::Stability;

use super::ways_out::{late, next};
use super::*;

fn guarded(step: TaskStep) -> TaskSnapshot {
    let mut world = world_at(step);
    world.task.spec.important = Some(true);
    world.task.spec.important_pod_selectors =
        vec![shipshape_api::selectors::PodSelector::default()];
    world.task.spec.stability = Some(Stability {
        stable_for: Some("2m".to_owned()),
        important_only: None,
    });
    world.unstable = Observed::Present(Vec::new());
    world
}

#[test]
fn the_gates_stand_before_the_drain_and_after_it() {
    let world = next(&guarded(TaskStep::Join), start());
    assert_eq!(step_of(&world), TaskStep::Settle);
    let world = next(&guarded(TaskStep::Drain), start());
    assert_eq!(step_of(&world), TaskStep::Recover);
}

#[test]
fn a_gate_opens_after_an_unbroken_time_and_starts_over_when_it_breaks() {
    let world = next(&guarded(TaskStep::Join), start());
    let minute = SignedDuration::from_mins(1);
    let mut world = next(&world, start());
    assert_eq!(step_of(&next(&world, start() + minute)), TaskStep::Settle);
    let open = next(&world, start() + minute * 2);
    assert_eq!(step_of(&open), TaskStep::Cordon);
    world.unstable = Observed::Present(vec!["ns/web".to_owned()]);
    let mut world = next(&world, start() + minute);
    let status = world.task.status.clone().unwrap();
    assert_eq!(status.stable_since, None);
    assert!(status.stability_note.unwrap().contains("ns/web"));
    world.unstable = Observed::Present(Vec::new());
    let world = next(&world, start() + minute * 2);
    assert_eq!(
        step_of(&next(&world, start() + minute * 3)),
        TaskStep::Settle
    );
    assert_eq!(
        step_of(&next(&world, start() + minute * 4)),
        TaskStep::Cordon
    );
}

#[test]
fn a_gate_that_does_not_open_in_time_parks_the_node() {
    let mut world = next(&guarded(TaskStep::Join), start());
    world.unstable = Observed::Present(vec!["ns/web".to_owned()]);
    assert_eq!(step_of(&next(&world, late())), TaskStep::Parked);
}

#[test]
fn a_gate_that_asks_for_more_time_than_its_step_has_still_opens() {
    for step in [TaskStep::Join, TaskStep::Drain] {
        let mut world = guarded(step);
        let stability = world.task.spec.stability.as_mut().unwrap();
        stability.stable_for = Some("1h".to_owned());
        // The pods come to rest shortly before the settings' own deadline.
        let rest = start() + SignedDuration::from_mins(29);
        let world = next(&next(&world, start()), rest);
        let gate = step_of(&world);
        let soon = rest + SignedDuration::from_mins(59);
        assert_eq!(step_of(&next(&world, soon)), gate);
        let open = next(&world, rest + SignedDuration::from_hours(1));
        assert!(
            matches!(step_of(&open), TaskStep::Cordon | TaskStep::Remove),
            "{gate:?}: {:?}",
            step_of(&open)
        );
    }
}
