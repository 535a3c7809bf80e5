//! Status is written when it differs, and only over what was seen.

use kube::core::{ApiResource, GroupVersionKind, Object};
use serde::Deserialize;

use super::*;
use crate::error::ErrorClass;
use crate::fake::Fake;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Spec {
    size: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    steps: Vec<String>,
}

type Thing = Object<Spec, Report>;

const PATH: &str = "/apis/shipshape.dev/v1/namespaces/a/things/t";

fn api(fake: &Fake) -> Api<Thing> {
    let kind = GroupVersionKind::gvk("shipshape.dev", "v1", "Thing");
    let kind = ApiResource::from_gvk_with_plural(&kind, "things");
    Api::namespaced_with(fake.client(), "a", &kind)
}

fn put(fake: &Fake, status: &Value) -> Thing {
    let object = json!({
        "apiVersion": "shipshape.dev/v1", "kind": "Thing",
        "metadata": { "name": "t" }, "spec": { "size": 1 }, "status": status,
    });
    serde_json::from_value(fake.put(PATH, object)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_equal_status_is_not_written() {
    let fake = Fake::new();
    let observed = put(&fake, &json!({ "phase": "Draining", "steps": ["lock"] }));
    let wanted = observed.status.clone().unwrap();
    let written = write_status(&api(&fake), &observed, &wanted).await.unwrap();
    assert_eq!(written, Written::Unchanged);
    assert_eq!(fake.log(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_field_that_became_none_is_removed() {
    let fake = Fake::new();
    let observed = put(
        &fake,
        &json!({ "phase": "Draining", "waiting": "budget shop/web" }),
    );
    let wanted = Report {
        phase: Some("Done".into()),
        ..Report::default()
    };
    let written = write_status(&api(&fake), &observed, &wanted).await.unwrap();
    assert_eq!(written.version(), Some("2"));
    assert_eq!(
        fake.get(PATH).unwrap()["status"],
        json!({ "phase": "Done" })
    );
    assert_eq!(fake.log(), [format!("PATCH {PATH}/status")]);
    let status = json!({ "phase": "Done", "waiting": null });
    assert_eq!(
        fake.last_body(),
        json!({ "metadata": { "resourceVersion": "1" }, "status": status })
    );
}

#[tokio::test(start_paused = true)]
async fn a_first_status_is_written_whole() {
    let fake = Fake::new();
    let observed = put(&fake, &Value::Null);
    let wanted = Report {
        steps: vec!["lock".into()],
        ..Report::default()
    };
    write_status(&api(&fake), &observed, &wanted).await.unwrap();
    assert_eq!(
        fake.get(PATH).unwrap()["status"],
        json!({ "steps": ["lock"] })
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_computed_from_a_stale_snapshot_is_refused() {
    let fake = Fake::new();
    let observed = put(&fake, &json!({ "phase": "Draining" }));
    put(&fake, &json!({ "phase": "Failed" }));
    let wanted = Report {
        phase: Some("Done".into()),
        ..Report::default()
    };
    let error = write_status(&api(&fake), &observed, &wanted)
        .await
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict);
    assert_eq!(fake.get(PATH).unwrap()["status"]["phase"], "Failed");
}

#[tokio::test(start_paused = true)]
async fn a_status_of_an_object_that_is_gone_says_gone() {
    let fake = Fake::new();
    let observed = put(&fake, &Value::Null);
    fake.remove(PATH);
    let wanted = Report {
        phase: Some("Done".into()),
        ..Report::default()
    };
    let error = write_status(&api(&fake), &observed, &wanted)
        .await
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Gone);
}
