//! Sixty nodes in three zones, replaced by the binary built for Amazon Web Services: the real control
//! plane, kwok's nodes, moto as the cloud, and nothing but `AWS_ENDPOINT_URL` and keys to tell where it is.

#![expect(
    clippy::unwrap_used,
    reason = "the steps of the one test are functions, which the lint does not take for tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use shipshape_api::NodePatchRun;
use shipshape_api::conditions::COMPLETED;
use shipshape_api::names::{
    DEFAULT_NAMESPACE, TAG_CLUSTER_ID, TAG_REPLACES, TAG_RUN_UID, TAG_TASK,
};
use shipshape_engine::condition;
use shipshape_engine::view::NodeView;
use shipshape_scenarios::story;
use shipshape_testbed::controller::{CloudAt, Controller};
use shipshape_testbed::kwok::{Kwok, Readiness};
use shipshape_testbed::moto::{Inventory, Moto, MotoMachine};
use shipshape_testbed::{ControlPlane, Options, stage};
use tokio::time::{Instant, sleep};

const NODES: usize = 60;
const BUDGET: usize = NODES / 10;
const AUTOSCALERS: i32 = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_nodes_of_a_moto_group_are_replaced_at_a_tenth_at_once() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = plane.client("test").await.unwrap();
    stage::install_kinds(&client).await.unwrap();
    let _kwok = Kwok::start(&plane, Readiness::AtOnce).unwrap();
    let moto = Moto::start().await.unwrap();
    moto.make(NODES).await.unwrap();
    let before = moto.inventory().await.unwrap();
    assert_eq!(running(&before).len(), NODES);
    assert_eq!(zones(&before), 3);
    let registering = moto.register_machines(client.clone()).unwrap();
    set_up(&client).await;
    wait_for("all nodes", || async {
        ready_nodes(&client).await == NODES
    })
    .await;
    wait_for("the autoscaler", || async {
        autoscaler(&client).await == (AUTOSCALERS, AUTOSCALERS)
    })
    .await;

    let at = CloudAt::Aws(moto.address());
    let mut controller = Controller::prepare(plane.kubeconfig(), plane.folder(), &at).unwrap();
    let run_uid = begin(&client).await;
    controller.start().unwrap();
    let most_closed = watch_the_roll(&client, &controller).await;
    assert!(
        (1..=BUDGET).contains(&most_closed),
        "{most_closed} nodes were closed at once"
    );

    let after = moto.inventory().await.unwrap();
    assert!(
        !registering.is_finished(),
        "machines were not registered to the end"
    );
    registering.abort();
    check_machines(&before, &after, &run_uid);
    assert_eq!(after.group.desired, before.group.desired);
    assert_eq!(after.group.max, before.group.max);
    assert_eq!(after.group.suspended, before.group.suspended);
    assert_eq!(after.group.tags, before.group.tags);
    check_nodes(&client, &after).await;
    wait_for("the autoscaler to be back", || async {
        autoscaler(&client).await == (AUTOSCALERS, AUTOSCALERS)
    })
    .await;
    println!("{NODES} nodes replaced, {most_closed} closed at once at most");
}

async fn set_up(client: &Client) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(DEFAULT_NAMESPACE.to_owned());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let deployment = |name: &str, namespace: &str, replicas: usize| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": name, "namespace": namespace, "labels": { "app": name } },
            "spec": {
                "replicas": replicas, "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": { "containers": [{ "name": "main", "image": "none" }] },
                },
            },
        })
    };
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "maxUnavailable": "10%", "selector": { "matchLabels": { "app": "web" } } },
    });
    let autoscaler = deployment("cluster-autoscaler", "kube-system", 2);
    for object in [deployment("web", "default", 2 * NODES), budget, autoscaler] {
        story::create(client, &object).await.unwrap();
    }
}

async fn begin(client: &Client) -> String {
    let aws = json!({ "region": "eu-central-1", "clusterID": "test", "extraTags": { "team": "platform" } });
    let run: NodePatchRun = serde_json::from_value(json!({
        "apiVersion": "shipshape.dev/v1alpha1",
        "kind": "NodePatchRun",
        "metadata": { "name": "january" },
        "spec": {
            "provider": { "type": "aws", "aws": aws },
            "batchSizeNonImportant": BUDGET,
            "autoscalerControl": {
                "enabled": true,
                "namespace": "kube-system",
                "deploymentSelector": { "matchLabels": { "app": "cluster-autoscaler" } },
            },
        },
    }))
    .unwrap();
    let run = runs(client)
        .create(&PostParams::default(), &run)
        .await
        .unwrap();
    run.metadata.uid.unwrap()
}

