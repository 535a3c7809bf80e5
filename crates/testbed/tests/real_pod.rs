//! The gate's worker as a real pod: a kubelet starts it, CoreDNS, kube-proxy and the API server answer it.
//!
//! Needs root and what nodes are made of (`cargo xtask testbed build --nodes`), so it runs when it is asked for:
//! `cargo test -p shipshape-testbed --test real_pod -- --ignored`. It goes into namespaces of its own.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the steps of the one test are functions, which the lint does not take for tests"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use shipshape_api::names::{
    DEFAULT_GATE_TAINT, DEFAULT_NAMESPACE, LABEL_WORKER, WORKER_OF_CONTROL, WORKER_OF_NODE,
};
use shipshape_api::{PendingNode, Verification, VerificationVerdict};
use shipshape_cluster::store::{Following, Settings};
use shipshape_cluster::{Change, Store};
use shipshape_engine::view::NodeView;
use shipshape_scenarios::story;
use shipshape_testbed::controller::{CloudAt, Controller, build};
use shipshape_testbed::nodes::{Cluster, Machine, apart, image, memory};
use tokio::time::{Instant, sleep};

const TEST: &str = "a_worker_in_a_real_pod_opens_the_gate_of_a_sound_node_and_of_no_other";
const NODE: &str = "n2";
const LABEL: &str = "node-ready/verified";
/// The checks that the gate's pod makes here, each at one target, and at each of the two name servers behind the
/// service.
const CHECKS: [&str; 11] = [
    "dns-udp",
    "dns-tcp",
    "dns-search",
    "dns-endpoint",
    "dns-endpoint",
    "api-version",
    "api-large-answer",
    "api-large-request",
    "api-clock",
    "network",
    "service",
];

#[test]
#[ignore = "needs root and real nodes: cargo xtask testbed build --nodes"]
fn a_worker_in_a_real_pod_opens_the_gate_of_a_sound_node_and_of_no_other() {
    if apart::folder().is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(play());
    }
    let status = apart::run(&[TEST, "--exact", "--ignored", "--nocapture"]).unwrap();
    assert!(status.success(), "{status}");
}

type Workers = Arc<Mutex<BTreeMap<String, Arc<Pod>>>>;

struct Scene {
    cluster: Cluster,
    client: Client,
    controller: Controller,
    /// Every worker that there was, as it was at last, by UID. Followed by a watch: a worker that has passed is
    /// gone a moment later.
    workers: Workers,
    _following: Following,
    begin: Instant,
}

async fn play() {
    let mut scene = Scene::open().await;
    scene.a_sound_node_joins().await;
    scene.names_are_lost_on_the_node_alone().await;
    scene.names_are_lost_everywhere().await;
    scene.daemonset().await;
    scene.tell("done");
}

impl Scene {
    async fn open() -> Self {
        let begin = Instant::now();
        let mut cluster = Cluster::start().await.unwrap();
        let archive = image::pack(&build().unwrap(), cluster.folder()).unwrap();
        cluster.add_image(&archive).await.unwrap();
        let client = cluster.client().await.unwrap();
        // No pod gets in that the strictest profile refuses.
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(DEFAULT_NAMESPACE.to_owned());
        let profile = "pod-security.kubernetes.io/enforce".to_owned();
        namespace.metadata.labels = Some([(profile, "restricted".to_owned())].into());
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let params = PostParams::default();
        namespaces.create(&params, &namespace).await.unwrap();
        for folder in ["crds", "rbac"] {
            let folder = deploy(folder);
            let words = ["apply", "--filename", folder.to_str().unwrap()];
            cluster.kubectl(&words).await.unwrap();
        }
        let account = cluster.account(DEFAULT_NAMESPACE, "shipshape-controller");
        let account = account.await.unwrap();
        let settings = format!(
            "leaderElection: {{ leaseDuration: 2s, renewDeadline: 1500ms, retryPeriod: 300ms }}\n\
             worker:\n  image: {{ repository: {}, tag: {} }}\n  serviceAccountName: shipshape-verifier\n  \
             checkTimeoutSeconds: 3\n\
             reconciliation: {{ maxRetries: 3, intervalSeconds: 2 }}\n",
            image::repository(),
            image::TAG,
        );
        let mut controller =
            Controller::prepare_with(&account, cluster.folder(), &CloudAt::Nowhere, &settings)
                .unwrap();
        let (workers, following) = follow_workers(&client);
        controller.start().unwrap();
        let scene = Self {
            cluster,
            client,
            controller,
            workers,
            _following: following,
            begin,
        };
        scene.tell("a control plane, and the controller at work");
        scene
    }

