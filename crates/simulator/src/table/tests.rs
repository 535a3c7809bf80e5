//! Tables for tables.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::jsonpath::JsonPath;
use super::{IncludeObject, Layout, TableOptions, age};

fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().unwrap()
}

fn options() -> TableOptions {
    TableOptions {
        include: IncludeObject::Metadata,
        headers: true,
        now: now(),
    }
}

fn cells(layout: &Layout, object: &Value) -> Value {
    let table = layout.render(object, &options());
    let columns = table["columnDefinitions"].as_array().unwrap().len();
    let cells = table["rows"][0]["cells"].clone();
    assert_eq!(cells.as_array().unwrap().len(), columns);
    cells
}

#[test]
fn durations_are_shortened_to_what_matters() {
    let cases = [
        (-5, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (305, "5m5s"),
        (3600, "60m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 1800, "3h30m"),
        (10 * 3600, "10h"),
        (51 * 3600, "2d3h"),
        (9 * 24 * 3600, "9d"),
        (800 * 24 * 3600, "2y70d"),
    ];
    for (seconds, expected) in cases {
        assert_eq!(age::human(seconds), expected, "{seconds}");
    }
}

#[test]
fn json_paths_find_fields_items_and_conditions() {
    let object = json!({"spec": {"a": [1, 2], "x.y": "dot"}, "status": {"conditions": [
        {"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}});
    let cases = [
        (".spec.a[1]", Some(json!(2))),
        (".spec.a[-1]", Some(json!(2))),
        (".spec.a[*]", Some(json!(1))),
        (r".spec.x\.y", Some(json!("dot"))),
        (".spec['x.y']", Some(json!("dot"))),
        (
            ".status.conditions[?(@.type==\"Ready\")].status",
            Some(json!("True")),
        ),
        (
            ".status.conditions[?(@.type!='Ready')].status",
            Some(json!("False")),
        ),
        (".status.conditions[?(@.type=='None')].status", None),
        (".spec.missing.deep", None),
    ];
    for (path, expected) in cases {
        let found = JsonPath::parse(path).unwrap();
        assert_eq!(found.first(&object), expected.as_ref(), "{path}");
    }
    assert_eq!(JsonPath::parse("spec"), None);
}

#[test]
fn custom_kind_shows_its_columns() {
    let layout = Layout::of_crd_version(&json!({"name": "v1", "additionalPrinterColumns": [
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Done", "type": "integer", "jsonPath": ".status.done"},
        {"name": "Ratio", "type": "number", "jsonPath": ".status.ratio"},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "Names", "type": "string", "jsonPath": ".spec.names", "priority": 1},
        {"name": "Missing", "type": "string", "jsonPath": ".spec.missing"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]}));
    let object = json!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T23:55:00Z"},
        "spec": {"on": true, "names": ["x"]}, "status": {"phase": "Running", "done": 3.0, "ratio": 2}});
    assert_eq!(
        cells(&layout, &object),
        json!(["a", "Running", 3, 2.0, true, "[\"x\"]", null, "5m"])
    );
    let bare = Layout::of_crd_version(&json!({"name": "v1"}));
    assert_eq!(cells(&bare, &object), json!(["a", "5m"]));
}

#[test]
fn list_becomes_rows_with_metadata_and_list_position() {
    let layout = Layout::built_in("", "ConfigMap");
    let list = json!({"kind": "ConfigMapList", "metadata": {"resourceVersion": "7", "continue": "c"},
        "items": [{"metadata": {"name": "a"}, "data": {"k": "v"}}, {"metadata": {"name": "b"}}]});
    let table = layout.render(&list, &options());
    assert_eq!(
        table["metadata"],
        json!({"resourceVersion": "7", "continue": "c"})
    );
    assert_eq!(table["rows"][0]["cells"], json!(["a", 1, "<unknown>"]));
    assert_eq!(
        table["rows"][1]["object"],
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "b"}})
    );
    let bare = TableOptions {
        include: IncludeObject::None,
        headers: false,
        now: now(),
    };
    let table = layout.render(&list, &bare);
    assert_eq!(table["columnDefinitions"], Value::Null);
    assert_eq!(table["rows"][0]["object"], Value::Null);
}

#[test]
fn node_shows_status_roles_and_addresses() {
    let layout = Layout::built_in("", "Node");
    let node = json!({"metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": ""}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.35.0", "osImage": "Linux"}}});
    assert_eq!(
        cells(&layout, &node),
        json!([
            "n",
            "Ready,SchedulingDisabled",
            "control-plane,worker",
            "24h",
            "v1.35.0",
            "10.0.0.1",
            "<none>",
            "Linux",
            "<unknown>",
            "<unknown>"
        ])
    );
}

#[test]
fn pod_status_word_is_the_one_kubectl_users_know() {
    let layout = Layout::built_in("", "Pod");
    let running = json!({"name": "c", "ready": true, "restartCount": 0, "state": {"running": {}}});
    let crashed = json!({"name": "c", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"finishedAt": "2026-01-01T23:58:00Z"}}});
    let ended = json!({"name": "c", "restartCount": 0, "state": {"terminated": {"exitCode": 1}}});
    let cases = [
        (json!({"phase": "Pending"}), false, ["0/1", "Pending", "0"]),
        (
            json!({"phase": "Running", "containerStatuses": [running]}),
            false,
            ["1/1", "Running", "0"],
        ),
        (
            json!({"phase": "Running", "containerStatuses": [running]}),
            true,
            ["1/1", "Terminating", "0"],
        ),
        (
            json!({"phase": "Running", "containerStatuses": [crashed]}),
            false,
            ["0/1", "CrashLoopBackOff", "3 (2m ago)"],
        ),
        (
            json!({"phase": "Failed", "containerStatuses": [ended]}),
            true,
            ["0/1", "ExitCode:1", "0"],
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
            false,
            ["0/1", "Init:0/1", "0"],
        ),
        (
            json!({"phase": "Failed", "reason": "Evicted"}),
            false,
            ["0/1", "Evicted", "0"],
        ),
    ];
    for (status, deleting, expected) in cases {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]}, "status": status});
        if deleting {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T00:00:00Z");
        }
        let found = cells(&layout, &pod);
        assert_eq!(
            found.as_array().unwrap()[1..4],
            expected.map(Value::from),
            "{status}"
        );
    }
}

