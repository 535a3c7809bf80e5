//! Explanations of tasks, runs and nodes.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::node_patch_run::{NodePatchRunStatus, RunPlan};
use shipshape_api::node_patch_task::{
    BlockedEviction, DrainRecord, ParkRecord, StepRecord, UndoNext, UndoRecord,
};
use shipshape_api::selectors::PodSelector;
use shipshape_api::{NodePatchRunSpec, NodePatchTaskSpec, PendingNode};

use super::*;
use crate::drain::Block;
use crate::plan;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn task_at(step: TaskStep) -> NodePatchTask {
    let spec = NodePatchTaskSpec {
        node_name: "n1".to_owned(),
        node_uid: "u1".to_owned(),
        run_name: "january".to_owned(),
        run_uid: "r".to_owned(),
        ..NodePatchTaskSpec::default()
    };
    let mut task = NodePatchTask::new("january-n1", spec);
    task.status = Some(NodePatchTaskStatus {
        step: Some(StepRecord {
            name: step,
            since: Time(second(100)),
            deadline: Some(Time(second(1900))),
        }),
        waiting_for: Some("pods to leave".to_owned()),
        ..NodePatchTaskStatus::default()
    });
    task
}

fn run_with_plan() -> NodePatchRun {
    let mut run = NodePatchRun::new("january", NodePatchRunSpec::default());
    run.metadata.uid = Some("r".to_owned());
    let wave = |index, name: &str| plan::partition(index, None, &[&node_named(name)]);
    run.status = Some(NodePatchRunStatus {
        current_iteration: Some(0),
        plan: Some(Arc::new(RunPlan {
            plan_version: "1".to_owned(),
            candidates: Vec::new(),
            partitions: vec![wave(0, "n1"), wave(1, "n2")],
            closed: None,
        })),
        ..NodePatchRunStatus::default()
    });
    run
}

fn node_named(name: &str) -> NodeView {
    NodeView {
        name: name.to_owned(),
        uid: format!("u-{name}"),
        ready: true,
        ..NodeView::default()
    }
}

const EMPTY: Scene<'_> = Scene {
    runs: &[],
    tasks: &[],
    nodes: &[],
    budgets: &[],
    pods: &[],
};

#[test]
fn a_blocked_drain_names_pod_budget_deadline_and_the_pods_that_are_not_ready() {
    let mut blocked = task_at(TaskStep::Drain);
    let status = blocked.status.as_mut().unwrap();
    status.drain = Some(DrainRecord {
        total: 5,
        remaining: 1,
        blocked: vec![BlockedEviction {
            namespace: "shop".to_owned(),
            pod: "web-1".to_owned(),
            reason: Some("BudgetExhausted".to_owned()),
            budget: Some("web".to_owned()),
            message: "disruption budget web allows no eviction now".to_owned(),
        }],
        ..DrainRecord::default()
    });
    let selector = serde_json::from_value(serde_json::json!({ "matchLabels": {} })).unwrap();
    let budget = BudgetView {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        selector: Some(selector),
        healthy: 2,
        desired: 2,
        expected: 3,
        ..BudgetView::default()
    };
    let sick = PodView {
        namespace: "shop".to_owned(),
        name: "web-2".to_owned(),
        node: "n7".to_owned(),
        ..PodView::default()
    };
    let told = task(
        &blocked,
        &Scene {
            budgets: &[budget],
            pods: &[sick],
            ..EMPTY
        },
    );
    assert_eq!(
        (told.since, told.until),
        (Some(second(100)), Some(second(1900)))
    );
    assert!(
        told.state
            .contains("step Drain, attempt 1 of 3, 1 of 5 pods left")
    );
    assert!(told.then.unwrap().contains("parked"));
    assert_eq!(told.blockers[0].pod, "shop/web-1");
    assert_eq!(told.blockers[0].budget, "web");
    let help = told.helps.join("\n");
    assert!(
        help.contains("needs 2 healthy pods of 3 and has 2"),
        "{help}"
    );
    assert!(help.contains("web-2 (on n7)"), "{help}");
}

