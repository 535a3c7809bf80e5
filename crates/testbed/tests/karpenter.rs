//! Nodes that Karpenter brings and that fail at the gate: their claims are deleted, within the budget, and
//! Karpenter brings others.
//!
//! Needs Karpenter (`cargo xtask testbed build --karpenter`), so it runs when it is asked for:
//! `cargo test -p shipshape-testbed --test karpenter -- --ignored`. It goes into a network of its own.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the steps of the one test are functions, which the lint does not take for tests"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use shipshape_api::names::{
    DEFAULT_GATE_TAINT, DEFAULT_NAMESPACE, LABEL_WORKER, WORKER_OF_CONTROL,
};
use shipshape_api::{PendingNode, VerificationVerdict};
use shipshape_cluster::Clock;
use shipshape_engine::view::NodeView;
use shipshape_scenarios::story;
use shipshape_testbed::binaries::karpenter::Karpenter as Built;
use shipshape_testbed::controller::{CloudAt, Controller};
use shipshape_testbed::fleet::{Registration, register};
use shipshape_testbed::karpenter::{self, Karpenter};
use shipshape_testbed::kwok::{Kwok, Readiness, passing_report};
use shipshape_testbed::stage::install_kinds;
use shipshape_testbed::{ControlPlane, Options, apart};
use tokio::time::{Instant, sleep};

const TEST: &str = "a_claim_of_a_failed_node_goes_within_the_budget_and_karpenter_brings_another";
/// Says that the test has gone into a network of its own.
const APART: &str = "SHIPSHAPE_TEST_APART";
const POOL: &str = "gated";
/// Nodes that the workload needs, how many of them fail, and how many may be removed.
const NODES: usize = 4;
const BAD: usize = 3;
const BUDGET: usize = 1;

#[test]
#[ignore = "needs Karpenter: cargo xtask testbed build --karpenter"]
fn a_claim_of_a_failed_node_goes_within_the_budget_and_karpenter_brings_another() {
    if std::env::var_os(APART).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(play());
    }
    let words = [TEST, "--exact", "--ignored", "--nocapture"].map(str::to_owned);
    let status = apart::run(&words, &[(APART, "1")]).unwrap();
    let status = status.expect("unshare and ip are needed for a network of its own");
    assert!(status.success(), "{status}");
}

struct Scene {
    client: Client,
    controller: Controller,
    karpenter: Karpenter,
    /// Nodes whose checks fail.
    bad: BTreeSet<String>,
    _kwok: Kwok,
    plane: ControlPlane,
}

async fn play() {
    let mut scene = Scene::open().await;
    scene
        .until("all nodes to be judged", Scene::is_settled)
        .await;
    let removed = scene.removals().await;
    assert_eq!(removed.len(), BUDGET, "{removed:?}");
    assert!(
        removed.iter().all(|node| scene.bad.contains(node)),
        "{removed:?}"
    );
    // Long enough for two more looks at a failed node.
    let later = Instant::now() + Duration::from_secs(10);
    while Instant::now() < later {
        scene.play_checks().await;
        sleep(Duration::from_millis(300)).await;
    }
    scene.check_claims();
    scene.check_those_that_stay(&removed).await;
    scene.check_pods().await;
    scene.karpenter.check().unwrap();
}

impl Scene {
    async fn open() -> Self {
        let plane = ControlPlane::start(Options::default()).await.unwrap();
        let client = plane.client("test").await.unwrap();
        // Checks are played here.
        let kwok = Kwok::start(&plane, Readiness::AtOnce).unwrap();
        install_kinds(&client).await.unwrap();
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(DEFAULT_NAMESPACE.to_owned());
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let params = PostParams::default();
        namespaces.create(&params, &namespace).await.unwrap();
        join_in_service(&client).await;
        let settings = format!(
            "leaderElection: {{ leaseDuration: 2s, renewDeadline: 1500ms, retryPeriod: 300ms }}\n\
             worker: {{ image: {{ repository: shipshape, tag: test }} }}\n\
             reconciliation: {{ maxRetries: 2, intervalSeconds: 1 }}\n\
             nodeManagement:\n  deleteFailedNodes: true\n  \
             deletionBudget: {{ maxPerHour: {BUDGET}, maxPercentPerHour: 100, stormThreshold: 100 }}\n"
        );
        let (kubeconfig, folder) = (plane.kubeconfig(), plane.folder());
        let controller = Controller::prepare_with(kubeconfig, folder, &CloudAt::Nowhere, &settings);
        let mut controller = controller.unwrap();
        controller.start().unwrap();
        let there = Built::locate().unwrap();
        let karpenter = Karpenter::start(&plane, &client, &there).await.unwrap();
        let (key, value, effect) = DEFAULT_GATE_TAINT;
        let taint = json!([{ "key": key, "value": value, "effect": effect }]);
        let pool = karpenter::pool(POOL, &json!({}), &taint);
        for object in [karpenter::class(POOL, Duration::ZERO), pool, workload()] {
            story::create(&client, &object).await.unwrap();
        }
        Self {
            client,
            controller,
            karpenter,
            bad: BTreeSet::new(),
            _kwok: kwok,
            plane,
        }
    }

