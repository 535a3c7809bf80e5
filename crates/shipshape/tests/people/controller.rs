//! What a controller serves about itself.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr};

use crate::cluster::{Cluster, PATIENCE};

/// A controller, its log, and where it serves.
struct Controller {
    child: Child,
    log: Lines<BufReader<ChildStderr>>,
    metrics: String,
    health: String,
}

async fn start(cluster: &Cluster, options: &[&str]) -> Controller {
    let mut child = cluster
        .command(&["controller"])
        .args(["--metrics-bind-address", "127.0.0.1:0"])
        .args(["--health-probe-bind-address", "127.0.0.1:0"])
        .args(options)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut addresses = Vec::new();
    while addresses.len() < 2 {
        let line = log.next_line().await.unwrap().unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        if line["message"] == "listening" {
            addresses.push(line["address"].as_str().unwrap().to_owned());
        }
    }
    let health = addresses.pop().unwrap();
    let metrics = addresses.pop().unwrap();
    Controller {
        child,
        log,
        metrics,
        health,
    }
}

/// The code and the body of one answer.
async fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (code, body)
}

/// Asks until the process is ready, and gives its words.
async fn ready(controller: &Controller) -> String {
    let asking = async {
        loop {
            let (code, words) = get(&controller.health, "/readyz").await;
            if code == 200 {
                return words;
            }
            assert_eq!(code, 503, "{words}");
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap()
}

#[tokio::test]
async fn a_leader_serves_health_readiness_and_metrics() {
    let cluster = Cluster::start().await;
    let mut controller = start(&cluster, &["--leader-elect=false"]).await;
    assert_eq!(get(&controller.health, "/healthz").await.0, 200);
    assert_eq!(ready(&controller).await, "leading\n");
    let (code, text) = get(&controller.metrics, "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        "shipshape_leader 1",
        "shipshape_nodes_replaced_total 0",
        "shipshape_api_requests_total{verb=\"list\",resource=\"nodes\",code=\"200\"} 1",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} not in\n{text}");
    }
    assert_eq!(get(&controller.health, "/metrics").await.0, 404);
    controller.child.kill().await.unwrap();
}

#[tokio::test]
async fn a_process_that_stands_by_is_ready_and_does_not_lead() {
    let cluster = Cluster::start().await;
    let first = start(&cluster, &["--leader-elect"]).await;
    while ready(&first).await != "leading\n" {}
    let second = start(&cluster, &[]).await;
    assert_eq!(ready(&second).await, "standing by, another process leads\n");
    let (_, text) = get(&second.metrics, "/metrics").await;
    assert!(text.lines().any(|one| one == "shipshape_leader 0"));
    drop((first, second));
}

#[tokio::test]
async fn log_lines_of_a_pass_name_the_run_in_a_field() {
    let cluster = Cluster::start().await;
    cluster
        .create(serde_json::json!({
            "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchRun",
            "metadata": { "name": "january", "namespace": "default" },
            "spec": { "provider": { "type": "vmware" } },
        }))
        .await;
    let mut controller = start(&cluster, &["--leader-elect=false"]).await;
    let reading = async {
        while let Some(line) = controller.log.next_line().await.unwrap() {
            let line: Value = serde_json::from_str(&line).unwrap();
            if line["reason"] == "UnsupportedProvider" {
                return line;
            }
        }
        panic!("the log ended");
    };
    let line = tokio::time::timeout(PATIENCE, reading).await.unwrap();
    assert_eq!(line["span"]["run"], "default/january", "{line}");
}

#[tokio::test]
async fn a_wrong_address_is_refused_with_the_right_forms() {
    let cluster = Cluster::start().await;
    let options = ["controller", "--metrics-bind-address", "8080"];
    let answer = cluster.run(&options).await;
    assert_eq!(answer.code, Some(2), "{}", answer.complaint);
    assert!(
        answer.complaint.contains("such as :8080"),
        "{}",
        answer.complaint
    );
    assert!(answer.out.is_empty(), "{}", answer.out);
}

/// Asks for metrics until this line is among them.
async fn shows(controller: &Controller, line: &str) {
    let asking = async {
        loop {
            let (_, text) = get(&controller.metrics, "/metrics").await;
            if text.lines().any(|one| one == line) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let shown = tokio::time::timeout(PATIENCE, asking).await;
    assert!(shown.is_ok(), "{line} does not show");
}

#[tokio::test]
async fn a_gate_that_is_put_into_the_file_is_kept_without_a_restart_and_a_wrong_file_changes_nothing()
 {
    let cluster = Cluster::start().await;
    let node = serde_json::json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1" },
        "spec": { "taints": [{ "key": "node-ready/unverified", "effect": "NoSchedule" }] },
    });
    cluster.create(node).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, "namespace: default\n").unwrap();
    let options = ["--leader-elect=false", "--config", file.to_str().unwrap()];
    let controller = start(&cluster, &options).await;
    ready(&controller).await;
    shows(&controller, "shipshape_gate_nodes{state=\"unverified\"} 0").await;
    let gate = "namespace: default\nworker: { image: { repository: r, tag: t } }\n";
    std::fs::write(&file, gate).unwrap();
    shows(
        &controller,
        "shipshape_settings_read_total{outcome=\"applied\"} 1",
    )
    .await;
    shows(&controller, "shipshape_gate_nodes{state=\"unverified\"} 1").await;
    shows(&controller, "shipshape_settings_stale 0").await;
    std::fs::write(&file, gate.replace("worker", "wroker")).unwrap();
    shows(
        &controller,
        "shipshape_settings_read_total{outcome=\"refused\"} 1",
    )
    .await;
    shows(&controller, "shipshape_settings_stale 1").await;
    shows(&controller, "shipshape_gate_nodes{state=\"unverified\"} 1").await;
    drop(controller);
}

#[tokio::test]
async fn settings_that_make_no_sense_end_it_before_it_begins() {
    let cluster = Cluster::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, "settings: { deadlines: { drain: -1m } }").unwrap();
    let config = ["controller", "--config", file.to_str().unwrap()];
    let level = ["controller", "--log-level", "bogus"];
    let table = [
        (&config[..], "default", "settings.deadlines.drain is -1m"),
        (&level, "default", "logging.level) is \"bogus\""),
        (
            &["controller"],
            "Not_One",
            "LOCK_NAMESPACE: \"Not_One\" is not",
        ),
    ];
    for (options, locks, expected) in table {
        let ended = cluster
            .command(options)
            .env("LOCK_NAMESPACE", locks)
            .stderr(Stdio::piped())
            .output();
        let ended = tokio::time::timeout(PATIENCE, ended).await.unwrap();
        let ended = ended.unwrap();
        let words = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{words}");
        assert!(words.contains(expected), "{words}");
    }
}
