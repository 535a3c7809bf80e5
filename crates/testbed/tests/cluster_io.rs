//! What `cluster` takes for granted about the API server, asked of a real one.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the steps of the one test are functions, which the lint does not take for tests"
)]

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, ObjectReference, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use shipshape_api::gates::OutdatedTaintEffect;
use shipshape_cluster::events::{Events, Notice, Severity};
use shipshape_cluster::evict::{Eviction, Mode, Target, evict};
use shipshape_cluster::leader::{Ended, Leader};
use shipshape_cluster::ledger::LedgerStore;
use shipshape_cluster::lock::{Claim, Lock, Locks, Release};
use shipshape_cluster::node::{
    Deletion, Live, Nodes, Seen, Uncordon, with_marks, with_renewed_mark,
};
use shipshape_cluster::store::{CaughtUp, Settings};
use shipshape_cluster::{Clock, ErrorClass, Key, Shutdown, Store, events, leader};
use shipshape_engine::decision::Marks;
use shipshape_engine::view::NodeView;
use shipshape_testbed::{ControlPlane, Options};

const NAMESPACE: &str = "default";

#[tokio::test]
async fn a_real_api_server_answers_as_the_kubernetes_io_expects() {
    let options = Options {
        controllers: true,
        ..Options::default()
    };
    let plane = ControlPlane::start(options).await.unwrap();
    let client = plane.client("cluster-io/1").await.unwrap();
    locks_are_exclusive(&client).await;
    grants_are_guarded(&client).await;
    a_leader_gives_its_lease_back(&client).await;
    events_are_counted(&client).await;
    nodes_are_touched_as_they_were_read(&client).await;
    evictions_are_understood(&client).await;
}

async fn locks_are_exclusive(client: &Client) {
    let locks = Locks::new(client.clone(), Clock::System, NAMESPACE, Duration::ZERO);
    // A lock of a node that does not exist would be collected at once.
    let nodes: Api<Node> = Api::all(client.clone());
    let node = serde_json::from_value(json!({ "metadata": { "name": "locked" } })).unwrap();
    let node: Node = nodes.create(&PostParams::default(), &node).await.unwrap();
    let uid = node.uid().unwrap();
    let claim = |operation| Claim {
        node: "locked",
        node_uid: &uid,
        operation,
        holder: "me",
    };
    assert_eq!(locks.acquire(claim("one")).await.unwrap(), Lock::Held);
    assert_eq!(locks.acquire(claim("one")).await.unwrap(), Lock::Held);
    let taken = locks.acquire(claim("two")).await.unwrap();
    assert!(matches!(taken, Lock::Taken(_)), "{taken:?}");
    let touched = locks.touch("locked", "one").await.unwrap();
    assert!(touched.version().is_some());
    let refused = locks.release("locked", "two").await.unwrap();
    assert!(matches!(refused, Release::NotOurs(_)), "{refused:?}");
    let released = locks.release("locked", "one").await.unwrap();
    assert_eq!(released, Release::Freed);
    let released = locks.release("locked", "one").await.unwrap();
    assert_eq!(released, Release::Absent);

    assert_eq!(locks.acquire(claim("three")).await.unwrap(), Lock::Held);
    let params = DeleteParams::default();
    nodes.delete("locked", &params).await.unwrap();
    let gone = async {
        while locks.holder("locked").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let collected = tokio::time::timeout(Duration::from_mins(2), gone).await;
    assert!(collected.is_ok(), "the lock outlives its node");
}

async fn grants_are_guarded(client: &Client) {
    let ledger = LedgerStore::new(client.clone(), NAMESPACE);
    let missing = ledger.read().await.unwrap();
    ledger.write(&missing).await.unwrap();
    let error = ledger.write(&missing).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict, "{error}");
    let mut stale = ledger.read().await.unwrap();
    stale.resource_version = Some("1".into());
    let error = ledger.write(&stale).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict, "{error}");
}

