//! What a new cluster holds before anybody writes to it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{meta, state::State};

const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

/// Puts the first objects in place.
pub(super) fn fill(state: &mut State, now: Timestamp) {
    for name in NAMESPACES {
        plant(
            state,
            "namespaces",
            json!({
                "metadata": {
                    "name": name,
                    "labels": { "kubernetes.io/metadata.name": name },
                    "managedFields": [{
                        "manager": "kube-apiserver",
                        "operation": "Update",
                        "apiVersion": "v1",
                        "time": meta::time(now),
                        "fieldsType": "FieldsV1",
                        "fieldsV1": { "f:metadata": { "f:labels": {
                            ".": {},
                            "f:kubernetes.io/metadata.name": {},
                        } } },
                    }],
                },
                "spec": { "finalizers": ["kubernetes"] },
                "status": { "phase": "Active" },
            }),
            now,
        );
    }
    for (name, value, what) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        plant(
            state,
            "priorityclasses",
            json!({
                "metadata": { "name": name, "generation": 1 },
                "value": value,
                "description": what,
                "preemptionPolicy": "PreemptLowerPriority",
            }),
            now,
        );
    }
}

fn plant(state: &mut State, plural: &str, mut object: Value, now: Timestamp) {
    let Some(storage) = state
        .kinds
        .iter()
        .find(|kind| kind.plural == plural)
        .map(|kind| kind.storage.clone())
    else {
        return;
    };
    let uid = state.names.uid();
    meta::set_meta(&mut object, "uid", Some(uid.into()));
    meta::set_meta(
        &mut object,
        "creationTimestamp",
        Some(meta::time(now).into()),
    );
    state.store.put(&storage, object, now);
}
