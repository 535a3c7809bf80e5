//! kwok: published software that plays the kubelets of nodes which have no machine.
//!
//! Owns its stages, written here so that they hold what a roll needs and no more, and its process.
//! Called by the benchmark of replacing and by the large test on the real control plane.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::binaries::Binaries;
use crate::control_plane::{ControlPlane, free_ports};
use crate::process::Daemon;

/// How soon after its binding a pod is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// At once.
    AtOnce,
    /// After a time between these two.
    Between(Duration, Duration),
}

/// kwok for all nodes of a control plane; it ends when this value is dropped.
pub struct Kwok {
    _daemon: Daemon,
}

impl Kwok {
    /// Starts it. Every Node that is created from now on comes up and has its pods run.
    pub fn start(plane: &ControlPlane, readiness: Readiness) -> Result<Self> {
        let stages = plane.folder().join("kwok.yaml");
        let documents = [node_comes_up(), pod_gets_ready(readiness), pod_goes()];
        // JSON is YAML, and three dashes part documents.
        let text = documents.map(|stage| stage.to_string()).join("\n---\n");
        fs::write(&stages, text).with_context(|| format!("writing {}", stages.display()))?;
        let [port] = free_ports()?;
        let flags = [
            format!("--config={}", stages.display()),
            format!("--kubeconfig={}", plane.kubeconfig().display()),
            "--manage-all-nodes=true".to_owned(),
            "--node-lease-duration-seconds=40".to_owned(),
            format!("--server-address=127.0.0.1:{port}"),
        ];
        let binary = Binaries::locate()?.path("kwok")?;
        Ok(Self {
            _daemon: Daemon::start("kwok", &binary, &flags, plane.folder())?,
        })
    }
}

fn stage(name: &str, kind: &str, conditions: &Value, next: &Value) -> Value {
    json!({
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": { "name": name },
        "spec": {
            "resourceRef": { "apiGroup": "v1", "kind": kind },
            "selector": { "matchExpressions": conditions },
            "next": next,
        },
    })
}

fn node_comes_up() -> Value {
    let not_ready = json!([{
        "key": ".status.conditions.[] | select( .type == \"Ready\" ) | .status",
        "operator": "NotIn", "values": ["True"],
    }]);
    let condition = |kind: &str, status: &str| {
        format!(
            "- type: {kind}\n  status: \"{status}\"\n  reason: Kwok\n  message: no machine is behind it\n  \
             lastHeartbeatTime: {{{{ Now | Quote }}}}\n  lastTransitionTime: {{{{ Now | Quote }}}}\n"
        )
    };
    let conditions = [
        condition("Ready", "True"),
        condition("MemoryPressure", "False"),
        condition("DiskPressure", "False"),
        condition("PIDPressure", "False"),
    ];
    let next = json!({ "statusTemplate": format!("conditions:\n{}phase: Running\n", conditions.concat()) });
    stage("node-comes-up", "Node", &not_ready, &next)
}

fn pod_gets_ready(readiness: Readiness) -> Value {
    let pending = json!([
        { "key": ".metadata.deletionTimestamp", "operator": "DoesNotExist" },
        { "key": ".status.phase", "operator": "In", "values": ["Pending"] },
    ]);
    let condition = |kind: &str| {
        format!("- type: {kind}\n  status: \"True\"\n  lastTransitionTime: {{{{ Now | Quote }}}}\n")
    };
    let conditions = ["Initialized", "ContainersReady", "Ready"]
        .map(condition)
        .concat();
    let containers = "{{ range .spec.containers }}\n- name: {{ .name | Quote }}\n  image: {{ .image | Quote }}\n  \
                      ready: true\n  restartCount: 0\n  state:\n    running:\n      \
                      startedAt: {{ Now | Quote }}\n{{ end }}\n";
    let template = format!(
        "conditions:\n{conditions}containerStatuses:\n{containers}phase: Running\n\
         startTime: {{{{ Now | Quote }}}}\n"
    );
    let mut made = stage(
        "pod-gets-ready",
        "Pod",
        &pending,
        &json!({ "statusTemplate": template }),
    );
    if let (Readiness::Between(least, most), Some(spec)) = (readiness, made.get_mut("spec")) {
        let delay = json!({
            "durationMilliseconds": millis(least),
            "jitterDurationMilliseconds": millis(most),
        });
        if let Some(spec) = spec.as_object_mut() {
            spec.insert("delay".to_owned(), delay);
        }
    }
    made
}

fn pod_goes() -> Value {
    let leaving = json!([{ "key": ".metadata.deletionTimestamp", "operator": "Exists" }]);
    stage("pod-goes", "Pod", &leaving, &json!({ "delete": true }))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
