//! Cordons have owners, and a node is only touched as it was read.

use serde_json::{Value, json};
use shipshape_api::gates::OutdatedTaintEffect;
use shipshape_engine::decision::Marks;

use super::*;
use crate::fake::{Fake, node};

const PATH: &str = "/api/v1/nodes/n1";

fn put(fake: &Fake, change: impl FnOnce(&mut Value)) -> Node {
    let mut object = node("n1");
    change(&mut object);
    serde_json::from_value(fake.put(PATH, object)).unwrap()
}

fn read(fake: &Fake) -> Node {
    serde_json::from_value(fake.get(PATH).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_cordon_is_set_with_its_owner_and_lifted_by_it_without_a_trace() {
    let fake = Fake::new();
    let nodes = Nodes::new(fake.client());
    let before = put(&fake, |_| ());
    nodes.cordon(Seen::of(&before), "task-1").await.unwrap();
    let cordoned = read(&fake);
    assert!(is_cordoned(&cordoned));
    assert_eq!(cordoned_by(&cordoned), Some("task-1"));
    nodes.uncordon(&cordoned, "task-1").await.unwrap();
    let after = fake.get(PATH).unwrap();
    assert_eq!(after["spec"], json!({ "providerID": "x:///n1" }));
    assert_eq!(cordoned_by(&read(&fake)), None);
}

#[tokio::test(start_paused = true)]
async fn a_cordon_of_somebody_else_is_not_lifted() {
    let fake = Fake::new();
    let nodes = Nodes::new(fake.client());
    let live = put(&fake, |node| node["spec"]["unschedulable"] = json!(true));
    let kept = nodes.uncordon(&live, "task-1").await.unwrap();
    assert_eq!(kept, Uncordon::Foreign { operation: None });
    assert_eq!(fake.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_cordon_of_another_operation_names_it() {
    let fake = Fake::new();
    let nodes = Nodes::new(fake.client());
    let open = put(&fake, |_| ());
    nodes.cordon(Seen::of(&open), "task-1").await.unwrap();
    let refused = nodes.uncordon(&read(&fake), "task-2").await.unwrap();
    let operation = Some("task-1".to_owned());
    assert_eq!(refused, Uncordon::Foreign { operation });
}

#[tokio::test(start_paused = true)]
async fn a_node_that_changed_since_it_was_read_is_not_cordoned() {
    let fake = Fake::new();
    let live = put(&fake, |_| ());
    put(&fake, |node| node["metadata"]["labels"] = json!({}));
    let error = Nodes::new(fake.client())
        .cordon(Seen::of(&live), "task-1")
        .await
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict);
    assert!(!is_cordoned(&read(&fake)));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_read_is_not_cordoned() {
    let fake = Fake::new();
    let mut live = put(&fake, |_| ());
    live.metadata.resource_version = None;
    let nodes = Nodes::new(fake.client());
    let error = nodes.cordon(Seen::of(&live), "task-1").await.unwrap_err();
    assert!(error.to_string().contains("resourceVersion"), "{error}");
    assert_eq!(fake.writes(), Vec::<String>::new());
}

/// What keeps a cordon that was decided before a task was turned from coming after it.
#[tokio::test(start_paused = true)]
async fn a_node_whose_mark_was_renewed_since_it_was_read_is_not_cordoned() {
    let fake = Fake::new();
    let nodes = Nodes::new(fake.client());
    let bare = put(&fake, |_| ());
    let marks = Marks {
        outdated: Some(OutdatedTaintEffect::PreferNoSchedule),
        held: false,
    };
    let marked = with_marks(&bare, "run", "ns/run", marks);
    nodes.write(&bare, &marked).await.unwrap();
    let live = read(&fake);
    let at = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    let renewed = with_renewed_mark(&live, "run", at);
    nodes.write(&live, &renewed).await.unwrap();
    let late = nodes.cordon(Seen::of(&live), "task-1").await.unwrap_err();
    assert_eq!(late.class(), ErrorClass::Conflict);
    nodes
        .cordon(Seen::of(&read(&fake)), "task-1")
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_open_node_is_open_without_a_write() {
    let fake = Fake::new();
    let live = put(&fake, |_| ());
    let open = Nodes::new(fake.client())
        .uncordon(&live, "task-1")
        .await
        .unwrap();
    assert_eq!(open, Uncordon::Open(Written::Unchanged));
    assert_eq!(fake.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_live_read_tells_the_node_from_its_namesake() {
    let fake = Fake::new();
    let nodes = Nodes::new(fake.client());
    let uid = put(&fake, |_| ()).uid().unwrap();
    assert!(matches!(
        nodes.live("n1", &uid).await.unwrap(),
        Live::Here(_)
    ));
    let other = nodes.live("n1", "earlier").await.unwrap();
    assert!(matches!(other, Live::Replaced { uid: found } if found == uid));
    assert!(matches!(nodes.live("n2", &uid).await.unwrap(), Live::Gone));
}

#[tokio::test(start_paused = true)]
async fn only_the_node_of_that_uid_is_deleted() {
    let fake = Fake::new();
    let nodes = Nodes::new(fake.client());
    let uid = put(&fake, |_| ()).uid().unwrap();
    assert_eq!(nodes.delete("n1", "earlier").await.unwrap(), Deletion::Gone);
    assert!(fake.get(PATH).is_some());
    assert_eq!(nodes.delete("n1", &uid).await.unwrap(), Deletion::Accepted);
    assert_eq!(fake.get(PATH), None);
    assert_eq!(nodes.delete("n1", &uid).await.unwrap(), Deletion::Gone);
}