    async fn until(&mut self, what: &str, is_so: impl AsyncFn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(5);
        while !is_so(self).await {
            self.play_checks().await;
            let words = || {
                let (ours, theirs) = (self.controller.last_words(), self.karpenter.last_words());
                format!("{what}\n{ours}\n{theirs}")
            };
            assert!(Instant::now() < deadline, "{}", words());
            sleep(Duration::from_millis(300)).await;
        }
    }

    /// The kubelet's part: every worker that is bound ends, badly on the first few nodes of the pool.
    async fn play_checks(&mut self) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), DEFAULT_NAMESPACE);
        let workers = ListParams::default().labels(LABEL_WORKER);
        for pod in pods.list(&workers).await.unwrap() {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
            let (Some(node), Some("Pending")) = (node, phase) else {
                continue;
            };
            let kind = pod.labels().get(LABEL_WORKER).map(String::as_str);
            if kind != Some(WORKER_OF_CONTROL) && self.bad.len() < BAD {
                self.bad.insert(node.clone());
            }
            let status = ended(self.bad.contains(&node));
            let patch = Patch::Merge(json!({ "status": status }));
            let (name, params) = (pod.name_any(), PatchParams::default());
            match pods.patch_status(&name, &params, &patch).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => panic!("worker {name}: {error}"),
            }
        }
    }

    async fn nodes(&self) -> Vec<NodeView> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let of_pool = ListParams::default().labels(&format!("karpenter.sh/nodepool={POOL}"));
        let nodes = nodes.list(&of_pool).await.unwrap();
        nodes.iter().map(NodeView::of).collect()
    }

    async fn records(&self) -> Vec<PendingNode> {
        let records: Api<PendingNode> = Api::all(self.client.clone());
        records.list(&ListParams::default()).await.unwrap().items
    }

    /// As many nodes as the workload needs: those that pass are open, the others failed and are there.
    async fn is_settled(&self) -> bool {
        let nodes = self.nodes().await;
        let is_over = |record: &PendingNode| verdict(record).is_some_and(is_final);
        let records = self.records().await;
        let judged = |node: &NodeView| {
            let mut records = records.iter();
            records.any(|one| one.spec.node_uid.as_ref() == Some(&node.uid) && is_over(one))
        };
        let failed = BAD - BUDGET;
        let open = nodes.iter().filter(|node| !is_gated(node)).count();
        nodes.len() == NODES && nodes.iter().all(judged) && open == NODES - failed
    }

    /// Names of the nodes that were counted as removed.
    async fn removals(&self) -> Vec<String> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), DEFAULT_NAMESPACE);
        let map = maps.get("shipshape-deletions").await.unwrap();
        let values = map.data.unwrap_or_default().into_values();
        let name = |text: String| {
            let told: Value = serde_json::from_str(&text).unwrap();
            told.get("node").and_then(Value::as_str).unwrap().to_owned()
        };
        values.map(name).collect()
    }

    /// By the audit log: claims deleted by us, in the version that is served, and no Node by us.
    fn check_claims(&self) {
        let entries = self.plane.audit().unwrap();
        let ours: Vec<_> = entries
            .iter()
            .filter(|entry| entry.user_agent.starts_with("shipshape/") && entry.verb == "delete")
            .filter(|entry| {
                entry
                    .object_ref
                    .as_ref()
                    .is_some_and(|it| it.resource != "pods")
            })
            .map(|entry| entry.request_uri.clone())
            .collect();
        assert_eq!(ours.len(), BUDGET, "{ours:?}");
        let path = "/apis/karpenter.sh/v1/nodeclaims/";
        assert!(ours.iter().all(|uri| uri.starts_with(path)), "{ours:?}");
    }

    /// Failed nodes beyond the budget keep their taint, and say why they are still there.
    async fn check_those_that_stay(&self, removed: &[String]) {
        let nodes = self.nodes().await;
        let stay: Vec<_> = nodes.iter().filter(|node| is_gated(node)).collect();
        assert_eq!(stay.len(), BAD - BUDGET, "{stay:?}");
        let records = self.records().await;
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let events = events.list(&ListParams::default()).await.unwrap();
        for node in stay {
            assert!(self.bad.contains(&node.name) && !removed.contains(&node.name));
            let its = |record: &&PendingNode| record.spec.node_uid.as_ref() == Some(&node.uid);
            let record = records.iter().find(its).unwrap();
            assert_eq!(verdict(record), Some(VerificationVerdict::Failed));
            let status = record.status.clone().unwrap();
            let waiting = status.waiting_for.unwrap_or_default();
            assert!(
                waiting.starts_with("the budget: 1 of at most 1 nodes of group \"gated\""),
                "{waiting}"
            );
            let told = status.verification.unwrap();
            assert_eq!(told.failed_attempts, Some(2));
            assert_eq!(told.first_failing_check.as_deref(), Some("network"));
            let mut about = events
                .iter()
                .filter(|event| event.involved_object.name.as_ref() == Some(&node.name));
            assert!(about.any(|event| event.reason.as_deref() == Some("RemovalHeldBack")));
        }
    }

    /// Pods run on every node that passed, and on no other.
    async fn check_pods(&self) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let pods = pods.list(&ListParams::default()).await.unwrap();
        let landed = pods
            .iter()
            .filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
        let landed: BTreeSet<String> = landed.collect();
        let nodes = self.nodes().await;
        let open = nodes.iter().filter(|node| !is_gated(node));
        let open: BTreeSet<String> = open.map(|node| node.name.clone()).collect();
        assert_eq!(landed, open);
    }
}

