//! Defaults of each built-in kind, as clients of the real server see them.

use serde_json::{Map, Value, json};

use super::pod;
use crate::server::{
    kinds::BuiltIn,
    meta::{as_map, default_to, map_at, spec},
};

/// Fills in what a client left out.
pub(super) fn fill(which: BuiltIn, value: &mut Value) {
    match which {
        BuiltIn::Pod => {
            pod::spec_defaults(spec(value));
            pod::pod_defaults(value);
            container_states(value);
        }
        BuiltIn::Deployment => deployment(spec(value)),
        BuiltIn::ReplicaSet => {
            default_to(spec(value), "replicas", 1);
            template(spec(value));
        }
        BuiltIn::StatefulSet => {
            stateful_set(spec(value));
            if let Some(Value::Object(status)) = value.get_mut("status") {
                default_to(status, "availableReplicas", 0);
            }
        }
        BuiltIn::DaemonSet => {
            daemon_set(spec(value));
            let annotations = map_at(crate::server::meta::metadata(value), "annotations");
            default_to(annotations, "deprecated.daemonset.template.generation", "0");
        }
        BuiltIn::Job => job(value),
        BuiltIn::Service => service(spec(value)),
        BuiltIn::Secret => secret(value),
        BuiltIn::Endpoints => endpoints(value),
        BuiltIn::EndpointSlice => endpoint_slice(value),
        BuiltIn::PersistentVolume => {
            default_to(spec(value), "persistentVolumeReclaimPolicy", "Retain");
            default_to(spec(value), "volumeMode", "Filesystem");
            if let Some(Value::Object(path)) = spec(value).get_mut("hostPath") {
                default_to(path, "type", "");
            }
        }
        BuiltIn::PersistentVolumeClaim => default_to(spec(value), "volumeMode", "Filesystem"),
        BuiltIn::PriorityClass => {
            default_to(as_map(value), "preemptionPolicy", "PreemptLowerPriority");
        }
        BuiltIn::CustomResourceDefinition => definition(spec(value)),
        BuiltIn::Namespace => label_with_name(value),
        BuiltIn::Node => {
            spec(value);
            allocate_all(value);
        }
        BuiltIn::Event => {
            for key in ["reportingComponent", "reportingInstance"] {
                default_to(as_map(value), key, "");
            }
            default_to(as_map(value), "source", json!({}));
        }
        BuiltIn::ConfigMap
        | BuiltIn::ServiceAccount
        | BuiltIn::ControllerRevision
        | BuiltIn::PodDisruptionBudget
        | BuiltIn::Lease
        | BuiltIn::VolumeAttachment => {}
    }
}

/// States that the real server writes even when they are empty.
fn container_states(pod: &mut Value) {
    for list in [
        "containerStatuses",
        "initContainerStatuses",
        "ephemeralContainerStatuses",
    ] {
        let pointer = format!("/status/{list}");
        let statuses = pod.pointer_mut(&pointer).and_then(Value::as_array_mut);
        for status in statuses.into_iter().flatten() {
            default_to(as_map(status), "state", json!({}));
            default_to(as_map(status), "lastState", json!({}));
        }
    }
}

/// Times that the real server writes even when there are none.
pub(super) fn write_empty_times(which: BuiltIn, value: &mut Value) {
    let keys: &[&str] = match which {
        BuiltIn::Pod | BuiltIn::Job | BuiltIn::PersistentVolumeClaim => {
            &["lastProbeTime", "lastTransitionTime"]
        }
        BuiltIn::Node => &["lastHeartbeatTime", "lastTransitionTime"],
        BuiltIn::Deployment => &["lastUpdateTime", "lastTransitionTime"],
        BuiltIn::ReplicaSet
        | BuiltIn::StatefulSet
        | BuiltIn::DaemonSet
        | BuiltIn::Namespace
        | BuiltIn::CustomResourceDefinition => &["lastTransitionTime"],
        BuiltIn::Event => {
            for key in ["eventTime", "firstTimestamp", "lastTimestamp"] {
                as_map(value).entry(key).or_insert(Value::Null);
            }
            return;
        }
        BuiltIn::Service
        | BuiltIn::Endpoints
        | BuiltIn::ConfigMap
        | BuiltIn::Secret
        | BuiltIn::ServiceAccount
        | BuiltIn::PersistentVolume
        | BuiltIn::ControllerRevision
        | BuiltIn::PodDisruptionBudget
        | BuiltIn::Lease
        | BuiltIn::VolumeAttachment
        | BuiltIn::PriorityClass
        | BuiltIn::EndpointSlice => return,
    };
    let conditions = value
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        for key in keys {
            as_map(condition).entry(*key).or_insert(Value::Null);
        }
    }
}

