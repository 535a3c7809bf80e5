//! What is left behind, and who cleans it up: volumes, owned objects, namespaces.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::DeleteParams;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_volume_follows_its_pod_after_the_detach_delay() {
    let world = start(WorldSpec::small(10, 2).with([stateful_set("db", 1, 100)])).await;
    seconds(60).await;
    let attachments: Api<VolumeAttachment> = Api::all(world.client("test"));
    let held = async || {
        attachments
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
    };
    let before = held().await;
    assert_eq!(before.len(), 1);
    assert!(before[0].status.as_ref().unwrap().attached);
    let first = node_of(&pods_of(&world, "db").await[0]);
    assert_eq!(before[0].spec.node_name, first);

    cordon(&world, &first).await;
    evict(&world, "db-0").await.unwrap();
    seconds(5).await;
    assert_eq!(held().await[0].spec.node_name, first, "detached too early");
    seconds(30).await;
    let after = held().await;
    assert_eq!(after.len(), 1);
    assert_ne!(after[0].spec.node_name, first);
    assert_eq!(
        after[0].spec.node_name,
        node_of(&pods_of(&world, "db").await[0])
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_deployment_takes_its_sets_and_pods_along() {
    let world = start(WorldSpec::small(11, 1).with([
        deployment("a", 2, 10),
        deployment("b", 2, 10),
        deployment("c", 2, 10),
    ]))
    .await;
    seconds(20).await;
    let deployments: Api<Deployment> = Api::namespaced(world.client("test"), "default");
    let sets: Api<ReplicaSet> = Api::namespaced(world.client("test"), "default");
    deployments
        .delete("a", &DeleteParams::background())
        .await
        .unwrap();
    deployments
        .delete("b", &DeleteParams::foreground())
        .await
        .unwrap();
    deployments
        .delete("c", &DeleteParams::orphan())
        .await
        .unwrap();
    seconds(30).await;
    assert_eq!(
        deployments
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        0
    );
    let left = sets.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(left.len(), 1);
    assert!(left[0].name_any().starts_with("c-"));
    assert_eq!(left[0].owner_references(), []);
    let counts = [
        pods_of(&world, "a").await.len(),
        pods_of(&world, "b").await.len(),
        pods_of(&world, "c").await.len(),
    ];
    assert_eq!(counts, [0, 0, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_goes_with_its_contents() {
    let world = start(WorldSpec::small(12, 1)).await;
    let namespaces: Api<Namespace> = Api::all(world.client("test"));
    let maps: Api<ConfigMap> = Api::namespaced(world.client("test"), "team");
    let named = |name: &str| json!({ "metadata": { "name": name } });
    let namespace = serde_json::from_value(named("team")).unwrap();
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    maps.create(
        &PostParams::default(),
        &serde_json::from_value(named("notes")).unwrap(),
    )
    .await
    .unwrap();
    seconds(2).await;
    namespaces
        .delete("team", &DeleteParams::default())
        .await
        .unwrap();
    seconds(5).await;
    assert!(namespaces.get_opt("team").await.unwrap().is_none());
    assert!(maps.get_opt("notes").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_claim_waits_for_its_last_pod() {
    let world = start(WorldSpec::small(16, 1).with([stateful_set("db", 1, 100)])).await;
    seconds(30).await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(world.client("test"), "default");
    let sets: Api<StatefulSet> = Api::namespaced(world.client("test"), "default");
    claims
        .delete("data-db-0", &DeleteParams::default())
        .await
        .unwrap();
    seconds(10).await;
    assert!(claims.get_opt("data-db-0").await.unwrap().is_some());
    sets.delete("db", &DeleteParams::background())
        .await
        .unwrap();
    seconds(20).await;
    assert!(claims.get_opt("data-db-0").await.unwrap().is_none());
}
