//! What is read of a pod and of a budget, and how much memory a pod takes.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::*;

fn pod(value: Value) -> PodView {
    PodView::of(&serde_json::from_value::<Pod>(value).unwrap())
}

/// A pod as a cluster of a hundred thousand has them.
fn ordinary() -> Value {
    json!({
        "metadata": {
            "namespace": "team-payments",
            "name": "checkout-service-7c9d8f6b5d-x2x9k",
            "uid": "0b9e7f3c-5a51-4f0e-9d3c-2f1c6a7e8b90",
            "labels": {
                "app.kubernetes.io/name": "checkout-service",
                "app.kubernetes.io/instance": "checkout-service-production",
                "app.kubernetes.io/version": "2026.11.3",
                "pod-template-hash": "7c9d8f6b5d",
                "team": "payments",
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true,
                "name": "checkout-service-7c9d8f6b5d", "uid": "1",
            }],
        },
        "spec": {
            "nodeName": "ip-10-11-12-213.eu-central-1.compute.internal",
            "containers": [{ "name": "main", "image": "registry.example/checkout:1" }],
        },
        "status": {
            "phase": "Running",
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

#[test]
fn an_ordinary_pod_is_remembered_in_less_than_seven_hundred_bytes() {
    let view = pod(ordinary());
    let (kind, owner) = view.owner.clone().unwrap();
    let words = [
        &view.namespace,
        &view.name,
        &view.uid,
        &view.node,
        &kind,
        &owner,
    ];
    let labels: usize = view
        .labels
        .iter()
        .map(|(key, value)| key.len() + value.len() + 2)
        .sum();
    let heap: usize = words.iter().map(|word| word.capacity()).sum();
    let bytes = size_of::<PodView>() + heap + labels;
    assert!(bytes < 700, "{bytes} bytes");
    assert_eq!(view.claims.capacity() + view.finalizers.capacity(), 0);
}

#[test]
fn claims_local_data_and_the_end_of_a_pod_are_read() {
    let mut value = ordinary();
    value["spec"]["volumes"] = json!([
        { "name": "settings", "configMap": { "name": "settings" } },
        { "name": "secrets", "csi": { "driver": "secrets.example.com" } },
        { "name": "data", "persistentVolumeClaim": { "claimName": "data-0" } },
        { "name": "token", "projected": {} },
        { "name": "scratch", "ephemeral": {} },
        { "name": "cache", "emptyDir": {} },
    ]);
    value["metadata"]["finalizers"] = json!(["example.com/wait"]);
    let staying = pod(value.clone());
    let scratch = "checkout-service-7c9d8f6b5d-x2x9k-scratch";
    assert_eq!(staying.claims, ["data-0", scratch]);
    assert!(staying.local_data && staying.ready && !staying.pending);
    assert!(staying.has_volumes() && !staying.describes_disk);
    assert_eq!(staying.finalizers, [""; 0], "nobody asks while it stays");
    value["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    let leaving = pod(value);
    assert!(leaving.terminating);
    assert_eq!(leaving.gone_by, "2026-01-02T03:04:05Z".parse().ok());
    assert_eq!(leaving.finalizers, ["example.com/wait"]);
    let mut value = ordinary();
    value["spec"]["volumes"] =
        json!([{ "name": "old-style", "awsElasticBlockStore": { "volumeID": "vol-1" } }]);
    let described = pod(value);
    assert!(described.describes_disk && described.has_volumes());
    assert_eq!(described.claims, [""; 0]);
}

#[test]
fn a_budget_that_can_never_have_room_is_known_by_its_status_or_its_spec() {
    let table = [
        (json!({ "maxUnavailable": 0 }), json!({}), true),
        (json!({ "maxUnavailable": "0%" }), json!({}), true),
        (json!({ "minAvailable": "100%" }), json!({}), true),
        (
            json!({ "minAvailable": 3 }),
            json!({ "expectedPods": 3, "desiredHealthy": 3 }),
            true,
        ),
        (
            json!({ "minAvailable": 3 }),
            json!({ "expectedPods": 4, "desiredHealthy": 3 }),
            false,
        ),
        (json!({ "maxUnavailable": 1 }), json!({}), false),
        (json!({}), json!({}), false),
    ];
    for (spec, mut status, hopeless) in table {
        for field in [
            "currentHealthy",
            "desiredHealthy",
            "disruptionsAllowed",
            "expectedPods",
        ] {
            let fields = status.as_object_mut().unwrap();
            fields.entry(field).or_insert(json!(0));
        }
        let value = json!({ "metadata": { "name": "web" }, "spec": spec, "status": status });
        let budget: PodDisruptionBudget = serde_json::from_value(value).unwrap();
        let view = BudgetView::of(&budget);
        assert_eq!(view.is_hopeless(), hopeless, "{spec} {status}");
    }
}

#[test]
fn a_node_counts_as_a_machines_only_if_it_says_so() {
    let id = ProviderId::from("embedded:///a/m-1");
    let node = |id: Option<&str>| {
        Observed::Present(NodeView {
            provider_id: id.map(ProviderId::from),
            ..NodeView::default()
        })
    };
    let own = node(Some("embedded:///a/m-1"));
    assert_eq!(own.clone().on_machine(&id), own);
    assert!(node(Some("embedded:///a/m-2")).on_machine(&id).is_absent());
    assert!(matches!(
        node(None).on_machine(&id),
        Observed::Unknown(why) if why.contains("which machine")
    ));
    assert!(Observed::Absent.on_machine(&id).is_absent());
}

#[test]
fn a_taint_that_somebody_made_by_hand_is_enough_of_a_mark() {
    let wanted = Marks {
        outdated: Some(OutdatedTaintEffect::PreferNoSchedule),
        held: false,
    };
    let mut node = Node::default();
    assert!(NodeView::of(&node).lacks(wanted));
    let taint = k8s_openapi::api::core::v1::Taint {
        key: names::TAINT_OUTDATED.to_owned(),
        effect: "PreferNoSchedule".to_owned(),
        ..Default::default()
    };
    node.spec.get_or_insert_default().taints = Some(vec![taint]);
    assert!(!NodeView::of(&node).lacks(wanted), "it has no value");
}
