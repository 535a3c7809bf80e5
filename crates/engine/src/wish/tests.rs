//! What may be asked when, and what it changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::node_patch_task::StepRecord;
use shipshape_api::{NodePatchRunSpec, NodePatchTaskSpec};

use super::*;
use crate::condition::{Claim, Truth};

fn run() -> NodePatchRun {
    let mut run = NodePatchRun::new("january", NodePatchRunSpec::default());
    run.metadata.namespace = Some("ops".to_owned());
    run.status = Some(NodePatchRunStatus {
        in_flight_non_important: Some(2),
        ..NodePatchRunStatus::default()
    });
    run
}

fn task(step: TaskStep) -> NodePatchTask {
    let spec = NodePatchTaskSpec {
        node_name: "n1".to_owned(),
        ..NodePatchTaskSpec::default()
    };
    let mut task = NodePatchTask::new("january-n1", spec);
    task.status = Some(NodePatchTaskStatus {
        step: Some(StepRecord {
            name: step,
            since: Time(Timestamp::UNIX_EPOCH),
            deadline: None,
        }),
        attempt: Some(3),
        ..NodePatchTaskStatus::default()
    });
    task
}

#[test]
fn pause_is_one_change_and_nothing_the_second_time() {
    let mut run = run();
    let granted = of_run(&run, RunWish::Pause).unwrap();
    assert_eq!(granted.change, Some(json!({ "spec": { "paused": true } })));
    assert_eq!(granted.done, "run ops/january is paused");
    assert!(granted.next.contains("2 under way are finished"));
    assert!(granted.next.contains("shipshape resume npr/january -n ops"));
    run.spec.paused = Some(true);
    let again = of_run(&run, RunWish::Pause).unwrap();
    assert_eq!(again.change, None);
    assert!(again.done.contains("already"), "{}", again.done);
}

#[test]
fn resume_after_failures_takes_note_of_all_of_them() {
    let mut run = run();
    run.status = Some(NodePatchRunStatus {
        paused: Some(true),
        failed: Some(2),
        ..NodePatchRunStatus::default()
    });
    let granted = of_run(&run, RunWish::Resume).unwrap();
    let change = granted.change.unwrap();
    assert_eq!(
        change["metadata"]["annotations"][ANNOTATION_ACKNOWLEDGED],
        "2"
    );
    assert_eq!(change["spec"]["paused"], false);
    let status = run.status.as_mut().unwrap();
    (status.failed, status.failures) = (Some(1), Some(3));
    let granted = of_run(&run, RunWish::Resume).unwrap();
    let change = granted.change.unwrap();
    assert_eq!(
        change["metadata"]["annotations"][ANNOTATION_ACKNOWLEDGED],
        "3"
    );
    run.status = None;
    assert_eq!(of_run(&run, RunWish::Resume).unwrap().change, None);
}

#[test]
fn resume_of_a_refused_run_says_why_no_node_begins() {
    let mut run = run();
    let mut status = NodePatchRunStatus::default();
    let claim = Claim {
        kind: ACCEPTED,
        truth: Truth::False,
        reason: "UnsupportedProvider",
        message: "spec.provider.type \"vmware\" is not supported".to_owned(),
    };
    condition::set(&mut status.conditions, claim, None, Timestamp::UNIX_EPOCH);
    run.status = Some(status);
    let why = "no node begins, because the run is refused (UnsupportedProvider): spec.provider.type \
               \"vmware\" is not supported; mend that";
    let granted = of_run(&run, RunWish::Resume).unwrap();
    assert_eq!(granted.change, None);
    assert_eq!(granted.done, "run ops/january is not paused");
    assert!(granted.next.starts_with(why), "{}", granted.next);
    run.spec.paused = Some(true);
    let granted = of_run(&run, RunWish::Resume).unwrap();
    assert_eq!(granted.change, Some(json!({ "spec": { "paused": false } })));
    assert_eq!(granted.done, "the pause of run ops/january is lifted");
    assert!(granted.next.starts_with(why), "{}", granted.next);
}

#[test]
fn a_run_that_is_called_off_can_only_be_called_off_again() {
    let mut run = run();
    run.spec.abort = Some(true);
    assert_eq!(of_run(&run, RunWish::Abort).unwrap().change, None);
    for wish in [RunWish::Pause, RunWish::Resume] {
        let refused = of_run(&run, wish).unwrap_err();
        assert!(refused.0.contains("create a new run"), "{refused}");
    }
}

#[test]
fn only_a_parked_or_failed_node_is_tried_again_and_each_wish_is_a_new_one() {
    let now = Timestamp::from_second(100).unwrap();
    let refused = retry(&task(TaskStep::Drain), None, now).unwrap_err();
    assert!(refused.0.contains("step Drain"), "{refused}");
    assert!(retry(&task(TaskStep::Done), None, now).is_err());
    let mut failed = task(TaskStep::Failed);
    let granted = retry(&failed, None, now).unwrap();
    let value = "1970-01-01T00:01:40Z";
    let wish = json!({ "metadata": { "annotations": { ANNOTATION_RETRY: value } } });
    assert_eq!(granted.change, Some(wish));
    assert!(granted.next.contains("attempt 4"), "{}", granted.next);
    failed.metadata.annotations = Some([(ANNOTATION_RETRY.to_owned(), value.to_owned())].into());
    assert_eq!(retry(&failed, None, now).unwrap().change, None);
    failed.status.as_mut().unwrap().retried = Some(value.to_owned());
    assert!(retry(&failed, None, now).unwrap().change.is_some());
}

#[test]
fn a_try_in_a_paused_run_says_that_it_waits() {
    let mut run = run();
    run.spec.paused = Some(true);
    let granted = retry(&task(TaskStep::Parked), Some(&run), Timestamp::UNIX_EPOCH).unwrap();
    assert!(
        granted.next.contains("shipshape resume"),
        "{}",
        granted.next
    );
    run.spec.abort = Some(true);
    assert!(retry(&task(TaskStep::Parked), Some(&run), Timestamp::UNIX_EPOCH).is_err());
}

#[test]
fn a_try_that_only_has_to_get_a_machine_back_is_held_by_no_pause() {
    let mut run = run();
    run.spec.paused = Some(true);
    let mut failed = task(TaskStep::Failed);
    let claim = Claim {
        kind: OLD_DELETED,
        truth: Truth::True,
        reason: "MachineGone",
        message: String::new(),
    };
    let conditions = &mut failed.status.as_mut().unwrap().conditions;
    condition::set(conditions, claim, None, Timestamp::UNIX_EPOCH);
    let granted = retry(&failed, Some(&run), Timestamp::UNIX_EPOCH).unwrap();
    assert!(granted.next.contains("waits for no slot"), "{granted:?}");
}

#[test]
fn a_run_that_is_being_deleted_grants_no_wish() {
    let mut run = run();
    run.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    for wish in [RunWish::Pause, RunWish::Resume, RunWish::Abort] {
        let refused = of_run(&run, wish).unwrap_err().to_string();
        assert!(refused.contains("is being deleted"), "{refused}");
    }
}
