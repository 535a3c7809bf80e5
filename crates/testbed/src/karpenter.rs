//! Karpenter as a process, with its own provider for kwok's nodes.
//!
//! Owns its environment, its kinds and its one type of machine: 16 cores and 64 GiB, as the nodes of the
//! embedded cloud. Must not make pools: whoever starts it does. It listens on every address: to be started
//! in a network of its own (`apart`).

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::ControlPlane;
use crate::binaries::karpenter::Karpenter as Built;
use crate::control_plane::free_ports;
use crate::process::Daemon;
use crate::stage::install_definitions;

/// The process; it ends when this value is dropped.
pub struct Karpenter {
    daemon: Daemon,
}

impl Karpenter {
    /// Brings its kinds and starts it, as an administrator.
    pub async fn start(plane: &ControlPlane, client: &Client, there: &Built) -> Result<Self> {
        install_definitions(client, kinds(there)?).await?;
        let folder = plane.folder();
        let machines = folder.join("karpenter-machines.json");
        fs::write(&machines, machine_types().to_string())
            .with_context(|| format!("writing {}", machines.display()))?;
        let [metrics, health] = free_ports()?;
        let variables = [
            ("KUBECONFIG", plane.kubeconfig().display().to_string()),
            ("DISABLE_LEADER_ELECTION", "true".to_owned()),
            ("METRICS_PORT", metrics.to_string()),
            ("HEALTH_PROBE_PORT", health.to_string()),
            ("CPU_REQUESTS", "1000".to_owned()),
            ("LOG_LEVEL", "info".to_owned()),
            ("INSTANCE_TYPES_FILE_PATH", machines.display().to_string()),
        ];
        let binary = there.binary();
        let daemon = Daemon::start_with("karpenter", &binary, &[], &variables, folder)?;
        Ok(Self { daemon })
    }

    /// An error when it has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        match self.daemon.ending()? {
            Some(ending) => bail!("Karpenter has ended: {ending}\n{}", self.last_words()),
            None => Ok(()),
        }
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// What it said last.
    pub fn last_words(&self) -> String {
        self.daemon.last_words(30)
    }
}

/// The way to one of its kinds.
pub fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("karpenter.sh", "v1", kind);
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

/// Whether a claim's node has come, is ready, and takes part in everything.
pub fn is_initialized(claim: &DynamicObject) -> bool {
    let conditions = claim.data.pointer("/status/conditions");
    let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    conditions.any(|condition| {
        let says = |key: &str, word: &str| condition.get(key).and_then(Value::as_str) == Some(word);
        says("type", "Initialized") && says("status", "True")
    })
}

fn kinds(there: &Built) -> Result<Vec<CustomResourceDefinition>> {
    let files = there.kinds()?.into_iter();
    files
        .map(|file| {
            let text = fs::read_to_string(&file)?;
            let kind = serde_saphyr::from_str(&text);
            kind.with_context(|| format!("reading {}", file.display()))
        })
        .collect()
}

/// One type: 16 cores, 64 GiB, as the nodes of the embedded cloud. Its provider takes a tenth of a core off.
fn machine_types() -> Value {
    let is = |key: &str, value: &str| json!({ "key": key, "operator": "In", "values": [value] });
    json!([{
        "name": "bench-16x",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": { "cpu": "16", "memory": "64Gi", "pods": "110" },
        "offerings": [{
            "Price": 1.0,
            "Available": true,
            "Requirements": [
                is("karpenter.sh/capacity-type", "on-demand"),
                is("topology.kubernetes.io/zone", "north-a"),
            ],
        }],
    }])
}

/// A class whose machines register so long after they were asked for.
pub fn class(name: &str, boot: Duration) -> Value {
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": { "name": name },
        "spec": { "nodeRegistrationDelay": format!("{}s", boot.as_secs()) },
    })
}

/// A pool of machines that its own initiative does not move: no expiry, nothing consolidated.
pub fn pool(name: &str, labels: &Value, startup_taints: &Value) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": name },
        "spec": {
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": name },
                    "requirements": [
                        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
                    ],
                    "startupTaints": startup_taints,
                    "expireAfter": "Never",
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": "Never",
                "budgets": [{ "nodes": "10%" }],
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(conditions: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "metadata": { "name": "one" },
            "status": { "conditions": conditions },
        }))
        .unwrap()
    }

    #[test]
    fn a_claim_is_initialized_by_that_condition_alone() {
        let registered = json!({ "type": "Registered", "status": "True" });
        let initialized = |status: &str| json!({ "type": "Initialized", "status": status });
        assert!(!is_initialized(&claim(&json!([]))));
        assert!(!is_initialized(&claim(&json!([registered]))));
        assert!(!is_initialized(&claim(&json!([
            registered,
            initialized("Unknown")
        ]))));
        assert!(is_initialized(&claim(&json!([
            registered,
            initialized("True")
        ]))));
    }

    #[test]
    fn machines_of_a_class_come_as_late_as_asked_for() {
        let delay = class("one", Duration::from_mins(1))["spec"]["nodeRegistrationDelay"].clone();
        assert_eq!(delay, json!("60s"));
    }
}