async fn a_leader_gives_its_lease_back(client: &Client) {
    let settings = |identity| leader::Settings::new(NAMESPACE, identity);
    for identity in ["a", "b"] {
        let candidate = Leader::new(client.clone(), Clock::System, settings(identity));
        let work = tokio::time::sleep(Duration::from_secs(3));
        let shutdown = Shutdown::new();
        let ended = candidate.run(&shutdown, work);
        let ended = tokio::time::timeout(Duration::from_secs(10), ended).await;
        assert_eq!(ended.unwrap(), Ended::Finished(()), "{identity}");
    }
}

async fn events_are_counted(client: &Client) {
    let settings = events::Settings {
        repeat_every: Duration::ZERO,
        ..events::Settings::new("me")
    };
    let sink = Events::new(client.clone(), Clock::System, settings);
    for namespace in [Some(NAMESPACE.to_owned()), None] {
        let about = ObjectReference {
            api_version: Some("v1".into()),
            kind: Some("Thing".into()),
            name: Some(format!("thing-{}", namespace.is_some())),
            namespace,
            ..ObjectReference::default()
        };
        let notice = Notice {
            severity: Severity::Normal,
            reason: "Seen".into(),
            action: "See".into(),
            note: "it was seen".into(),
        };
        sink.publish(&about, &notice).await;
        sink.publish(&about, &notice).await;
    }
    let api: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let params = ListParams::default().fields("reason=Seen");
    let counts: Vec<_> = api.list(&params).await.unwrap().items;
    let counts: Vec<_> = counts.iter().map(|event| event.count).collect();
    assert_eq!(counts, [Some(2), Some(2)]);
}

async fn nodes_are_touched_as_they_were_read(client: &Client) {
    let api: Api<Node> = Api::all(client.clone());
    let store = Store::<Node>::new();
    let _following = store.start(api.clone(), Settings::default(), |_| ());
    let node = serde_json::from_value(json!({ "metadata": { "name": "n1" } })).unwrap();
    let uid = api
        .create(&PostParams::default(), &node)
        .await
        .unwrap()
        .uid()
        .unwrap();
    let nodes = Nodes::new(client.clone());
    let Live::Here(live) = nodes.live("n1", &uid).await.unwrap() else {
        panic!("the node is not there");
    };
    let labelled = json!({ "metadata": { "labels": { "changed": "meanwhile" } } });
    let params = PatchParams::default();
    api.patch("n1", &params, &Patch::Merge(&labelled))
        .await
        .unwrap();
    let error = nodes.cordon(Seen::of(&live), "op").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict, "{error}");
    a_renewed_mark_bars_a_late_cordon(&nodes, &uid).await;

    let cordoned = loop {
        let Live::Here(live) = nodes.live("n1", &uid).await.unwrap() else {
            panic!("the node is not there");
        };
        // The controller manager taints new nodes at the same time.
        match nodes.cordon(Seen::of(&live), "op").await {
            Ok(written) => break written,
            Err(error) => assert_eq!(error.class(), ErrorClass::Conflict, "{error}"),
        }
    };
    let key = Key::cluster("n1");
    store.expect(&key, cordoned.version().unwrap());
    assert_eq!(store.wait_for(&key).await.unwrap(), CaughtUp::Seen);
    let seen = store.get(&key).unwrap();
    assert_eq!(seen.spec.as_ref().unwrap().unschedulable, Some(true));
    let opened = loop {
        let Live::Here(live) = nodes.live("n1", &uid).await.unwrap() else {
            panic!("the node is not there");
        };
        match nodes.uncordon(&live, "op").await {
            Ok(opened) => break opened,
            Err(error) => assert_eq!(error.class(), ErrorClass::Conflict, "{error}"),
        }
    };
    assert!(matches!(opened, Uncordon::Open(_)), "{opened:?}");
    let open = api.get("n1").await.unwrap();
    assert_eq!(open.spec.unwrap_or_default().unschedulable, None);
    assert_eq!(nodes.delete("n1", "other").await.unwrap(), Deletion::Gone);
    assert!(
        api.get_opt("n1").await.unwrap().is_some(),
        "a namesake is not deleted"
    );
    assert_eq!(nodes.delete("n1", &uid).await.unwrap(), Deletion::Accepted);
    assert_eq!(nodes.delete("n1", &uid).await.unwrap(), Deletion::Gone);
}

