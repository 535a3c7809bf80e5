//! A view says the same of an object that was read in part as of one that was read whole.

mod full;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shipshape_engine::view::ScaleDown;

use super::super::spare::Spare;
use super::*;
use full::full;

/// The view of the object read whole, after it was compared with that of the object read in part; and
/// what was read in part.
fn view<K, V>(object: &Value, of: fn(&K) -> V) -> (V, K)
where
    K: DeserializeOwned,
    V: Kept + PartialEq + std::fmt::Debug,
{
    let text = object.to_string();
    let whole: K = serde_json::from_str(&text).unwrap();
    let spare: Spare<K, V> = serde_json::from_str(&text).unwrap();
    assert_eq!(of(&spare.object), of(&whole));
    (of(&whole), spare.object)
}

fn pod(spec: &Value, status: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u", "labels": { "app": "web" },
            "annotations": { "kubernetes.io/config.mirror": "x" },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true,
            }],
            "finalizers": ["a/b"], "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": { "containers": [{ "name": "web" }] },
    });
    let whole = pod["spec"].as_object_mut().unwrap();
    whole.extend(spec.as_object().unwrap().clone());
    pod["status"] = status.clone();
    pod
}

#[test]
fn pods() {
    let spec = json!({
        "nodeName": "node-1", "priority": 2_000_000_001,
        "volumes": [
            { "name": "a", "persistentVolumeClaim": { "claimName": "disk" } },
            { "name": "b", "ephemeral": {} }, { "name": "c", "emptyDir": {} },
        ],
    });
    let running = json!({
        "phase": "Running", "podIP": "10.0.0.1", "conditions": [{ "type": "Ready", "status": "True" }],
        "containerStatuses": [{
            "name": "web", "image": "web:1", "imageID": "", "ready": true, "restartCount": 0,
        }],
    });
    let (view, read) = view(&pod(&spec, &running), PodView::of);
    assert!(read.spec.unwrap().containers.is_empty());
    assert_eq!(read.status.unwrap().container_statuses, None);
    assert_eq!(view.claims, ["disk", "web-b"]);
    assert!(view.ready && view.critical && view.local_data && view.mirror && view.terminating);
    assert_eq!(view.node, "node-1");
    assert!(view.address.is_some() && view.owner.is_some() && view.gone_by.is_some());
    assert_eq!(view.finalizers.len(), 1);
}

#[test]
fn pods_that_do_not_run() {
    let homeless = json!({ "phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] });
    let (homeless, _) = view(&pod(&json!({}), &homeless), PodView::of);
    assert!(homeless.pending && homeless.homeless_since.is_some());
    let (over, _) = view(&pod(&json!({}), &json!({ "phase": "Failed" })), PodView::of);
    assert!(over.finished);
}

#[test]
fn nodes() {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "node-1", "uid": "u", "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "topology.kubernetes.io/zone": "a", "node-role.kubernetes.io/control-plane": "" },
            "annotations": {
                "shipshape.dev/cordoned-by": "task", "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
            },
        },
        "spec": {
            "providerID": "aws:///a/i-1", "unschedulable": true, "podCIDR": "10.0.0.0/24",
            "taints": [{ "key": "shipshape.dev/outdated", "value": "run", "effect": "NoSchedule" }],
        },
        "status": {
            "conditions": [
                { "type": "Ready", "status": "True" }, { "type": "NetworkUnavailable", "status": "True" },
                { "type": "NetworkVerified", "status": "False" },
            ],
            "images": [{ "names": ["web:1"] }],
            "nodeInfo": {
                "architecture": "", "bootID": "b", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "",
                "osImage": "", "systemUUID": "",
            },
        },
    });
    let (view, read) = view(&node, NodeView::of);
    assert_eq!(read.status.unwrap().images, None);
    assert!(view.ready && view.unschedulable && view.deleting && view.network.unavailable);
    assert_eq!(view.network.verified.as_deref(), Some("False"));
    assert!(view.provider_id.is_some() && view.cordoned_by.is_some());
    assert_eq!(view.scale_down, ScaleDown::Foreign);
    assert_eq!(view.marks, ["run"]);
    assert_eq!((view.taints.len(), view.boot_id.as_str()), (1, "b"));
}

#[test]
fn attachments() {
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": { "name": "a" },
        "spec": { "attacher": "x", "nodeName": "node-1", "source": { "persistentVolumeName": "disk" } },
        "status": { "attached": true },
    });
    let (view, read) = view(&attachment, AttachmentView::of);
    assert_eq!(read.status, None);
    assert_eq!(
        (view.node.as_str(), view.volume.as_str()),
        ("node-1", "disk")
    );
}

/// The samples above set what the views read today; here every field is set, so that one which a view comes
/// to read and nobody names is missed.
#[test]
fn views_of_objects_with_every_field_set() {
    fn compare<K, V>(object: &K, of: fn(&K) -> V)
    where
        K: DeserializeOwned + Serialize,
        V: Kept + PartialEq + std::fmt::Debug,
    {
        view(&serde_json::to_value(object).unwrap(), of);
    }
    let pod = Pod {
        metadata: full(),
        spec: Some(full()),
        status: Some(full()),
    };
    compare(&pod, PodView::of);
    let node = Node {
        metadata: full(),
        spec: Some(full()),
        status: Some(full()),
    };
    compare(&node, NodeView::of);
    let attachment = VolumeAttachment {
        metadata: full(),
        spec: full(),
        status: Some(full()),
    };
    compare(&attachment, AttachmentView::of);
    compare(&pod, WorkerView::of);
}
