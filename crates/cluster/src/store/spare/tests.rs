//! What is left out is left out, and nothing else is.

use k8s_openapi::api::core::v1::Pod;
use kube::api::WatchEvent;
use serde_json::json;

use super::*;
use crate::fake::{Fake, Fault};

struct Names;

impl Kept for Names {
    const FIELDS: Fields = &[("PodSpec", &["nodeName"])];
}

fn text() -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web", "labels": { "managedFields": "a label of that name stays" },
            "managedFields": [{ "manager": "kubectl", "fieldsV1": { "f:spec": { "f:a\"b\\": {} } } }],
            "resourceVersion": "7",
        },
        "spec": {
            "containers": [{ "name": "web", "image": "web:1" }], "nodeName": "node-1",
            "volumes": null, "priority": 3,
        },
        "status": { "phase": "Running" },
    })
    .to_string()
}

#[test]
fn managed_fields_are_left_out_and_nothing_else() {
    let mut whole: Pod = serde_json::from_str(&text()).unwrap();
    assert!(whole.metadata.managed_fields.take().is_some());
    let spare: Spare<Pod, Pod> = serde_json::from_str(&text()).unwrap();
    assert_eq!(spare.object, whole);
}

#[test]
fn of_a_listed_struct_only_the_listed_fields_are_read() {
    let mut whole: Pod = serde_json::from_str(&text()).unwrap();
    whole.metadata.managed_fields = None;
    let spec = whole.spec.as_mut().unwrap();
    spec.containers.clear();
    spec.priority = None;
    let spare: Spare<Pod, Names> = serde_json::from_str(&text()).unwrap();
    assert_eq!(spare.object, whole);
}

#[test]
fn events_are_read_whichever_way_round_they_are_written() {
    let object = text();
    for event in [
        format!(r#"{{"type":"MODIFIED","object":{object}}}"#),
        format!(r#"{{"object":{object},"type":"MODIFIED"}}"#),
    ] {
        let event: WatchEvent<Spare<Pod, Names>> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Modified(pod) = event else {
            panic!("another event");
        };
        assert_eq!(pod.object.metadata.managed_fields, None);
        assert_eq!(pod.object.metadata.name.as_deref(), Some("web"));
        assert!(pod.object.spec.unwrap().containers.is_empty());
    }
}

#[test]
fn what_cannot_be_read_is_told_and_not_passed_over() {
    let broken = text().replace(r#""priority":3"#, r#""priority":"three""#);
    assert!(serde_json::from_str::<Spare<Pod, Pod>>(&broken).is_err());
    let cut = text()[..200].to_owned();
    assert!(serde_json::from_str::<Spare<Pod, Names>>(&cut).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_live_look_that_gets_no_answer_is_given_up() {
    let fake = Fake::new();
    let api: Api<Pod> = Api::namespaced(fake.client(), "shop");
    fake.fault("GET", Fault::LoseRequest);
    let one = get_opt::<_, Pod>(&api, "web").await.unwrap_err();
    assert!(matches!(one, crate::Error::Timeout { .. }), "{one:?}");
    fake.fault("GET", Fault::LoseRequest);
    let all = list::<_, Pod>(&api, &ListParams::default()).await;
    let all = all.unwrap_err();
    assert!(matches!(all, crate::Error::Timeout { .. }), "{all:?}");
}