#[test]
fn built_in_kinds_show_their_columns() {
    let cases = [
        (
            ("apps", "Deployment"),
            json!({"metadata": {"name": "d"}, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "d"}},
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
                "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2}}),
            json!(["d", "2/3", 3, 2, "<unknown>", "c", "i", "app=d"]),
        ),
        (
            ("policy", "PodDisruptionBudget"),
            json!({"metadata": {"name": "b"}, "spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}}),
            json!(["b", "50%", "N/A", 1, "<unknown>"]),
        ),
        (
            ("coordination.k8s.io", "Lease"),
            json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "h"}}),
            json!(["l", "h", "<unknown>"]),
        ),
        (
            ("", "Event"),
            json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "R", "message": " m ",
                "involvedObject": {"kind": "Node", "name": "n"}, "lastTimestamp": "2026-01-01T23:59:00Z",
                "firstTimestamp": "2026-01-01T23:00:00Z", "count": 2, "source": {"component": "c"}}),
            json!(["60s", "Normal", "R", "node/n", "", "c", "m", "60m", 2, "e"]),
        ),
        (
            ("", "Service"),
            json!({"metadata": {"name": "s"}, "spec": {"type": "ClusterIP", "clusterIPs": ["10.0.0.2"],
                "ports": [{"port": 80, "protocol": "TCP"}], "selector": {"a": "b"}}}),
            json!([
                "s",
                "ClusterIP",
                "10.0.0.2",
                "<none>",
                "80/TCP",
                "<unknown>",
                "a=b"
            ]),
        ),
        (
            ("batch", "Job"),
            json!({"metadata": {"name": "j"}, "spec": {"completions": 1}, "status": {"succeeded": 1,
                "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:30Z",
                "conditions": [{"type": "Complete", "status": "True"}]}}),
            json!(["j", "Complete", "1/1", "30s", "<unknown>", "", "", "<none>"]),
        ),
        (
            ("apiextensions.k8s.io", "CustomResourceDefinition"),
            json!({"metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}}),
            json!(["x", "2026-01-01T00:00:00Z"]),
        ),
    ];
    for ((group, kind), object, expected) in cases {
        assert_eq!(
            cells(&Layout::built_in(group, kind), &object),
            expected,
            "{kind}"
        );
    }
}
