//! kwok: published software that plays the kubelets of nodes which have no machine.
//!
//! Owns its stages, written here so that they hold what a roll needs and no more, and its process.
//! Called by the benchmarks and by tests on the real control plane.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use shipshape_api::names::LABEL_WORKER;

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

/// Who plays the checks of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// Nobody here: a worker waits until somebody else writes its status.
    Nobody,
    /// kwok: all checks pass, so long after the worker was put on its node.
    Pass(Duration),
}

/// kwok for all nodes of a control plane; it ends when this value is dropped.
pub struct Kwok {
    _daemon: Daemon,
}

impl Kwok {
    /// Starts it. Every Node that is created from now on comes up and has its pods run.
    pub fn start(plane: &ControlPlane, readiness: Readiness) -> Result<Self> {
        Self::start_with(plane, readiness, Checks::Nobody)
    }

    /// The same, with workers of the gate among the pods.
    pub fn start_with(plane: &ControlPlane, readiness: Readiness, checks: Checks) -> Result<Self> {
        let stages = plane.folder().join("kwok.yaml");
        let mut documents = vec![node_comes_up(), pod_gets_ready(readiness), pod_goes()];
        if let Checks::Pass(time) = checks {
            documents.push(checks_pass(time));
        }
        // JSON is YAML, and three dashes part documents.
        let documents: Vec<String> = documents.iter().map(Value::to_string).collect();
        let text = documents.join("\n---\n");
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
    // Its boot is told by what never changes of it.
    let template = format!(
        "conditions:\n{}phase: Running\nnodeInfo:\n  bootID: {{{{ .metadata.uid | Quote }}}}\n  \
         kubeletVersion: v1.35.0\n",
        conditions.concat()
    );
    let next = json!({ "statusTemplate": template });
    stage("node-comes-up", "Node", &not_ready, &next)
}

fn pod_gets_ready(readiness: Readiness) -> Value {
    let pending = json!([
        { "key": ".metadata.deletionTimestamp", "operator": "DoesNotExist" },
        { "key": ".status.phase", "operator": "In", "values": ["Pending"] },
        { "key": worker_label(), "operator": "DoesNotExist" },
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
    if let Readiness::Between(least, most) = readiness {
        delay(&mut made, least, most);
    }
    made
}

/// The stage comes about after a time between these two.
fn delay(stage: &mut Value, least: Duration, most: Duration) {
    let delay = json!({
        "durationMilliseconds": millis(least),
        "jitterDurationMilliseconds": millis(most),
    });
    if let Some(spec) = stage.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("delay".to_owned(), delay);
    }
}

/// Where a pod says that it is a worker of the gate.
fn worker_label() -> String {
    format!(".metadata.labels[\"{LABEL_WORKER}\"]")
}

/// A worker ends well, with a report as long as that of a real run.
fn checks_pass(time: Duration) -> Value {
    let running = json!([
        { "key": ".metadata.deletionTimestamp", "operator": "DoesNotExist" },
        { "key": ".status.phase", "operator": "In", "values": ["Pending"] },
        { "key": worker_label(), "operator": "Exists" },
    ]);
    let template = format!(
        "phase: Succeeded\nstartTime: {{{{ Now | Quote }}}}\ncontainerStatuses:\n\
         {{{{ range .spec.containers }}}}\n- name: {{{{ .name | Quote }}}}\n  image: {{{{ .image | Quote }}}}\n  \
         ready: false\n  restartCount: 0\n  state:\n    terminated:\n      exitCode: 0\n      \
         reason: Completed\n      message: '{}'\n      startedAt: {{{{ Now | Quote }}}}\n      \
         finishedAt: {{{{ Now | Quote }}}}\n{{{{ end }}}}\n",
        passing_report()
    );
    let next = json!({ "statusTemplate": template });
    let mut made = stage("checks-pass", "Pod", &running, &next);
    delay(&mut made, time, time);
    made
}

/// What `shipshape verify` says of a node that is well.
pub fn passing_report() -> Value {
    let name = "kubernetes.default.svc.cluster.local";
    let findings = [
        ("dns-udp", format!("{name}. @10.96.0.10:53")),
        ("dns-tcp", format!("{name}. @10.96.0.10:53")),
        ("dns-search", "kubernetes.default (search list)".to_owned()),
        ("api-version", "https://10.96.0.1:443/version".to_owned()),
        ("network", "10.96.0.1:443".to_owned()),
        ("service", format!("{name}:443")),
    ];
    let findings = findings.map(|(check, target)| {
        json!({ "check": check, "target": target, "ok": true, "message": "ok: 10.96.0.1", "milliseconds": 4 })
    });
    json!({ "verdict": "Passed", "findings": findings })
}

fn pod_goes() -> Value {
    let leaving = json!([{ "key": ".metadata.deletionTimestamp", "operator": "Exists" }]);
    stage("pod-goes", "Pod", &leaving, &json!({ "delete": true }))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
