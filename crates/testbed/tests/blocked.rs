//! One node of fifty stands under a budget that never opens, on a real control plane: people are told why,
//! the others are replaced, and the node follows within a second of the budget's opening.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the steps of the one test are functions, which the lint does not take for tests"
)]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use shipshape_api::conditions::COMPLETED;
use shipshape_api::names::DEFAULT_NAMESPACE;
use shipshape_api::node_patch_run::NodePatchRunStatus;
use shipshape_api::{NodePatchRun, NodePatchTask, NodePatchTaskStatus, TaskStep};
use shipshape_engine::condition;
use shipshape_scenarios::{Scenario, story};
use shipshape_simulator::cloud::wire;
use shipshape_testbed::audit::AuditEntry;
use shipshape_testbed::binaries::Binaries;
use shipshape_testbed::controller::{CloudAt, Controller};
use shipshape_testbed::{RealWorld, stories};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

const BUDGET: &str = "hopeless";
const SETTINGS: &str = "settings: { machinePoll: 300ms, deadlines: { drain: 15s } }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_under_a_hopeless_budget_is_explained_and_follows_within_a_second_of_its_opening() {
    let scenario = Scenario::load(&stories::folder().join("hopeless-budget.yaml")).unwrap();
    let nodes = i32::try_from(scenario.world.nodes).unwrap();
    let world = RealWorld::start(&scenario.hurried_world(1)).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = CloudAt::Embedded(listener.local_addr().unwrap());
    let cloud = world.stage().cloud.handle("remote");
    let serving = tokio::spawn(wire::serve(cloud, listener));
    let plane = world.plane();
    let (kubeconfig, folder) = (plane.kubeconfig(), plane.folder());
    let mut controller = Controller::prepare_with(kubeconfig, folder, &at, SETTINGS).unwrap();
    let client = world.stage().client("test");
    begin(&client, &scenario).await;
    controller.start().unwrap();

    wait_for(&client, &controller, "all nodes but one", |run| {
        run.completed == Some(nodes - 1)
    })
    .await;
    let task = last_task(&client).await;
    check_words(&controller, kubeconfig, &task);
    open_budget(&client).await;
    wait_for(&client, &controller, "the last node", |run| {
        condition::is_true(&run.conditions, COMPLETED)
    })
    .await;

    let took = opening_to_eviction(&plane.audit().unwrap());
    println!("{nodes} nodes; the blocked one followed after {took:#}");
    assert!(took <= SignedDuration::from_secs(1), "{took:#}");
    serving.abort();
}

async fn begin(client: &Client, scenario: &Scenario) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(DEFAULT_NAMESPACE.to_owned());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let params = PostParams::default();
    namespaces.create(&params, &namespace).await.unwrap();
    story::create(client, scenario.intents.first().unwrap())
        .await
        .unwrap();
}

async fn wait_for(
    client: &Client,
    controller: &Controller,
    what: &str,
    is_so: impl Fn(&NodePatchRunStatus) -> bool,
) {
    let runs: Api<NodePatchRun> = Api::namespaced(client.clone(), "default");
    let deadline = Instant::now() + Duration::from_mins(5);
    loop {
        let status = runs.get("january").await.unwrap().status;
        if status.as_ref().is_some_and(&is_so) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "waited in vain for {what}: {status:?}\n{}",
            controller.last_words()
        );
        sleep(Duration::from_millis(200)).await;
    }
}

/// The one task that is not done, once its drain is blocked.
async fn last_task(client: &Client) -> NodePatchTask {
    let tasks: Api<NodePatchTask> = Api::namespaced(client.clone(), "default");
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let all = tasks.list(&ListParams::default()).await.unwrap();
        let step = |task: &NodePatchTask| task.status.as_ref().map(NodePatchTaskStatus::step_name);
        let open = all.into_iter().find(|it| step(it) != Some(TaskStep::Done));
        let is_blocked = |task: &NodePatchTask| {
            let drain = task.status.as_ref().and_then(|status| status.drain.clone());
            drain.is_some_and(|drain| !drain.blocked.is_empty())
        };
        if let Some(task) = open.filter(is_blocked) {
            return task;
        }
        assert!(Instant::now() < deadline, "no drain is blocked");
        sleep(Duration::from_millis(200)).await;
    }
}

/// What a person is told, by whatever means.
fn check_words(controller: &Controller, kubeconfig: &Path, task: &NodePatchTask) {
    let kubectl = Binaries::locate().unwrap().path("kubectl").unwrap();
    let said = |program: &Path, words: &[&str]| {
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(kubeconfig).args(words);
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    };
    let described = said(&kubectl, &["describe", "npt", &task.name_any()]);
    let run = said(&kubectl, &["describe", "npr", "january"]);
    let node = format!("node/{}", task.spec.node_name);
    let shipshape = |command: &str, words: &[&str]| {
        let mut program = Command::new(controller.binary());
        program.arg(command).args(words);
        program.arg("--kubeconfig").arg(kubeconfig);
        let output = program.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command} {words:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    };
    let explained = shipshape("explain", &[&node]);
    let status = shipshape("status", &[]);
    let sentence = format!("disruption budget {BUDGET} can never allow an eviction");
    for (what, text) in [
        ("kubectl describe npt", described),
        ("kubectl describe npr", run),
        ("shipshape explain", explained),
        ("shipshape status", status),
    ] {
        let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(plain.contains(&sentence), "{what}:\n{text}");
        println!("{what} names the budget");
    }
}

async fn open_budget(client: &Client) {
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), "default");
    let open = Patch::Merge(json!({ "spec": { "minAvailable": 0 } }));
    let params = PatchParams::default();
    budgets.patch(BUDGET, &params, &open).await.unwrap();
}

/// From the first status of the budget that has room to the eviction that took it.
fn opening_to_eviction(entries: &[AuditEntry]) -> SignedDuration {
    let opened = entries.iter().find(|entry| {
        let room = entry.request_object.as_ref();
        let room = room.and_then(|it| it.pointer("/status/disruptionsAllowed")?.as_i64());
        entry.is("update", "poddisruptionbudgets/status")
            && entry.succeeded()
            && entry.object() == format!("default/{BUDGET}")
            && room > Some(0)
    });
    let evicted = entries.iter().find(|entry| {
        entry.is("create", "pods/eviction")
            && entry.succeeded()
            && entry.object().starts_with(&format!("default/{BUDGET}-"))
    });
    let (opened, evicted) = (opened.unwrap(), evicted.unwrap());
    evicted
        .request_received_timestamp
        .duration_since(opened.stage_timestamp)
}
