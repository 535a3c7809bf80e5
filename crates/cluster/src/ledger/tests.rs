//! The ledger is read live, written under guard, and keeps what it does not understand.

use serde_json::json;
use shipshape_engine::ledger::Role;

use super::*;
use crate::error::ErrorClass;
use crate::fake::Fake;

const PATH: &str = "/api/v1/namespaces/ops/configmaps/shipshape-ledger";

fn slot(node: &str) -> Slot {
    Slot {
        node: node.into(),
        owner: "run-uid".into(),
        task: "default/task".into(),
        zone: "a".into(),
        role: Role::Worker,
        important: true,
        surges: None,
        granted_at: "2026-01-01T00:00:00Z".parse().unwrap(),
    }
}

fn ledger(fake: &Fake) -> LedgerStore {
    LedgerStore::new(fake.client(), "ops")
}

#[tokio::test(start_paused = true)]
async fn a_missing_ledger_is_empty_and_the_first_grant_makes_it() {
    let fake = Fake::new();
    let store = ledger(&fake);
    let mut read = store.read().await.unwrap();
    assert_eq!(read, Ledger::default());
    read.slots.insert("uid-1".into(), slot("n1"));
    store.write(&read).await.unwrap();
    let again = store.read().await.unwrap();
    assert_eq!(again.slots, read.slots);
    assert_eq!(again.resource_version.as_deref(), Some("1"));
    let text = fake.get(PATH).unwrap()["data"]["uid-1"]
        .as_str()
        .unwrap()
        .to_owned();
    let expected = r#"{"node":"n1","owner":"run-uid","task":"default/task","zone":"a","role":"Worker","important":true,"grantedAt":"2026-01-01T00:00:00Z"}"#;
    assert_eq!(text, expected);
}

#[tokio::test(start_paused = true)]
async fn of_two_grants_on_the_same_reading_one_is_refused() {
    let fake = Fake::new();
    let store = ledger(&fake);
    let mut first = store.read().await.unwrap();
    let mut second = first.clone();
    first.slots.insert("uid-1".into(), slot("n1"));
    second.slots.insert("uid-2".into(), slot("n2"));
    store.write(&first).await.unwrap();
    let error = store.write(&second).await.unwrap_err();
    assert_eq!(
        error.class(),
        ErrorClass::Conflict,
        "both wanted to make it"
    );

    let mut first = store.read().await.unwrap();
    let mut second = first.clone();
    first.slots.insert("uid-3".into(), slot("n3"));
    second.slots.clear();
    store.write(&first).await.unwrap();
    let error = store.write(&second).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict, "the version had moved");
    assert_eq!(store.read().await.unwrap().slots.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_slot_given_back_is_gone_from_the_object() {
    let fake = Fake::new();
    let store = ledger(&fake);
    let mut read = store.read().await.unwrap();
    read.slots.insert("uid-1".into(), slot("n1"));
    store.write(&read).await.unwrap();
    let mut read = store.read().await.unwrap();
    read.slots.clear();
    store.write(&read).await.unwrap();
    assert!(store.read().await.unwrap().slots.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_counts_and_is_written_back_as_it_was() {
    let fake = Fake::new();
    let text = serde_json::to_string(&slot("n2")).unwrap();
    let data = json!({ "uid-1": "{\"node\":\"n1\"}", "note": "x", "uid-2": text });
    fake.put(
        PATH,
        json!({ "metadata": { "name": "shipshape-ledger" }, "data": data }),
    );
    let store = ledger(&fake);
    let mut read = store.read().await.unwrap();
    assert_eq!(read.slots.keys().collect::<Vec<_>>(), ["uid-2"]);
    let usage = read.usage();
    assert_eq!((usage.important, usage.non_important), (1, 2));
    let complaint = read.complaint().unwrap();
    assert!(complaint.contains("\"note\" and 1 more"), "{complaint}");
    read.slots.clear();
    read.slots.insert("uid-1".into(), slot("n1"));
    store.write(&read).await.unwrap();
    let again = store.read().await.unwrap();
    assert_eq!(again.slots.keys().collect::<Vec<_>>(), ["uid-1"]);
    assert_eq!(again.unreadable, [("note".into(), "x".into())].into());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_ledger_is_a_failure_of_the_write_not_a_new_ledger() {
    let fake = Fake::new();
    let store = ledger(&fake);
    store.write(&Ledger::default()).await.unwrap();
    let read = store.read().await.unwrap();
    fake.remove(PATH);
    let error = store.write(&read).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Gone);
    assert_eq!(fake.get(PATH), None);
}