    /// A node joins with the taint; a real pod runs the checks, and the gate opens.
    async fn a_sound_node_joins(&mut self) {
        let machine = self.cluster.join(&[DEFAULT_GATE_TAINT]).await.unwrap();
        assert_eq!(machine.name(), NODE);
        let memory = memory::Watch::start(machine).unwrap();
        self.tell("a node joined");
        self.until("the node to be verified", Self::is_open).await;
        self.tell("verified");
        let told = self.verification().await.unwrap();
        assert_eq!(self.condition().await.as_deref(), Some("True"));
        let workers = self.workers_on(NODE, WORKER_OF_NODE);
        // A node may be Ready before its kube-proxy is: then the first attempt fails, and another follows.
        assert_eq!(i32::try_from(workers.len()).ok(), told.attempt);
        for worker in &workers {
            check_admitted(worker);
        }
        let passed = workers
            .iter()
            .filter_map(|pod| Some((pod, report_of(pod)?)));
        let passed = passed.filter(|(_, report)| report.get("verdict").unwrap() == "Passed");
        let passed: Vec<_> = passed.collect();
        let [(worker, report)] = passed.as_slice() else {
            unreachable!("one pod passes: {workers:?}");
        };
        let findings = report.get("findings").unwrap().as_array().unwrap();
        let made = findings.iter().map(|it| it.get("check").unwrap().as_str());
        let made: Vec<&str> = made.map(Option::unwrap).collect();
        assert_eq!(made, CHECKS, "{report}");
        for finding in findings {
            println!("    {finding}");
        }
        let peak = memory.of(&worker.uid().unwrap());
        println!("    memory at most, in bytes, as the kernel counts it: {peak:?}");
        self.check_profile().await;
    }

    /// Questions of this node's pods get no answer any more: it fails, by the right check, and stays closed. When
    /// they do, it passes.
    async fn names_are_lost_on_the_node_alone(&mut self) {
        let machine = self.cluster.machine(2).unwrap();
        lose_questions(machine).await;
        self.close().await;
        self.until("the node to fail", async |scene: &Self| {
            scene.verdict().await == Some(VerificationVerdict::Failed)
        })
        .await;
        self.tell("failed");
        let told = self.verification().await.unwrap();
        assert_eq!(told.first_failing_check.as_deref(), Some("dns-udp"));
        assert_eq!(told.failed_attempts, Some(3), "{told:?}");
        assert_eq!(self.condition().await.as_deref(), Some("False"));
        assert!(self.is_tainted().await && !self.is_labelled().await);
        let elsewhere = self.workers_on("n1", WORKER_OF_CONTROL);
        assert!(!elsewhere.is_empty(), "nothing was compared");
        for control in elsewhere {
            check_admitted(&control);
        }
        for worker in self.workers_on(NODE, WORKER_OF_NODE) {
            check_admitted(&worker);
        }

        let machine = self.cluster.machine(2).unwrap();
        find_questions(machine).await;
        sleep(Duration::from_secs(5)).await;
        assert!(self.is_tainted().await, "a verdict is final");
        self.forget().await;
        self.until("the node to be verified again", Self::is_open)
            .await;
        self.tell("verified again");
    }

    /// No name server is left: nobody can tell whether the node is sound. It is not failed, and passes later.
    async fn names_are_lost_everywhere(&mut self) {
        self.scale_dns(0).await;
        // They serve for a while after they were told to end.
        self.until("the name servers to be gone", Self::has_no_dns)
            .await;
        self.close().await;
        self.until("the node to be judged", async |scene: &Self| {
            scene.verdict().await == Some(VerificationVerdict::Inconclusive)
        })
        .await;
        self.tell("inconclusive");
        let told = self.verification().await.unwrap();
        assert_eq!(told.failed_attempts.unwrap_or_default(), 0, "{told:?}");
        assert!(self.is_tainted().await && !self.is_labelled().await);
        self.scale_dns(2).await;
        self.until("the node to be verified once more", Self::is_open)
            .await;
        self.tell("verified once more");
    }

