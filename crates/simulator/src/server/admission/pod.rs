//! Defaults of pods and of pod templates, and what admission adds to new pods.

use serde_json::{Map, Value, json};

use crate::server::meta::{as_map, at, default_to, map_at, text};

/// Defaults that pods and templates share.
pub(super) fn spec_defaults(spec: &mut Map<String, Value>) {
    default_to(spec, "dnsPolicy", "ClusterFirst");
    default_to(spec, "restartPolicy", "Always");
    default_to(spec, "terminationGracePeriodSeconds", 30);
    default_to(spec, "schedulerName", "default-scheduler");
    default_to(spec, "securityContext", json!({}));
    mirror_account(spec);
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["initContainers", "containers"] {
        for container in members(spec, list) {
            container_defaults(as_map(container), host_network);
        }
    }
    for volume in members(spec, "volumes") {
        volume_defaults(as_map(volume));
    }
}

/// The account stands under its old name too.
fn mirror_account(spec: &mut Map<String, Value>) {
    let name = ["serviceAccountName", "serviceAccount"]
        .iter()
        .find_map(|key| spec.get(*key).filter(|v| v.is_string()).cloned());
    if let Some(name) = name {
        spec.insert("serviceAccountName".into(), name.clone());
        spec.insert("serviceAccount".into(), name);
    }
}

/// Defaults of pods alone.
pub(super) fn pod_defaults(pod: &mut Value) {
    let spec = map_at(as_map(pod), "spec");
    default_to(spec, "enableServiceLinks", true);
    for list in ["initContainers", "containers"] {
        for container in members(spec, list) {
            requests_from_limits(map_at(as_map(container), "resources"));
        }
    }
}

fn members<'a>(map: &'a mut Map<String, Value>, key: &str) -> impl Iterator<Item = &'a mut Value> {
    map.get_mut(key)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

fn requests_from_limits(resources: &mut Map<String, Value>) {
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else {
        return;
    };
    let requests = map_at(resources, "requests");
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

fn container_defaults(container: &mut Map<String, Value>, host_network: bool) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or("");
    let policy = if follows_latest(image) {
        "Always"
    } else {
        "IfNotPresent"
    };
    default_to(container, "imagePullPolicy", policy);
    default_to(container, "terminationMessagePath", "/dev/termination-log");
    default_to(container, "terminationMessagePolicy", "File");
    default_to(container, "resources", json!({}));
    for port in members(container, "ports") {
        let port = as_map(port);
        default_to(port, "protocol", "TCP");
        if host_network && let Some(number) = port.get("containerPort").cloned() {
            default_to(port, "hostPort", number);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(Value::Object(probe)) = container.get_mut(probe) {
            probe_defaults(probe);
        }
    }
    if let Some(Value::Object(lifecycle)) = container.get_mut("lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(Value::Object(hook)) = lifecycle.get_mut(hook) {
                request_defaults(hook);
            }
        }
    }
    for variable in members(container, "env") {
        field_reference(variable, &["valueFrom", "fieldRef"]);
    }
}

/// An image without tag or digest is the latest one.
fn follows_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn probe_defaults(probe: &mut Map<String, Value>) {
    default_to(probe, "timeoutSeconds", 1);
    default_to(probe, "periodSeconds", 10);
    default_to(probe, "successThreshold", 1);
    default_to(probe, "failureThreshold", 3);
    if let Some(Value::Object(grpc)) = probe.get_mut("grpc") {
        default_to(grpc, "service", "");
    }
    request_defaults(probe);
}

fn request_defaults(action: &mut Map<String, Value>) {
    if let Some(Value::Object(get)) = action.get_mut("httpGet") {
        default_to(get, "path", "/");
        default_to(get, "scheme", "HTTP");
    }
}

fn field_reference(value: &mut Value, path: &[&str]) {
    let found = path
        .iter()
        .try_fold(value, |value, key| value.get_mut(*key));
    if let Some(Value::Object(reference)) = found {
        default_to(reference, "apiVersion", "v1");
    }
}

fn volume_defaults(volume: &mut Map<String, Value>) {
    if volume.len() == 1 {
        volume.insert("emptyDir".into(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(Value::Object(source)) = volume.get_mut(source) {
            default_to(source, "defaultMode", 420);
            for item in members(source, "items") {
                field_reference(item, &["fieldRef"]);
            }
            for projected in members(source, "sources") {
                if let Some(Value::Object(token)) = projected.get_mut("serviceAccountToken") {
                    default_to(token, "expirationSeconds", 3600);
                }
                if let Some(Value::Object(downward)) = projected.get_mut("downwardAPI") {
                    for item in members(downward, "items") {
                        field_reference(item, &["fieldRef"]);
                    }
                }
            }
        }
    }
    if let Some(Value::Object(path)) = volume.get_mut("hostPath") {
        default_to(path, "type", "");
    }
}

/// Tolerations of five minutes for nodes that fail, unless the pod says something else.
pub(super) fn add_tolerations(pod: &mut Value) {
    const FAILING: [&str; 2] = [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ];
    let spec = map_at(as_map(pod), "spec");
    let list = spec
        .entry("tolerations")
        .or_insert_with(|| Value::Array(Vec::new()));
    let Some(list) = list.as_array_mut() else {
        return;
    };
    let missing: Vec<&str> = FAILING
        .into_iter()
        .filter(|taint| {
            !list.iter().any(|toleration| {
                let key = text(toleration, &["key"]);
                (key == *taint || key.is_empty())
                    && matches!(text(toleration, &["effect"]), "NoExecute" | "")
            })
        })
        .collect();
    for key in missing {
        list.push(json!({
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }));
    }
}

/// The quality of service that follows from requests and limits.
pub(super) fn quality(pod: &Value) -> &'static str {
    let lists = ["initContainers", "containers"];
    let containers = lists
        .iter()
        .flat_map(|list| crate::server::meta::items(pod, &["spec", list]));
    let (mut any, mut guaranteed) = (false, true);
    for container in containers {
        for resource in ["cpu", "memory"] {
            let amount = |part: &str| {
                let amount = at(container, &["resources", part, resource])?;
                amount.as_str().filter(|amount| *amount != "0")
            };
            let (limit, request) = (amount("limits"), amount("requests"));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
