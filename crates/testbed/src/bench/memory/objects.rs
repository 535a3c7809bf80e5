//! Nodes and pods as fat as those of a real cluster.
//!
//! Owns their shape: images, conditions, addresses, volumes, environment. Nothing reads most of it,
//! which is why it is here.

use serde_json::{Value, json};

/// Teams that share the cluster.
const TEAMS: usize = 40;
/// Images that a kubelet reports.
const IMAGES: usize = 50;

/// The namespaces of all pods.
pub(super) fn namespaces() -> impl Iterator<Item = String> {
    (0..TEAMS).map(|number| format!("team-{number}"))
}

fn node_name(number: usize) -> String {
    format!(
        "ip-10-{}-{}.eu-central-1.compute.internal",
        number / 256,
        number % 256
    )
}

/// One node, ready.
pub(super) fn node(number: usize) -> Value {
    let zone = format!(
        "eu-central-1{}",
        ["a", "b", "c"].get(number % 3).unwrap_or(&"a")
    );
    let name = node_name(number);
    let image = |image: usize| {
        json!({
            "names": [
                format!("registry.example.com/team/app-{image}@sha256:{image:064x}"),
                format!("registry.example.com/team/app-{image}:v1.{image}.0"),
            ],
            "sizeBytes": 100_000_000 + image,
        })
    };
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": format!("Kubelet{kind}"),
            "message": "kubelet is posting what it finds out about this machine",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!({
        "metadata": {
            "name": name,
            "uid": format!("{number:08x}-0000-4000-9000-{number:012x}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": managed(number, "kubelet"),
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "eks.amazonaws.com/capacityType": "ON_DEMAND",
                "eks.amazonaws.com/nodegroup": "workers",
                "k8s.io/cloud-provider-aws": "0123456789abcdef0123456789abcdef",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m5.4xlarge",
                "topology.k8s.aws/zone-id": "euc1-az2",
                "topology.kubernetes.io/region": "eu-central-1",
                "topology.kubernetes.io/zone": zone,
            },
            "annotations": {
                "alpha.kubernetes.io/provided-node-ip": "10.0.0.1",
                "csi.volume.kubernetes.io/nodeid": format!("{{\"ebs.csi.aws.com\":\"i-{number:017x}\"}}"),
                "node.alpha.kubernetes.io/ttl": "30",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": { "providerID": format!("aws:///{zone}/i-{number:017x}") },
        "status": {
            "allocatable": { "cpu": "15890m", "memory": "60Gi", "pods": "234", "ephemeral-storage": "90Gi" },
            "capacity": { "cpu": "16", "memory": "64Gi", "pods": "234", "ephemeral-storage": "100Gi" },
            "addresses": [
                { "type": "InternalIP", "address": "10.0.0.1" },
                { "type": "InternalDNS", "address": name },
                { "type": "Hostname", "address": name },
            ],
            "conditions": [
                condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                condition("PIDPressure", "False"), condition("Ready", "True"),
            ],
            "images": (0..IMAGES).map(image).collect::<Vec<_>>(),
        },
    })
}

/// One pod, running and ready on one of so many nodes.
pub(super) fn pod(number: usize, nodes: usize) -> Value {
    let app = format!("app-{}", number % 300);
    let variable = |index: usize| json!({ "name": format!("SETTING_{index}"), "value": format!("https://service-{index}.example.com:8443/api") });
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/team/{name}:v1.2.3"),
            "env": (0..12).map(variable).collect::<Vec<_>>(),
            "resources": { "requests": { "cpu": "250m", "memory": "512Mi" }, "limits": { "memory": "512Mi" } },
            "volumeMounts": [
                { "name": "config", "mountPath": "/etc/config" },
                { "name": "scratch", "mountPath": "/tmp" },
            ],
            "livenessProbe": { "httpGet": { "path": "/healthz", "port": 8080 } },
            "readinessProbe": { "httpGet": { "path": "/readyz", "port": 8080 } },
        })
    };
    let status = |name: &str| {
        json!({
            "name": name, "ready": true, "restartCount": 0, "started": true,
            "image": format!("registry.example.com/team/{name}:v1.2.3"),
            "imageID": format!("registry.example.com/team/{name}@sha256:{number:064x}"),
            "containerID": format!("containerd://{number:064x}"),
            "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
        })
    };
    let condition = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
    json!({
        "metadata": {
            "name": format!("{app}-6f7c8d9b54-{number:05x}"),
            "uid": format!("{number:08x}-0000-4000-a000-{number:012x}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": managed(number, "kube-controller-manager"),
            "namespace": format!("team-{}", number % TEAMS),
            "labels": {
                "app": app,
                "app.kubernetes.io/name": app,
                "app.kubernetes.io/part-of": "shop",
                "app.kubernetes.io/version": "1.2.3",
                "pod-template-hash": "6f7c8d9b54",
            },
            "annotations": {
                "checksum/config": format!("{number:064x}"),
                "prometheus.io/scrape": "true",
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-6f7c8d9b54"),
                "uid": format!("{:08x}-0000-4000-8000-000000000000", number % 300), "controller": true,
            }],
        },
        "spec": {
            "nodeName": node_name(number % nodes.max(1)),
            "containers": [container("main"), container("proxy")],
            "volumes": [
                { "name": "config", "configMap": { "name": format!("{app}-config") } },
                { "name": "scratch", "emptyDir": {} },
            ],
        },
        "status": {
            "phase": "Running", "podIP": "10.1.2.3", "hostIP": "10.0.0.1", "qosClass": "Burstable",
            "conditions": [
                condition("Initialized"), condition("Ready"), condition("ContainersReady"),
                condition("PodScheduled"),
            ],
            "containerStatuses": [status("main"), status("proxy")],
        },
    })
}

/// What the server notes about who wrote which field: as long as a third of the object.
fn managed(number: usize, manager: &str) -> Value {
    let field = |index: usize| {
        (
            format!("k:{{\"name\":\"SETTING_{index}\"}}"),
            json!({ ".": {}, "f:name": {}, "f:value": {} }),
        )
    };
    let fields: serde_json::Map<String, Value> = (0..12 + number % 3).map(field).collect();
    json!([{
        "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": { "f:containers": { "f:env": fields } } },
    }])
}