fn is_gated(node: &NodeView) -> bool {
    let (key, _, effect) = DEFAULT_GATE_TAINT;
    let mut taints = node.taints.iter();
    taints.any(|taint| taint.key == key && taint.effect == effect)
}

fn verdict(record: &PendingNode) -> Option<VerificationVerdict> {
    record.status.as_ref()?.verification.as_ref()?.verdict
}

fn is_final(verdict: VerificationVerdict) -> bool {
    verdict != VerificationVerdict::Inconclusive
}

/// Nodes that the failures are compared with; nothing else fits on them.
async fn join_in_service(client: &Client) {
    for name in ["old-1", "old-2"] {
        let registration = Registration {
            name: name.to_owned(),
            provider_id: format!("kwok://{name}"),
            zone: "a".to_owned(),
            labels: [("role".to_owned(), "old".to_owned())].into(),
            taints: Vec::new(),
        };
        register(client, &registration).await.unwrap();
    }
}

/// One pod a node, on nodes of the pool alone.
fn workload() -> Value {
    let alone = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": { "matchLabels": { "app": "web" } },
    }] } });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": {
            "replicas": NODES,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": {
                    "nodeSelector": { "karpenter.sh/nodepool": POOL },
                    "affinity": alone,
                    "containers": [{ "name": "web", "image": "none",
                                     "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } }],
                },
            },
        },
    })
}

/// What a kubelet says of a worker that has ended.
fn ended(is_bad: bool) -> Value {
    let failing = json!({ "verdict": "Failed", "findings": [{
        "check": "network", "target": "10.96.0.1:443", "ok": false, "phase": "connect",
        "message": "no route to host", "milliseconds": 3,
    }] });
    let (phase, code, report) = if is_bad {
        ("Failed", 1, failing)
    } else {
        ("Succeeded", 0, passing_report())
    };
    json!({
        "phase": phase,
        "containerStatuses": [{
            "name": "verify", "image": "shipshape:test", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": {
                "exitCode": code, "message": report.to_string(), "finishedAt": Clock::System.now(),
            } },
        }],
    })
}
