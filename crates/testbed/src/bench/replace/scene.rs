//! The scene of a roll: control plane, kwok and workload, and the wait until all is replaced.
//!
//! Owns the workload that every roller is measured with: one spread Deployment and nine fillers, one pod
//! of each a node, the fillers under a budget of a tenth, or less where pods are slow. Must not start
//! who rolls, nor make nodes.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail};
use kube::Client;
use serde_json::{Value, json};
use shipshape_scenarios::story;
use tokio::time::{Instant, sleep};

use super::eyes::Eyes;
use crate::kwok::{Kwok, Readiness};
use crate::{ControlPlane, Options};

/// Deployments besides `spread`.
pub(super) const FILLERS: usize = 9;
/// Pods on each node.
pub(super) const PODS_PER_NODE: usize = FILLERS + 1;
/// How long nodes and pods may take to come up; four hundred nodes of Karpenter's need more than five minutes.
const PATIENCE: Duration = Duration::from_mins(20);
/// How long a roll may take.
const ROLL: Duration = Duration::from_hours(1);
/// How often it is told how far a roll is.
const TOLD_EVERY: Duration = Duration::from_secs(15);

/// What is rolled, and under which circumstances.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    /// Nodes.
    pub(super) nodes: u32,
    /// From the request for a machine to its Node.
    pub(super) boot: Duration,
    /// How soon pods are ready.
    pub(super) readiness: Readiness,
    /// Whether outdated nodes are closed to the scheduler from the start.
    pub(super) closes_outdated: bool,
}

impl Case {
    /// A tenth of the nodes.
    pub(super) fn allowed(&self) -> usize {
        usize::try_from(self.nodes / 10).unwrap_or_default().max(1)
    }

    /// Pods of a filler that may be missing at once. A tenth is what rivals were measured with; where pods
    /// are slow it is less than the nodes that are drained at once, so that drains wait for each other.
    fn budget(&self) -> Value {
        match self.readiness {
            Readiness::AtOnce => json!("10%"),
            Readiness::Between(..) => json!((self.nodes / 25).max(1)),
        }
    }

    /// Whether pods take their time to be ready.
    pub(super) fn is_slow(&self) -> bool {
        self.readiness != Readiness::AtOnce
    }

    /// All pods.
    pub(super) fn pods(&self) -> usize {
        usize::try_from(self.nodes).unwrap_or_default() * PODS_PER_NODE
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pods = if self.is_slow() { ", slow pods" } else { "" };
        write!(
            f,
            "{} nodes, boot {} s{pods}",
            self.nodes,
            self.boot.as_secs()
        )
    }
}

/// Everything but who rolls. Parts end in this order.
pub(super) struct Scene {
    pub(super) eyes: Eyes,
    pub(super) client: Client,
    _kwok: Kwok,
    pub(super) plane: ControlPlane,
}

impl Scene {
    /// A control plane whose nodes will come up by themselves; there is none yet.
    pub(super) async fn open(case: &Case) -> Result<Self> {
        let plane = ControlPlane::start(Options::default()).await?;
        let client = plane.client("bench-stage").await?;
        let kwok = Kwok::start(&plane, case.readiness)?;
        let eyes = Eyes::open(&client).await;
        Ok(Self {
            eyes,
            client,
            _kwok: kwok,
            plane,
        })
    }

    /// Brings the workload and waits until all pods are ready, on at least as many nodes as the case wants.
    pub(super) async fn fill(&self, case: &Case) -> Result<()> {
        let nodes = usize::try_from(case.nodes)?;
        // One on each node first; what comes later fills up evenly.
        story::create(&self.client, &spread(case.nodes)).await?;
        self.wait(|eyes| eyes.ready_pods() == nodes).await?;
        for number in 1..=FILLERS {
            for object in filler(number, case) {
                story::create(&self.client, &object).await?;
            }
        }
        self.wait(|eyes| eyes.ready_pods() == case.pods()).await?;
        let seen = self.eyes.ready_nodes();
        if seen < nodes {
            bail!("the workload runs on {seen} nodes instead of {nodes}");
        }
        Ok(())
    }

    /// Until no old node is left, at least as many new ones are ready, and all pods are. Somebody who makes
    /// more nodes than it takes away is done all the same.
    pub(super) async fn wait_until_rolled(
        &self,
        case: &Case,
        old: &BTreeSet<String>,
    ) -> Result<()> {
        let deadline = Instant::now() + ROLL;
        let mut told = Instant::now();
        loop {
            let names = self.eyes.node_names();
            let left = names.intersection(old).count();
            let is_full = self.eyes.ready_nodes() >= old.len();
            let pods = self.eyes.ready_pods();
            if left == 0 && is_full && pods == case.pods() {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{left} old nodes were left and {pods} pods ready after {ROLL:?}");
            }
            if told.elapsed() >= TOLD_EVERY {
                told = Instant::now();
                tracing::info!(
                    "{left} of {} old nodes are left, {pods} pods are ready",
                    old.len()
                );
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Until something is seen.
    pub(super) async fn wait(&self, is_so: impl Fn(&Eyes) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(&self.eyes) {
            if Instant::now() > deadline {
                let (nodes, pods) = (self.eyes.ready_nodes(), self.eyes.ready_pods());
                bail!("{nodes} nodes and {pods} pods were ready after {PATIENCE:?}");
            }
            sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }
}

fn deployment(name: &str, replicas: u32, affinity: &Value) -> Value {
    let size = json!({ "cpu": "1", "memory": "1Gi" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "replicas": replicas,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": {
                    "affinity": affinity,
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{ "name": "main", "image": "none", "resources": { "requests": size } }],
                },
            },
        },
    })
}

/// One pod a node, by force.
fn spread(nodes: u32) -> Value {
    let alone = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": { "matchLabels": { "app": "spread" } },
    }] } });
    deployment("spread", nodes, &alone)
}

fn filler(number: usize, case: &Case) -> [Value; 2] {
    let name = format!("filler-{number}");
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "maxUnavailable": case.budget(), "selector": { "matchLabels": { "app": name } } },
    });
    [deployment(&name, case.nodes, &json!({})), budget]
}
