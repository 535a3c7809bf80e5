//! The overview as people see it.

use serde_json::{Value, from_value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn run(name: &str, status: &Value) -> NodePatchRun {
    from_value(json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchRun",
        "metadata": { "name": name, "namespace": "ops", "uid": name, "creationTimestamp": at(0) },
        "spec": { "provider": { "type": "embedded" } },
        "status": status,
    }))
    .unwrap()
}

fn task(run: &str, node: &str, step: &str) -> NodePatchTask {
    from_value(json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchTask",
        "metadata": { "name": node, "namespace": "ops" },
        "spec": { "runName": run, "runUID": run, "nodeName": node, "nodeUID": node, "zone": "a" },
        "status": {
            "step": { "name": step, "since": at(0), "deadline": at(1800) },
            "waitingFor": "pods to leave",
        },
    }))
    .unwrap()
}

fn drawn(runs: &[NodePatchRun], tasks: &[NodePatchTask], now: Timestamp) -> String {
    lines(&overview(runs, tasks, &Observed::NotAsked, now), false).join("\n")
}

#[test]
fn a_run_at_work_shows_counts_pace_and_the_nodes_that_are_not_done() {
    let status = json!({ "total": 10, "completed": 2, "inFlightNonImportant": 1,
                         "waitingFor": "tasks in flight: n3", "currentIteration": 1,
                         "plan": { "planVersion": "1", "partitions": [
                             { "index": 0, "nodes": ["n1"] }, { "index": 1, "nodes": ["n3"] }] } });
    let tasks = [
        task("january", "n1", "Done"),
        task("january", "n3", "Drain"),
    ];
    let text = drawn(&[run("january", &status)], &tasks, at(600));
    for expected in [
        "run ops/january  ████░░░░░░░░░░░░░░░░░░░░  2 of 10 replaced  active, wave 2 of 2, begun 10m ago",
        "1 in work, 0 parked, 0 failed, 7 to come; about 40m left at this pace",
        "waits for tasks in flight: n3",
        "NODE  ZONE  STEP   TRY  FOR  DEADLINE  WAITS FOR",
        "n3    a     Drain  1    10m  in 20m    pods to leave",
    ] {
        assert!(
            text.contains(expected),
            "{expected:?} is missing in\n{text}"
        );
    }
    assert!(
        !text.contains("n1 "),
        "a node that is done is only counted\n{text}"
    );
}

#[test]
fn a_pause_comes_with_its_cause_and_a_late_step_with_how_late() {
    let status = json!({ "total": 3, "paused": true, "pauseReason": "spec.paused=true",
                         "waitingFor": "spec.paused to be lifted" });
    let tasks = [task("january", "n1", "Remove")];
    let text = drawn(&[run("january", &status)], &tasks, at(1920));
    assert!(text.contains("paused: spec.paused=true"), "{text}");
    assert!(text.contains("2m00s ago"), "{text}");
}

#[test]
fn runs_that_are_over_take_one_line_and_come_first() {
    let done = json!({ "total": 3, "completed": 3, "waitingFor": "old",
        "conditions": [{ "type": "Completed", "status": "True", "reason": "AllPartitionsDone",
                         "message": "", "lastTransitionTime": at(9) }] });
    let runs = [run("b", &json!({ "total": 1 })), run("a", &done)];
    let all = overview(&runs, &[], &Observed::NotAsked, at(60));
    assert_eq!(all.runs[0].name, "a");
    let text = lines(&all, false);
    assert_eq!(text.iter().filter(|line| line.contains("ops/a")).count(), 1);
    assert!(!text.join("\n").contains("old"));
}

#[test]
fn a_silent_controller_is_named_only_while_there_is_work() {
    let lease: Lease = from_value(json!({
        "metadata": { "name": "shipshape-controller" },
        "spec": { "holderIdentity": "x",
                  "renewTime": at(0).strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string() },
    }))
    .unwrap();
    let runs = [run("january", &json!({ "total": 1 }))];
    let lease = Observed::Present(lease);
    let told = |runs: &[NodePatchRun], now| overview(runs, &[], &lease, now).controller;
    assert_eq!(told(&runs, at(30)), None);
    assert!(told(&runs, at(300)).unwrap().contains("5m00s ago"));
    assert_eq!(told(&[], at(300)), None);
    let none = overview(&runs, &[], &Observed::Absent, at(0)).controller;
    assert!(none.unwrap().contains("is one installed?"));
    let unknown = Observed::Unknown("forbidden".to_owned());
    assert_eq!(overview(&runs, &[], &unknown, at(0)).controller, None);
}

#[test]
fn a_run_that_nobody_has_looked_at_shows_what_its_spec_says() {
    let mut new = run("january", &json!({}));
    new.status = None;
    new.spec.paused = Some(true);
    let told = |run: &NodePatchRun| {
        let runs = [run.clone()];
        overview(&runs, &[], &Observed::NotAsked, at(0)).runs[0].state
    };
    assert_eq!(told(&new), RunState::Paused);
    new.spec.abort = Some(true);
    assert_eq!(told(&new), RunState::Ending);
}

#[test]
fn a_held_autoscaler_is_shown_while_it_is_held() {
    let status = |held: &str| {
        json!({ "total": 1, "conditions": [
            { "type": "Held", "status": held, "reason": "ScaledToZero",
              "message": "held off: kube-system/autoscaler", "lastTransitionTime": at(0) }] })
    };
    let shows = |held| {
        let text = drawn(&[run("january", &status(held))], &[], at(1));
        text.contains("autoscaler: held off: kube-system/autoscaler")
    };
    assert!(shows("True"));
    assert!(!shows("False"));
}

#[test]
fn a_run_that_ended_without_all_its_nodes_says_why() {
    let done = |message: &str, done: i32, total: i32| {
        let condition = json!({ "type": "Completed", "status": "True", "reason": "R",
            "message": message, "lastTransitionTime": at(0) });
        run(
            "january",
            &json!({ "completed": done, "total": total, "conditions": [condition] }),
        )
    };
    let text = drawn(&[done("no node matches", 0, 0)], &[], at(9));
    assert!(text.contains("ended: no node matches"), "{text}");
    let text = drawn(&[done("2 node(s) replaced", 2, 2)], &[], at(9));
    assert!(!text.contains("ended"), "{text}");
}

#[test]
fn a_run_that_ends_has_no_nodes_to_come() {
    let mut ending = run(
        "january",
        &json!({ "completed": 2, "total": 9, "failed": 0 }),
    );
    ending.spec.abort = Some(true);
    let text = drawn(&[ending], &[], at(9));
    assert!(text.contains("7 left as they are"), "{text}");
}