fn runs(client: &Client) -> Api<NodePatchRun> {
    Api::namespaced(client.clone(), "default")
}

/// Waits for the end of the run; returns the most nodes that were closed at once.
async fn watch_the_roll(client: &Client, controller: &Controller) -> usize {
    let deadline = Instant::now() + Duration::from_mins(15);
    let mut most = 0;
    let mut was_held = false;
    loop {
        let closed = nodes(client)
            .await
            .iter()
            .filter(|node| node.unschedulable)
            .count();
        most = most.max(closed);
        was_held |= autoscaler(client).await.0 == 0;
        let status = runs(client)
            .get("january")
            .await
            .unwrap()
            .status
            .unwrap_or_default();
        if condition::is_true(&status.conditions, COMPLETED) {
            assert_eq!((status.completed, status.failed), (Some(60), Some(0)));
            assert!(was_held, "the autoscaler was never held");
            return most;
        }
        assert!(
            Instant::now() < deadline,
            "{status:?}\n{}",
            controller.last_words()
        );
        sleep(Duration::from_millis(500)).await;
    }
}

async fn nodes(client: &Client) -> Vec<NodeView> {
    let api: Api<Node> = Api::all(client.clone());
    let list = api.list(&ListParams::default()).await.unwrap();
    list.iter().map(NodeView::of).collect()
}

async fn ready_nodes(client: &Client) -> usize {
    nodes(client).await.iter().filter(|node| node.ready).count()
}

/// Replicas of the autoscaler that are asked for, and that are there.
async fn autoscaler(client: &Client) -> (i32, i32) {
    let api: Api<Deployment> = Api::namespaced(client.clone(), "kube-system");
    let deployment = api.get("cluster-autoscaler").await.unwrap();
    let asked = deployment.spec.and_then(|spec| spec.replicas);
    let ready = deployment.status.and_then(|status| status.ready_replicas);
    (asked.unwrap_or_default(), ready.unwrap_or_default())
}

fn running(inventory: &Inventory) -> BTreeMap<&str, &MotoMachine> {
    let running = inventory
        .machines
        .iter()
        .filter(|one| one.state == "running");
    running.map(|one| (one.id.as_str(), one)).collect()
}

fn zones(inventory: &Inventory) -> usize {
    let zones: BTreeSet<&str> = running(inventory)
        .values()
        .map(|one| one.zone.as_str())
        .collect();
    zones.len()
}

/// As many machines as before, none of them old, each in the zone of the one it replaces, all of the group.
fn check_machines(before: &Inventory, after: &Inventory, run_uid: &str) {
    let (old, new) = (running(before), running(after));
    assert_eq!(new.len(), old.len());
    let mut replaced = BTreeSet::new();
    for machine in new.values() {
        let tag = |key: &str| machine.tags.get(key).map(String::as_str);
        assert_eq!(tag(TAG_CLUSTER_ID), Some("test"), "{machine:?}");
        assert_eq!(tag(TAG_RUN_UID), Some(run_uid), "{machine:?}");
        assert_eq!(tag("team"), Some("platform"), "{machine:?}");
        assert!(tag(TAG_TASK).is_some(), "{machine:?}");
        let gone = old.get(tag(TAG_REPLACES).unwrap()).unwrap();
        assert_eq!(gone.zone, machine.zone);
        replaced.insert(gone.id.as_str());
    }
    assert_eq!(replaced.len(), NODES, "a machine was replaced twice");
    let members: BTreeSet<&str> = after.group.members.iter().map(String::as_str).collect();
    assert_eq!(
        members,
        new.keys().copied().collect(),
        "the group and its machines differ"
    );
}

/// The nodes are those of the machines, open and without our marks.
async fn check_nodes(client: &Client, after: &Inventory) {
    let nodes = nodes(client).await;
    let names: BTreeSet<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let wanted = running(after)
        .keys()
        .map(|id| format!("node-{id}"))
        .collect();
    assert_eq!(names, wanted);
    for node in &nodes {
        assert!(
            node.ready && !node.unschedulable && node.marks.is_empty(),
            "{node:?}"
        );
    }
    let api: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(client.clone(), DEFAULT_NAMESPACE);
    let leases = api.list(&ListParams::default()).await.unwrap();
    let locks: Vec<String> = leases
        .iter()
        .map(ResourceExt::name_any)
        .filter(|name| name.starts_with("node-"))
        .collect();
    assert!(locks.is_empty(), "{locks:?}");
}

async fn wait_for<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let deadline = Instant::now() + Duration::from_mins(3);
    while !is_so().await {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        sleep(Duration::from_millis(500)).await;
    }
}
