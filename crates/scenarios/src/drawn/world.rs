//! A small world, a run and settings: quick, so that thousands can be played.
//!
//! Owns what may be drawn of them.

use serde_json::{Value, json};

use super::Dice;
use super::events::at;

/// The `world` of a scenario.
pub(super) fn draw(dice: &mut Dice) -> Value {
    let zones: Vec<&str> = ["a", "b", "c"]
        .into_iter()
        .take(usize::try_from(dice.between(1, 3)).unwrap_or(1))
        .collect();
    let mut workloads = vec![deployment(dice, "web"), deployment(dice, "api")];
    if dice.happens(40) {
        let replicas = dice.between(1, 2);
        workloads.push(json!({ "name": "db", "kind": "StatefulSet", "replicas": replicas }));
    }
    if dice.happens(50) {
        workloads.push(json!({ "name": "agent", "kind": "DaemonSet" }));
    }
    let mut objects = Vec::new();
    if dice.happens(25) {
        objects.push(autoscaler(dice.between(1, 3)));
    }
    json!({
        "nodes": dice.between(2, 5),
        "zones": zones,
        "boot": dice.time(2, 15),
        "join": dice.time(1, 5),
        "terminate": dice.time(1, 10),
        "podStart": dice.time(1, 3),
        "podStop": dice.time(1, 8),
        "detach": dice.time(1, 5),
        "cloudReadLag": if dice.happens(30) { dice.time(1, 10) } else { "0s".to_owned() },
        "workloads": workloads,
        "objects": objects,
    })
}

fn deployment(dice: &mut Dice, name: &str) -> Value {
    let replicas = dice.between(1, 4);
    let mut workload = json!({ "name": name, "replicas": replicas });
    let budget = match dice.between(0, 5) {
        0 | 1 => None,
        2 | 3 => Some(json!({ "maxUnavailable": 1 })),
        4 => Some(json!({ "minAvailable": replicas.saturating_sub(1) })),
        _ => Some(json!({ "maxUnavailable": "50%" })),
    };
    if let Some(budget) = budget {
        put(&mut workload, "budget", budget);
    }
    workload
}

fn autoscaler(replicas: u64) -> Value {
    let labels = json!({ "app": "cluster-autoscaler" });
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "cluster-autoscaler", "namespace": "default", "labels": labels },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "autoscaler", "image": "autoscaler" }] },
            },
        },
    })
}

fn put(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(name.to_owned(), value);
    }
}

/// The spec of a run in that world.
pub(super) fn run_spec(dice: &mut Dice, world: &Value) -> Value {
    let mut spec = json!({
        "provider": { "type": "embedded" },
        "batchSizeNonImportant": dice.between(1, 3),
        "batchSizeImportant": dice.between(1, 2),
        "partitionIterations": dice.between(1, 2),
        "maxAttempts": dice.between(2, 4),
    });
    let mode = match dice.between(0, 9) {
        0..=5 => "Surge",
        6 | 7 => "TerminateFirst",
        _ => "SurgeElseTerminateFirst",
    };
    put(&mut spec, "replacement", json!(mode));
    let selector = |app: &str| json!([{ "labelSelector": { "matchLabels": { "app": app } } }]);
    if dice.happens(40) {
        put(&mut spec, "importantPodSelectors", selector("web"));
    }
    if dice.happens(20) {
        put(
            &mut spec,
            "stability",
            json!({ "stableFor": "3s", "importantOnly": false }),
        );
    }
    if dice.happens(30) {
        put(&mut spec, "maxConcurrentPerZone", json!(1));
    }
    if dice.happens(20) {
        put(&mut spec, "canary", json!({ "nodes": 1, "soak": "10s" }));
    }
    if dice.happens(30) {
        put(
            &mut spec,
            "labelTransfer",
            json!({ "prefixes": ["example.com/"] }),
        );
    }
    if dice.happens(20) {
        put(&mut spec, "drain", json!({ "onDeadline": "Fail" }));
    }
    let text = world.to_string();
    if text.contains("DaemonSet") && dice.happens(60) {
        put(
            &mut spec,
            "requiredNodeDaemonPodSelectors",
            selector("agent"),
        );
    }
    if text.contains("cluster-autoscaler") {
        put(
            &mut spec,
            "autoscalerControl",
            json!({
                "enabled": true,
                "namespace": "default",
                "deploymentSelector": { "matchLabels": { "app": "cluster-autoscaler" } },
            }),
        );
    }
    spec
}

/// Sometimes control planes too, which the run takes; what befalls their members of etcd.
pub(super) fn control_planes(dice: &mut Dice, world: &mut Value, spec: &mut Value) -> Vec<Value> {
    if !dice.happens(20) {
        return Vec::new();
    }
    // With fewer than three members none may go before its replacement has come.
    let fewest = if spec["replacement"] == "Surge" { 1 } else { 3 };
    let count = dice.between(fewest, 3);
    put(world, "controlPlanes", json!(count));
    put(spec, "excludeControlPlane", json!(false));
    // The agent does not tolerate the taint of control planes. A run that waits for it there fails every
    // one of them, and with the old machine gone first etcd has too few members for the next for ever.
    if let Value::Object(fields) = spec {
        fields.remove("requiredNodeDaemonPodSelectors");
    }
    // For the same reason attempts must outlast an image that is broken for a while.
    if spec["replacement"] != "Surge" {
        put(spec, "maxAttempts", json!(10));
    }
    let (begin, sick) = (dice.between(0, 200), dice.between(0, count - 1));
    let end = begin + dice.between(5, 200);
    if !dice.happens(50) {
        return Vec::new();
    }
    vec![
        at(begin, &json!({ "sickMembers": [sick] })),
        at(end, &json!({ "sickMembers": [] })),
    ]
}

/// Settings of the operator: short, so that deadlines are met in both senses.
pub(super) fn settings(dice: &mut Dice) -> Value {
    json!({
        "deadlines": {
            "lock": dice.time(60, 180),
            "provision": dice.time(60, 120),
            "join": dice.time(60, 180),
            "settle": dice.time(60, 180),
            "drain": dice.time(40, 180),
            "recover": dice.time(60, 180),
            "removeMember": "90s",
            "undo": dice.time(90, 240),
        },
        "machinePoll": dice.time(1, 5),
        "cloudLag": dice.time(20, 40),
        "retryBackoff": dice.time(2, 20),
        "retryBackoffMax": dice.time(20, 60),
        "parkRest": dice.time(5, 30),
        "resync": dice.time(20, 60),
    })
}
