//! Small manifests of workloads, for worlds that need some.
//!
//! Owns JSON values and nothing else. Every workload lives in namespace `default` and labels its
//! pods `app: NAME`.

use serde_json::{Value, json};

fn pods(name: &str, cpu_millis: u32) -> Value {
    json!({
        "metadata": { "labels": { "app": name } },
        "spec": { "containers": [{
            "name": "main",
            "image": format!("registry.example/{name}:1"),
            "resources": { "requests": { "cpu": format!("{cpu_millis}m"), "memory": "64Mi" } },
        }] },
    })
}

fn object(api_version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": { "name": name, "namespace": "default" },
        "spec": spec,
    })
}

/// A Deployment.
pub fn deployment(name: &str, replicas: u32, cpu_millis: u32) -> Value {
    let spec = json!({
        "replicas": replicas,
        "selector": { "matchLabels": { "app": name } },
        "template": pods(name, cpu_millis),
    });
    object("apps/v1", "Deployment", name, &spec)
}

/// A StatefulSet whose pods each have a volume of their own.
pub fn stateful_set(name: &str, replicas: u32, cpu_millis: u32) -> Value {
    let spec = json!({
        "replicas": replicas,
        "serviceName": name,
        "selector": { "matchLabels": { "app": name } },
        "template": pods(name, cpu_millis),
        "volumeClaimTemplates": [{
            "metadata": { "name": "data" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "embedded",
                "resources": { "requests": { "storage": "1Gi" } },
            },
        }],
    });
    object("apps/v1", "StatefulSet", name, &spec)
}

/// A DaemonSet.
pub fn daemon_set(name: &str, cpu_millis: u32) -> Value {
    let spec = json!({
        "selector": { "matchLabels": { "app": name } },
        "template": pods(name, cpu_millis),
    });
    object("apps/v1", "DaemonSet", name, &spec)
}

/// A Job with one pod.
pub fn job(name: &str, cpu_millis: u32) -> Value {
    let mut template = pods(name, cpu_millis);
    if let Some(spec) = template.pointer_mut("/spec").and_then(Value::as_object_mut) {
        spec.insert("restartPolicy".to_owned(), json!("Never"));
    }
    object("batch/v1", "Job", name, &json!({ "template": template }))
}

/// A disruption budget for the pods of workload `app`.
pub fn budget(app: &str, min_available: u32) -> Value {
    let spec = json!({
        "minAvailable": min_available,
        "selector": { "matchLabels": { "app": app } },
    });
    object("policy/v1", "PodDisruptionBudget", app, &spec)
}