/// Every namespace carries its name as a label.
fn label_with_name(value: &mut Value) {
    let name = crate::server::meta::meta_text(value, "name").to_owned();
    if !name.is_empty() {
        let labels = map_at(crate::server::meta::metadata(value), "labels");
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
}

/// A node offers what it has unless it says otherwise.
fn allocate_all(value: &mut Value) {
    if let Some(capacity) = value.pointer("/status/capacity").cloned() {
        default_to(map_at(as_map(value), "status"), "allocatable", capacity);
    }
}

fn template(spec: &mut Map<String, Value>) {
    let template = map_at(spec, "template");
    map_at(template, "metadata");
    pod::spec_defaults(map_at(template, "spec"));
}

fn deployment(spec: &mut Map<String, Value>) {
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", 10);
    default_to(spec, "progressDeadlineSeconds", 600);
    template(spec);
    let strategy = map_at(spec, "strategy");
    default_to(strategy, "type", "RollingUpdate");
    if strategy.get("type") == Some(&json!("RollingUpdate")) {
        let rolling = map_at(strategy, "rollingUpdate");
        default_to(rolling, "maxUnavailable", "25%");
        default_to(rolling, "maxSurge", "25%");
    }
}

fn stateful_set(spec: &mut Map<String, Value>) {
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", 10);
    default_to(spec, "podManagementPolicy", "OrderedReady");
    default_to(spec, "serviceName", "");
    template(spec);
    let strategy = map_at(spec, "updateStrategy");
    default_to(strategy, "type", "RollingUpdate");
    if strategy.get("type") == Some(&json!("RollingUpdate")) {
        default_to(map_at(strategy, "rollingUpdate"), "partition", 0);
    }
    let retention = map_at(spec, "persistentVolumeClaimRetentionPolicy");
    default_to(retention, "whenDeleted", "Retain");
    default_to(retention, "whenScaled", "Retain");
    let claims = spec
        .get_mut("volumeClaimTemplates")
        .and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten() {
        let claim = as_map(claim);
        claim.insert("apiVersion".into(), "v1".into());
        claim.insert("kind".into(), "PersistentVolumeClaim".into());
        default_to(map_at(claim, "spec"), "volumeMode", "Filesystem");
        default_to(map_at(claim, "status"), "phase", "Pending");
    }
}

fn daemon_set(spec: &mut Map<String, Value>) {
    default_to(spec, "revisionHistoryLimit", 10);
    template(spec);
    let strategy = map_at(spec, "updateStrategy");
    default_to(strategy, "type", "RollingUpdate");
    if strategy.get("type") == Some(&json!("RollingUpdate")) {
        let rolling = map_at(strategy, "rollingUpdate");
        default_to(rolling, "maxUnavailable", 1);
        default_to(rolling, "maxSurge", 0);
    }
}

fn job(value: &mut Value) {
    let labels = crate::server::meta::at(value, &["spec", "template", "metadata", "labels"])
        .cloned()
        .filter(|labels| labels.as_object().is_some_and(|map| !map.is_empty()));
    if let Some(labels) = labels {
        default_to(crate::server::meta::metadata(value), "labels", labels);
    }
    let spec = spec(value);
    template(spec);
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions".into(), 1.into());
    }
    default_to(spec, "parallelism", 1);
    default_to(spec, "backoffLimit", 6);
    default_to(spec, "completionMode", "NonIndexed");
    default_to(spec, "suspend", false);
    default_to(spec, "manualSelector", false);
    let replacement = if spec.contains_key("podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    default_to(spec, "podReplacementPolicy", replacement);
}

fn service(spec: &mut Map<String, Value>) {
    default_to(spec, "sessionAffinity", "None");
    default_to(spec, "type", "ClusterIP");
    if spec.get("sessionAffinity") == Some(&json!("ClientIP")) {
        let config = map_at(spec, "sessionAffinityConfig");
        default_to(map_at(config, "clientIP"), "timeoutSeconds", 10800);
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        let port = as_map(port);
        default_to(port, "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            default_to(port, "targetPort", number);
        }
    }
    if spec.get("type") != Some(&json!("ExternalName")) {
        default_to(spec, "internalTrafficPolicy", "Cluster");
    }
    if matches!(spec.get("type"), Some(Value::String(kind)) if kind == "NodePort" || kind == "LoadBalancer")
    {
        default_to(spec, "externalTrafficPolicy", "Cluster");
    }
    if spec.get("type") == Some(&json!("LoadBalancer")) {
        default_to(spec, "allocateLoadBalancerNodePorts", true);
    }
}

fn secret(value: &mut Value) {
    let map = as_map(value);
    default_to(map, "type", "Opaque");
    if let Some(Value::Object(texts)) = map.remove("stringData") {
        let data = map_at(map, "data");
        for (key, text) in texts {
            let text = text.as_str().unwrap_or_default().as_bytes().to_vec();
            let encoded = serde_json::to_value(k8s_openapi::ByteString(text));
            data.insert(key, encoded.unwrap_or_default());
        }
    }
}

fn endpoints(value: &mut Value) {
    let subsets = value.get_mut("subsets").and_then(Value::as_array_mut);
    for subset in subsets.into_iter().flatten() {
        let ports = subset.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten() {
            default_to(as_map(port), "protocol", "TCP");
        }
    }
}

fn endpoint_slice(value: &mut Value) {
    default_to(as_map(value), "endpoints", Value::Null);
    let map = as_map(value);
    if !map.contains_key("ports") {
        map.insert("ports".into(), Value::Null);
    }
    let endpoints = value.get_mut("endpoints").and_then(Value::as_array_mut);
    for endpoint in endpoints.into_iter().flatten() {
        default_to(as_map(endpoint), "conditions", json!({}));
    }
    let ports = value.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        default_to(as_map(port), "name", "");
        default_to(as_map(port), "protocol", "TCP");
    }
}

fn definition(spec: &mut Map<String, Value>) {
    default_to(map_at(spec, "conversion"), "strategy", "None");
    let names = map_at(spec, "names");
    if let Some(Value::String(kind)) = names.get("kind").cloned() {
        default_to(names, "listKind", format!("{kind}List"));
        default_to(names, "singular", kind.to_lowercase());
    }
}
