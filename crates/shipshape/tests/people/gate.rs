//! The gate of a controller that runs as a process, beside somebody else who manages its taint.

use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use shipshape_api::PendingNode;

use crate::cluster::{Cluster, PATIENCE};

const SETTINGS: &str = "namespace: default\nworker: { image: { repository: r, tag: t } }\n";

/// A NodeReadinessRule that manages the gate's taint on nodes of one pool.
async fn put_rule(cluster: &Cluster) {
    let (group, kind) = ("readiness.node.x-k8s.io", "NodeReadinessRule");
    let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    cluster
        .create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("nodereadinessrules.{group}") },
            "spec": {
                "group": group, "scope": "Cluster",
                "names": { "kind": kind, "listKind": "NodeReadinessRuleList", "plural": "nodereadinessrules",
                           "singular": "nodereadinessrule" },
                "versions": [{ "name": "v1alpha1", "served": true, "storage": true, "schema": schema }],
            },
        }))
        .await;
    cluster
        .create(json!({
            "apiVersion": format!("{group}/v1alpha1"), "kind": kind, "metadata": { "name": "net" },
            "spec": { "taint": { "key": "node-ready/unverified", "effect": "NoSchedule" },
                      "nodeSelector": { "matchLabels": { "pool": "theirs" } } },
        }))
        .await;
}

async fn put_node(cluster: &Cluster, name: &str, pool: &str) {
    let info = json!({
        "bootID": "boot", "architecture": "", "containerRuntimeVersion": "", "kernelVersion": "",
        "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "",
        "osImage": "", "systemUUID": "",
    });
    cluster
        .create(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { "pool": pool } },
            "status": { "nodeInfo": info, "conditions": [{ "type": "Ready", "status": "True" }] },
        }))
        .await;
    // The server adds a taint of its own to whatever is created.
    let taints =
        json!([{ "key": "node-ready/unverified", "value": "true", "effect": "NoSchedule" }]);
    let nodes: Api<Node> = Api::all(cluster.client());
    let patch = Patch::Merge(json!({ "spec": { "taints": taints } }));
    nodes
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Ends every worker as one whose checks passed.
async fn pass_checks(cluster: &Cluster) {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let workers = ListParams::default().labels("shipshape.dev/verifier");
    let report = json!({ "verdict": "Passed", "findings": [
        { "check": "dns-udp", "target": "t", "ok": true, "message": "m", "milliseconds": 4 }] });
    let status = json!({ "status": { "phase": "Succeeded", "containerStatuses": [{
        "name": "verify", "image": "r:t", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "terminated": { "exitCode": 0, "message": report.to_string() } } }] } });
    for pod in pods.list(&workers).await.unwrap().items {
        let patch = Patch::Merge(&status);
        let written = pods
            .patch_status(&pod.name_any(), &PatchParams::default(), &patch)
            .await;
        // It may have gone with its result.
        drop(written);
    }
}

/// The records of all nodes whose verdict is stored, by node.
async fn verdicts(cluster: &Cluster) -> Vec<(String, Option<String>)> {
    let records: Api<PendingNode> = Api::all(cluster.client());
    let records = records.list(&ListParams::default()).await.unwrap();
    let told = records.items.into_iter().filter_map(|record| {
        let status = record.status?;
        status.verification?.verdict?;
        Some((record.spec.node_name?, status.waiting_for))
    });
    told.collect()
}

async fn is_shut(cluster: &Cluster, name: &str) -> bool {
    let nodes: Api<Node> = Api::all(cluster.client());
    let taints = nodes
        .get(name)
        .await
        .unwrap()
        .spec
        .and_then(|spec| spec.taints);
    let mut taints = taints.into_iter().flatten();
    taints.any(|taint| taint.key == "node-ready/unverified")
}

/// Whether there is an event of that reason.
async fn is_told(cluster: &Cluster, reason: &str) -> bool {
    let events: Api<Event> = Api::namespaced(cluster.client(), "default");
    let events = events.list(&ListParams::default()).await.unwrap();
    let mut events = events.items.iter();
    events.any(|event| event.reason.as_deref() == Some(reason))
}

#[tokio::test]
async fn a_node_that_carries_no_such_taint_is_checked_and_that_is_said() {
    let cluster = Cluster::start().await;
    put_node(&cluster, "n1", "ours").await;
    for (key, is_said) in [
        ("node-ready/unverified", false),
        ("node-redy/unverified", true),
    ] {
        // Nobody listens there, so a check fails and nothing is changed.
        let kubeconfig = cluster.kubeconfig();
        let command = [
            "verify",
            "--patch-node",
            "--node-name=n1",
            "--taint-key",
            key,
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
            "--k8s-service-host=127.0.0.1",
            "--k8s-service-port=1",
            "--dns-test-domains=a.example",
            "--cluster-dns-ip=127.0.0.1",
            "--check-timeout=1s",
            "--ca-file=/dev/null",
        ];
        let answer = cluster.run(&command).await;
        let words = format!("the node carries no taint {key}:NoSchedule");
        assert_eq!(
            answer.complaint.contains(&words),
            is_said,
            "{}",
            answer.complaint
        );
        assert_ne!(answer.code, Some(0), "{}", answer.out);
        assert!(is_shut(&cluster, "n1").await);
    }
}

#[tokio::test]
async fn a_taint_that_a_rule_manages_stays_and_the_others_go() {
    let cluster = Cluster::start().await;
    put_rule(&cluster).await;
    put_node(&cluster, "n1", "ours").await;
    put_node(&cluster, "n2", "theirs").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, SETTINGS).unwrap();
    let child = cluster
        .command(&[
            "controller",
            "--leader-elect=false",
            "--metrics-bind-address",
            "0",
        ])
        .args([
            "--health-probe-bind-address",
            "0",
            "--config",
            file.to_str().unwrap(),
        ])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let verified = async {
        loop {
            pass_checks(&cluster).await;
            let verdicts = verdicts(&cluster).await;
            if verdicts.len() == 2 {
                return verdicts;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let mut verdicts = tokio::time::timeout(PATIENCE, verified).await.unwrap();
    verdicts.sort();
    assert_eq!(verdicts[0], ("n1".to_owned(), None));
    let waits = verdicts[1].1.clone().unwrap();
    assert!(
        waits.contains("NodeReadinessRule net to lift taint"),
        "{waits}"
    );
    assert!(!is_shut(&cluster, "n1").await);
    assert!(is_shut(&cluster, "n2").await);
    let nodes: Api<Node> = Api::all(cluster.client());
    let theirs = nodes.get("n2").await.unwrap();
    let conditions = theirs.status.and_then(|status| status.conditions).unwrap();
    let told = conditions.iter().find(|one| one.type_ == "NetworkVerified");
    assert_eq!(told.unwrap().status, "True", "the rule can see it");
    let told = async {
        while !is_told(&cluster, "TaintOwnedElsewhere").await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    drop(child);
}
