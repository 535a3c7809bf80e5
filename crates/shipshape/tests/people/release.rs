//! release-nodes: every node of the gate goes free, and nothing else is touched.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use shipshape_api::PendingNode;

use crate::cluster::Cluster;

const KEY: &str = "node-ready/unverified";

/// Two nodes at the gate, one of them with a taint of somebody else, one that is not, a record, a machine on its
/// way, a worker and a pod that has only its label.
async fn scene() -> Cluster {
    let cluster = Cluster::start().await;
    let gate = json!({ "key": KEY, "value": "true", "effect": "NoSchedule" });
    let other = json!({ "key": "dedicated", "effect": "NoSchedule" });
    let same_key = json!({ "key": KEY, "effect": "NoExecute" });
    let mut uids = Vec::new();
    for (name, taints) in [
        ("n1", json!([other, gate, same_key])),
        ("n2", json!([gate])),
        ("n3", json!([other])),
    ] {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "spec": { "taints": taints },
        });
        uids.push(cluster.create(node).await);
    }
    for (name, spec) in [
        (
            "node-n1-1",
            json!({ "nodeName": "n1", "nodeUID": uids[0], "goal": "Join" }),
        ),
        (
            "machine",
            json!({ "providerID": "embedded:///m", "goal": "Join" }),
        ),
    ] {
        let record = json!({
            "apiVersion": "shipshape.dev/v1alpha1", "kind": "PendingNode", "metadata": { "name": name }, "spec": spec,
        });
        cluster.create(record).await;
    }
    for name in ["verify-n1-1", "stranger"] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "default", "labels": { "shipshape.dev/verifier": "node" } },
            "spec": { "containers": [{ "name": "verify", "image": "shipshape" }] },
        });
        cluster.create(pod).await;
    }
    cluster
}

async fn taints(cluster: &Cluster, node: &str) -> Vec<String> {
    let api: Api<Node> = Api::all(cluster.client());
    let taints = api
        .get(node)
        .await
        .unwrap()
        .spec
        .and_then(|spec| spec.taints);
    // The server adds a taint of its own to whatever is created.
    let taints = taints.unwrap_or_default().into_iter();
    let taints = taints.filter(|taint| taint.key != "node.kubernetes.io/not-ready");
    taints
        .map(|taint| format!("{}:{}", taint.key, taint.effect))
        .collect()
}

async fn names<K>(api: Api<K>) -> Vec<String>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let listed = api.list(&ListParams::default()).await.unwrap();
    listed
        .items
        .iter()
        .map(kube::ResourceExt::name_any)
        .collect()
}

#[tokio::test]
async fn nodes_go_free_once_that_is_confirmed_and_nothing_else_is_touched() {
    let cluster = scene().await;
    let asked = cluster.run(&["release-nodes"]).await;
    assert_eq!(asked.code, Some(2), "{}", asked.out);
    assert!(asked.complaint.contains("say --yes"), "{}", asked.complaint);
    let dry = cluster.run(&["release-nodes", "--dry-run"]).await;
    assert_eq!(dry.code, Some(0), "{}", dry.complaint);
    assert!(
        dry.out
            .contains("node n1: node-ready/unverified:NoSchedule would be taken off"),
        "{}",
        dry.out
    );
    assert_eq!(taints(&cluster, "n2").await.len(), 1, "nothing was changed");

    let done = cluster
        .run(&["release-nodes", "--yes", "--output", "json"])
        .await;
    assert_eq!(done.code, Some(0), "{}", done.complaint);
    let told: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(told["nodes"], json!(["n1", "n2"]));
    assert_eq!(told["pendingNodes"], json!(["node-n1-1"]));
    assert_eq!(told["pods"], json!(["default/verify-n1-1"]));
    assert_eq!(
        taints(&cluster, "n1").await,
        ["dedicated:NoSchedule", "node-ready/unverified:NoExecute"]
    );
    assert!(taints(&cluster, "n2").await.is_empty());
    assert_eq!(taints(&cluster, "n3").await, ["dedicated:NoSchedule"]);
    let records: Api<PendingNode> = Api::all(cluster.client());
    assert_eq!(names(records).await, ["machine"]);
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    assert_eq!(names(pods).await, ["stranger"]);

    let again = cluster.run(&["release-nodes"]).await;
    assert_eq!(
        again.code,
        Some(0),
        "nothing is left to ask about: {}",
        again.complaint
    );
    assert!(
        again.out.contains("nothing else of the gate is left"),
        "{}",
        again.out
    );
}

