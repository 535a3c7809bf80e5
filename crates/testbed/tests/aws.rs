//! The binary built for Amazon Web Services rolls a real control plane's nodes, with nothing but
//! `AWS_ENDPOINT_URL` and keys to tell it where its cloud is, and is killed while it launches.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the steps of the one test are functions, which the lint does not take for tests"
)]

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use shipshape_api::conditions::COMPLETED;
use shipshape_api::names::{
    DEFAULT_NAMESPACE, TAG_CLUSTER_ID, TAG_REPLACES, TAG_RUN_UID, TAG_TASK,
};
use shipshape_api::{NodePatchRun, NodePatchTask, NodePatchTaskStatus};
use shipshape_engine::condition;
use shipshape_engine::machine::{Machine, MachineState};
use shipshape_scenarios::Scenario;
use shipshape_simulator::cloud::aws::{self, Services};
use shipshape_simulator::cloud::{Cloud, MachineNames};
use shipshape_testbed::controller::{CloudAt, Controller};
use shipshape_testbed::{RealWorld, stories};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

const NODES: u32 = 6;
const KILLS: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_binary_replaces_every_node_of_an_aws_group_once() {
    let mut scenario = Scenario::load(&stories::folder().join("replace-three-zones.yaml")).unwrap();
    scenario.world.nodes = NODES;
    let mut spec = scenario.hurried_world(1);
    spec.cloud.names = MachineNames::Aws;
    // Long enough that a process can die between a launch and its machine's running.
    spec.cloud.settings.boot = Duration::from_secs(2);
    let world = RealWorld::start(&spec).await.unwrap();
    let cloud = world.stage().cloud.clone();
    let group = cloud.machines().first().unwrap().group.clone().unwrap();
    let before = cloud.group_marks(&group).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = CloudAt::Aws(listener.local_addr().unwrap());
    let services = Services {
        group_launch: false,
        ..Services::default()
    };
    let serving = tokio::spawn(aws::serve(cloud.handle("nobody"), services, listener));
    let plane = world.plane();
    let mut controller = Controller::prepare(plane.kubeconfig(), plane.folder(), &at).unwrap();
    let client = world.stage().client("test");
    let run_uid = begin(&client).await;

    controller.start().unwrap();
    for kill in 0..KILLS {
        wait_for_launches(&cloud, kill + 1, &controller).await;
        controller.kill().unwrap();
        println!("killed: {}", steps(&client).await);
        controller.start().unwrap();
    }
    let deadline = Instant::now() + Duration::from_mins(4);
    while !is_complete(&client).await {
        assert!(
            Instant::now() < deadline,
            "{}\n{}",
            steps(&client).await,
            controller.last_words()
        );
        sleep(Duration::from_millis(500)).await;
    }
    sleep(Duration::from_secs(2)).await;
    check_machines(&cloud, &run_uid);
    assert_eq!(cloud.group_marks(&group).unwrap(), before);
    serving.abort();
}

/// Waits until so many machines were launched, however often each was asked for.
async fn wait_for_launches(cloud: &Cloud, wanted: usize, controller: &Controller) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while cloud.machines().len() < NODES as usize + wanted {
        assert!(Instant::now() < deadline, "{}", controller.last_words());
        sleep(Duration::from_millis(5)).await;
    }
}

async fn begin(client: &Client) -> String {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(DEFAULT_NAMESPACE.to_owned());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let params = PostParams::default();
    namespaces.create(&params, &namespace).await.unwrap();
    let aws = json!({ "region": "eu-central-1", "clusterID": "test", "extraTags": { "team": "platform" } });
    let run = json!({
        "apiVersion": "shipshape.dev/v1alpha1",
        "kind": "NodePatchRun",
        "metadata": { "name": "january" },
        "spec": { "provider": { "type": "aws", "aws": aws }, "batchSizeNonImportant": 2 },
    });
    let run: NodePatchRun = serde_json::from_value(run).unwrap();
    let run = runs(client).create(&params, &run).await.unwrap();
    run.metadata.uid.unwrap()
}

fn runs(client: &Client) -> Api<NodePatchRun> {
    Api::namespaced(client.clone(), "default")
}

async fn is_complete(client: &Client) -> bool {
    let run = runs(client).get("january").await.unwrap();
    run.status
        .is_some_and(|status| condition::is_true(&status.conditions, COMPLETED))
}

/// Where every task stands, for the reader of a failed test.
async fn steps(client: &Client) -> String {
    let tasks: Api<NodePatchTask> = Api::namespaced(client.clone(), "default");
    let tasks = tasks.list(&ListParams::default()).await.unwrap();
    let steps = tasks.iter().map(|task| {
        let status = task.status.as_ref();
        let step = status.map(NodePatchTaskStatus::step_name);
        let error = status.and_then(|status| status.last_error.clone());
        format!("{step:?} {error:?}")
    });
    steps.collect::<Vec<_>>().join("\n")
}

fn check_machines(cloud: &Cloud, run_uid: &str) {
    let machines = cloud.machines();
    assert_eq!(machines.len(), 2 * NODES as usize, "{machines:?}");
    let is_ready = |machine: &&Machine| machine.state == MachineState::Ready;
    let alive: Vec<&Machine> = machines.iter().filter(is_ready).collect();
    assert_eq!(alive.len(), NODES as usize, "{machines:?}");
    for machine in alive {
        let tag = |key: &str| machine.tags.get(key).map(String::as_str);
        assert_eq!(tag(TAG_CLUSTER_ID), Some("test"), "{machine:?}");
        assert_eq!(tag(TAG_RUN_UID), Some(run_uid), "{machine:?}");
        assert_eq!(tag("team"), Some("platform"), "{machine:?}");
        assert!(tag(TAG_TASK).is_some(), "{machine:?}");
        let replaced = tag(TAG_REPLACES).unwrap();
        let old = machines.iter().find(|old| old.id.as_str() == replaced);
        let old = old.unwrap();
        assert_eq!(old.zone, machine.zone);
        assert_eq!(old.state, MachineState::Terminated);
    }
    let log = cloud.log();
    println!("{} calls", log.len());
    assert!(log.iter().any(|call| call.call == "AttachInstances"));
}
