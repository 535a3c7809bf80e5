//! Tables of workloads and disruption budgets.
//!
//! Owns their cells. Must not decide anything. Called by `built_in`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::cells::{containers, is_true, labels, name, number, selector, text};

fn age_of(object: &Value, now: Timestamp) -> Value {
    Value::from(age::since_text(
        object.pointer("/metadata/creationTimestamp"),
        now,
    ))
}

fn template_and_selector(object: &Value) -> [Value; 3] {
    let [names, images] = containers(object);
    [
        names,
        images,
        Value::from(selector(object, "/spec/selector")),
    ]
}

/// What is wanted when nothing is said is one.
fn replicas(object: &Value) -> i64 {
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
    replicas.unwrap_or(1)
}

pub(crate) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = number(object, "/status/readyReplicas");
    let mut cells = vec![
        name(object),
        Value::from(format!("{ready}/{}", replicas(object))),
        json!(number(object, "/status/updatedReplicas")),
        json!(number(object, "/status/availableReplicas")),
        age_of(object, now),
    ];
    cells.extend(template_and_selector(object));
    cells
}

pub(crate) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![
        name(object),
        json!(replicas(object)),
        json!(number(object, "/status/replicas")),
        json!(number(object, "/status/readyReplicas")),
        age_of(object, now),
    ];
    cells.extend(template_and_selector(object));
    cells
}

pub(crate) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let ready = number(object, "/status/readyReplicas");
    let mut cells = vec![
        name(object),
        Value::from(format!("{ready}/{}", replicas(object))),
        age_of(object, now),
    ];
    cells.extend(containers(object));
    cells
}

pub(crate) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![name(object)];
    let counts = [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ];
    cells.extend(counts.map(|field| json!(number(object, &format!("/status/{field}")))));
    cells.push(Value::from(labels(
        object,
        "/spec/template/spec/nodeSelector",
    )));
    cells.push(age_of(object, now));
    cells.extend(template_and_selector(object));
    cells
}

pub(crate) fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owners = super::cells::list(object, "/metadata/ownerReferences");
    let controller = owners
        .iter()
        .find(|owner| super::cells::flag(owner, "/controller"))
        .map_or_else(
            || "<none>".to_owned(),
            |owner| {
                let kind = text(owner, "/kind").to_lowercase();
                let version = text(owner, "/apiVersion");
                let group = version.split_once('/').map_or("", |(group, _)| group);
                let dot = if group.is_empty() { "" } else { "." };
                format!("{kind}{dot}{group}/{}", text(owner, "/name"))
            },
        );
    vec![
        name(object),
        Value::from(controller),
        json!(number(object, "/revision")),
        age_of(object, now),
    ]
}

pub(crate) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let succeeded = number(object, "/status/succeeded");
    let completions = object.pointer("/spec/completions").and_then(Value::as_i64);
    let completions = match (completions, number(object, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let mut cells = vec![
        name(object),
        Value::from(job_status(object)),
        Value::from(completions),
        Value::from(job_duration(object, now)),
        age_of(object, now),
    ];
    cells.extend(template_and_selector(object));
    cells
}

fn job_status(object: &Value) -> &'static str {
    let ended = ["Complete", "Failed"];
    let under_way = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    let deleting = object
        .pointer("/metadata/deletionTimestamp")
        .map(|_| "Terminating");
    ended
        .into_iter()
        .find(|condition| is_true(object, condition))
        .or(deleting)
        .or_else(|| under_way.into_iter().find(|c| is_true(object, c)))
        .unwrap_or("Running")
}

fn job_duration(object: &Value, now: Timestamp) -> String {
    let time = |field: &str| text(object, field).parse::<Timestamp>().ok();
    let Some(start) = time("/status/startTime") else {
        return String::new();
    };
    age::since(start, time("/status/completionTime").unwrap_or(now))
}

pub(crate) fn disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let limit = |field: &str| match object.pointer(field) {
        Some(Value::String(text)) => Value::from(text.as_str()),
        Some(other) => Value::from(other.to_string()),
        None => Value::from("N/A"),
    };
    vec![
        name(object),
        limit("/spec/minAvailable"),
        limit("/spec/maxUnavailable"),
        json!(number(object, "/status/disruptionsAllowed")),
        age_of(object, now),
    ]
}