#[test]
fn the_words_after_a_deadline_follow_the_attempts_and_the_drain_options() {
    let mut join = task_at(TaskStep::Join);
    assert!(
        after_deadline(&join, None)
            .unwrap()
            .contains("attempt 2 of 3")
    );
    join.status.as_mut().unwrap().attempt = Some(3);
    assert!(
        after_deadline(&join, None)
            .unwrap()
            .contains("counts as failed")
    );
    let mut cordon = task_at(TaskStep::Cordon);
    cordon.spec.required_node_daemon_pod_selectors = vec![PodSelector::default()];
    let then = |task: &NodePatchTask| after_deadline(task, None).unwrap();
    assert!(then(&cordon).contains("is undone"));
    cordon.status.as_mut().unwrap().terminate_first = Some(true);
    assert!(then(&cordon).contains("is parked"), "as replace::expire");
    let drain = task_at(TaskStep::Drain);
    let run = NodePatchRunSpec {
        drain: serde_json::from_str(r#"{"onDeadline":"Force"}"#).unwrap(),
        max_attempts: Some(1),
        ..NodePatchRunSpec::default()
    };
    let then = after_deadline(&drain, Some(&run)).unwrap();
    assert!(then.contains("Force"), "{then}");
    let then = after_deadline(&task_at(TaskStep::Join), Some(&run)).unwrap();
    assert!(then.contains("the last"), "as the run says now: {then}");
    assert_eq!(after_deadline(&task_at(TaskStep::Parked), None), None);
}

#[test]
fn a_node_that_waits_is_told_its_place_and_a_stranger_is_not_made_up() {
    let runs = [run_with_plan()];
    let nodes = [node_named("n2"), node_named("n9")];
    let scene = Scene {
        runs: &runs,
        nodes: &nodes,
        ..EMPTY
    };
    let told = node("n2", &scene).unwrap();
    assert!(
        told.state.contains("number 1 of 1 in wave 2 of 2"),
        "{told:?}"
    );
    assert_eq!(told.waits_for.as_deref(), Some("wave 1 to end"));
    assert_eq!(
        node("n9", &scene).unwrap().state,
        "no run touches this node"
    );
    assert_eq!(node("nowhere", &scene), None);
}

#[test]
fn a_node_is_explained_by_the_run_that_will_come_to_it_before_one_that_has_ended() {
    let mut node = node_named("n1");
    node.uid = "u1".to_owned();
    let mut run = run_with_plan();
    run.metadata.name = Some("february".to_owned());
    run.metadata.uid = Some("r2".to_owned());
    let plan = run.status.as_mut().unwrap().plan.as_mut().unwrap();
    Arc::make_mut(plan).partitions[0] = plan::partition(0, None, &[&node]);
    let (nodes, tasks) = ([node], [task_at(TaskStep::Failed)]);
    let scene = Scene {
        runs: std::slice::from_ref(&run),
        tasks: &tasks,
        nodes: &nodes,
        ..EMPTY
    };
    let told = super::node("n1", &scene).unwrap();
    assert!(
        told.state.starts_with("waits for its turn in run february"),
        "{}",
        told.state
    );
    let at_work = [task_at(TaskStep::Drain)];
    let scene = Scene {
        tasks: &at_work,
        ..scene
    };
    let told = super::node("n1", &scene).unwrap();
    assert_eq!(told.waits_for.as_deref(), Some("pods to leave"));
}

#[test]
fn a_paused_run_says_why_and_how_to_go_on() {
    let mut paused = run_with_plan();
    let status = paused.status.as_mut().unwrap();
    status.paused = Some(true);
    status.pause_reason = Some("no replacement has come through yet: 3 node(s) failed".to_owned());
    let mut failed = task_at(TaskStep::Failed);
    failed.status.as_mut().unwrap().last_error = Some("it never joined".to_owned());
    let tasks = [failed];
    let told = run(
        &paused,
        &Scene {
            tasks: &tasks,
            ..EMPTY
        },
    );
    assert!(told.state.contains("no replacement has come through yet"));
    assert!(
        told.helps[0].contains("shipshape resume npr/january"),
        "{told:?}"
    );
    assert_eq!(told.notes, ["node n1: Failed: it never joined"]);
}

#[test]
fn a_run_that_ends_keeps_nobody_waiting_for_a_turn() {
    let mut ending = run_with_plan();
    ending.spec.abort = Some(true);
    let runs = [ending.clone()];
    let nodes = [node_named("n2")];
    let scene = Scene {
        runs: &runs,
        nodes: &nodes,
        ..EMPTY
    };
    let told = node("n2", &scene).unwrap();
    assert!(
        told.state.contains("january ends before its turn"),
        "{told:?}"
    );
    assert_eq!(told.waits_for, None);
    let told = run(&ending, &scene);
    assert!(told.state.starts_with("being called off"), "{told:?}");
    assert_eq!(told.helps, Vec::<String>::new());
}

#[test]
fn a_pause_is_told_with_its_own_time_and_not_that_of_the_run() {
    let mut paused = run_with_plan();
    paused.metadata.creation_timestamp = Some(Time(second(10)));
    paused.spec.paused = Some(true);
    paused.status.as_mut().unwrap().state_since = Some(Time(second(500)));
    assert_eq!(run(&paused, &EMPTY).since, Some(second(500)));
    let runs = [paused];
    let nodes = [node_named("n2")];
    let scene = Scene {
        runs: &runs,
        nodes: &nodes,
        ..EMPTY
    };
    assert_eq!(node("n2", &scene).unwrap().since, Some(second(500)));
}

#[test]
fn every_word_of_a_block_is_found_again() {
    let blocks = [
        Block::Budget("b".to_owned()),
        Block::ManyBudgets(vec!["a".to_owned(), "b".to_owned()]),
        Block::BadSelector("b".to_owned()),
        Block::Bare,
        Block::Orphaned,
        Block::LocalData,
    ];
    for block in blocks {
        let found = Block::recorded(block.word(), &block.budgets());
        assert_eq!(found, Some(block));
    }
    assert_eq!(Block::recorded("Unheard", ""), None);
}

#[test]
fn the_last_attempt_is_not_promised_another_by_a_park() {
    for step in [TaskStep::Drain, TaskStep::Settle, TaskStep::Recover] {
        let mut last = task_at(step);
        assert!(after_deadline(&last, None).unwrap().contains("is parked"));
        last.status.as_mut().unwrap().attempt = Some(3);
        let told = after_deadline(&last, None).unwrap();
        assert!(told.contains("counts as failed"), "{step:?}: {told}");
        assert!(!told.contains("parked"), "{step:?}: {told}");
    }
}

#[test]
fn a_node_of_a_run_that_is_called_off_is_advised_a_new_run() {
    for (abort, expected) in [
        (false, "shipshape retry node/n1"),
        (true, "create a new run"),
    ] {
        let mut run = run_with_plan();
        run.spec.abort = Some(abort);
        let runs = [run];
        let scene = Scene {
            runs: &runs,
            ..EMPTY
        };
        let helps = task(&task_at(TaskStep::Failed), &scene).helps;
        assert_eq!(helps.len(), 1);
        assert!(helps[0].contains(expected), "{helps:?}");
    }
}

#[test]
fn an_undo_says_so_and_names_what_holds_it_up() {
    let mut undone = task_at(TaskStep::Undo);
    let status = undone.status.as_mut().unwrap();
    status.waiting_for = Some("1 pod(s) to leave node n9 again".to_owned());
    status.new_node_name = Some("n9".to_owned());
    status.drain = Some(DrainRecord {
        blocked: vec![BlockedEviction {
            namespace: "shop".to_owned(),
            pod: "web".to_owned(),
            ..BlockedEviction::default()
        }],
        ..DrainRecord::default()
    });
    status.undo = Some(UndoRecord {
        reason: "DrainTimedOut".to_owned(),
        message: "the drain is past its deadline".to_owned(),
        next: UndoNext::Retry,
        keeps_machine: false,
    });
    let told = task(&undone, &EMPTY);
    assert_eq!(
        told.state,
        "attempt 1 of 3 at node n1 is put back (run january): attempt 2 of 3 follows after a pause; \
         given up because the drain is past its deadline"
    );
    let waits_for = told.waits_for.as_deref();
    assert_eq!(waits_for, Some("1 pod(s) to leave node n9 again"));
    let [blocker] = told.blockers.as_slice() else {
        panic!("{:?}", told.blockers)
    };
    assert_eq!(
        (blocker.pod.as_str(), blocker.node.as_str()),
        ("shop/web", "n9"),
        "the new node is emptied"
    );
}

#[test]
fn a_parked_node_that_is_called_off_is_told_what_becomes_of_it() {
    let mut run = run_with_plan();
    run.spec.abort = Some(true);
    let mut parked = task_at(TaskStep::Parked);
    parked.status.as_mut().unwrap().parked = Some(ParkRecord {
        reason: "DrainTimedOut".to_owned(),
        message: "why".to_owned(),
        since: Time(second(100)),
        resuming: true,
        turn_since: None,
    });
    let scene = Scene {
        runs: std::slice::from_ref(&run),
        ..EMPTY
    };
    let told = task(&parked, &scene);
    assert!(
        told.notes
            .iter()
            .any(|note| note.contains("put back as soon as it has a slot"))
    );
}

#[test]
fn a_parked_node_is_told_when_it_is_tried_again() {
    let mut parked = task_at(TaskStep::Parked);
    let status = parked.status.as_mut().unwrap();
    let record = |reason: &str, resuming: bool| ParkRecord {
        reason: reason.to_owned(),
        message: "why".to_owned(),
        since: Time(second(100)),
        resuming,
        turn_since: None,
    };
    status.step.as_mut().unwrap().deadline = None;
    let table = [
        (
            record("DrainTimedOut", false),
            "as soon as nothing is in its way",
            None,
        ),
        (
            record("DrainTimedOut", true),
            "as soon as a slot is free",
            None,
        ),
        (
            record("NoCapacity", false),
            "settings.retryBackoffMax",
            Some(second(700)),
        ),
    ];
    for (record, words, until) in table {
        parked.status.as_mut().unwrap().parked = Some(record);
        let told = task(&parked, &EMPTY);
        assert!(
            told.notes.iter().any(|note| note.contains(words)),
            "{:?}",
            told.notes
        );
        assert_eq!(told.until, until);
    }
    let mut run = run_with_plan();
    let uid = run.metadata.uid.clone().unwrap_or_default();
    parked.spec.run_uid = uid;
    run.status.as_mut().unwrap().paused = Some(true);
    let runs = [run];
    let scene = Scene {
        runs: &runs,
        ..EMPTY
    };
    let notes = task(&parked, &scene).notes;
    let is_told = |note: &String| note.contains("paused after failures");
    assert!(notes.iter().any(is_told), "{notes:?}");
}

#[test]
fn a_complaint_is_worded_as_a_wait() {
    for (said, told) in [
        ("pods to leave", "pods to leave"),
        (
            "cannot tell whether the group has room: timed out",
            "a clear answer: it cannot tell whether the group has room: timed out",
        ),
        (
            "spec.provider.type \"gcp\" is not supported here",
            "a change of the manifest: spec.provider.type \"gcp\" is not supported here",
        ),
    ] {
        assert_eq!(wait(said), told);
    }
}

#[test]
fn a_run_tells_since_and_until_of_its_wait_and_what_helps_when_it_is_refused() {
    let mut run = run_with_plan();
    let status = run.status.as_mut().unwrap();
    status.waiting_for = Some("tasks in flight: n1".to_owned());
    status.state_since = Some(Time(second(1)));
    let mut at_work = task_at(TaskStep::Drain);
    at_work.metadata.creation_timestamp = Some(Time(second(50)));
    let tasks = [at_work];
    let scene = Scene {
        tasks: &tasks,
        ..EMPTY
    };
    let told = super::run(&run, &scene);
    assert_eq!(
        (told.since, told.until),
        (Some(second(50)), Some(second(1900)))
    );
    assert!(
        told.then
            .unwrap()
            .starts_with("of node n1: the node is parked")
    );
    let refused = serde_json::from_value(serde_json::json!([{
        "type": "Accepted", "status": "False", "reason": "UnsupportedProvider",
        "message": "m", "lastTransitionTime": "1970-01-01T00:01:10Z" }]));
    run.status.as_mut().unwrap().conditions = refused.unwrap();
    let told = super::run(&run, &EMPTY);
    assert_eq!(told.since, Some(second(70)));
    assert!(
        told.helps[0].contains("give the controller that cloud"),
        "{:?}",
        told.helps
    );
}

#[test]
fn a_machine_is_explained_by_its_spec_while_its_status_is_silent() {
    let record: PendingNode = serde_json::from_value(serde_json::json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "PendingNode",
        "metadata": { "name": "i-1", "creationTimestamp": "1970-01-01T00:00:05Z" },
        "spec": { "goal": "Join", "providerID": "aws:///a/i-1", "deadline": "1970-01-01T00:10:00Z",
                  "taskRef": { "namespace": "ops", "name": "t", "uid": "t1" } },
    }))
    .unwrap();
    let mut waiting = task_at(TaskStep::Join);
    waiting.metadata.uid = Some("t1".to_owned());
    let told = machine(&record, None, &[waiting]);
    assert!(
        told.state
            .contains("machine aws:///a/i-1 shall become a node"),
        "{}",
        told.state
    );
    assert_eq!(
        told.waits_for.as_deref(),
        Some("the machine to join as a ready node")
    );
    assert_eq!(
        (told.since, told.until),
        (Some(second(5)), Some(second(600)))
    );
    assert!(
        told.notes[0].contains("task ops/t of run january waits for it"),
        "{:?}",
        told.notes
    );
    let sick = NodeView {
        ready: false,
        ..node_named("n9")
    };
    let told = machine(&record, Some(&sick), &[]);
    assert_eq!(told.waits_for.as_deref(), Some("node n9 to be ready"));
    assert!(told.notes[0].contains("is gone"), "{:?}", told.notes);
}
