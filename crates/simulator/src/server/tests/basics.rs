//! Plain reads and writes through the served API.

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;

use super::cluster;

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "a": "1" } })).unwrap()
}

#[tokio::test(start_paused = true)]
async fn object_lives_from_create_to_delete() {
    let server = cluster();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client("test"));
    let made = maps
        .create(&PostParams::default(), &config_map("one"))
        .await
        .unwrap();
    assert!(made.metadata.uid.is_some());
    let again = maps
        .create(&PostParams::default(), &config_map("one"))
        .await
        .unwrap_err();
    assert!(matches!(again, kube::Error::Api(s) if s.code == 409 && s.reason == "AlreadyExists"));

    let patch = Patch::Merge(json!({ "data": { "b": "2" } }));
    let patched = maps
        .patch("one", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(patched.data.as_ref().unwrap().len(), 2);
    let same = maps
        .patch("one", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(
        same.metadata.resource_version,
        patched.metadata.resource_version
    );

    let stale = maps
        .replace("one", &PostParams::default(), &made)
        .await
        .unwrap_err();
    assert!(matches!(stale, kube::Error::Api(s) if s.code == 409 && s.reason == "Conflict"));

    maps.delete("one", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("one").await.unwrap().is_none());
    let codes: Vec<_> = server
        .log()
        .iter()
        .map(|e| (e.verb.as_str(), e.code))
        .collect();
    assert_eq!(
        codes,
        [
            ("create", 201),
            ("create", 409),
            ("patch", 200),
            ("patch", 200),
            ("update", 409),
            ("delete", 200),
            ("get", 404)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn watch_tells_what_happens_after_the_list() {
    let server = cluster();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client("test"));
    let listed = maps.list(&ListParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &config_map("one"))
        .await
        .unwrap();
    let version = listed.metadata.resource_version.unwrap();
    let stream = maps.watch(&WatchParams::default(), &version).await.unwrap();
    maps.delete("one", &DeleteParams::default()).await.unwrap();
    let events: Vec<_> = stream.take(2).try_collect().await.unwrap();
    assert!(
        matches!(&events[0], WatchEvent::Added(m) if m.metadata.name.as_deref() == Some("one"))
    );
    assert!(matches!(&events[1], WatchEvent::Deleted(_)));
}

#[tokio::test(start_paused = true)]
async fn namespace_that_is_missing_takes_no_objects() {
    let server = cluster();
    let maps: Api<ConfigMap> = Api::namespaced(server.client("test"), "nowhere");
    let refused = maps
        .create(&PostParams::default(), &config_map("one"))
        .await
        .unwrap_err();
    assert!(matches!(refused, kube::Error::Api(s) if s.code == 404));
    let namespaces: Api<Namespace> = Api::all(server.client("test"));
    assert_eq!(
        namespaces
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        4
    );
}

#[tokio::test(start_paused = true)]
async fn scheduled_pod_is_deleted_after_its_grace_period() {
    let server = cluster();
    let pods: Api<Pod> = Api::default_namespaced(server.client("test"));
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "p" },
        "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] },
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    pods.delete("p", &DeleteParams::default().grace_period(20))
        .await
        .unwrap();
    let dying = pods.get("p").await.unwrap();
    assert_eq!(dying.metadata.deletion_grace_period_seconds, Some(20));
    pods.delete("p", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
    assert!(pods.get_opt("p").await.unwrap().is_none());
}
