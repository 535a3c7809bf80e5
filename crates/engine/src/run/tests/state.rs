//! The one word for how a run stands, since when, and what people are told when it changes.

use shipshape_api::RunState;
use shipshape_api::node_patch_run::AutoscalerControl;

use super::*;
use crate::autoscaler::DeploymentView;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn reasons(decision: &Decision<NodePatchRunStatus>) -> Vec<&'static str> {
    decision.notices.iter().map(|one| one.reason).collect()
}

/// Looks, and keeps what was decided as the status.
fn step(snapshot: &mut RunSnapshot, second: i64) -> Decision<NodePatchRunStatus> {
    let decision = decide(snapshot, &Settings::default(), at(second));
    snapshot.run.status = Some(decision.status.clone());
    decision
}

fn under_way() -> RunSnapshot {
    let mut snapshot = planned();
    snapshot.ledger = ledger(&[]);
    snapshot.open = vec![task_at("a", TaskStep::Drain).into()];
    step(&mut snapshot, 10);
    snapshot
}

#[test]
fn a_pause_is_seen_at_once_even_when_no_node_waits_and_its_time_stays() {
    let mut snapshot = under_way();
    snapshot.run.spec.paused = Some(true);
    let decision = step(&mut snapshot, 20);
    assert_eq!(decision.status.state, Some(RunState::Paused));
    assert_eq!(decision.status.state_since, Some(Time(at(20))));
    assert_eq!(decision.status.paused, Some(true));
    assert_eq!(reasons(&decision), ["Paused"]);
    assert!(!decision.notices[0].warning);
    let waits = decision.status.waiting_for.unwrap();
    assert!(waits.contains("tasks in flight"), "{waits}");
    let decision = step(&mut snapshot, 30);
    assert_eq!(decision.status.state_since, Some(Time(at(20))));
    assert_eq!(reasons(&decision), Vec::<&str>::new());
}

#[test]
fn a_lifted_pause_is_told_once_even_when_no_node_waits() {
    let mut snapshot = under_way();
    snapshot.run.spec.paused = Some(true);
    step(&mut snapshot, 20);
    snapshot.run.spec.paused = Some(false);
    let decision = step(&mut snapshot, 30);
    assert_eq!(decision.status.state, Some(RunState::Active));
    assert_eq!(decision.status.paused, None);
    assert_eq!(reasons(&decision), ["Resumed"]);
    assert_eq!(reasons(&step(&mut snapshot, 40)), Vec::<&str>::new());
}

#[test]
fn a_run_that_is_called_off_says_so_at_once_and_is_paused_no_more() {
    let mut snapshot = under_way();
    snapshot.run.spec.paused = Some(true);
    step(&mut snapshot, 20);
    snapshot.run.spec.abort = Some(true);
    let decision = step(&mut snapshot, 30);
    assert_eq!(decision.status.state, Some(RunState::Ending));
    assert_eq!(decision.status.paused, None);
    assert_eq!(reasons(&decision), ["Ending"]);
    assert!(decision.notices[0].message.contains("called off"));
    snapshot.open.clear();
    snapshot.others = 1;
    let decision = step(&mut snapshot, 40);
    assert_eq!(decision.status.state, Some(RunState::Aborted));
    assert_eq!(reasons(&decision), ["Aborted"]);
    let rest = step(&mut snapshot, 50);
    assert_eq!(rest.status.state_since, Some(Time(at(40))));
}

#[test]
fn a_run_that_no_controller_has_seen_stands_as_its_spec_says() {
    let mut run = snapshot().run;
    assert_eq!(state(&run), RunState::Active);
    run.spec.paused = Some(true);
    assert_eq!(state(&run), RunState::Paused);
    run.spec.abort = Some(true);
    assert_eq!(state(&run), RunState::Ending);
}

#[test]
fn a_run_that_asks_for_an_unknown_cloud_is_refused() {
    let mut snapshot = snapshot();
    snapshot.run.spec.provider.r#type = "vmware".to_owned();
    let decision = step(&mut snapshot, 10);
    assert_eq!(decision.status.state, Some(RunState::Refused));
}

fn scales_to_zero() -> AutoscalerControl {
    AutoscalerControl {
        enabled: Some(true),
        ..AutoscalerControl::default()
    }
}

