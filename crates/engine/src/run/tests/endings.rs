//! How runs end, and what is put back first.

use super::*;

#[test]
fn every_ending_takes_the_marks_off_and_puts_the_groups_back_first() {
    let mut completed = planned();
    completed.run.status.as_mut().unwrap().current_iteration = Some(1);
    let mut aborted = planned();
    aborted.run.spec.abort = Some(true);
    let mut deleted = planned();
    deleted.run.metadata.deletion_timestamp = Some(Time(now()));
    for mut snapshot in [completed, aborted, deleted] {
        snapshot.marked = vec![target("a")];
        let decision = look(&snapshot);
        assert_eq!(names_of(&decision), ["MarkNode"]);
        assert!(!is_over(&decision.status));
        snapshot.marked.clear();
        snapshot.run.status = Some(decision.status);
        let decision = look(&snapshot);
        assert_eq!(names_of(&decision), ["RestoreGroups"]);
        snapshot.run.status = Some(decision.status);
        let end = look(&snapshot);
        assert!(is_over(&end.status) || names_of(&end) == ["DropFinalizer"]);
    }
}

#[test]
fn an_ending_waits_for_tasks_to_be_put_back() {
    for is_deleted in [true, false] {
        let mut snapshot = planned();
        if is_deleted {
            snapshot.run.metadata.deletion_timestamp = Some(Time(now()));
        } else {
            snapshot.run.spec.abort = Some(true);
        }
        snapshot.open = vec![task_at("a", TaskStep::Undo).into()];
        snapshot.waiting = vec![waiting("b", "z1")];
        snapshot.ledger = ledger(&[]);
        let decision = look(&snapshot);
        assert_eq!(names_of(&decision), Vec::<&str>::new());
        assert!(decision.status.waiting_for.unwrap().contains('a'));
    }
}

#[test]
fn a_run_that_is_called_off_frees_slots_while_tasks_that_are_set_aside_wait_for_them() {
    let mut snapshot = planned();
    snapshot.run.spec.abort = Some(true);
    snapshot.open = vec![task_at("b", TaskStep::Parked).into()];
    let over = slot("a", "z1");
    snapshot.abandoned = vec![(over.0.clone(), over.1.task.clone())];
    snapshot.ledger = ledger(&[over]);
    let decision = look(&snapshot);
    assert_eq!(names_of(&decision), ["GrantSlots"]);
    assert!(!is_over(&decision.status));
}

#[test]
fn a_run_whose_node_is_tried_again_is_wound_down_once_more() {
    let mut snapshot = planned();
    snapshot.run.status.as_mut().unwrap().current_iteration = Some(2);
    snapshot.run.status = Some(look(&snapshot).status);
    snapshot.run.status = Some(look(&snapshot).status);
    assert!(is_over(snapshot.run.status.as_ref().unwrap()));
    snapshot.open = vec![task_at("a", TaskStep::Join).into()];
    snapshot.run.status = Some(look(&snapshot).status);
    assert!(!is_over(snapshot.run.status.as_ref().unwrap()));
    snapshot.open.clear();
    let decision = look(&snapshot);
    assert_eq!(names_of(&decision), ["RestoreGroups"]);
    snapshot.run.status = Some(decision.status);
    assert!(is_over(&look(&snapshot).status));
}

#[test]
fn a_run_that_is_not_the_last_of_its_cloud_leaves_the_groups_held() {
    let mut snapshot = planned();
    snapshot.others = 1;
    snapshot.run.status.as_mut().unwrap().current_iteration = Some(1);
    let decision = look(&snapshot);
    assert_eq!(names_of(&decision), Vec::<&str>::new());
    assert!(is_over(&decision.status));
}

#[test]
fn a_run_whose_selectors_match_no_node_says_so_when_it_completes() {
    let mut snapshot = snapshot();
    snapshot.run.spec.node_selector = Some(LabelSelector {
        match_labels: Some([("no".to_owned(), "such".to_owned())].into()),
        ..LabelSelector::default()
    });
    let mut notices = Vec::new();
    for _ in 0..5 {
        let decision = look(&snapshot);
        notices.extend(decision.notices);
        snapshot.run.status = Some(decision.status);
        snapshot.nodes = Observed::NotAsked;
    }
    let conditions = snapshot.run.status.unwrap().conditions;
    let completed = conditions.iter().find(|one| one.type_ == "Completed");
    assert_eq!(completed.unwrap().status, "True");
    assert_eq!(completed.unwrap().reason, "NoCandidates");
    let told = notices.iter().filter(|one| one.reason == "NoCandidates");
    assert_eq!(told.count(), 1, "{notices:?}");
}

#[test]
fn a_run_does_not_end_before_the_slot_of_a_task_that_was_removed_by_force_is_free() {
    let mut snapshot = planned();
    snapshot.run.status.as_mut().unwrap().current_iteration = Some(2);
    snapshot.run.metadata.uid = Some("run-uid".to_owned());
    snapshot.ledger = ledger(&[slot("a", "z1")]);
    let decision = look(&snapshot);
    assert_eq!(decision.effects, []);
    assert!(decision.wake > Some(now()));
    assert!(decision.status.waiting_for.unwrap().contains("slot"));
    snapshot.abandoned = vec![("a-uid".to_owned(), "ns/task-a".to_owned())];
    assert_eq!(names_of(&look(&snapshot)), ["GrantSlots"]);
}

#[test]
fn partitions_follow_one_another_and_the_last_completes_the_run() {
    let mut snapshot = planned();
    let decision = look(&snapshot);
    assert_eq!(decision.status.current_iteration, Some(1));
    snapshot.run.status = Some(decision.status);
    let decision = look(&snapshot);
    assert_eq!(names_of(&decision), ["RestoreGroups"]);
    snapshot.run.status = Some(decision.status);
    let decision = look(&snapshot);
    assert!(condition::is_true(&decision.status.conditions, COMPLETED));
    snapshot.run.status = Some(decision.status);
    assert_eq!(names_of(&look(&snapshot)), ["DropFinalizer"]);
    snapshot.run.metadata.finalizers = None;
    assert_eq!(
        look(&snapshot),
        Decision::rest(snapshot.run.status.clone().unwrap())
    );
}
