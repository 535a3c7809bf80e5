//! Karpenter as a roller: its release as a process, with its own provider for kwok's nodes.
//!
//! Owns its environment, its one pool and the drift. Nodes come by its provider, as large as those of
//! the embedded cloud and as late. Must not measure.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use shipshape_scenarios::story;
use tokio::time::{Instant, sleep};

use super::roller::Roller;
use super::scene::{Case, Scene};
use crate::binaries::karpenter::Karpenter;
use crate::control_plane::free_ports;
use crate::process::Daemon;
use crate::stage::install_definitions;

/// Name of the pool, its class and its one type of machine.
const POOL: &str = "bench";
/// A change of this label is what nodes drift from.
const GENERATION: &str = "bench.shipshape.dev/generation";
/// For this long after it gave a node to a pod it does not touch that node: twice the longest batch of
/// pods. It begins without that handicap.
const NOMINATION: Duration = Duration::from_secs(20);
/// How long it may take to do what is not measured.
const PATIENCE: Duration = Duration::from_mins(2);

/// The process.
pub(super) struct KarpenterRoller {
    daemon: Daemon,
}

impl Roller for KarpenterRoller {
    const NAME: &'static str = "Karpenter";
    const AGENT: &'static str = "karpenter/";
    type There = Karpenter;

    async fn enter(scene: &Scene, case: &Case, there: &Karpenter) -> Result<Self> {
        install_definitions(&scene.client, kinds(there)?).await?;
        let folder = scene.plane.folder();
        let machines = folder.join("karpenter-machines.json");
        fs::write(&machines, machine_types().to_string())
            .with_context(|| format!("writing {}", machines.display()))?;
        let [metrics, health] = free_ports()?;
        let variables = [
            ("KUBECONFIG", scene.plane.kubeconfig().display().to_string()),
            ("DISABLE_LEADER_ELECTION", "true".to_owned()),
            ("METRICS_PORT", metrics.to_string()),
            ("HEALTH_PROBE_PORT", health.to_string()),
            ("CPU_REQUESTS", "1000".to_owned()),
            ("LOG_LEVEL", "info".to_owned()),
            ("INSTANCE_TYPES_FILE_PATH", machines.display().to_string()),
        ];
        let binary = there.binary();
        let daemon = Daemon::start_with("karpenter", &binary, &[], &variables, folder)?;
        for object in [class(case), pool()] {
            story::create(&scene.client, &object).await?;
        }
        Ok(Self { daemon })
    }

    async fn get_ready(&mut self, scene: &Scene) -> Result<()> {
        let nodes = scene.eyes.ready_nodes();
        self.wait_for_claims(scene, |claims| {
            claims.len() == nodes && claims.iter().all(is_initialized)
        })
        .await?;
        sleep(NOMINATION).await;
        if let Some(ending) = self.daemon.ending()? {
            bail!("Karpenter ended: {ending}\n{}", self.last_words());
        }
        Ok(())
    }

    fn pid(&self) -> Result<u32> {
        Ok(self.daemon.pid())
    }

    async fn begin(&mut self, scene: &Scene, _case: &Case) -> Result<()> {
        let patch =
            json!({ "spec": { "template": { "metadata": { "labels": { GENERATION: "2" } } } } });
        let pools = api(scene, "karpenter.sh", "v1", "NodePool");
        pools
            .patch(POOL, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    async fn wait_for_rest(&self, scene: &Scene) -> Result<()> {
        self.wait_for_claims(scene, |claims| {
            let mut leaving = claims
                .iter()
                .filter(|claim| claim.metadata.deletion_timestamp.is_some());
            leaving.next().is_none()
        })
        .await
    }

    fn last_words(&self) -> String {
        self.daemon.last_words(30)
    }

    fn end(mut self) -> Result<()> {
        match self.daemon.ending()? {
            Some(ending) => bail!("Karpenter had ended: {ending}\n{}", self.last_words()),
            // It ends with the value.
            None => Ok(()),
        }
    }
}

impl KarpenterRoller {
    async fn wait_for_claims(
        &self,
        scene: &Scene,
        is_so: impl Fn(&[DynamicObject]) -> bool,
    ) -> Result<()> {
        let api = api(scene, "karpenter.sh", "v1", "NodeClaim");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let claims = api.list(&ListParams::default()).await?.items;
            if is_so(&claims) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "Karpenter's {} claims are not as they should be after {PATIENCE:?}\n{}",
                    claims.len(),
                    self.last_words()
                );
            }
            sleep(Duration::from_millis(500)).await;
        }
    }
}

fn api(scene: &Scene, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, version, kind);
    Api::all_with(scene.client.clone(), &ApiResource::from_gvk(&kind))
}

/// Whether a claim's node has come, is ready, and takes part in everything.
fn is_initialized(claim: &DynamicObject) -> bool {
    let conditions = claim.data.pointer("/status/conditions");
    let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    conditions.any(|condition| {
        let says = |key: &str, word: &str| condition.get(key).and_then(Value::as_str) == Some(word);
        says("type", "Initialized") && says("status", "True")
    })
}

fn kinds(there: &Karpenter) -> Result<Vec<CustomResourceDefinition>> {
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

fn class(case: &Case) -> Value {
    json!({
        "apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
        "metadata": { "name": POOL },
        "spec": { "nodeRegistrationDelay": format!("{}s", case.boot.as_secs()) },
    })
}

/// A tenth of the nodes at once, and nothing but drift moves any.
fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": { "name": POOL },
        "spec": {
            "template": {
                "metadata": { "labels": { GENERATION: "1" } },
                "spec": {
                    "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": POOL },
                    "requirements": [
                        { "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"] },
                    ],
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
    use crate::kwok::Readiness;

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
    fn machines_of_the_class_come_as_late_as_the_case_says() {
        let case = Case {
            nodes: 10,
            boot: Duration::from_mins(1),
            readiness: Readiness::AtOnce,
            closes_outdated: false,
        };
        let delay = class(&case)["spec"]["nodeRegistrationDelay"].clone();
        assert_eq!(delay, json!("60s"));
    }
}
