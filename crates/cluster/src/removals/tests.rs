//! Removals are counted in one object, and of two who count at once one must look again.

use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::error::ErrorClass;
use crate::fake::Fake;

fn removed(node: &str) -> RemovedNode {
    RemovedNode {
        node: node.to_owned(),
        group: "workers".to_owned(),
        cause: "network".to_owned(),
        at: Timestamp::UNIX_EPOCH,
        failures: Vec::new(),
        evidence: None,
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_removals_counted_on_the_same_reading_one_is_refused() {
    let fake = Fake::new();
    let store = RemovalStore::new(fake.client(), "ns");
    for round in 0..2 {
        let mut first = store.read().await.unwrap();
        let mut second = first.clone();
        first.nodes.insert(format!("uid-a{round}"), removed("a"));
        second.nodes.insert(format!("uid-b{round}"), removed("b"));
        store.write(&first).await.unwrap();
        let error = store.write(&second).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Conflict, "round {round}");
        assert_eq!(store.read().await.unwrap().nodes, first.nodes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_cannot_be_read_is_an_error_that_names_it() {
    let fake = Fake::new();
    let path = format!("/api/v1/namespaces/ns/configmaps/{DELETIONS_NAME}");
    let data = json!({ "uid-1": "{}" });
    fake.put(
        &path,
        json!({ "metadata": { "name": DELETIONS_NAME }, "data": data }),
    );
    let store = RemovalStore::new(fake.client(), "ns");
    let error = store.read().await.unwrap_err();
    assert!(error.to_string().contains("data.uid-1"), "{error}");
}
