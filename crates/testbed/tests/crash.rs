//! A sample of the crash plans where nothing but the operator is ours: a real control plane, kwok's
//! nodes, moto as the cloud. The binary is killed before or after one of its effects, or an answer is
//! lost on the wire; then the audit log and moto's books are read.
//!
//! One roll follows the other on the same machines. The first has no fault: the effects are taken from it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the steps of the one test are functions, which the lint does not take for tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use shipshape_api::conditions::COMPLETED;
use shipshape_api::names::{DEFAULT_NAMESPACE, LEADER_LEASE, TAG_REPLACES};
use shipshape_api::{NodePatchRun, PendingNode};
use shipshape_cluster::ledger::LedgerStore;
use shipshape_engine::condition;
use shipshape_engine::view::NodeView;
use shipshape_scenarios::crash::{Moment, Point, plan};
use shipshape_scenarios::story;
use shipshape_simulator::faults::{Faults, Plan};
use shipshape_testbed::controller::{CloudAt, Controller};
use shipshape_testbed::gate::Gate;
use shipshape_testbed::kwok::{Kwok, Readiness};
use shipshape_testbed::moto::{Inventory, Moto, MotoMachine};
use shipshape_testbed::{ControlPlane, Options, stage};
use tokio::time::{Instant, sleep};

const NODES: usize = 2;
/// The call that makes a machine.
const LAUNCH: &str = "cloud RunInstances";
/// Points that are played.
const SAMPLE: usize = 30;
/// Of equal effects only the first few have points: the others are told apart by their node alone.
const EQUAL_MAX: u32 = 2;

struct Scene {
    client: Client,
    gate: Gate,
    controller: Controller,
    moto: Moto,
    plane: ControlPlane,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs moto (testbed/moto/install.sh) and takes about nine minutes"]
async fn thirty_crashes_on_a_real_control_plane_and_moto_break_nothing() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = plane.client("test").await.unwrap();
    stage::install_kinds(&client).await.unwrap();
    let _kwok = Kwok::start(&plane, Readiness::AtOnce).unwrap();
    let moto = Moto::start().await.unwrap();
    moto.make(NODES).await.unwrap();
    let registering = moto.register_machines(client.clone()).unwrap();
    set_up(&client).await;
    let gate = Gate::open(&plane, moto.address(), plane.folder())
        .await
        .unwrap();
    let at = CloudAt::Aws(gate.cloud());
    let mut controller = Controller::prepare(gate.kubeconfig(), plane.folder(), &at).unwrap();
    controller.start().unwrap();
    let mut scene = Scene {
        client,
        gate,
        controller,
        moto,
        plane,
    };

    // Some effects come only once: the first roll makes the ledger and finds out what the cloud can do.
    let first = scene.gate.set(Plan::default());
    scene.roll("first", &first).await;
    let clean = scene.gate.set(Plan::default());
    scene.roll("clean", &clean).await;
    let mut met = 0;
    for (number, point) in in_spread_order(&clean.effects()).iter().enumerate() {
        if met == SAMPLE {
            break;
        }
        let faults = scene.gate.set(plan(point));
        let seconds = scene.roll(&format!("crash-{number}"), &faults).await;
        // How often some effects come depends on how fast the machine is: then another takes its place.
        let is_met = !faults.strikes().is_empty();
        met += usize::from(is_met);
        println!(
            "{point}: {seconds} s{}",
            if is_met { "" } else { ", not met" }
        );
    }
    assert!(!registering.is_finished(), "machines were not registered");
    registering.abort();
    check_audit(&scene.plane);
    assert_eq!(met, SAMPLE, "faults that took place");
}