    /// Without a controller a pod opens the gate of its own node, with a token that a kubelet has mounted.
    async fn daemonset(&mut self) {
        self.controller.kill().unwrap();
        self.forget().await;
        self.close().await;
        let text = std::fs::read_to_string(deploy("daemonset/verify.yaml")).unwrap();
        let image = format!("image: {}:{}", image::repository(), image::TAG);
        let named = text.replace("image: shipshape", &image);
        assert_ne!(text, named, "the manifest names its image otherwise");
        let file = self.cluster.folder().join("verify.yaml");
        std::fs::write(&file, named).unwrap();
        let words = ["apply", "--filename", file.to_str().unwrap()];
        self.cluster.kubectl(&words).await.unwrap();
        self.until("the node to open its gate itself", Self::is_unlocked)
            .await;
        assert_eq!(self.condition().await.as_deref(), Some("True"));
        self.tell("opened by its own pod");
    }

    /// Puts the taint back and takes the label off, in one write: so the node is to be verified again.
    async fn close(&mut self) {
        let (key, value, effect) = DEFAULT_GATE_TAINT;
        let taint = json!({ "key": key, "value": value, "effect": effect });
        let patch = json!({
            "metadata": { "labels": { LABEL: null } }, "spec": { "taints": [taint] },
        });
        let nodes: Api<Node> = Api::all(self.client.clone());
        let params = PatchParams::default();
        nodes
            .patch(NODE, &params, &Patch::Merge(&patch))
            .await
            .unwrap();
        self.workers.lock().unwrap().clear();
    }

    async fn scale_dns(&self, replicas: u32) {
        let replicas = format!("--replicas={replicas}");
        let words = ["scale", "deployment", "coredns", &replicas];
        let words = [&["--namespace", "kube-system"][..], &words].concat();
        self.cluster.kubectl(&words).await.unwrap();
    }

    async fn has_no_dns(&self) -> bool {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "kube-system");
        let servers = ListParams::default().labels("k8s-app=kube-dns");
        pods.list(&servers).await.unwrap().items.is_empty()
    }

    async fn until(&mut self, what: &str, is_so: impl AsyncFn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_mins(3);
        loop {
            if is_so(self).await {
                return;
            }
            if Instant::now() > deadline {
                let words = ["get", "nodes,pods,pn,events", "--all-namespaces"];
                let seen = self.cluster.kubectl(&words).await;
                let record = self.verification().await;
                let log = self.controller.last_words();
                unreachable!("waited in vain for {what}\n{record:#?}\n{seen:?}\n{log}");
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn workers_on(&self, node: &str, kind: &str) -> Vec<Arc<Pod>> {
        let is_its = |pod: &&Arc<Pod>| {
            let on = pod.spec.as_ref().and_then(|it| it.node_name.as_deref());
            let of = pod.labels().get(LABEL_WORKER).map(String::as_str);
            on == Some(node) && of == Some(kind)
        };
        let workers = self.workers.lock().unwrap();
        workers.values().filter(is_its).cloned().collect()
    }

    async fn node(&self) -> Node {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.get(NODE).await.unwrap()
    }

    async fn verification(&self) -> Option<Verification> {
        self.record().await?.status?.verification
    }

    async fn record(&self) -> Option<PendingNode> {
        let records: Api<PendingNode> = Api::all(self.client.clone());
        let records = records.list(&ListParams::default()).await.unwrap();
        let mut records = records.into_iter();
        records.find(|record| record.spec.node_name.as_deref() == Some(NODE))
    }

    /// To try a node again that has failed, its record is deleted.
    async fn forget(&self) {
        let records: Api<PendingNode> = Api::all(self.client.clone());
        let name = self.record().await.unwrap().name_any();
        let params = DeleteParams::default();
        records.delete(&name, &params).await.unwrap();
    }

    async fn verdict(&self) -> Option<VerificationVerdict> {
        self.verification().await?.verdict
    }

    async fn condition(&self) -> Option<String> {
        let conditions = self.node().await.status?.conditions?;
        let mut conditions = conditions.into_iter();
        let condition = conditions.find(|it| it.type_ == "NetworkVerified")?;
        Some(condition.status)
    }

    async fn is_tainted(&self) -> bool {
        let (key, _, effect) = DEFAULT_GATE_TAINT;
        let node = NodeView::of(&self.node().await);
        let mut taints = node.taints.iter();
        taints.any(|taint| taint.key == key && taint.effect == effect)
    }

    async fn is_labelled(&self) -> bool {
        self.node().await.labels().get(LABEL).map(String::as_str) == Some("true")
    }

    async fn is_unlocked(&self) -> bool {
        self.is_labelled().await && !self.is_tainted().await
    }

    async fn is_open(&self) -> bool {
        self.verdict().await == Some(VerificationVerdict::Verified) && self.is_unlocked().await
    }

    /// The profile is in force: a pod without its words is refused.
    async fn check_profile(&self) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "loose", "namespace": DEFAULT_NAMESPACE },
            "spec": { "containers": [{ "name": "loose", "image": "loose" }] },
        });
        let refusal = story::create(&self.client, &pod).await.unwrap_err();
        let refusal = shipshape_cluster::error::in_full(&refusal);
        assert!(refusal.contains("restricted"), "{refusal}");
    }

    fn tell(&self, what: &str) {
        println!("{:6.1} s  {what}", self.begin.elapsed().as_secs_f64());
    }
}

