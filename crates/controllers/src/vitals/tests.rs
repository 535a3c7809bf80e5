//! What is counted, told apart and documented.

mod at_gate;

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::node_patch_task::{StepRecord, UndoNext, UndoRecord};
use shipshape_api::{NodePatchTaskStatus, TaskStep};

use super::*;

fn at(step: TaskStep, second: i64) -> NodePatchTaskStatus {
    NodePatchTaskStatus {
        step: Some(StepRecord {
            name: step,
            since: Time(Timestamp::from_second(second).unwrap()),
            deadline: None,
        }),
        ..NodePatchTaskStatus::default()
    }
}

fn undo(step: TaskStep, second: i64, next: UndoNext) -> NodePatchTaskStatus {
    NodePatchTaskStatus {
        undo: Some(UndoRecord {
            reason: "JoinTimedOut".to_owned(),
            message: String::new(),
            next,
            keeps_machine: false,
        }),
        ..at(step, second)
    }
}

fn has_line(vitals: &Vitals, line: &str) -> bool {
    let text = vitals.metrics().unwrap();
    let found = text.lines().any(|one| one == line);
    assert!(found, "{line} is missing in\n{text}");
    found
}

#[test]
fn a_replaced_node_counts_once_and_each_step_with_its_time() {
    let vitals = Vitals::default();
    let (drain, done) = (at(TaskStep::Drain, 100), at(TaskStep::Done, 145));
    vitals.saw_task(Some(&drain), &drain);
    vitals.saw_task(Some(&drain), &done);
    assert!(has_line(&vitals, "shipshape_nodes_replaced_total 1"));
    assert!(has_line(
        &vitals,
        "shipshape_step_duration_seconds_sum{step=\"Drain\"} 45.0"
    ));
    assert!(has_line(
        &vitals,
        "shipshape_step_duration_seconds_count{step=\"Drain\"} 1"
    ));
}

#[test]
fn an_attempt_that_failed_is_told_from_one_that_was_called_off() {
    let vitals = Vitals::default();
    let join = at(TaskStep::Join, 0);
    let (failed, called_off) = (
        undo(TaskStep::Undo, 9, UndoNext::Retry),
        undo(TaskStep::Undo, 9, UndoNext::CallOff),
    );
    vitals.saw_task(Some(&join), &called_off);
    vitals.saw_task(
        Some(&called_off),
        &undo(TaskStep::Failed, 10, UndoNext::CallOff),
    );
    assert!(has_line(&vitals, "shipshape_nodes_failed_total 0"));
    assert!(has_line(
        &vitals,
        "shipshape_attempts_failed_total{step=\"Join\"} 0"
    ));
    vitals.saw_task(Some(&join), &failed);
    assert!(has_line(
        &vitals,
        "shipshape_attempts_failed_total{step=\"Join\"} 1"
    ));
}

#[test]
fn a_process_is_ready_on_standby_only_after_the_server_has_answered() {
    let vitals = Vitals::default();
    assert_eq!(vitals.readiness(), Readiness::Unreached);
    vitals.saw_request("get", "leases".to_owned(), 0);
    assert!(!vitals.readiness().is_ready());
    vitals.saw_request("get", "leases".to_owned(), 404);
    assert_eq!(vitals.readiness(), Readiness::Standby);
    assert!(vitals.readiness().is_ready());
}

/// The names in the first column of the table under "## Metrics".
fn documented() -> BTreeSet<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/controller.md");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .skip_while(|line| *line != "## Metrics")
        .take_while(|line| *line != "## Logs")
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|rest| rest.split(['`', '{']).next())
        .map(str::to_owned)
        .collect()
}

/// The names of all samples, those of a histogram without their endings.
fn exported(vitals: &Vitals) -> BTreeSet<String> {
    let text = vitals.metrics().unwrap();
    let endings = ["_bucket", "_sum", "_count"];
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .map(|name| {
            let stem = endings.iter().find_map(|end| name.strip_suffix(end));
            stem.unwrap_or(name).to_owned()
        })
        .collect()
}

/// Vitals that have seen one of everything, while their process leads.
fn experienced() -> (Vitals, Term) {
    let vitals = Vitals::default();
    let term = at_gate::term(&vitals);
    at_gate::fail(&vitals, "n1");
    vitals.saw_request("get", "leases".to_owned(), 200);
    vitals.saw_pass("run", &Outcome::Done { wake: None });
    for outcome in ["ok", "denied", "no_capacity"] {
        vitals.saw_provider_call("embedded", "resolve", outcome, 0.2);
    }
    (vitals, term)
}

#[test]
fn every_metric_is_documented_and_every_documented_metric_exists() {
    let (vitals, _term) = experienced();
    assert_eq!(exported(&vitals), documented());
}

/// What follows each mention of a metric in the alert rules: its name, and the labels in braces.
fn alerted() -> Vec<(String, String)> {
    let path = "/../../deploy/prometheus/shipshape.rules.yaml";
    let path = format!("{}{path}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let mentions = text.match_indices("shipshape_");
    let mentions = mentions.map(|(place, _)| {
        let rest = &text[place..];
        let is_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        let end = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
        let labels = rest[end..]
            .strip_prefix('{')
            .and_then(|it| it.split('}').next());
        (
            rest[..end].to_owned(),
            labels.unwrap_or_default().to_owned(),
        )
    });
    mentions.collect()
}

#[test]
fn every_metric_and_every_label_that_an_alert_names_exists() {
    let (vitals, _term) = experienced();
    let text = vitals.metrics().unwrap();
    let alerted = alerted();
    assert!(alerted.len() > 10, "{alerted:?}");
    for (name, labels) in alerted {
        let samples = || {
            let of_name = |line: &&str| line.split(['{', ' ']).next() == Some(name.as_str());
            text.lines().filter(of_name)
        };
        assert!(samples().count() > 0, "{name} does not exist");
        for label in labels.split(',').filter(|label| !label.is_empty()) {
            let (key, value) = label.split_once(['=', '!']).unwrap();
            let wanted = match value.strip_prefix('"') {
                Some(_) => label.to_owned(),
                // A pattern, or anything but a value.
                None => format!("{key}=\""),
            };
            let is_there = samples().any(|line| line.contains(&wanted));
            assert!(is_there, "{name} has no {wanted}");
        }
    }
}

#[test]
fn a_call_of_a_cloud_is_counted_by_what_came_of_it_and_timed() {
    let (vitals, _term) = experienced();
    let labels = "provider=\"embedded\",call=\"resolve\"";
    let line = format!("shipshape_provider_requests_total{{{labels},outcome=\"denied\"}} 1");
    assert!(has_line(&vitals, &line));
    let line = format!("shipshape_provider_request_duration_seconds_count{{{labels}}} 3");
    assert!(has_line(&vitals, &line));
}
