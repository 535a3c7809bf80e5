//! Which fields the server puts back on a write, by kind and subresource.
//!
//! Owns that table. A field that is put back is neither owned nor compared. Called while a shape
//! is built.

fn paths(list: &[&str]) -> Vec<Vec<String>> {
    list.iter()
        .map(|path| path.split('.').map(str::to_owned).collect())
        .collect()
}

/// Put back when the main resource of a core kind is written.
pub(super) fn by_main(kind: &str) -> Vec<Vec<String>> {
    match kind {
        "Namespace"
        | "Node"
        | "Pod"
        | "Service"
        | "PersistentVolume"
        | "PersistentVolumeClaim"
        | "Deployment"
        | "ReplicaSet"
        | "StatefulSet"
        | "DaemonSet"
        | "Job"
        | "PodDisruptionBudget"
        | "VolumeAttachment"
        | "CustomResourceDefinition" => paths(&["status"]),
        _ => Vec::new(),
    }
}

/// Put back when the status of a core kind is written.
pub(super) fn by_status(kind: &str) -> Vec<Vec<String>> {
    match kind {
        "Deployment" => paths(&["spec", "metadata.labels"]),
        "Pod" => paths(&[
            "spec",
            "metadata.deletionTimestamp",
            "metadata.ownerReferences",
        ]),
        "VolumeAttachment" | "CustomResourceDefinition" => paths(&["metadata", "spec"]),
        _ => paths(&["spec"]),
    }
}

/// The same two for a custom kind.
pub(super) fn custom(has_status: bool) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
    if has_status {
        (paths(&["status"]), paths(&["spec"]))
    } else {
        (Vec::new(), Vec::new())
    }
}
