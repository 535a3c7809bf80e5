//! Tables for the marks on outdated nodes: when they are put on, and when they come to ask for less.

use shipshape_api::gates::OutdatedTaintEffect;

use super::*;

#[test]
fn outdated_nodes_are_marked_before_the_first_slot_is_granted() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&[]),
        unmarked: vec![(target("a"), 0)],
        ..planned()
    };
    if let Some(status) = &mut snapshot.run.status {
        status.marked = None;
    }
    assert_eq!(names_of(&look(&snapshot)), ["MarkNode"]);
}

fn taint_of_first_mark(decision: &Decision<NodePatchRunStatus>) -> Option<OutdatedTaintEffect> {
    match decision.effects.first() {
        Some(Effect::MarkNode { marks, .. }) => marks.outdated,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_without_a_place_opens_nodes_that_were_closed_once_its_time_is_over() {
    let mut snapshot = RunSnapshot {
        unmarked: vec![(target("a"), 0)],
        ..planned()
    };
    let status = snapshot.run.status.as_mut().unwrap();
    status.marked = None;
    Arc::make_mut(status.plan.as_mut().unwrap()).closed = Some(1);
    let hard = Some(OutdatedTaintEffect::NoSchedule);
    assert_eq!(taint_of_first_mark(&look(&snapshot)), hard);

    snapshot.run.status.as_mut().unwrap().marked = Some(true);
    snapshot.run.spec.paused = Some(true);
    snapshot.waiting = vec![waiting("a", "z1")];
    snapshot.ledger = ledger(&[]);
    let patience = Settings::default().reopen_after;
    let since = now() - patience + SignedDuration::from_secs(1);
    let pod = "shop/web-1".to_owned();
    snapshot.homeless = Some(Homeless { pod, since });
    let early = look(&snapshot);
    assert_eq!(early.status.reopened, None);
    assert_eq!(early.wake, Some(now() + SignedDuration::from_secs(1)));

    snapshot.homeless.as_mut().unwrap().since = now() - patience;
    let late = look(&snapshot);
    assert_eq!(late.wake, Some(now()));
    assert_eq!(late.status.marked, None, "marks are put on anew");
    assert!(
        late.status
            .reopened
            .as_ref()
            .unwrap()
            .contains("shop/web-1")
    );
    assert!(
        late.notices
            .iter()
            .any(|one| one.warning && one.reason == "Reopened")
    );

    snapshot.run.status = Some(late.status);
    snapshot.homeless = None;
    let soft = Some(OutdatedTaintEffect::PreferNoSchedule);
    assert_eq!(taint_of_first_mark(&look(&snapshot)), soft);
}

#[test]
fn a_pause_while_nodes_are_being_marked_keeps_none_of_them_closed_for_ever() {
    let mut snapshot = RunSnapshot {
        unmarked: vec![(target("b"), 1)],
        marked: vec![target("a")],
        ..planned()
    };
    snapshot.run.status.as_mut().unwrap().marked = None;
    snapshot.run.spec.paused = Some(true);
    let rests = look(&snapshot);
    assert_eq!(rests.effects, [], "no further node is closed");
    assert_eq!(rests.status.paused, Some(true));
    let since = now() - Settings::default().reopen_after;
    let pod = "shop/web-1".to_owned();
    snapshot.homeless = Some(Homeless { pod, since });
    let reopened = look(&snapshot).status;
    assert!(reopened.reopened.is_some());
    snapshot.run.status = Some(reopened);
    snapshot.homeless = None;
    let soft = Some(OutdatedTaintEffect::PreferNoSchedule);
    assert_eq!(taint_of_first_mark(&look(&snapshot)), soft);
}

#[test]
fn closed_nodes_are_opened_on_the_way_back_too_and_a_run_that_is_over_rests() {
    let long_ago = now() - Settings::default().reopen_after;
    let mut snapshot = RunSnapshot {
        open: vec![task_at("a", TaskStep::Undo).into()],
        homeless: Some(Homeless {
            pod: "shop/web-1".to_owned(),
            since: long_ago,
        }),
        ..planned()
    };
    snapshot.run.spec.abort = Some(true);
    let status = snapshot.run.status.as_mut().unwrap();
    Arc::make_mut(status.plan.as_mut().unwrap()).closed = Some(2);
    let opening = look(&snapshot);
    assert!(opening.status.reopened.is_some());
    snapshot.run.status = Some(opening.status);
    snapshot.homeless = None;
    snapshot.unmarked = vec![(target("b"), 1)];
    let soft = Some(OutdatedTaintEffect::PreferNoSchedule);
    assert_eq!(taint_of_first_mark(&look(&snapshot)), soft);
    snapshot.unmarked.clear();
    let waiting = look(&snapshot);
    assert_eq!(names_of(&waiting), [""; 0]);
    assert_ne!(waiting.wake, Some(now()), "now the tasks are waited for");
}

#[test]
fn a_run_that_comes_to_ask_for_soft_marks_gets_them() {
    let mut snapshot = planned();
    snapshot.run.spec.outdated_taint_effect = Some(OutdatedTaintEffect::PreferNoSchedule);
    assert_eq!(look(&snapshot).status.reopened, None, "nothing was closed");
    let status = snapshot.run.status.as_mut().unwrap();
    Arc::make_mut(status.plan.as_mut().unwrap()).closed = Some(1);
    let opening = look(&snapshot);
    assert!(opening.status.reopened.is_some());
    assert_eq!(opening.status.marked, None);
    snapshot.run.status = Some(opening.status);
    assert_eq!(look(&snapshot).status.marked, Some(true), "once");
}
