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
                             { "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" },
                             { "key": "node-ready/unverified", "effect": "NoSchedule" },
                             { "key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute" }] },
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
fn cordons_and_pods_that_wait_are_taken_over() {
    let mut closed = node("n1", "a");
    closed.spec.as_mut().unwrap().unschedulable = Some(true);
    let mut waiting = pod("web-1", "", Some(("ReplicaSet", "web")));
    waiting.spec.as_mut().unwrap().node_name = None;
    let copy = copied(&[closed, node("n2", "a")], &[waiting], &[]);
    assert_eq!(copy.cordoned, ["node-n1-001"]);
    assert_eq!(copy.notes, Vec::<String>::new());
    let pod = &copy.objects[1];
    assert_eq!(pod["metadata"]["name"], "web-1");
    assert_eq!(pod["spec"].get("nodeName"), None);
    assert_eq!(copy.objects[2]["spec"]["replicas"], 1);
}

fn with_affinity(owner: (&str, &str), affinity: &Value) -> Copy {
    let mut pod = pod("web-1", "n1", Some(owner));
    pod.spec.as_mut().unwrap().affinity = Some(from_value(affinity.clone()).unwrap());
    copied(&[node("n1", "a")], &[pod], &[])
}

#[test]
fn affinities_are_taken_over_without_names_of_machines() {
    let required = |terms: Value| {
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": terms } } })
    };
    let team = json!({ "key": "team", "operator": "In", "values": ["shop"] });
    let host = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"] });
    let web = ("ReplicaSet", "web");
    let table = [
        (
            web,
            required(json!([{ "matchExpressions": [team, host] }])),
            Some(&team),
        ),
        (web, required(json!([{ "matchExpressions": [host] }])), None),
        (web, required(json!([{ "matchFields": [host] }])), None),
        (
            ("DaemonSet", "agent"),
            required(json!([{ "matchExpressions": [team] }])),
            None,
        ),
    ];
    for (owner, affinity, expected) in table {
        let copy = with_affinity(owner, &affinity);
        let text = json!(copy.objects).to_string();
        assert!(!text.contains("kubernetes.io/hostname"), "{text}");
        let is_there = text.contains("nodeSelectorTerms");
        assert_eq!(is_there, expected.is_some(), "{affinity}\n{text}");
        assert!(
            expected.is_none_or(|one| text.contains(&one.to_string())),
            "{text}"
        );
    }
}

#[test]
fn pods_keep_apart_by_host_and_other_wishes_are_named() {
    let apart = |key: &str| {
        json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
            { "topologyKey": key, "labelSelector": { "matchLabels": { "app": "web" } } }] } })
    };
    let web = ("ReplicaSet", "web");
    let copy = with_affinity(web, &apart("kubernetes.io/hostname"));
    assert!(json!(copy.objects).to_string().contains("podAntiAffinity"));
    assert_eq!(copy.notes, Vec::<String>::new());
    let copy = with_affinity(web, &apart("topology.kubernetes.io/zone"));
    assert!(!json!(copy.objects).to_string().contains("podAntiAffinity"));
    assert!(
        copy.notes[0].contains("1 pod(s) are placed without regard"),
        "{:?}",
        copy.notes
    );
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
    rehearse_alone(&copy, &run(), MACHINES, 1, &mut |_| ()).unwrap()
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
fn a_rehearsal_says_how_far_it_is_and_plays_the_same_story_unwatched() {
    let nodes = [node("n1", "a"), node("n2", "b")];
    let copy = copied(&nodes, &[], &[]);
    let mut seen = Vec::new();
    let watched = rehearse_alone(&copy, &run(), MACHINES, 1, &mut |one| seen.push(one)).unwrap();
    assert!(seen.len() > 5, "{seen:?}");
    assert!(seen.is_sorted_by_key(|one| one.replaced), "{seen:?}");
    let last = seen.last().unwrap();
    assert_eq!((last.replaced, last.total), (2, 2), "{seen:?}");
    let alone = rehearse_alone(&copy, &run(), MACHINES, 1, &mut |_| ()).unwrap();
    let hash = |one: &Rehearsed| one.played.report.trace_hash.clone();
    assert_eq!(hash(&watched), hash(&alone));
}

#[test]
fn a_node_that_is_cordoned_gets_no_pods_in_the_copy_either() {
    let mut nodes = [node("n1", "a"), node("n2", "b"), node("n3", "c")];
    let set = Some(("ReplicaSet", "web"));
    let pods = [pod("web-1", "n1", set), pod("web-2", "n2", set)];
    for node in &mut nodes[1..] {
        node.spec.as_mut().unwrap().unschedulable = Some(true);
    }
    let mut narrow = run();
    narrow.spec.node_selector = from_value(json!({ "matchLabels": { "pool": "none" } })).unwrap();
    let copy = copied(&nodes, &pods, &[]);
    assert_eq!(copy.cordoned.len(), 2);
    let rehearsed = rehearse_alone(&copy, &narrow, MACHINES, 1, &mut |_| ()).unwrap();
    assert_eq!(rehearsed.played.report.pods.total, 2);
}

#[test]
fn a_hopeless_budget_shows_in_the_rehearsal_with_its_name() {
    let rehearsed = rehearsed(&[budget(2)]);
    let report = rehearsed.played.report;
    assert_eq!(report.nodes.replaced, 1, "{report}");
    assert_eq!(rehearsed.left.len(), 2);
    assert!(rehearsed.left[0].1.contains("web"), "{:?}", rehearsed.left);
}

#[test]
fn a_run_that_selects_by_the_name_of_a_machine_is_rehearsed_on_that_one() {
    let nodes = [node("n1", "a"), node("n2", "b"), node("n3", "b")];
    let copy = copied(&nodes, &[], &[]);
    let host = json!({ "matchLabels": { "kubernetes.io/hostname": "n2" } });
    let zone = json!({ "matchLabels": { "topology.kubernetes.io/zone": "b" } });
    let none = json!({ "matchLabels": { "pool": "none" } });
    let table = [
        (Some(&host), None, 1),
        (Some(&zone), None, 2),
        (Some(&zone), Some(&host), 1),
        (None, Some(&host), 2),
        (Some(&none), None, 0),
    ];
    for (wanted, unwanted, expected) in table {
        let mut run = run();
        let selector = |one: Option<&Value>| one.map(|one| from_value(one.clone()).unwrap());
        run.spec.node_selector = selector(wanted);
        run.spec.exclude_node_selector = selector(unwanted);
        assert_eq!(copy.candidates(&run.spec).unwrap(), expected);
        let rehearsed = rehearse_alone(&copy, &run, MACHINES, 1, &mut |_| ()).unwrap();
        let report = rehearsed.played.report;
        assert_eq!(report.nodes.replaced, expected, "{wanted:?}\n{report}");
    }
}

#[test]
fn a_node_that_somebody_has_cordoned_breaks_no_promise() {
    let mut nodes = [node("n1", "a"), node("n2", "b"), node("n3", "c")];
    nodes[2].spec.as_mut().unwrap().unschedulable = Some(true);
    let copy = copied(&nodes, &[], &[]);
    let mut narrow = run();
    narrow.spec.batch_size_non_important = Some(1);
    let rehearsed = rehearse_alone(&copy, &narrow, MACHINES, 1, &mut |_| ()).unwrap();
    let report = rehearsed.played.report;
    assert!(report.is_as_expected(), "{report}");
    assert_eq!(report.nodes.replaced, 3, "{report}");
}
