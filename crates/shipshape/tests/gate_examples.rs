//! The examples of the gate's surroundings, read by the code that minds them.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

use k8s_openapi::api::core::v1::Taint;
use serde_json::Value;
use shipshape_engine::verify::neighbours::{Ownership, PoolView, RuleView, complaint, ownership};
use shipshape_engine::verify::settings::GateSettings;
use shipshape_engine::view::{NodeView, Observed, TaintView};

fn example<T: serde::de::DeserializeOwned>(name: &str) -> T {
    let path = format!(
        "{}/../../examples/gate/{name}.yaml",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    shipshape_scenarios::yaml::read(&text).unwrap()
}

/// The gate's settings with the taints of a controller's file.
fn gate(name: &str) -> GateSettings {
    let file: Value = example(name);
    let mut gate = GateSettings::default();
    let taints = file.pointer("/nodeManagement/taints").unwrap();
    gate.node_management.taints = serde_json::from_value::<Vec<Taint>>(taints.clone()).unwrap();
    gate
}

fn node(gate: &GateSettings) -> NodeView {
    let taint = gate.node_management.taints.first().unwrap();
    let mut node = NodeView {
        name: "n1".to_owned(),
        taints: vec![TaintView {
            key: taint.key.clone(),
            effect: taint.effect.clone(),
        }],
        ..NodeView::default()
    };
    let pool = ("karpenter.sh/nodepool".to_owned(), "default".to_owned());
    node.labels.extend([pool]);
    node
}

#[test]
fn the_pool_is_as_the_gate_wants_it_and_its_twin_is_warned_of() {
    let gate = gate("controller");
    let mut pool: Value = example("karpenter-nodepool");
    let read = |pool: &Value| Observed::Present(vec![PoolView::of("default", pool)]);
    assert_eq!(complaint(&node(&gate), &read(&pool), &gate), None);
    let spec = pool.pointer_mut("/spec/template/spec").unwrap();
    let spec = spec.as_object_mut().unwrap();
    let taints = spec.remove("startupTaints").unwrap();
    spec.insert("taints".to_owned(), taints);
    assert!(complaint(&node(&gate), &read(&pool), &gate).is_some());
}

#[test]
fn the_rule_owns_the_taint_of_the_file_that_only_publishes_and_of_no_other() {
    let rule: Value = example("node-readiness-rule");
    assert_eq!(rule["spec"]["conditions"][0]["type"], "NetworkVerified");
    let rules = Observed::Present(vec![RuleView::of("network-verified", &rule)]);
    let theirs = |file: &str| {
        let gate = gate(file);
        let Ownership::Known { theirs, .. } = ownership(&node(&gate), &rules, &gate) else {
            return None;
        };
        theirs
    };
    assert!(theirs("controller-publish-only").is_some());
    assert_eq!(theirs("controller"), None);
    assert_eq!(theirs("controller-cluster-autoscaler"), None);
}

#[test]
fn health_checks_wait_for_the_condition_that_is_written() {
    let health: Value = example("node-health-check");
    let machines: Value = example("machine-health-check");
    let lists = [
        health.pointer("/spec/unhealthyConditions"),
        machines.pointer("/spec/checks/unhealthyNodeConditions"),
    ];
    for list in lists {
        let list = list.unwrap().as_array().unwrap();
        assert_eq!(list.len(), 2);
        for one in list {
            assert_eq!(one["type"], shipshape_api::conditions::NETWORK_VERIFIED);
        }
    }
}
