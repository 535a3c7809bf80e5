//! Cordons have owners, and a node is only touched as it was read.

use serde_json::{Value, json};

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
    nodes.cordon(&before, "task-1").await.unwrap();
    let cordoned = read(&fake);
    assert!(is_cordoned(&cordoned));
    assert_eq!(cordoned_by(&cordoned), Some("task-1"));
    nodes.uncordon(&cordoned, "task-1").await.unwrap();
    let after = fake.get(PATH).unwrap();
    assert_eq!(after["spec"], json!({ "providerID": "x:///n1" }));
    assert_eq!(cordoned_by(&read(&fake)), None);
}

#[tokio::test(start_paused = true)]
async fn a_second_cordon_by_the_same_operation_writes_nothing() {
    let fake = Fake::new();
    let nodes = Nodes::new(fake.client());
    nodes.cordon(&put(&fake, |_| ()), "task-1").await.unwrap();
    let again = nodes.cordon(&read(&fake), "task-1").await.unwrap();
    assert_eq!(again, Cordon::Ours(Written::Unchanged));
    assert_eq!(fake.writes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cordon_that_was_there_before_is_neither_claimed_nor_lifted() {
    let fake = Fake::new();
    let nodes = Nodes::new(fake.client());
    let live = put(&fake, |node| node["spec"]["unschedulable"] = json!(true));
    let foreign = nodes.cordon(&live, "task-1").await.unwrap();
    assert_eq!(foreign, Cordon::Foreign { operation: None });
    let kept = nodes.uncordon(&live, "task-1").await.unwrap();
    assert_eq!(kept, Uncordon::Foreign { operation: None });
    assert_eq!(fake.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_cordon_of_another_operation_names_it() {
    let fake = Fake::new();
    let nodes = Nodes::new(fake.client());
    nodes.cordon(&put(&fake, |_| ()), "task-1").await.unwrap();
    let by = Some("task-1".to_owned());
    let live = read(&fake);
    let refused = nodes.cordon(&live, "task-2").await.unwrap();
    assert_eq!(
        refused,
        Cordon::Foreign {
            operation: by.clone()
        }
    );
    let refused = nodes.uncordon(&live, "task-2").await.unwrap();
    assert_eq!(refused, Uncordon::Foreign { operation: by });
}

#[tokio::test(start_paused = true)]
async fn a_node_that_changed_since_it_was_read_is_not_cordoned() {
    let fake = Fake::new();
    let live = put(&fake, |_| ());
    put(&fake, |node| node["metadata"]["labels"] = json!({}));
    let error = Nodes::new(fake.client())
        .cordon(&live, "task-1")
        .await
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict);
    assert!(!is_cordoned(&read(&fake)));
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
