//! Differences, and writes that lose against newer ones.

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::*;
use crate::error::ErrorClass;
use crate::fake::{Fake, node};

const N1: &str = "/api/v1/nodes/n1";

#[test]
fn a_difference_holds_what_changed_and_nulls_for_what_went() {
    let table = [
        (json!({"a": 1}), json!({"a": 1}), None),
        (json!({"a": 1}), json!({"a": 2}), Some(json!({"a": 2}))),
        (
            json!({"a": 1, "b": 2}),
            json!({"b": 2}),
            Some(json!({"a": null})),
        ),
        (
            json!({"a": 1}),
            json!({"a": null}),
            Some(json!({"a": null})),
        ),
        (json!({"a": null}), json!({}), None),
        (json!({}), json!({"a": null}), None),
        (
            json!({"a": {"b": 1, "c": 2}}),
            json!({"a": {"b": 1}}),
            Some(json!({"a": {"c": null}})),
        ),
        (
            json!({"a": [1, 2]}),
            json!({"a": [2]}),
            Some(json!({"a": [2]})),
        ),
        (
            json!({"a": [{"b": 1}]}),
            json!({"a": [{"b": 1, "c": null}]}),
            None,
        ),
        (
            json!({"a": 1}),
            json!({"a": {"b": 1}}),
            Some(json!({"a": {"b": 1}})),
        ),
        (Value::Null, json!({"a": 1}), Some(json!({"a": 1}))),
        (Value::Null, json!({}), None),
        (Value::Null, json!({"a": {}}), None),
    ];
    for (old, new, expected) in table {
        assert_eq!(difference(&old, &new), expected, "{old} -> {new}");
    }
}

fn read(fake: &Fake) -> Node {
    serde_json::from_value(fake.get(N1).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_write_sends_only_the_difference_and_the_version() {
    let fake = Fake::new();
    fake.put(N1, node("n1"));
    let observed = read(&fake);
    let mut wanted = observed.clone();
    wanted.labels_mut().remove("zone");
    wanted.labels_mut().insert("tier".into(), "web".into());
    let written = write(&Api::all(fake.client()), &observed, &wanted)
        .await
        .unwrap();
    assert_eq!(written.version(), Some("2"));
    let labels = json!({ "tier": "web", "zone": null });
    assert_eq!(
        fake.last_body(),
        json!({ "metadata": { "labels": labels, "resourceVersion": "1" } })
    );
    assert_eq!(read(&fake).labels().get("zone"), None);
}

#[tokio::test(start_paused = true)]
async fn a_write_without_a_difference_is_not_sent() {
    let fake = Fake::new();
    fake.put(N1, node("n1"));
    let observed = read(&fake);
    let written = write(&Api::all(fake.client()), &observed, &observed.clone())
        .await
        .unwrap();
    assert_eq!(written, Written::Unchanged);
    assert_eq!(fake.log(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_write_on_a_stale_snapshot_is_a_conflict_and_changes_nothing() {
    let fake = Fake::new();
    fake.put(N1, node("n1"));
    let observed = read(&fake);
    fake.put(
        N1,
        json!({ "metadata": { "name": "n1" }, "spec": { "podCIDR": "x" } }),
    );
    let mut wanted = observed.clone();
    wanted.labels_mut().clear();
    let error = write(&Api::all(fake.client()), &observed, &wanted)
        .await
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict);
    assert_eq!(read(&fake).resource_version().as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn a_write_of_an_object_that_was_never_read_is_refused() {
    let fake = Fake::new();
    let mut wanted = Node::default();
    wanted.metadata.name = Some("n1".into());
    let error = write(&Api::all(fake.client()), &Node::default(), &wanted)
        .await
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Invalid);
    assert_eq!(fake.log(), Vec::<String>::new());
}
