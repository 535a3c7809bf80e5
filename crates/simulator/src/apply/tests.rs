//! What is true of every apply and every tracked write, and the cases worth a name.

use serde_json::{Value, json};

use super::{types::KindShape, *};

mod properties;
mod recorded;
mod shapes;

const THING: &str = include_str!("tests/thing.json");

/// A custom kind with every sort of list and map.
fn thing() -> KindShape {
    KindShape::custom(&serde_json::from_str(THING).unwrap(), true)
}

fn writer<'a>(manager: &'a str, shape: &'a KindShape, second: i64) -> Writer<'a> {
    Writer {
        manager,
        api_version: "shipshape.test/v1",
        kind: "Thing",
        subresource: "",
        shape,
        now: Timestamp::from_second(1_800_000_000 + second).unwrap(),
    }
}

fn configuration(spec: &Value) -> Value {
    json!({
        "apiVersion": "shipshape.test/v1",
        "kind": "Thing",
        "metadata": { "name": "t" },
        "spec": spec,
    })
}

fn applied(live: Option<&Value>, spec: &Value, writer: &Writer<'_>) -> Value {
    apply(live, &configuration(spec), writer, OnConflict::Refuse).unwrap()
}

fn entry<'v>(object: &'v Value, manager: &str) -> &'v Value {
    let list = object["metadata"]["managedFields"].as_array().unwrap();
    list.iter()
        .find(|entry| entry["manager"] == manager)
        .unwrap()
}

#[test]
fn apply_of_a_value_that_another_owns_is_refused_by_name() {
    let shape = thing();
    let live = applied(
        None,
        &json!({ "name": "a", "size": 1 }),
        &writer("first", &shape, 0),
    );
    let wanted = configuration(&json!({ "name": "b" }));
    let refused = apply(
        Some(&live),
        &wanted,
        &writer("second", &shape, 1),
        OnConflict::Refuse,
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        "Apply failed with 1 conflict: conflict with \"first\": .spec.name"
    );
}

#[test]
fn apply_by_force_takes_the_field_from_its_owner() {
    let shape = thing();
    let live = applied(
        None,
        &json!({ "name": "a", "size": 1 }),
        &writer("first", &shape, 0),
    );
    let wanted = configuration(&json!({ "name": "b" }));
    let new = apply(
        Some(&live),
        &wanted,
        &writer("second", &shape, 1),
        OnConflict::Take,
    )
    .unwrap();
    assert_eq!(new["spec"], json!({ "name": "b", "size": 1 }));
    assert_eq!(
        entry(&new, "first")["fieldsV1"],
        json!({ "f:spec": { "f:size": {} } })
    );
    assert_eq!(
        entry(&new, "second")["fieldsV1"],
        json!({ "f:spec": { "f:name": {} } })
    );
}

#[test]
fn field_that_two_applied_stays_until_the_last_gives_it_up() {
    let shape = thing();
    let both = json!({ "name": "a" });
    let one = applied(None, &both, &writer("first", &shape, 0));
    let two = applied(Some(&one), &both, &writer("second", &shape, 1));
    let kept = applied(Some(&two), &json!({}), &writer("first", &shape, 2));
    assert_eq!(kept["spec"]["name"], "a");
    let gone = applied(Some(&kept), &json!({}), &writer("second", &shape, 3));
    assert_eq!(gone["spec"].get("name"), None);
}

#[test]
fn applier_that_gives_up_its_only_label_leaves_the_metadata_alone() {
    let shape = thing();
    let mut labelled = configuration(&json!({ "name": "a" }));
    labelled["metadata"]["labels"] = json!({ "l": "1" });
    let first = writer("first", &shape, 0);
    let mut live = apply(None, &labelled, &first, OnConflict::Refuse).unwrap();
    live["metadata"]["uid"] = json!("u");
    let left = applied(
        Some(&live),
        &json!({ "name": "a" }),
        &writer("first", &shape, 1),
    );
    assert_eq!(left["metadata"]["name"], "t");
    assert_eq!(left["metadata"]["uid"], "u");
    assert_eq!(left["metadata"].get("labels"), None);
}

#[test]
fn update_that_changes_nothing_keeps_times_and_owners() {
    let shape = thing();
    let mut live = configuration(&json!({ "name": "a" }));
    track(None, &mut live, &writer("first", &shape, 0));
    let mut same = live.clone();
    track(Some(&live), &mut same, &writer("second", &shape, 9));
    assert_eq!(same, live);
}

#[test]
fn update_of_an_own_field_changes_only_the_time() {
    let shape = thing();
    let mut live = configuration(&json!({ "name": "a" }));
    track(None, &mut live, &writer("first", &shape, 0));
    let mut new = live.clone();
    new["spec"]["name"] = json!("b");
    track(Some(&live), &mut new, &writer("first", &shape, 9));
    let (before, after) = (entry(&live, "first"), entry(&new, "first"));
    assert_eq!(after["fieldsV1"], before["fieldsV1"]);
    assert_ne!(after["time"], before["time"]);
}

#[test]
fn value_that_turns_into_another_sort_takes_its_parts_along() {
    let shape = thing();
    let with = |free: Value| configuration(&json!({ "free": { "it": free } }));
    let mut live = with(json!({ "a": { "b": 1 } }));
    track(None, &mut live, &writer("first", &shape, 0));
    let mut flat = with(json!("x"));
    track(Some(&live), &mut flat, &writer("second", &shape, 1));
    let first = json!({ "f:spec": { ".": {}, "f:free": {} } });
    assert_eq!(entry(&flat, "first")["fieldsV1"], first);
    let mut deep = with(json!({ "c": 1 }));
    track(Some(&flat), &mut deep, &writer("third", &shape, 2));
    let third = json!({ "f:spec": { "f:free": { "f:it": { ".": {}, "f:c": {} } } } });
    assert_eq!(entry(&deep, "third")["fieldsV1"], third);
}

#[test]
fn status_written_with_the_object_is_owned_by_nobody() {
    let shape = thing();
    let mut live = configuration(&json!({ "name": "a" }));
    live["status"] = json!({ "phase": "x" });
    track(None, &mut live, &writer("first", &shape, 0));
    assert_eq!(entry(&live, "first")["fieldsV1"].get("f:status"), None);
}

#[test]
fn write_that_is_undone_by_the_server_keeps_its_times() {
    let shape = thing();
    let live = applied(None, &json!({ "name": "a" }), &writer("first", &shape, 0));
    let mut wanted = configuration(&json!({ "name": "a" }));
    wanted["status"] = json!({ "phase": "mine" });
    let writer = writer("first", &shape, 9);
    let mut new = apply(Some(&live), &wanted, &writer, OnConflict::Refuse).unwrap();
    new.as_object_mut().unwrap().remove("status");
    assert_ne!(new, live);
    keep_times(&live, &mut new);
    assert_eq!(new, live);
}

#[test]
fn manager_without_a_parameter_is_the_client_before_its_version() {
    assert_eq!(manager_name(None, Some("kubectl/v1.35 (linux)")), "kubectl");
    assert_eq!(manager_name(Some(""), Some("kube\u{7}let")), "kubelet");
    assert_eq!(manager_name(Some("me"), Some("kubectl/v1")), "me");
    assert_eq!(manager_name(None, Some(&"x".repeat(200))).len(), 128);
}
