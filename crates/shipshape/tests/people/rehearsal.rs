//! simulate --from-cluster: the whole run on a copy, and nothing written.

use serde_json::Value;

use crate::cluster::Cluster;
use crate::plan::{RUN, scene};

async fn rehearse(cluster: &Cluster) -> (Option<i32>, String, String) {
    let file = cluster.kubeconfig().with_file_name("run.yaml");
    std::fs::write(&file, RUN).unwrap();
    let file = file.display().to_string();
    let answer = cluster
        .run(&["simulate", "--from-cluster", "-f", &file])
        .await;
    (answer.code, answer.out, answer.complaint)
}

#[tokio::test]
async fn a_rehearsal_only_reads_and_names_what_would_not_be_replaced() {
    let cluster = scene().await;
    let before = cluster.api.log_since(0).len();
    let (code, text, complaint) = rehearse(&cluster).await;
    assert_eq!(code, Some(1), "{complaint}\n{text}");
    assert!(
        complaint.contains("on a copy of 3 nodes and 3 pods"),
        "{complaint}"
    );
    for expected in [
        "rehearsal of january  seed 1  Converged",
        "1 of 3 replaced, 2 failed",
        "NOT REPLACED n2:",
        "disruption budget db can never allow an eviction",
        "NOT REPLACED n3:",
    ] {
        assert!(
            text.contains(expected),
            "{expected:?} is missing in\n{text}"
        );
    }
    for entry in cluster.api.log_since(before) {
        let is_read = matches!(entry.verb.as_str(), "get" | "list" | "watch");
        assert!(is_read, "{entry:?}");
    }
}

#[tokio::test]
async fn a_rehearsal_of_no_node_ends_with_a_sentence() {
    let cluster = scene().await;
    let file = cluster.kubeconfig().with_file_name("run.yaml");
    let selector = "  nodeSelector: { matchLabels: { kubernetes.io/hostname: n9 } }";
    std::fs::write(&file, format!("{}\n{selector}\n", RUN.trim_end())).unwrap();
    let file = file.display().to_string();
    let answer = cluster
        .run(&["simulate", "--from-cluster", "-f", &file])
        .await;
    assert_eq!(answer.code, Some(1), "{}", answer.out);
    let words = answer.complaint;
    assert!(
        words.contains("matches the selectors of run january"),
        "{words}"
    );
}

#[tokio::test]
async fn the_nodes_that_would_not_be_replaced_are_named_to_machines_too() {
    let cluster = scene().await;
    let file = cluster.kubeconfig().with_file_name("run.yaml");
    std::fs::write(&file, RUN).unwrap();
    let file = file.display().to_string();
    let arguments = ["simulate", "--from-cluster", "-f", &file, "-o", "json"];
    let answer = cluster.run(&arguments).await;
    assert_eq!(answer.code, Some(1), "{}", answer.complaint);
    let value: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(value["nodes"]["replaced"], 1, "{value}");
    assert_eq!(value["notReplaced"][0]["node"], "n2", "{value}");
}

#[tokio::test]
async fn a_rehearsal_without_a_cluster_or_a_file_is_refused_in_words() {
    let cluster = Cluster::bare().await;
    let answer = cluster.run(&["simulate", "-f", "run.yaml"]).await;
    assert_eq!(answer.code, Some(2));
    assert!(
        answer.complaint.contains("--from-cluster"),
        "{}",
        answer.complaint
    );
    let answer = cluster
        .run(&["simulate", "--from-cluster", "-f", "/nowhere"])
        .await;
    assert_eq!(answer.code, Some(2));
    assert!(
        answer.complaint.contains("-f /nowhere"),
        "{}",
        answer.complaint
    );
}
