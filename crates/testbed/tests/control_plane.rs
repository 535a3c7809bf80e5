//! The harness itself: it starts, witnesses and leaves nothing behind.

use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;
use kube::api::{ListParams, PostParams};
use shipshape_testbed::{ControlPlane, Options};

#[tokio::test]
async fn control_plane_starts_audits_and_leaves_nothing_behind() {
    let plane = ControlPlane::start(Options {
        controllers: true,
        ..Options::default()
    })
    .await
    .unwrap();
    let client = plane.client("witness/1").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map = serde_json::from_value(serde_json::json!({"metadata": {"name": "seen"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    let nodes: Api<Node> = Api::all(client);
    assert_eq!(
        nodes
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        0
    );

    let audit = plane.audit().unwrap();
    let entry = audit
        .iter()
        .find(|entry| entry.is("create", "configmaps") && entry.user_agent == "witness/1")
        .expect("the create is in the audit log");
    assert_eq!(entry.code(), 201);
    assert_eq!(entry.user.username, "shipshape-testbed");
    assert_eq!(entry.object_ref.as_ref().unwrap().name, "seen");

    let folder = plane.folder().to_path_buf();
    let pids: Vec<u32> = [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
    ]
    .map(|name| plane.pid(name).unwrap())
    .to_vec();
    drop(plane);
    assert!(!folder.exists());
    for pid in pids {
        assert!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "process {pid} is left behind"
        );
    }
}
