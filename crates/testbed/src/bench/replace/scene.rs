//! The scene of a roll: control plane, kwok, cloud, nodes and workload.
//!
//! Owns the workload that rivals were measured with: one spread Deployment and nine fillers, one pod
//! of each a node, the fillers under a budget of a tenth, or less where pods are slow. Must not start
//! who rolls.

use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use shipshape_api::names::DEFAULT_NAMESPACE;
use shipshape_cluster::Clock;
use shipshape_scenarios::story;
use shipshape_simulator::cloud::{Cloud, CloudSettings, CloudSpec, GroupSpec};
use shipshape_simulator::seed::Seed;
use tokio::time::{Instant, sleep};

use super::eyes::Eyes;
use crate::fleet::Fleet;
use crate::kwok::{Kwok, Readiness};
use crate::stage::install_kinds;
use crate::{ControlPlane, Options};

/// Deployments besides `spread`.
pub(super) const FILLERS: usize = 9;
/// Pods on each node.
pub(super) const PODS_PER_NODE: usize = FILLERS + 1;
/// How long nodes and pods may take to come up.
const PATIENCE: Duration = Duration::from_mins(5);

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

    /// All pods.
    pub(super) fn pods(&self) -> usize {
        usize::try_from(self.nodes).unwrap_or_default() * PODS_PER_NODE
    }
}

/// Everything but who rolls. Parts end in this order.
pub(super) struct Scene {
    pub(super) eyes: Eyes,
    pub(super) cloud: Cloud,
    pub(super) client: Client,
    _fleet: Fleet,
    _kwok: Kwok,
    pub(super) plane: ControlPlane,
}

impl Scene {
    /// Sets everything up and waits until all pods are ready.
    pub(super) async fn set(case: &Case) -> Result<Self> {
        let plane = ControlPlane::start(Options::default()).await?;
        let client = plane.client("bench-stage").await?;
        install_kinds(&client).await?;
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(DEFAULT_NAMESPACE.to_owned());
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        let kwok = Kwok::start(&plane, case.readiness)?;
        let cloud = cloud(case);
        let fleet = Fleet::start(client.clone(), &cloud);
        let eyes = Eyes::open(&client).await;
        let scene = Self {
            eyes,
            cloud,
            client,
            _fleet: fleet,
            _kwok: kwok,
            plane,
        };
        let nodes = usize::try_from(case.nodes)?;
        scene.wait(|eyes| eyes.ready_nodes() == nodes).await?;
        // One on each node first; what comes later fills up evenly.
        story::create(&scene.client, &spread(case.nodes)).await?;
        scene.wait(|eyes| eyes.ready_pods() == nodes).await?;
        for number in 1..=FILLERS {
            for object in filler(number, case) {
                story::create(&scene.client, &object).await?;
            }
        }
        scene.wait(|eyes| eyes.ready_pods() == case.pods()).await?;
        Ok(scene)
    }

    async fn wait(&self, is_so: impl Fn(&Eyes) -> bool) -> Result<()> {
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

fn cloud(case: &Case) -> Cloud {
    let mut group = GroupSpec::new("workers", "image-2", case.nodes);
    group.running_image = Some("image-1".to_owned());
    let spec = CloudSpec {
        region: "north".to_owned(),
        groups: vec![group],
        settings: CloudSettings {
            boot: case.boot,
            terminate: Duration::ZERO,
            jitter: 0,
            ..CloudSettings::default()
        },
        ..CloudSpec::default()
    };
    Cloud::new(&spec, Clock::System, &Seed::new(1))
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
