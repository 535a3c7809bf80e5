//! status and explain.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::cluster::{Cluster, PATIENCE};
use crate::orders::{run, step, task};

/// A run of four nodes: one is done, one is blocked by a budget, one has failed, one is to come.
async fn scene() -> Cluster {
    let cluster = Cluster::start().await;
    for name in ["n1", "n2", "n3", "n4"] {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
        cluster.create(node).await;
    }
    let nodes: Vec<Value> = ["n1", "n2", "n3"]
        .map(|name| json!({ "name": name }))
        .to_vec();
    let status = json!({
        "total": 4, "completed": 1, "failed": 1, "inFlightNonImportant": 1, "currentIteration": 0,
        "waitingFor": "tasks in flight: n2",
        "plan": { "planVersion": "1", "candidates": nodes,
                  "partitions": [{ "index": 0, "nodes": ["n1", "n2", "n3", "n4"] }] },
    });
    let uid = cluster.create(run("january", &status)).await;
    let done = json!({ "step": step("Done"), "newNodeName": "n9" });
    cluster.create(task("january", &uid, "n1", &done)).await;
    let blocked = json!({
        "step": step("Drain"), "waitingFor": "pod default/web-1: budget web allows no eviction now",
        "drain": { "total": 3, "remaining": 1, "blocked": [{
            "namespace": "default", "pod": "web-1", "reason": "BudgetExhausted", "budget": "web",
            "message": "disruption budget web allows no eviction now" }] },
    });
    cluster.create(task("january", &uid, "n2", &blocked)).await;
    let failed = json!({ "step": step("Failed"), "attempt": 3, "lastError": "it never joined" });
    cluster.create(task("january", &uid, "n3", &failed)).await;
    cluster
        .create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": "web", "namespace": "default" },
            "spec": { "minAvailable": 2, "selector": { "matchLabels": { "app": "web" } } },
            "status": { "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 2,
                        "desiredHealthy": 2, "expectedPods": 3 },
        }))
        .await;
    cluster
}

#[tokio::test]
async fn explain_tells_how_a_node_stands_at_the_gate() {
    let cluster = Cluster::start().await;
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1" },
        "spec": { "taints": [{ "key": "node-ready/unverified", "effect": "NoSchedule" }] },
    });
    let uid = cluster.create(node).await;
    let bare = cluster.run(&["explain", "node/n1"]).await;
    assert!(
        bare.out.contains("no controller has taken note"),
        "{}",
        bare.out
    );
    let finding = json!({
        "check": "dns-udp", "target": "a.b. @10.96.0.10:53", "ok": false, "phase": "dns",
        "message": "no answer", "milliseconds": 5000,
    });
    let record = json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "PendingNode", "metadata": { "name": "node-n1-1" },
        "spec": { "nodeName": "n1", "nodeUID": uid, "goal": "Join" },
        "status": { "waitingFor": "a person, or the end of the node", "verification": {
            "nodeUID": uid, "attempt": 3, "failedAttempts": 3, "verdict": "Failed",
            "verdictAt": "2026-11-17T03:00:00Z", "firstFailingCheck": "dns-udp", "findings": [finding] } },
    });
    cluster.create(record).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let settings =
        "worker: { image: { repository: r, tag: t } }\nreconciliation: { maxRetries: 3 }\n";
    std::fs::write(&file, settings).unwrap();
    for target in ["node/n1", "pn/node-n1-1"] {
        let command = ["explain", target, "--config", file.to_str().unwrap()];
        let answer = cluster.run(&command).await;
        assert_eq!(answer.code, Some(0), "{}", answer.complaint);
        for expected in [
            "3 of 3 attempts failed",
            "waits for  a person",
            "dns-udp of a.b. @10.96.0.10:53 failed at dns: no answer",
            "kubectl delete pendingnode node-n1-1",
            "stays, with its taint",
        ] {
            assert!(
                answer.out.contains(expected),
                "{expected} not in\n{}",
                answer.out
            );
        }
        assert!(!answer.out.contains("assumed"), "{}", answer.out);
    }
    let nobody = cluster.run(&["explain", "pn/nobody"]).await;
    assert_eq!(nobody.code, Some(1), "{}", nobody.out);
}

