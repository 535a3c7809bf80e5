//! The store against the fake server.

use std::sync::Mutex;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::Api;
use serde_json::{Value, json};

use super::*;
use crate::fake::{Fake, Fault, failure, node};

const N1: &str = "/api/v1/nodes/n1";
const N2: &str = "/api/v1/nodes/n2";

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn listener<K: Resource>(&self) -> impl Fn(Change<K>) + Send + Sync + 'static {
        let heard = self.clone();
        move |change| {
            let line = match &change {
                Change::Applied { old: None, new } => format!("+{}", new.name_any()),
                Change::Applied { old: Some(_), new } => format!("~{}", new.name_any()),
                Change::Deleted { old } => format!("-{}", old.name_any()),
            };
            heard.0.lock().unwrap().push(line);
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn nodes(fake: &Fake, settings: Settings) -> (Store<Node>, Heard, Following) {
    let (store, heard) = (Store::<Node>::new(), Heard::default());
    let following = store.start(Api::all(fake.client()), settings, heard.listener());
    (store, heard, following)
}

async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_store_lists_all_pages_then_hears_only_differences() {
    let fake = Fake::new();
    for name in ["n3", "n1", "n2"] {
        fake.put(&format!("/api/v1/nodes/{name}"), node(name));
    }
    let settings = Settings {
        page_size: 2,
        ..Settings::default()
    };
    let (store, heard, _following) = nodes(&fake, settings);
    assert!(!store.is_synced());
    store.synced().await;
    assert_eq!(heard.take(), ["+n1", "+n2", "+n3"]);
    fake.put(
        N1,
        json!({ "metadata": { "name": "n1" }, "spec": { "unschedulable": true } }),
    );
    fake.remove(N2);
    settle().await;
    assert_eq!(heard.take(), ["~n1", "-n2"]);
    let names: Vec<String> = store.list().iter().map(|node| node.name_any()).collect();
    assert_eq!(names, ["n1", "n3"]);
    assert_eq!(store.len(), 2);
    let spec = store
        .get(&Key::cluster("n1"))
        .unwrap()
        .spec
        .clone()
        .unwrap();
    assert_eq!(spec.unschedulable, Some(true));
}

#[tokio::test(start_paused = true)]
async fn a_watch_refused_with_410_is_listed_anew_and_tells_only_differences() {
    let fake = Fake::new();
    fake.put(N1, node("n1"));
    fake.put(N2, node("n2"));
    let settings = Settings {
        watch_for: Duration::from_secs(10),
        ..Settings::default()
    };
    let (store, heard, _following) = nodes(&fake, settings);
    store.synced().await;
    heard.take();
    fake.hold_watches(true);
    fake.remove(N2);
    fake.put("/api/v1/nodes/n3", node("n3"));
    fake.compact();
    fake.hold_watches(false);
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(
        heard.take(),
        ["-n2", "+n3"],
        "n1 did not change and is not told again"
    );
    let lists = fake
        .log()
        .iter()
        .filter(|line| *line == "GET /api/v1/nodes")
        .count();
    assert_eq!(lists, 2);
}

#[tokio::test(start_paused = true)]
async fn an_expiry_in_the_middle_of_a_watch_is_listed_anew() {
    let fake = Fake::new();
    fake.put(N1, node("n1"));
    let gone = failure(410, "Expired", "too old").1;
    let event = json!({ "type": "ERROR", "object": gone });
    fake.fault("WATCH /api/v1/nodes", Fault::Answer((200, event)));
    let (store, _heard, _following) = nodes(&fake, Settings::default());
    store.synced().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let log = fake.log();
    let expected = [
        "GET /api/v1/nodes",
        "WATCH /api/v1/nodes",
        "GET /api/v1/nodes",
        "WATCH /api/v1/nodes",
    ];
    assert_eq!(log, expected);
}

#[tokio::test(start_paused = true)]
async fn a_failing_list_is_tried_again_at_growing_fixed_intervals() {
    let fake = Fake::new();
    for _ in 0..4 {
        let denied = failure(403, "Forbidden", "no");
        fake.fault("GET /api/v1/nodes", Fault::Answer(denied));
    }
    let started = Instant::now();
    let (store, _heard, _following) = nodes(&fake, Settings::default());
    store.synced().await;
    assert_eq!(started.elapsed().as_secs(), 1 + 2 + 4 + 8);
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_answer_is_lost_is_tried_again_after_its_deadline() {
    let fake = Fake::new();
    fake.put(N1, node("n1"));
    fake.fault("GET /api/v1/nodes", Fault::LoseAnswer);
    let started = Instant::now();
    let (store, _heard, _following) = nodes(&fake, Settings::default());
    store.synced().await;
    assert_eq!(
        started.elapsed(),
        crate::error::REQUEST_LIMIT + Duration::from_secs(1)
    );
    assert_eq!(store.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_replaced_and_loses_nothing() {
    let fake = Fake::new();
    fake.fault("WATCH /api/v1/nodes", Fault::LoseRequest);
    let (store, heard, _following) = nodes(&fake, Settings::default());
    store.synced().await;
    fake.put(N1, node("n1"));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(heard.take(), ["+n1"]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_store_renews_its_watch_without_listing() {
    let fake = Fake::new();
    let (store, _heard, _following) = nodes(&fake, Settings::default());
    store.synced().await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    let log = fake.log();
    assert_eq!(log.iter().filter(|line| line.starts_with("GET")).count(), 1);
    assert_eq!(
        log.iter().filter(|line| line.starts_with("WATCH")).count(),
        13
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_following_stops_asking() {
    let fake = Fake::new();
    let (store, heard, following) = nodes(&fake, Settings::default());
    store.synced().await;
    drop(following);
    settle().await;
    fake.put(N1, node("n1"));
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(heard.take(), Vec::<String>::new());
    assert_eq!(fake.log().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_index_follows_a_pod_from_node_to_node() {
    let fake = Fake::new();
    let pod = |node: &str| json!({ "metadata": { "name": "p" }, "spec": { "nodeName": node, "containers": [] } });
    let path = "/api/v1/namespaces/shop/pods/p";
    fake.put(path, pod("n1"));
    let on_node: Terms<Pod> = |pod| {
        pod.spec
            .iter()
            .filter_map(|spec| spec.node_name.clone())
            .collect()
    };
    let store = Store::<Pod>::new().with_index("node", on_node);
    let _following = store.start(Api::all(fake.client()), Settings::default(), |_| ());
    store.synced().await;
    assert_eq!(store.by_index("node", "n1").len(), 1);
    fake.put(path, pod("n2"));
    settle().await;
    assert!(store.by_index("node", "n1").is_empty());
    assert_eq!(
        store.by_index("node", "n2")[0].namespace().as_deref(),
        Some("shop")
    );
    fake.remove(path);
    settle().await;
    assert!(store.by_index("node", "n2").is_empty());
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_not_kept() {
    let fake = Fake::new();
    let fat = json!({
        "metadata": { "name": "n1", "managedFields": [{ "manager": "x" }] },
        "status": { "phase": "kept" },
    });
    fake.put(N1, fat);
    let store = Store::<Node>::new();
    let _following = store.start(Api::all(fake.client()), Settings::default(), |_| ());
    store.synced().await;
    let kept = store.list()[0].clone();
    assert_eq!(kept.metadata.managed_fields, None);
    let status = kept.status.clone().unwrap();
    assert_eq!(status.phase.as_deref(), Some("kept"));
}

#[tokio::test(start_paused = true)]
async fn a_pass_waits_for_its_own_write_to_come_back() {
    let fake = Fake::new();
    fake.put(N1, node("n1"));
    let (store, _heard, _following) = nodes(&fake, Settings::default());
    store.synced().await;
    settle().await;
    fake.hold_watches(true);
    let written = fake.put(N1, json!({ "metadata": { "name": "n1" }, "spec": {} }));
    let key = Key::cluster("n1");
    store.expect(&key, &version(&written));
    assert!(!store.has_caught_up(&key));
    assert!(
        store.has_caught_up(&Key::cluster("n2")),
        "other keys are not held"
    );
    let release = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        fake.hold_watches(false);
    };
    let (caught_up, ()) = tokio::join!(store.wait_for(&key), release);
    assert_eq!(caught_up.unwrap(), CaughtUp::Seen);
    assert_eq!(
        store.get(&key).unwrap().resource_version(),
        Some(version(&written))
    );
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_past_the_write_counts_as_seen() {
    let fake = Fake::new();
    let (store, _heard, _following) = nodes(&fake, Settings::default());
    store.synced().await;
    settle().await;
    let key = Key::cluster("left-the-selection");
    store.expect(&key, "1");
    fake.bookmark();
    fake.bookmark();
    settle().await;
    assert!(store.has_caught_up(&key));
}

#[tokio::test(start_paused = true)]
async fn a_late_watch_is_repaired_by_a_live_read_at_the_deadline() {
    let fake = Fake::new();
    fake.put(N1, node("n1"));
    let (store, heard, _following) = nodes(&fake, Settings::default());
    store.synced().await;
    settle().await;
    heard.take();
    fake.hold_watches(true);
    let first = fake.put(N1, json!({ "metadata": { "name": "n1" }, "spec": {} }));
    let second = fake.put(
        N1,
        json!({ "metadata": { "name": "n1" }, "spec": { "unschedulable": true } }),
    );
    let key = Key::cluster("n1");
    store.expect(&key, &version(&first));
    let started = Instant::now();
    assert_eq!(store.wait_for(&key).await.unwrap(), CaughtUp::Refetched);
    assert_eq!(started.elapsed(), Settings::default().catch_up_within);
    assert_eq!(
        store.get(&key).unwrap().resource_version(),
        Some(version(&second))
    );
    assert_eq!(heard.take(), ["~n1"], "the repair is told");
    fake.hold_watches(false);
    settle().await;
    assert_eq!(
        heard.take(),
        Vec::<String>::new(),
        "the late events bring nothing new, nor go back"
    );
    assert_eq!(
        store.get(&key).unwrap().resource_version(),
        Some(version(&second))
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_without_order_is_read_live_at_once() {
    let fake = Fake::new();
    fake.put(N1, node("n1"));
    let (store, _heard, _following) = nodes(&fake, Settings::default());
    store.synced().await;
    let key = Key::cluster("n1");
    store.expect(&key, "opaque");
    let started = Instant::now();
    assert_eq!(store.wait_for(&key).await.unwrap(), CaughtUp::Refetched);
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert!(store.has_caught_up(&key));
}

#[tokio::test(start_paused = true)]
async fn a_repair_that_fails_is_an_error_and_the_key_stays_held() {
    let fake = Fake::new();
    let (store, _heard, _following) = nodes(&fake, Settings::default());
    store.synced().await;
    let key = Key::cluster("n1");
    store.expect(&key, "99");
    fake.fault(
        "GET /api/v1/nodes/n1",
        Fault::Answer(failure(503, "ServiceUnavailable", "no")),
    );
    let error = store.wait_for(&key).await.unwrap_err();
    assert_eq!(error.class(), crate::ErrorClass::Transient);
    assert!(!store.has_caught_up(&key));
    assert_eq!(store.wait_for(&key).await.unwrap(), CaughtUp::Refetched);
}

/// One story with faults, told twice, must read the same.
async fn story() -> Vec<String> {
    let fake = Fake::new();
    for name in ["n2", "n1"] {
        fake.put(&format!("/api/v1/nodes/{name}"), node(name));
    }
    fake.fault(
        "GET /api/v1/nodes",
        Fault::Answer(failure(500, "InternalError", "no")),
    );
    fake.fault("WATCH /api/v1/nodes", Fault::LoseRequest);
    let (store, heard, _following) = nodes(&fake, Settings::default());
    let waiters = (0..10).map(|number| {
        let (store, heard) = (store.clone(), heard.clone());
        async move {
            store.synced().await;
            heard.0.lock().unwrap().push(format!("waiter {number}"));
        }
    });
    futures::future::join_all(waiters).await;
    for name in ["n5", "n3", "n4"] {
        fake.put(&format!("/api/v1/nodes/{name}"), node(name));
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    fake.compact();
    fake.remove(N1);
    tokio::time::sleep(Duration::from_mins(10)).await;
    heard.take().into_iter().chain(fake.log()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_same_story_leaves_the_same_trace() {
    let first = story().await;
    assert!(first.contains(&"-n1".to_owned()), "{first:?}");
    for _ in 0..5 {
        assert_eq!(first, story().await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_can_keep_a_part_of_each_object_and_still_knows_its_own_writes() {
    let fake = Fake::new();
    fake.put(N1, node("n1"));
    let store: Store<Node, String> = Store::keeping(|node: Node| node.name_any())
        .with_index("first letter", |name: &String| {
            name.get(..1).map(str::to_owned).into_iter().collect()
        });
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&heard);
    let _following = store.start(
        Api::all(fake.client()),
        Settings::default(),
        move |change| {
            told.lock().unwrap().push(change.object().as_ref().clone());
        },
    );
    store.synced().await;
    let made = fake.put(N2, node("n2"));
    store.expect(&Key::cluster("n2"), &version(&made));
    store.wait_for(&Key::cluster("n2")).await.unwrap();
    assert_eq!(store.by_index("first letter", "n").len(), 2);
    assert_eq!(*heard.lock().unwrap(), ["n1", "n2"]);
    fake.remove(N1);
    settle().await;
    assert_eq!(store.get(&Key::cluster("n1")), None);
}

#[tokio::test(start_paused = true)]
async fn what_a_write_made_is_known_before_the_watch_tells_and_told_once() {
    let fake = Fake::new();
    let (store, heard, _following) = nodes(&fake, Settings::default());
    store.synced().await;
    let made: Node = serde_json::from_value(fake.put(N1, node("n1"))).unwrap();
    store.learn(made.clone());
    assert_eq!(heard.take(), ["+n1"]);
    settle().await;
    assert_eq!(heard.take(), [""; 0], "the watch brings no news");
    fake.remove(N1);
    settle().await;
    store.learn(made);
    assert_eq!(heard.take(), ["-n1"], "what is deleted does not come back");
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_index_counts_and_gives_its_first_entries() {
    let fake = Fake::new();
    for name in ["n1", "n2", "n3"] {
        fake.put(&format!("/api/v1/nodes/{name}"), node(name));
    }
    let store = Store::<Node>::new().with_index("all", |_| vec![String::new()]);
    let _following = store.start(Api::all(fake.client()), Settings::default(), |_| ());
    store.synced().await;
    assert_eq!(store.count("all", ""), 3);
    assert_eq!(store.count("all", "none"), 0);
    let first = store.first_by_index("all", "", 2);
    let names: Vec<String> = first.iter().map(|node| node.name_any()).collect();
    assert_eq!(names, ["n1", "n2"]);
}
