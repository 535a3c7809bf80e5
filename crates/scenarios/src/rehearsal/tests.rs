//! Copies of small clusters, and a rehearsal on one.

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value, from_value, json};

use super::*;

fn node(name: &str, zone: &str) -> Node {
    from_value(json!({
        "metadata": { "name": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "team": "shop" } },
        "spec": { "taints": [{ "key": "dedicated", "value": "shop", "effect": "NoSchedule" },
                             { "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }] },
        "status": { "allocatable": { "cpu": "1900m", "memory": "7Gi", "pods": "29" } },
    }))
    .unwrap()
}

fn pod(name: &str, node: &str, owner: Option<(&str, &str)>) -> Pod {
    let owners: Vec<Value> = owner
        .map(|(kind, name)| {
            json!({ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u",
                    "controller": true })
        })
        .into_iter()
        .collect();
    from_value(json!({
        "metadata": { "name": name, "namespace": "shop", "labels": { "app": "web", "pod": name },
                      "annotations": { "token": "secret" }, "ownerReferences": owners },
        "spec": {
            "nodeName": node,
            "containers": [
                { "name": "main", "image": "registry.example/secret:1", "env": [{ "name": "A", "value": "secret" }],
                  "resources": { "requests": { "cpu": "250m", "memory": "64Mi" } } },
                { "name": "side", "resources": { "requests": { "cpu": "0.25" } } },
            ],
            "tolerations": [{ "operator": "Exists" }],
        },
        "status": { "phase": "Running" },
    }))
    .unwrap()
}

fn budget(least: i32) -> PodDisruptionBudget {
    from_value(json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "minAvailable": least, "selector": { "matchLabels": { "app": "web" } } },
        "status": { "currentHealthy": 9, "desiredHealthy": 1, "disruptionsAllowed": 8,
                    "expectedPods": 9 },
    }))
    .unwrap()
}

fn copied(nodes: &[Node], pods: &[Pod], budgets: &[PodDisruptionBudget]) -> Copy {
    Copy::of(&Original {
        nodes,
        pods,
        budgets,
    })
}

#[test]
fn each_node_gets_a_group_like_it_and_states_are_left_behind() {
    let copy = copied(&[node("ip-10.zone", "b")], &[], &[]);
    let group = &copy.groups[0];
    assert_eq!(group.id, "ip-10-zone");
    assert_eq!(group.zones, ["b"]);
    assert_eq!(group.labels.keys().collect::<Vec<_>>(), ["team"]);
    assert_eq!(group.taints.len(), 1);
    let size = group.size;
    assert_eq!(
        (size.cpu_millis, size.memory_mib, size.pods),
        (1900, 7168, 29)
    );
}

#[test]
fn pods_keep_place_and_size_and_nothing_secret_is_taken_over() {
    let nodes = [node("n1", "a")];
    let pods = [
        pod("web-1", "n1", Some(("ReplicaSet", "web"))),
        pod("web-2", "n1", Some(("ReplicaSet", "web"))),
        pod("elsewhere", "n7", None),
    ];
    let copy = copied(&nodes, &pods, &[budget(1)]);
    let text = json!(copy.objects).to_string();
    assert!(!text.contains("secret"), "{text}");
    assert!(!text.contains("elsewhere"), "{text}");
    let kinds: Vec<&str> = copy
        .objects
        .iter()
        .filter_map(|one| one["kind"].as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "Namespace",
            "Pod",
            "Pod",
            "ReplicaSet",
            "PodDisruptionBudget"
        ]
    );
    let pod = &copy.objects[1]["spec"];
    assert_eq!(pod["nodeName"], "node-n1-001");
    let requests = &pod["containers"][0]["resources"]["requests"];
    assert_eq!(requests, &json!({ "cpu": "500m", "memory": "64Mi" }));
    let template = &copy.objects[3]["spec"]["template"]["metadata"]["labels"];
    assert_eq!(template["app"], "web");
    assert_eq!(template.get("pod"), None, "only labels that all pods have");
}

#[test]
fn amounts_are_read_in_all_units() {
    for (text, value) in [("2", 2.0), ("250m", 0.25), ("1Ki", 1024.0), ("1M", 1e6)] {
        let read = copy::number(&Quantity(text.to_owned())).unwrap();
        assert!((read - value).abs() < 1e-9, "{text}");
    }
    assert_eq!(copy::number(&Quantity("1x".to_owned())), None);
}

fn run() -> NodePatchRun {
    from_value(json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchRun",
        "metadata": { "name": "january", "namespace": "default" },
        "spec": { "provider": { "type": "aws", "aws": { "region": "x" } }, "maxAttempts": 1,
                  "drain": { "timeout": "5m" } },
    }))
    .unwrap()
}

const MACHINES: Machines = Machines {
    ready: SignedDuration::from_mins(4),
    gone: SignedDuration::from_mins(2),
};

fn rehearsed(budgets: &[PodDisruptionBudget]) -> Rehearsed {
    let nodes = [node("n1", "a"), node("n2", "b"), node("n3", "c")];
    let set = Some(("ReplicaSet", "web"));
    let pods = [pod("web-1", "n1", set), pod("web-2", "n2", set)];
    let copy = copied(&nodes, &pods, budgets);
    rehearse_alone(&copy, &run(), MACHINES, 1).unwrap()
}

#[test]
fn a_rehearsal_replaces_the_copies_of_all_nodes() {
    let rehearsed = rehearsed(&[budget(1)]);
    let report = rehearsed.played.report;
    assert!(report.is_as_expected(), "{report}");
    assert_eq!(
        (report.nodes.total, report.nodes.replaced),
        (3, 3),
        "{report}"
    );
    assert_eq!(
        report.pods.total, 2,
        "pods were adopted, not doubled\n{report}"
    );
    assert!(report.virtual_seconds > 480.0, "{report}");
    assert_eq!(rehearsed.left, []);
}

#[test]
fn a_hopeless_budget_shows_in_the_rehearsal_with_its_name() {
    let rehearsed = rehearsed(&[budget(2)]);
    let report = rehearsed.played.report;
    assert_eq!(report.nodes.replaced, 1, "{report}");
    assert_eq!(rehearsed.left.len(), 2);
    assert!(rehearsed.left[0].1.contains("web"), "{:?}", rehearsed.left);
}
