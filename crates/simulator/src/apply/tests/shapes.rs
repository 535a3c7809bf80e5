//! The table of core kinds says what the real types say.

use serde_json::{Value, json};

use crate::apply::types::{KindShape, Layout, ListKind, ListPatch, TypeId};

fn at(shape: &KindShape, path: &str) -> TypeId {
    path.split('.').fold(shape.root, |id, name| match name {
        "*" => shape.types.item(id),
        field => shape.types.field(id, field).0,
    })
}

/// The keys of a list, or how it is merged otherwise.
fn list(shape: &KindShape, path: &str) -> String {
    match shape.types.layout(at(shape, path), &json!([])) {
        Layout::Items(_, ListKind::Map(keys)) => keys
            .iter()
            .map(|key| key.name.as_str())
            .collect::<Vec<_>>()
            .join(","),
        Layout::Items(_, ListKind::Set) => "set".to_owned(),
        Layout::Items(_, ListKind::Atomic) | Layout::Leaf => "atomic".to_owned(),
        Layout::Fields => "fields".to_owned(),
    }
}

#[test]
fn lists_of_core_kinds_are_merged_as_their_types_say() {
    let pod = KindShape::core("v1", "Pod").unwrap();
    let node = KindShape::core("v1", "Node").unwrap();
    let job = KindShape::core("batch/v1", "Job").unwrap();
    let table = [
        (&pod, "spec.containers", "name"),
        (&pod, "spec.containers.*.ports", "containerPort,protocol"),
        (&pod, "spec.containers.*.env", "name"),
        (&pod, "spec.containers.*.args", "atomic"),
        (&pod, "spec.tolerations", "atomic"),
        (
            &pod,
            "spec.topologySpreadConstraints",
            "topologyKey,whenUnsatisfiable",
        ),
        (&pod, "spec.imagePullSecrets", "name"),
        (&pod, "spec.hostAliases", "ip"),
        (&pod, "status.conditions", "type"),
        (&pod, "status.containerStatuses", "atomic"),
        (&pod, "metadata.finalizers", "set"),
        (&pod, "metadata.ownerReferences", "uid"),
        (&node, "spec.taints", "atomic"),
        (&node, "spec.podCIDRs", "set"),
        (&node, "status.addresses", "type"),
        (&node, "status.images", "atomic"),
        (&job, "status.conditions", "atomic"),
    ];
    for (shape, path, expected) in table {
        assert_eq!(list(shape, path), expected, "{path}");
    }
}

#[test]
fn lists_of_core_kinds_are_patched_as_their_types_say() {
    let pod = KindShape::core("v1", "Pod").unwrap();
    let job = KindShape::core("batch/v1", "Job").unwrap();
    let by = |key: &str| ListPatch::MergeBy(key.to_owned());
    let table = [
        (&pod, "spec.containers.*.ports", by("containerPort")),
        (&pod, "spec.containers.*.volumeMounts", by("mountPath")),
        (&pod, "spec.tolerations", ListPatch::Replace),
        (&pod, "metadata.finalizers", ListPatch::Merge),
        (&job, "status.conditions", by("type")),
    ];
    for (shape, path, expected) in table {
        assert_eq!(*shape.types.list_patch(at(shape, path)), expected, "{path}");
    }
}

#[test]
fn atomic_maps_are_one_value() {
    let pod = KindShape::core("v1", "Pod").unwrap();
    let deployment = KindShape::core("apps/v1", "Deployment").unwrap();
    let volume = KindShape::core("v1", "PersistentVolume").unwrap();
    let is_whole = |shape: &KindShape, path: &str| {
        matches!(
            shape.types.layout(at(shape, path), &json!({})),
            Layout::Leaf
        )
    };
    assert!(is_whole(&pod, "spec.nodeSelector"));
    assert!(is_whole(&deployment, "spec.selector"));
    assert!(!is_whole(&volume, "spec.claimRef"));
    assert!(!is_whole(&pod, "metadata.labels"));
}

#[test]
fn every_kind_of_the_server_has_a_shape() {
    let all = [
        (
            "v1",
            "Namespace Node Pod Service Endpoints ConfigMap Secret ServiceAccount Event",
        ),
        ("v1", "PersistentVolume PersistentVolumeClaim"),
        (
            "apps/v1",
            "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision",
        ),
        ("batch/v1", "Job"),
        ("policy/v1", "PodDisruptionBudget"),
        ("coordination.k8s.io/v1", "Lease"),
        ("storage.k8s.io/v1", "VolumeAttachment"),
        ("scheduling.k8s.io/v1", "PriorityClass"),
        ("discovery.k8s.io/v1", "EndpointSlice"),
        ("events.k8s.io/v1", "Event"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ];
    for (api_version, kinds) in all {
        for kind in kinds.split(' ') {
            let shape = KindShape::core(api_version, kind);
            let empty = shape.map(|shape| shape.empty).unwrap_or_default();
            assert_eq!(
                empty.get("metadata"),
                Some(&Value::Object(serde_json::Map::new())),
                "{kind}"
            );
        }
    }
}
