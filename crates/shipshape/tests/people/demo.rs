//! All commands on the cluster of the demo, as a new user would try them.

use std::process::Stdio;

use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use shipshape_api::PendingNode;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::cluster::PATIENCE;

/// A demo whose roll is over, with its controllers at work.
async fn demo(kubeconfig: &std::path::Path) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_shipshape"))
        .args(["demo", "--nodes", "2", "--speed", "max", "--kubeconfig"])
        .arg(kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let rolling = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("The cluster stays up") {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, rolling).await.unwrap();
    child
}

#[tokio::test]
async fn every_command_works_on_the_demo() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let demo = demo(&kubeconfig).await;
    let run = async |arguments: &[&str]| {
        let command = Command::new(env!("CARGO_BIN_EXE_shipshape"))
            .args(arguments)
            .env("KUBECONFIG", &kubeconfig)
            .output();
        let output = command.await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text, words)
    };
    let (code, text, words) = run(&["status"]).await;
    assert_eq!(code, Some(0), "{words}");
    assert!(text.contains("2 of 2 replaced  completed"), "{text}");
    let (_, text, _) = run(&["explain", "npr/new-image"]).await;
    assert!(
        text.contains("ended: 2 node(s) replaced, 0 failed"),
        "{text}"
    );
    let (_, text, _) = run(&["explain", "node/node-workers-001"]).await;
    assert!(text.contains("is replaced by node"), "{text}");
    let (code, _, words) = run(&["pause", "npr/new-image"]).await;
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("has ended"), "{words}");
    let manifest = folder.path().join("run.yaml");
    let text = "apiVersion: shipshape.dev/v1alpha1\nkind: NodePatchRun\nmetadata: { name: again }\n\
                spec: { provider: { type: embedded } }\n";
    std::fs::write(&manifest, text).unwrap();
    let file = manifest.display().to_string();
    let (_, text, words) = run(&["plan", "-f", &file]).await;
    assert!(
        text.contains("run default/again would replace 2 of 2 nodes"),
        "{text}{words}"
    );
    assert!(text.contains("as 2 node(s) replaced here before"), "{text}");
    let (code, text, words) = run(&[
        "simulate",
        "--from-cluster",
        "-f",
        &file,
        "--output",
        "json",
    ])
    .await;
    assert_eq!(code, Some(0), "{words}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["nodes"]["replaced"], 2, "{report}");
    drop(demo);
}

#[tokio::test]
async fn the_verdict_leaves_aside_what_others_create_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_shipshape"))
        .args([
            "demo",
            "--nodes",
            "2",
            "--speed",
            "20",
            "--once",
            "--kubeconfig",
        ])
        .arg(&kubeconfig)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("Provision") {
            break;
        }
    }
    let way = Kubeconfig::read_from(&kubeconfig).unwrap();
    let wanted = KubeConfigOptions::default();
    let way = Config::from_custom_kubeconfig(way, &wanted).await.unwrap();
    let client = Client::try_from(way).unwrap();
    let machine = json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "PendingNode",
        "metadata": { "name": "pendingnode-sample-gcp" },
        "spec": { "nodeName": "worker-x7k2", "goal": "Leave" },
    });
    let machine: PendingNode = serde_json::from_value(machine).unwrap();
    let machines: Api<PendingNode> = Api::all(client);
    machines
        .create(&PostParams::default(), &machine)
        .await
        .unwrap();
    let reading = async {
        let mut text = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            text.push_str(&format!("{line}\n"));
        }
        (demo.wait().await.unwrap().code(), text)
    };
    let (code, text) = tokio::time::timeout(PATIENCE, reading).await.unwrap();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("demo  seed 1  Converged"), "{text}");
    let expected = "LEFT ASIDE PendingNode pendingnode-sample-gcp,";
    assert!(text.contains(expected), "{text}");
}
