//! All commands on the cluster of the demo, as a new user would try them.

use std::process::Stdio;

use serde_json::Value;
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
