//! pause, resume, abort and retry, and what they refuse.

use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use shipshape_api::{NodePatchRun, NodePatchTask};

use crate::cluster::{Answer, Cluster};

pub(crate) fn run(name: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchRun",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "provider": { "type": "embedded" } },
        "status": status,
    })
}

pub(crate) fn task(run: &str, run_uid: &str, node: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchTask",
        "metadata": { "name": format!("{run}-0-{node}"), "namespace": "default" },
        "spec": { "runName": run, "runUID": run_uid, "nodeName": node, "nodeUID": node, "zone": "a" },
        "status": status,
    })
}

pub(crate) fn step(name: &str) -> Value {
    json!({ "name": name, "since": "2026-11-16T03:00:00Z", "deadline": "2026-11-16T03:30:00Z" })
}

async fn the_run(cluster: &Cluster) -> NodePatchRun {
    let api: Api<NodePatchRun> = Api::namespaced(cluster.client(), "default");
    api.get("january").await.unwrap()
}

/// The one sentence of a command that did what it was asked to.
fn sentence(answer: &Answer) -> &str {
    assert_eq!(answer.code, Some(0), "{}", answer.complaint);
    assert_eq!(answer.out.lines().count(), 1, "{}", answer.out);
    answer.out.trim()
}

fn complaint(answer: &Answer, code: i32) -> &str {
    let words = answer.complaint.trim();
    assert_eq!(answer.code, Some(code), "{words}");
    assert!(answer.out.is_empty(), "{}", answer.out);
    words
}

#[tokio::test]
async fn a_run_is_paused_resumed_and_called_off_by_one_sentence_each() {
    let cluster = Cluster::start().await;
    let status = json!({ "paused": true, "failed": 2, "pauseReason": "2 node(s) failed" });
    cluster.create(run("january", &status)).await;
    let answer = cluster.run(&["pause", "npr/january"]).await;
    assert!(sentence(&answer).starts_with("run default/january is paused: no further node"));
    assert!(the_run(&cluster).await.spec.paused());
    let version = the_run(&cluster).await.resource_version();
    let again = cluster.run(&["pause", "npr/january"]).await;
    assert!(sentence(&again).contains("paused already"));
    assert_eq!(the_run(&cluster).await.resource_version(), version);
    let answer = cluster.run(&["resume", "npr/january"]).await;
    assert!(sentence(&answer).contains("2 failed node(s) are taken note of"));
    let resumed = the_run(&cluster).await;
    assert!(!resumed.spec.paused());
    assert_eq!(
        resumed.annotations()["shipshape.dev/acknowledged-failures"],
        "2"
    );
    let answer = cluster.run(&["abort", "npr/january"]).await;
    assert!(sentence(&answer).starts_with("run default/january is called off:"));
    assert!(the_run(&cluster).await.spec.abort());
    let api: Api<NodePatchRun> = Api::namespaced(cluster.client(), "default");
    let back = Patch::Merge(json!({ "spec": { "abort": false } }));
    let refused = api.patch("january", &PatchParams::default(), &back).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("abort cannot be taken back"), "{refused}");
    let late = cluster.run(&["pause", "npr/january"]).await;
    assert!(complaint(&late, 1).contains("create a new run"));
}

#[tokio::test]
async fn a_parked_node_is_tried_again_and_a_busy_one_is_not() {
    let cluster = Cluster::start().await;
    let uid = cluster.create(run("january", &json!({}))).await;
    let parked = json!({ "step": step("Parked"), "attempt": 2 });
    cluster.create(task("january", &uid, "n1", &parked)).await;
    let busy = json!({ "step": step("Drain"), "waitingFor": "pods to leave" });
    cluster.create(task("january", &uid, "n2", &busy)).await;
    let answer = cluster.run(&["retry", "node/n1"]).await;
    assert!(sentence(&answer).starts_with("another try of node n1 is asked for: attempt 2"));
    let api: Api<NodePatchTask> = Api::namespaced(cluster.client(), "default");
    let task = api.get("january-0-n1").await.unwrap();
    assert!(task.annotations().contains_key("shipshape.dev/retry"));
    let again = cluster.run(&["retry", "npt/january-0-n1"]).await;
    assert!(sentence(&again).contains("asked for already"));
    let busy = cluster.run(&["retry", "node/n2"]).await;
    assert!(complaint(&busy, 1).contains("step Drain, waiting for pods to leave"));
    let whole = cluster.run(&["retry", "npr/january"]).await;
    assert!(complaint(&whole, 2).contains("node/NAME"));
    let single = cluster.run(&["pause", "node/n2"]).await;
    assert!(complaint(&single, 2).contains("npr/january"));
}

#[tokio::test]
async fn a_replacement_is_not_tried_again_and_is_called_what_it_is() {
    let cluster = Cluster::start().await;
    let uid = cluster.create(run("january", &json!({}))).await;
    let node =
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n9" }, "spec": {} });
    let new = cluster.create(node).await;
    let done = json!({ "step": step("Done"), "newNodeName": "n9", "newNodeUID": new });
    cluster.create(task("january", &uid, "n1", &done)).await;
    let answer = cluster.run(&["retry", "node/n9"]).await;
    let words = complaint(&answer, 1);
    assert!(words.contains("it took the place of n1"), "{words}");
}

#[tokio::test]
async fn every_way_not_to_reach_an_object_is_one_sentence_with_what_to_do() {
    let cluster = Cluster::start().await;
    cluster.create(run("january", &json!({}))).await;
    let absent = cluster.run(&["pause", "npr/february"]).await;
    let words = complaint(&absent, 1);
    assert!(
        words.contains("there is no run february in namespace default"),
        "{words}"
    );
    assert!(words.contains("there are: january"), "{words}");
    let elsewhere = cluster.run(&["pause", "npr/january", "-n", "ops"]).await;
    assert!(complaint(&elsewhere, 1).contains("january (-n default)"));
    let context = cluster.run(&["status", "--context", "nowhere"]).await;
    assert!(complaint(&context, 2).contains("--context nowhere"));
    let file = cluster
        .run(&["status", "--kubeconfig", "/nowhere/config"])
        .await;
    assert!(complaint(&file, 2).contains("--kubeconfig /nowhere/config"));
    let bare = Cluster::bare().await;
    let kinds = bare.run(&["status"]).await;
    assert!(complaint(&kinds, 1).contains("shipshape crds | kubectl apply"));
    let gone = cluster.kubeconfig();
    let text = std::fs::read_to_string(&gone).unwrap();
    let port = text.split("127.0.0.1:").nth(1).unwrap();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    std::fs::write(&gone, text.replace(&port, "1")).unwrap();
    let unreachable = cluster.run(&["status"]).await;
    let words = complaint(&unreachable, 1);
    assert!(words.contains("127.0.0.1:1 does not answer"), "{words}");
    assert!(words.contains("Connection refused"), "{words}");
    // kubectl passes over files of the list that do not exist, and so do we.
    let cluster = Cluster::start().await;
    let list = format!("/nowhere:{}:/elsewhere", cluster.kubeconfig().display());
    let mut listed = cluster.command(&["status", "-A"]);
    let listed = listed.env("KUBECONFIG", list).output().await.unwrap();
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    let nothing = cluster
        .command(&["status"])
        .env("KUBECONFIG", "/nowhere")
        .output();
    let nothing = nothing.await.unwrap();
    assert_eq!(nothing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("give --kubeconfig"));
}