/// Notes all workers from now on.
fn follow_workers(client: &Client) -> (Workers, Following) {
    let workers = Workers::default();
    let settings = Settings {
        labels: Some(LABEL_WORKER.to_owned()),
        ..Settings::default()
    };
    let noted = Arc::clone(&workers);
    let api: Api<Pod> = Api::namespaced(client.clone(), DEFAULT_NAMESPACE);
    let following = Store::new().start(api, settings, move |change| {
        if let Change::Applied { new, .. } = change {
            noted.lock().unwrap().insert(new.uid().unwrap(), new);
        }
    });
    (workers, following)
}

/// The pod as the API server let it in: no token, no root, and an address of its node's pods.
fn check_admitted(pod: &Pod) {
    let spec = pod.spec.as_ref().unwrap();
    let volumes = spec.volumes.as_deref().unwrap_or_default();
    let names: Vec<&str> = volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["authority"], "a token would be a volume too");
    assert_eq!(spec.automount_service_account_token, Some(false));
    assert_eq!(
        spec.service_account_name.as_deref(),
        Some("shipshape-verifier")
    );
    assert_eq!(spec.host_network, None);
    let own = spec.security_context.as_ref().unwrap();
    assert_eq!(own.run_as_non_root, Some(true));
    let node = spec.node_name.as_deref().unwrap();
    let status = pod.status.as_ref().unwrap();
    let address = status.pod_ip.as_deref().unwrap_or_default();
    let network = if node == NODE {
        "10.244.1."
    } else {
        "10.244.0."
    };
    assert!(
        address.is_empty() || address.starts_with(network),
        "{address}"
    );
}

/// What the worker left, as the kubelet tells it.
fn report_of(pod: &Pod) -> Option<Value> {
    let status = pod.status.as_ref()?.container_statuses.as_ref()?;
    let ended = status.first()?.state.as_ref()?.terminated.as_ref()?;
    serde_json::from_str(ended.message.as_deref()?).ok()
}

/// From now on questions of this node's pods are lost: UDP alone.
async fn lose_questions(machine: &Machine) {
    let rules = format!(
        "table ip fault {{ chain lose {{ type filter hook prerouting priority raw; \
         ip saddr {} udp dport 53 drop; }}; }}",
        machine.pods()
    );
    machine.look(&["nft", &rules]).await.unwrap();
}

async fn find_questions(machine: &Machine) {
    let words = ["nft", "delete table ip fault"];
    machine.look(&words).await.unwrap();
}

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(path)
}