#[tokio::test]
async fn status_shows_progress_and_the_nodes_that_need_a_look() {
    let cluster = scene().await;
    let answer = cluster.run(&["status"]).await;
    assert_eq!(answer.code, Some(0), "{}", answer.complaint);
    let text = answer.out;
    for expected in [
        "no controller has ever led here",
        "1 of 4 replaced",
        "1 in work, 0 parked, 1 failed, 1 to come",
        "pod default/web-1: budget web allows no eviction now",
        "it never joined",
    ] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    assert!(
        !text.contains('\x1b'),
        "no colours outside of a terminal\n{text}"
    );
    let answer = cluster.run(&["status", "npr/january", "-o", "json"]).await;
    let value: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(value["runs"][0]["done"], 1);
    assert_eq!(value["runs"][0]["nodes"][0]["step"], "Drain");
    let wrong = cluster.run(&["status", "npr/february"]).await;
    assert_eq!(wrong.code, Some(1), "{}", wrong.out);
    let wrong = cluster.run(&["status", "node/n1"]).await;
    assert_eq!(wrong.code, Some(2), "{}", wrong.out);
}

#[tokio::test]
async fn a_watch_ends_in_silence_when_nobody_reads_and_nothing_changes() {
    let cluster = scene().await;
    for options in [&[][..], &["-o", "json"]] {
        let mut child = cluster
            .command(&["status", "--watch"])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.next_line().await.unwrap().is_some());
        drop(lines);
        let ended = tokio::time::timeout(PATIENCE, child.wait_with_output());
        let ended = ended.await.unwrap().unwrap();
        assert_eq!(ended.status.code(), Some(141), "{ended:?}");
        assert!(ended.stderr.is_empty(), "{ended:?}");
    }
}

#[tokio::test]
async fn a_watch_into_a_pipe_tells_that_the_cluster_does_not_answer_and_since_when() {
    let cluster = scene().await;
    let mut child = cluster
        .command(&["status", "--watch", "--every", "200ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pictures = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut complaints = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(pictures.next_line().await.unwrap().is_some());
    drop(cluster);
    let told = tokio::time::timeout(PATIENCE, complaints.next_line()).await;
    let told = told.unwrap().unwrap().unwrap();
    assert!(told.contains("no answer since 2"), "{told}");
    assert!(told.contains("does not answer"), "{told}");
}

#[tokio::test]
async fn status_names_the_namespace_that_has_no_run_and_the_kind_that_it_takes() {
    let cluster = scene().await;
    let answer = cluster.run(&["status", "-n", "nons"]).await;
    assert_eq!(answer.code, Some(0), "{}", answer.complaint);
    let expected = "There are no runs in namespace nons; with -A all are shown.\n";
    assert_eq!(answer.out, expected);
    let answer = cluster.run(&["status", "garbage"]).await;
    assert_eq!(answer.code, Some(2), "{}", answer.out);
    let words = answer.complaint;
    assert!(words.contains("right would be npr/garbage\n"), "{words}");
    let answer = cluster.run(&["status", "-n", "No_Name"]).await;
    assert_eq!(answer.code, Some(2), "{}", answer.out);
    let words = answer.complaint;
    assert!(
        words.contains("\"No_Name\" is not a name of a namespace"),
        "{words}"
    );
}

#[tokio::test]
async fn explain_names_the_pod_the_budget_the_deadline_and_what_helps() {
    let cluster = scene().await;
    let text = cluster.run(&["explain", "node/n2"]).await.out;
    for expected in [
        "step Drain, attempt 1 of 3, 1 of 3 pods left",
        "2026-11-16T03:30:00Z",
        "then the node is parked",
        "pod default/web-1 on n2: disruption budget web allows no eviction now",
        "budget default/web needs 2 healthy pods of 3 and has 2",
    ] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    let text = cluster.run(&["explain", "npt/january-0-n3"]).await.out;
    assert!(
        text.contains("given up after attempt 3: it never joined"),
        "{text}"
    );
    assert!(text.contains("shipshape retry node/n3"), "{text}");
    let text = cluster.run(&["explain", "npr/january"]).await.out;
    assert!(text.contains("node n3: Failed: it never joined"), "{text}");
    let text = cluster.run(&["explain", "node/n1"]).await.out;
    assert!(text.contains("node n1 is replaced by node n9"), "{text}");
    let answer = cluster.run(&["explain", "node/n2", "-o", "json"]).await;
    let value: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(value["blockers"][0]["budget"], "web", "{value}");
    let wrong = cluster.run(&["explain", "node/nowhere"]).await;
    assert_eq!(wrong.code, Some(1), "{}", wrong.out);
    assert!(wrong.complaint.contains("there is no node nowhere"));
}

#[tokio::test]
async fn completions_know_the_commands() {
    let cluster = Cluster::bare().await;
    for shell in ["bash", "zsh", "fish"] {
        let script = cluster.run(&["completions", shell]).await.out;
        assert!(script.contains("explain"), "{shell}");
    }
}