#[test]
fn a_run_that_is_created_paused_is_planned_and_changes_nothing_until_it_may() {
    let mut snapshot = snapshot();
    snapshot.run.spec.paused = Some(true);
    snapshot.run.spec.autoscaler_control = Some(scales_to_zero());
    step(&mut snapshot, 10);
    snapshot.nodes = Observed::NotAsked;
    snapshot.waiting = vec![waiting("a", "z1")];
    snapshot.ledger = ledger(&[]);
    snapshot.unmarked = vec![(target("a"), 0)];
    let paused = step(&mut snapshot, 20);
    assert_eq!(paused.effects, []);
    assert_eq!(paused.status.state, Some(RunState::Paused));
    let waits = paused.status.waiting_for.unwrap();
    assert_eq!(waits, "spec.paused to be lifted");
    assert!(paused.status.plan.is_some());
    assert!(!may_use_cloud(&snapshot.run));

    snapshot.run.spec.paused = Some(false);
    let lifted = step(&mut snapshot, 30);
    assert_eq!(names_of(&lifted), ["MarkNode"]);
    assert_eq!(lifted.status.state, Some(RunState::Active));
    assert_eq!(reasons(&lifted), ["Resumed"]);
    assert!(may_use_cloud(&snapshot.run));
}

#[test]
fn a_spec_that_changes_before_the_run_has_begun_is_planned_anew_and_later_not() {
    let mut snapshot = snapshot();
    snapshot.run.metadata.generation = Some(1);
    snapshot.run.spec.paused = Some(true);
    step(&mut snapshot, 10);
    step(&mut snapshot, 20);
    let planned = |snapshot: &RunSnapshot| {
        let status = snapshot.run.status.as_ref().unwrap();
        status.plan.as_ref().map(|plan| plan.total())
    };
    assert_eq!(planned(&snapshot), Some(3));
    snapshot.run.metadata.generation = Some(2);
    snapshot.marked = vec![target("a")];
    let touched = look(&snapshot);
    assert!(touched.status.plan.is_some(), "one of its nodes is marked");
    snapshot.marked = Vec::new();
    let decision = step(&mut snapshot, 30);
    assert_eq!((planned(&snapshot), decision.wake), (None, Some(at(30))));
    snapshot.nodes = Observed::Present(vec![node("a", "z1")]);
    step(&mut snapshot, 30);
    assert_eq!(planned(&snapshot), Some(1));

    snapshot.run.spec.paused = Some(false);
    step(&mut snapshot, 40);
    assert_eq!(snapshot.run.status.as_ref().unwrap().marked, Some(true));
    snapshot.run.metadata.generation = Some(3);
    step(&mut snapshot, 50);
    assert_eq!(planned(&snapshot), Some(1), "its nodes are marked");
}

#[test]
fn a_run_that_is_paused_later_keeps_its_marks_and_begins_no_hold() {
    let mut snapshot = planned();
    snapshot.run.spec.paused = Some(true);
    snapshot.run.spec.autoscaler_control = Some(scales_to_zero());
    snapshot.waiting = vec![waiting("a", "z1")];
    snapshot.ledger = ledger(&[]);
    snapshot.autoscalers = Observed::Present(vec![DeploymentView {
        namespace: "kube-system".to_owned(),
        name: "autoscaler".to_owned(),
        replicas: 3,
        saved: None,
        held_by: None,
    }]);
    let paused = step(&mut snapshot, 10);
    assert_eq!(paused.effects, []);
    assert_eq!(paused.status.autoscaler, None);
    assert_eq!(paused.status.marked, Some(true));
    assert!(may_use_cloud(&snapshot.run), "it has begun");

    snapshot.open = vec![task_at("a", TaskStep::Drain).into()];
    let at_work = step(&mut snapshot, 20);
    assert!(at_work.status.autoscaler.is_some(), "a node is in work");
}

#[test]
fn a_run_may_have_used_its_cloud_from_its_plan_to_its_end() {
    let mut run = planned().run;
    assert!(may_use_cloud(&run));
    run.status.as_mut().unwrap().marked = None;
    assert!(may_use_cloud(&run), "it is about to begin");
    run.spec.paused = Some(true);
    assert!(may_use_cloud(&run), "its pause is not seen yet");
    run.status.as_mut().unwrap().paused = Some(true);
    assert!(!may_use_cloud(&run));
    run.status.as_mut().unwrap().in_flight_important = Some(1);
    assert!(may_use_cloud(&run), "a node of it is in work");
    run.status.as_mut().unwrap().in_flight_important = Some(0);
    assert!(!may_use_cloud(&run));
    run.status.as_mut().unwrap().failed = Some(1);
    assert!(may_use_cloud(&run), "a node of it was in work");
    run.status = None;
    assert!(!may_use_cloud(&run), "it has no plan");
}