/// All points, in such an order that the first ones are spread evenly over effects and moments.
fn in_spread_order(effects: &[String]) -> Vec<Point> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for effect in effects {
        *counts.entry(effect).or_default() += 1;
    }
    let mut points = Vec::new();
    for (effect, count) in counts {
        // What is told to people changes nothing, and a leader renews its lease all the time.
        if effect == "create events" || effect.ends_with(" leadership") {
            continue;
        }
        for number in 1..=count.min(EQUAL_MAX) {
            let moments = [Moment::Before, Moment::After, Moment::Lost];
            points.extend(moments.map(|moment| Point {
                effect: effect.to_owned(),
                number,
                moment,
            }));
        }
    }
    // moto does not know client tokens: a launch that is sent again makes a second machine there. The
    // embedded cloud knows them, and its crash plans have these points.
    points.retain(|point| point.effect != LAUNCH || point.moment != Moment::Lost);
    println!("{} points", points.len());
    let places: Vec<usize> = (0..SAMPLE)
        .map(|place| place * points.len() / SAMPLE)
        .collect();
    let rest = (0..points.len()).filter(|place| !places.contains(place));
    let order = places.iter().copied().chain(rest);
    order
        .filter_map(|place| points.get(place).cloned())
        .collect()
}

impl Scene {
    /// Replaces all nodes by a run of this name, with a new process after each crash; then looks at what
    /// has come of it. Returns how long it took.
    async fn roll(&mut self, name: &str, faults: &Faults) -> u64 {
        let began = Instant::now();
        let before = self.steady(name).await;
        let mut crashes = faults.crashes();
        begin(&self.client, name).await;
        let deadline = Instant::now() + Duration::from_mins(4);
        while !is_complete(&self.client, name).await {
            if crashes.try_recv().is_ok() {
                self.controller.kill().unwrap();
                faults.revive();
                self.controller.start().unwrap();
            }
            assert!(
                Instant::now() < deadline,
                "{name} stands still\n{}",
                self.controller.last_words()
            );
            sleep(Duration::from_millis(100)).await;
        }
        let after = self.steady(name).await;
        check_machines(name, &before, &after);
        began.elapsed().as_secs()
    }

    /// Everything, once nothing is left to be put back; the inventory then.
    async fn steady(&self, name: &str) -> Inventory {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let inventory = self.moto.inventory().await.unwrap();
            let left = leftovers(&self.client, &inventory).await;
            if left.is_empty() {
                return inventory;
            }
            assert!(Instant::now() < deadline, "{name} leaves {left:?}");
            sleep(Duration::from_millis(200)).await;
        }
    }
}

async fn set_up(client: &Client) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(DEFAULT_NAMESPACE.to_owned());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let params = PostParams::default();
    namespaces.create(&params, &namespace).await.unwrap();
    let labels = json!({ "app": "web" });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": {
            "replicas": 2 * NODES, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "main", "image": "none" }] },
            },
        },
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "web", "namespace": "default" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": labels } },
    });
    for object in [deployment, budget] {
        story::create(client, &object).await.unwrap();
    }
}

fn runs(client: &Client) -> Api<NodePatchRun> {
    Api::namespaced(client.clone(), "default")
}

async fn begin(client: &Client, name: &str) {
    let aws = json!({ "region": "eu-central-1", "clusterID": "test" });
    let run: NodePatchRun = serde_json::from_value(json!({
        "apiVersion": "shipshape.dev/v1alpha1",
        "kind": "NodePatchRun",
        "metadata": { "name": name },
        "spec": {
            "provider": { "type": "aws", "aws": aws },
            "batchSizeNonImportant": 1,
            "partitionIterations": 1,
        },
    }))
    .unwrap();
    let params = PostParams::default();
    runs(client).create(&params, &run).await.unwrap();
}

async fn is_complete(client: &Client, name: &str) -> bool {
    let run = runs(client).get(name).await.unwrap();
    let status = run.status.unwrap_or_default();
    let is_over = condition::is_true(&status.conditions, COMPLETED);
    if is_over {
        let counts = (status.completed, status.failed);
        assert_eq!(counts, (i32::try_from(NODES).ok(), Some(0)), "{name}");
    }
    is_over
}