/// A server keeps the time that a taint of ours was renewed, whatever its effect, and tells it as it was written.
async fn a_renewed_mark_bars_a_late_cordon(nodes: &Nodes, uid: &str) {
    let marks = Marks {
        outdated: Some(OutdatedTaintEffect::PreferNoSchedule),
        held: false,
    };
    let at = Timestamp::from_second(1_700_000_000).unwrap();
    let changed = async |change: &dyn Fn(&Node) -> Node| loop {
        let Live::Here(live) = nodes.live("n1", uid).await.unwrap() else {
            panic!("the node is not there");
        };
        // The controller manager taints new nodes at the same time.
        match nodes.write(&live, &change(&live)).await {
            Ok(_) => return live,
            Err(error) => assert_eq!(error.class(), ErrorClass::Conflict, "{error}"),
        }
    };
    changed(&|node| with_marks(node, "run", "ns/run", marks)).await;
    let before = changed(&|node| with_renewed_mark(node, "run", at)).await;
    let late = nodes.cordon(Seen::of(&before), "op").await.unwrap_err();
    assert_eq!(late.class(), ErrorClass::Conflict, "{late}");
    let after = changed(&|node| with_marks(node, "run", "ns/run", Marks::NONE)).await;
    let renewed = NodeView::of(&after).renewed_marks;
    assert_eq!(renewed, [("run".to_owned(), at)].into());
}

async fn evictions_are_understood(client: &Client) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let uid = running_pod(&pods).await;
    let target = |uid| Target {
        namespace: NAMESPACE,
        name: "web",
        uid,
    };
    let other = evict(client, target("other"), Mode::Real).await.unwrap();
    assert_eq!(other, Eviction::Gone);
    let live = pods.get("web").await.unwrap();
    assert_eq!(
        live.metadata.deletion_timestamp, None,
        "the precondition was lost"
    );
    let dry = evict(client, target(&uid), Mode::DryRun).await.unwrap();
    assert_eq!(dry, Eviction::Accepted);

    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), NAMESPACE);
    budgets
        .create(&PostParams::default(), &budget("one"))
        .await
        .unwrap();
    let Eviction::Blocked { budgets: named, .. } =
        evict(client, target(&uid), Mode::Real).await.unwrap()
    else {
        panic!("not blocked");
    };
    assert_eq!(named, ["one"]);
    budgets
        .create(&PostParams::default(), &budget("two"))
        .await
        .unwrap();
    let refused = evict(client, target(&uid), Mode::Real).await.unwrap();
    assert!(matches!(refused, Eviction::Refused { .. }), "{refused:?}");
    for name in ["one", "two"] {
        budgets
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }
    let accepted = evict(client, target(&uid), Mode::Real).await.unwrap();
    assert_eq!(accepted, Eviction::Accepted);
}

/// A pod that counts for budgets: bound, running and ready, though no kubelet runs it.
async fn running_pod(pods: &Api<Pod>) -> String {
    let pod = json!({
        "metadata": { "name": "web", "labels": { "app": "web" } },
        "spec": {
            "nodeName": "nowhere",
            "automountServiceAccountToken": false,
            "containers": [{ "name": "web", "image": "web" }],
        },
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let made = loop {
        match pods.create(&PostParams::default(), &pod).await {
            Ok(made) => break made,
            // The namespace gets its service account a moment after the start.
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let ready = json!({ "type": "Ready", "status": "True" });
    let status = json!({ "status": { "phase": "Running", "conditions": [ready] } });
    let params = PatchParams::default();
    pods.patch_status("web", &params, &Patch::Merge(&status))
        .await
        .unwrap();
    made.uid().unwrap()
}

fn budget(name: &str) -> PodDisruptionBudget {
    let budget = json!({
        "metadata": { "name": name },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    });
    serde_json::from_value(budget).unwrap()
}
