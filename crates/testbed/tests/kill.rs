//! The binary is killed again and again in the middle of a roll, on a real control plane.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the steps of the one test are functions, which the lint does not take for tests"
)]

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use shipshape_api::conditions::COMPLETED;
use shipshape_api::names::{DEFAULT_NAMESPACE, LEADER_LEASE};
use shipshape_api::{NodePatchRun, NodePatchTask, NodePatchTaskStatus};
use shipshape_cluster::ledger::LedgerStore;
use shipshape_engine::condition;
use shipshape_engine::machine::MachineState;
use shipshape_scenarios::{Scenario, Stage};
use shipshape_simulator::cloud::wire;
use shipshape_simulator::seed::Seed;
use shipshape_testbed::auditor::Order;
use shipshape_testbed::controller::{CloudAt, Controller};
use shipshape_testbed::{RealWorld, auditor, stories};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

const NODES: u32 = 6;
const KILLS: usize = 10;

/// Which moments; another number in the environment gives others.
fn seed() -> u64 {
    let asked = std::env::var("SHIPSHAPE_KILL_SEED").ok();
    asked.map_or(9, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_killed_ten_times_replaces_every_node_once() {
    let mut scenario = Scenario::load(&stories::folder().join("replace-three-zones.yaml")).unwrap();
    scenario.world.nodes = NODES;
    let world = RealWorld::start(&scenario.hurried_world(1)).await.unwrap();
    let cloud = world.stage().cloud.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(wire::serve(cloud.handle("remote"), listener));
    let plane = world.plane();
    let cloud_at = CloudAt::Embedded(address);
    let mut controller =
        Controller::prepare(plane.kubeconfig(), plane.folder(), &cloud_at).unwrap();
    let client = world.stage().client("test");
    begin(&client).await;

    controller.start().unwrap();
    let mut chance = Seed::new(seed());
    for kill in 1..=KILLS {
        let from = (world.stage().requests)(0).1;
        // By the clock most moments are waits; by the count of writes most are changes of step.
        if kill % 2 == 0 {
            sleep(Duration::from_millis(1_500 + chance.below(4_000))).await;
        } else {
            let writes = 1 + usize::try_from(chance.below(25)).unwrap();
            wait_for_writes(world.stage(), from, writes).await;
        }
        controller.kill().unwrap();
        println!("kill {kill}: {}", steps(&client).await);
        assert!(!is_complete(&client).await, "over after {kill} kills");
        controller.start().unwrap();
    }
    let deadline = Instant::now() + Duration::from_mins(3);
    while !is_complete(&client).await {
        assert!(
            Instant::now() < deadline,
            "{}\n{}",
            steps(&client).await,
            controller.last_words()
        );
        sleep(Duration::from_millis(500)).await;
    }
    // What is still on its way may arrive.
    sleep(Duration::from_secs(2)).await;
    check_logs(&world);
    check_leftovers(&client).await;
    serving.abort();
}

/// Waits until the operator has written this often since a position of the log, or for long enough.
async fn wait_for_writes(stage: &Stage, mut from: usize, wanted: usize) {
    let deadline = Instant::now() + Duration::from_secs(15);
    let mut writes = 0;
    while writes < wanted && Instant::now() < deadline {
        let (requests, next) = (stage.requests)(from);
        from = next;
        let own = requests.iter().filter(|(_, request)| {
            let is_lease = request.object.ends_with(LEADER_LEASE);
            !is_lease && !matches!(request.verb.as_str(), "get" | "list" | "watch")
        });
        writes += own.count();
        sleep(Duration::from_millis(3)).await;
    }
}

async fn begin(client: &Client) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(DEFAULT_NAMESPACE.to_owned());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let params = PostParams::default();
    namespaces.create(&params, &namespace).await.unwrap();
    let run = json!({
        "apiVersion": "shipshape.dev/v1alpha1",
        "kind": "NodePatchRun",
        "metadata": { "name": "january" },
        "spec": { "provider": { "type": "embedded" }, "batchSizeNonImportant": 1 },
    });
    let run: NodePatchRun = serde_json::from_value(run).unwrap();
    runs(client).create(&params, &run).await.unwrap();
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
        let step = task.status.as_ref().map(NodePatchTaskStatus::step_name);
        format!("{step:?}")
    });
    steps.collect::<Vec<_>>().join(" ")
}

fn check_logs(world: &RealWorld) {
    let cloud = &world.stage().cloud;
    let audit = world.plane().audit().unwrap();
    let findings = auditor::examine(&audit, &cloud.log(), &cloud.machines(), Order::NewFirst);
    println!("{findings:?}");
    assert_eq!(findings.faults, Vec::<String>::new());
    assert_eq!(findings.replaced, NODES as usize);
    assert!(findings.evicted > 0);
    let machines = cloud.machines();
    let alive = machines
        .iter()
        .filter(|machine| machine.state == MachineState::Ready);
    assert_eq!(alive.count(), NODES as usize, "{machines:?}");
    assert_eq!(machines.len(), 2 * NODES as usize, "{machines:?}");
}

async fn check_leftovers(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list(&ListParams::default()).await.unwrap();
    assert_eq!(nodes.items.len(), NODES as usize);
    for node in nodes {
        let spec = node.spec.clone().unwrap_or_default();
        assert_eq!(spec.unschedulable, None, "{} is cordoned", node.name_any());
    }
    let ledger = LedgerStore::new(client.clone(), DEFAULT_NAMESPACE);
    let slots = ledger.read().await.unwrap().slots;
    assert!(slots.is_empty(), "{slots:?}");
    let leases: Api<Lease> = Api::namespaced(client.clone(), DEFAULT_NAMESPACE);
    let leases = leases.list(&ListParams::default()).await.unwrap();
    let names: Vec<String> = leases.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, [LEADER_LEASE]);
}
