//! The actors at work, seen through the API alone.

mod determinism;
mod leftovers;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{EvictParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::*;

async fn start(spec: WorldSpec) -> World {
    World::start(spec).await.unwrap()
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

fn pods(world: &World) -> Api<Pod> {
    Api::namespaced(world.client("test"), "default")
}

fn nodes(world: &World) -> Api<Node> {
    Api::all(world.client("test"))
}

async fn pods_of(world: &World, app: &str) -> Vec<Pod> {
    let list = ListParams::default().labels(&format!("app={app}"));
    pods(world).list(&list).await.unwrap().items
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone());
    conditions
        .iter()
        .flatten()
        .any(|item| item.type_ == "Ready" && item.status == "True")
}

fn node_of(pod: &Pod) -> String {
    pod.spec
        .as_ref()
        .unwrap()
        .node_name
        .clone()
        .unwrap_or_default()
}

async fn evict(world: &World, pod: &str) -> Result<(), u16> {
    match pods(world).evict(pod, &EvictParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(other) => panic!("{other}"),
    }
}

async fn cordon(world: &World, node: &str) {
    let patch = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
    nodes(world)
        .patch(node, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_world_starts_with_its_nodes_ready_and_untainted() {
    let world = start(WorldSpec::small(1, 3)).await;
    seconds(5).await;
    let nodes = nodes(&world)
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    assert_eq!(nodes.len(), 3);
    let zones: BTreeSet<_> = nodes
        .iter()
        .map(|node| node.labels()["topology.kubernetes.io/zone"].clone())
        .collect();
    assert_eq!(zones.len(), 3);
    for node in &nodes {
        let spec = node.spec.as_ref().unwrap();
        assert_eq!(spec.taints.clone().unwrap_or_default(), []);
        assert!(
            spec.provider_id
                .as_ref()
                .unwrap()
                .starts_with("embedded:///")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_spreads_and_comes_back_on_another_node_after_an_eviction() {
    let world = start(WorldSpec::small(1, 3).with([deployment("web", 3, 100)])).await;
    seconds(30).await;
    let before = pods_of(&world, "web").await;
    assert!(before.iter().all(is_ready), "{before:#?}");
    let places: BTreeSet<_> = before.iter().map(node_of).collect();
    assert_eq!(places.len(), 3);

    let victim = &before[0];
    cordon(&world, &node_of(victim)).await;
    evict(&world, &victim.name_any()).await.unwrap();
    seconds(30).await;
    let after = pods_of(&world, "web").await;
    assert_eq!(after.len(), 3);
    assert!(
        after
            .iter()
            .all(|pod| is_ready(pod) && node_of(pod) != node_of(victim))
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_drawn_anew() {
    let drawn = start(WorldSpec::small(7, 2).with([deployment("web", 3, 100)])).await;
    seconds(20).await;
    let names: Vec<String> = pods_of(&drawn, "web")
        .await
        .iter()
        .map(kube::ResourceExt::name_any)
        .collect();
    assert_eq!(names.len(), 3);
    // The same seed in a world where somebody else has these names.
    let squatters = names.iter().map(|name| {
        json!({ "apiVersion": "v1", "kind": "Pod",
                "metadata": { "name": name, "namespace": "default" },
                "spec": { "containers": [{ "name": "main", "image": "i" }] } })
    });
    let spec = WorldSpec::small(7, 2).with(squatters);
    let world = start(spec.with([deployment("web", 3, 100)])).await;
    seconds(20).await;
    assert_eq!(pods_of(&world, "web").await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_budget_refuses_and_allows_again_once_the_new_pod_is_ready() {
    let spec = WorldSpec::small(2, 3).with([deployment("web", 3, 100), budget("web", 2)]);
    let world = start(spec).await;
    seconds(30).await;
    let before = pods_of(&world, "web").await;
    evict(&world, &before[0].name_any()).await.unwrap();
    assert_eq!(evict(&world, &before[1].name_any()).await, Err(429));
    seconds(1).await;
    assert_eq!(evict(&world, &before[1].name_any()).await, Err(429));
    seconds(30).await;
    evict(&world, &before[1].name_any()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_tainted_its_pods_are_evicted_and_it_comes_back() {
    let world = start(WorldSpec::small(3, 2).with([deployment("web", 2, 100)])).await;
    seconds(30).await;
    let lost = node_of(&pods_of(&world, "web").await[0]);
    world.kubelet(&lost).unwrap().set_frozen(true);
    seconds(60).await;
    let node = nodes(&world).get(&lost).await.unwrap();
    let taints: Vec<_> = node
        .spec
        .unwrap()
        .taints
        .unwrap()
        .into_iter()
        .map(|taint| (taint.key, taint.effect))
        .collect();
    let unreachable = "node.kubernetes.io/unreachable".to_owned();
    assert!(taints.contains(&(unreachable.clone(), "NoSchedule".to_owned())));
    assert!(taints.contains(&(unreachable, "NoExecute".to_owned())));
    let here: Vec<_> = pods_of(&world, "web")
        .await
        .into_iter()
        .filter(|pod| node_of(pod) == lost)
        .collect();
    assert!(
        here.iter()
            .all(|pod| !is_ready(pod) && pod.metadata.deletion_timestamp.is_none())
    );

    seconds(320).await;
    let serving = pods_of(&world, "web")
        .await
        .into_iter()
        .filter(is_ready)
        .count();
    assert_eq!(serving, 2, "the pod of the silent node came back elsewhere");

    world.kubelet(&lost).unwrap().set_frozen(false);
    seconds(30).await;
    let node = nodes(&world).get(&lost).await.unwrap();
    assert!(is_node_ready(&node));
    assert_eq!(node.spec.unwrap().taints.unwrap_or_default(), []);
    assert_eq!(pods_of(&world, "web").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stateful_pod_keeps_its_name_when_it_moves() {
    let world = start(WorldSpec::small(4, 3).with([stateful_set("db", 3, 100)])).await;
    seconds(60).await;
    let before = pods_of(&world, "db").await;
    let names: Vec<_> = before.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names, ["db-0", "db-1", "db-2"]);
    let moved = &before[1];
    cordon(&world, &node_of(moved)).await;
    evict(&world, "db-1").await.unwrap();
    seconds(60).await;
    let after = pods(&world).get("db-1").await.unwrap();
    assert!(is_ready(&after));
    assert_ne!(after.uid(), moved.uid());
    assert_ne!(node_of(&after), node_of(moved));
}

#[tokio::test(start_paused = true)]
async fn a_daemon_appears_on_every_node_and_on_a_new_one() {
    let world = start(WorldSpec::small(5, 2).with([daemon_set("agent", 50)])).await;
    seconds(30).await;
    assert_eq!(
        pods_of(&world, "agent")
            .await
            .iter()
            .filter(|pod| is_ready(pod))
            .count(),
        2
    );
    world.cloud().set_desired(&"workers".into(), 3).unwrap();
    seconds(240).await;
    let agents = pods_of(&world, "agent").await;
    let places: BTreeSet<_> = agents
        .iter()
        .filter(|pod| is_ready(pod))
        .map(node_of)
        .collect();
    assert_eq!(places.len(), 3, "{places:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_to_its_end() {
    let world = start(WorldSpec::small(6, 1).with([job("backup", 100)])).await;
    seconds(120).await;
    let jobs: Api<k8s_openapi::api::batch::v1::Job> =
        Api::namespaced(world.client("test"), "default");
    let status = jobs.get("backup").await.unwrap().status.unwrap();
    assert_eq!(status.succeeded, Some(1));
    assert!(
        status
            .conditions
            .iter()
            .flatten()
            .any(|item| item.type_ == "Complete")
    );
    assert_eq!(pods_of(&world, "backup").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dead_machine_takes_its_pods_its_node_goes_and_the_group_heals() {
    let world = start(WorldSpec::small(7, 3).with([deployment("web", 3, 100)])).await;
    seconds(30).await;
    world.cloud().kill_machine(&"workers-002".into());
    seconds(300).await;
    let names: Vec<_> = nodes(&world)
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    let names: Vec<_> = names.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(
        names,
        ["node-workers-001", "node-workers-003", "node-workers-004"]
    );
    let web = pods_of(&world, "web").await;
    assert_eq!(web.len(), 3);
    assert!(web.iter().all(is_ready));
}

#[tokio::test(start_paused = true)]
async fn a_reboot_changes_the_boot_id_and_pods_start_again() {
    let world = start(WorldSpec::small(8, 1).with([deployment("web", 1, 100)])).await;
    seconds(30).await;
    let boot = |node: Node| node.status.unwrap().node_info.unwrap().boot_id;
    let before = boot(nodes(&world).get("node-workers-001").await.unwrap());
    world
        .kubelet("node-workers-001")
        .unwrap()
        .reboot(Duration::from_secs(20))
        .await;
    seconds(30).await;
    assert_ne!(
        boot(nodes(&world).get("node-workers-001").await.unwrap()),
        before
    );
    let pod = &pods_of(&world, "web").await[0];
    assert!(is_ready(pod));
    let restarts = pod
        .status
        .as_ref()
        .unwrap()
        .container_statuses
        .as_ref()
        .unwrap()[0]
        .restart_count;
    assert_eq!(restarts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_says_why_and_starts_when_there_is_room() {
    let world = start(WorldSpec::small(9, 1).with([deployment("big", 2, 3_000)])).await;
    seconds(30).await;
    let waiting: Vec<_> = pods_of(&world, "big")
        .await
        .into_iter()
        .filter(|pod| node_of(pod).is_empty())
        .collect();
    let conditions = waiting[0]
        .status
        .as_ref()
        .unwrap()
        .conditions
        .clone()
        .unwrap();
    let scheduled = conditions
        .iter()
        .find(|item| item.type_ == "PodScheduled")
        .unwrap();
    assert_eq!(scheduled.reason.as_deref(), Some("Unschedulable"));
    assert!(
        scheduled
            .message
            .as_ref()
            .unwrap()
            .contains("Insufficient cpu")
    );
    world.cloud().set_desired(&"workers".into(), 2).unwrap();
    seconds(240).await;
    assert!(pods_of(&world, "big").await.iter().all(is_ready));
}

#[tokio::test(start_paused = true)]
async fn a_broken_image_boots_but_never_joins() {
    let world = start(WorldSpec::small(13, 1)).await;
    world
        .cloud()
        .adjust(|settings| _ = settings.broken_images.insert("image-2".to_owned()));
    world.cloud().set_desired(&"workers".into(), 2).unwrap();
    seconds(600).await;
    assert_eq!(
        nodes(&world)
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    let ready = world
        .cloud()
        .machines()
        .into_iter()
        .filter(|machine| machine.image.as_str() == "image-2");
    assert_eq!(ready.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_an_unready_image_joins_and_never_gets_ready() {
    let world = start(WorldSpec::small(13, 1)).await;
    world
        .cloud()
        .adjust(|settings| _ = settings.unready_images.insert("image-2".to_owned()));
    world.cloud().set_desired(&"workers".into(), 2).unwrap();
    seconds(600).await;
    let joined = nodes(&world).list(&ListParams::default()).await.unwrap();
    let ready = joined.iter().filter(|node| is_node_ready(node)).count();
    assert_eq!((joined.items.len(), ready), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_silent_for_a_moment_keeps_its_pods() {
    let world = start(WorldSpec::small(14, 1).with([deployment("web", 1, 100)])).await;
    seconds(30).await;
    let before = pods_of(&world, "web").await;
    let kubelet = world.kubelet("node-workers-001").unwrap();
    kubelet.set_frozen(true);
    seconds(60).await;
    assert!(!is_ready(&pods_of(&world, "web").await[0]));
    kubelet.set_frozen(false);
    seconds(30).await;
    let after = pods_of(&world, "web").await;
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].uid(), before[0].uid());
    assert!(is_ready(&after[0]));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_says_not_ready_is_tainted_until_it_recovers() {
    let world = start(WorldSpec::small(15, 1)).await;
    seconds(10).await;
    let kubelet = world.kubelet("node-workers-001").unwrap();
    kubelet.set_healthy(false);
    seconds(5).await;
    let node = nodes(&world).get("node-workers-001").await.unwrap();
    let keys: Vec<_> = node
        .spec
        .unwrap()
        .taints
        .unwrap_or_default()
        .into_iter()
        .map(|taint| taint.key)
        .collect();
    assert_eq!(keys, ["node.kubernetes.io/not-ready"; 2]);
    kubelet.set_healthy(true);
    seconds(5).await;
    let node = nodes(&world).get("node-workers-001").await.unwrap();
    assert!(is_node_ready(&node));
    assert_eq!(node.spec.unwrap().taints.unwrap_or_default(), []);
}