fn running(inventory: &Inventory) -> BTreeMap<&str, &MotoMachine> {
    let machines = inventory.machines.iter();
    let running = machines.filter(|one| one.state == "running");
    running.map(|one| (one.id.as_str(), one)).collect()
}

/// What stands in the way of the next roll: nodes that are closed, marked or no ready machine, locks,
/// slots, machines on their way.
async fn leftovers(client: &Client, inventory: &Inventory) -> Vec<String> {
    let all = ListParams::default();
    let mut left = Vec::new();
    let nodes: Api<Node> = Api::all(client.clone());
    let nodes = nodes.list(&all).await.unwrap();
    let nodes: Vec<NodeView> = nodes.iter().map(NodeView::of).collect();
    for node in &nodes {
        if !node.ready || node.unschedulable || !node.marks.is_empty() {
            left.push(format!("{node:?}"));
        }
    }
    let named: BTreeSet<String> = nodes.iter().map(|node| node.name.clone()).collect();
    let machines: BTreeSet<String> = running(inventory)
        .keys()
        .map(|id| format!("node-{id}"))
        .collect();
    if named != machines || machines.len() != NODES {
        left.push(format!("nodes {named:?}, machines {machines:?}"));
    }
    let pending: Api<PendingNode> = Api::all(client.clone());
    let pending = pending.list(&all).await.unwrap();
    left.extend(pending.iter().map(ResourceExt::name_any));
    let leases: Api<Lease> = Api::namespaced(client.clone(), DEFAULT_NAMESPACE);
    let leases = leases.list(&all).await.unwrap();
    let locks = leases.iter().map(ResourceExt::name_any);
    left.extend(locks.filter(|name| name != LEADER_LEASE));
    let ledger = LedgerStore::new(client.clone(), DEFAULT_NAMESPACE);
    let slots = ledger.read().await.unwrap().slots;
    left.extend(slots.into_keys().map(|uid| format!("slot {uid}")));
    left
}

/// Every machine was replaced once: one new one for each, none made besides, and the group as it was.
fn check_machines(name: &str, before: &Inventory, after: &Inventory) {
    let known: BTreeSet<&str> = before.machines.iter().map(|one| one.id.as_str()).collect();
    let made = after.machines.iter();
    let made: Vec<&MotoMachine> = made
        .filter(|one| !known.contains(one.id.as_str()))
        .collect();
    let replaced: BTreeSet<&str> = made
        .iter()
        .filter_map(|one| one.tags.get(TAG_REPLACES))
        .map(String::as_str)
        .collect();
    let old: BTreeSet<&str> = running(before).keys().copied().collect();
    assert_eq!(replaced, old, "{name}: {made:?}");
    assert_eq!(
        made.len(),
        NODES,
        "{name} made more than it needed: {made:?}"
    );
    let members: BTreeSet<&str> = after.group.members.iter().map(String::as_str).collect();
    assert_eq!(members, running(after).keys().copied().collect(), "{name}");
    let frame = |of: &Inventory| {
        let group = of.group.clone();
        (group.desired, group.max, group.suspended, group.tags)
    };
    assert_eq!(frame(before), frame(after), "{name}");
}

/// Pods left by eviction and by nothing else.
fn check_audit(plane: &ControlPlane) {
    let audit = plane.audit().unwrap();
    let ours = |entry: &&shipshape_testbed::AuditEntry| entry.user_agent.starts_with("shipshape");
    let deleted = audit.iter().filter(ours).filter(|entry| {
        (entry.is("delete", "pods") || entry.is("deletecollection", "pods")) && entry.succeeded()
    });
    let deleted: Vec<String> = deleted.map(shipshape_testbed::AuditEntry::object).collect();
    assert_eq!(deleted, Vec::<String>::new());
    let evicted = audit.iter().filter(ours);
    let evicted = evicted.filter(|entry| entry.is("create", "pods/eviction") && entry.succeeded());
    println!("{} pods evicted", evicted.count());
}