#[tokio::test]
async fn the_taint_is_that_of_the_flag_or_the_file_and_a_wrong_one_is_refused() {
    let cluster = scene().await;
    let flag = [
        "release-nodes",
        "--dry-run",
        "--taint",
        "dedicated=x:NoSchedule",
    ];
    let answer = cluster.run(&flag).await;
    assert!(
        answer.out.contains("node n3: dedicated:NoSchedule"),
        "{}",
        answer.out
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let text = "worker: { image: { repository: r, tag: t } }\n\
                nodeManagement: { taints: [{ key: node-ready/unverified, effect: NoExecute }] }\n";
    std::fs::write(&file, text).unwrap();
    let answer = cluster
        .run(&[
            "release-nodes",
            "--dry-run",
            "--config",
            file.to_str().unwrap(),
        ])
        .await;
    assert!(
        answer
            .out
            .contains("node n1: node-ready/unverified:NoExecute"),
        "{}",
        answer.out
    );
    assert!(!answer.out.contains("node n2"), "{}", answer.out);
    std::fs::write(&file, "namespace: a\n").unwrap();
    let answer = cluster
        .run(&["release-nodes", "--config", file.to_str().unwrap()])
        .await;
    assert!(
        answer.complaint.contains("name its taint instead"),
        "{}",
        answer.complaint
    );
    for (wrong, words) in [
        ("dedicated", "right would be KEY:EFFECT"),
        ("a:Never", "its effect is \"Never\"; give NoSchedule"),
        (":NoSchedule", "its key is \"\"; right would be a key"),
        (
            "bad key:NoSchedule",
            "its key is \"bad key\"; right would be a key",
        ),
        (
            "node.kubernetes.io/unreachable:NoExecute",
            "belongs to whoever puts it on",
        ),
    ] {
        let command = ["release-nodes", "--yes", "--taint", wrong];
        let answer = cluster.run(&command).await;
        assert_eq!(answer.code, Some(2), "{}", answer.out);
        assert!(answer.complaint.contains(words), "{}", answer.complaint);
    }
}

#[tokio::test]
async fn a_taint_that_nobody_carries_forgets_no_node_that_waits_at_the_gate() {
    let cluster = scene().await;
    for more in ["--yes", "--dry-run"] {
        let mistyped = [
            "release-nodes",
            "--taint",
            "node-redy/unverified:NoSchedule",
            more,
        ];
        let answer = cluster.run(&mistyped).await;
        assert_eq!(answer.code, Some(1), "{}", answer.out);
        for words in [
            "no node carries node-redy/unverified:NoSchedule",
            "n1: dedicated:NoSchedule, node-ready/unverified:NoSchedule",
        ] {
            assert!(answer.complaint.contains(words), "{}", answer.complaint);
        }
    }
    let records: Api<PendingNode> = Api::all(cluster.client());
    assert_eq!(names(records.clone()).await.len(), 2);
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    assert_eq!(names(pods).await.len(), 2);

    // What a verified node is remembered by holds nobody, whatever taints of others the node has.
    let verified = json!({ "status": { "verification": { "verdict": "Verified" } } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(verified));
    let written = records.patch_status("node-n1-1", &params, &patch).await;
    written.unwrap();
    let rest = ["release-nodes", "--taint", "a:NoSchedule", "--yes"];
    let answer = cluster.run(&rest).await;
    assert_eq!(answer.code, Some(0), "{}", answer.complaint);
    assert!(
        answer.out.contains("no node carries a:NoSchedule\n"),
        "{}",
        answer.out
    );
    assert_eq!(names(records).await, ["machine"]);
}
