//! plan: what a run would do, and that it writes nothing.

use serde_json::{Value, json};

use crate::cluster::{Answer, Cluster};

fn node(name: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": zone } },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

fn pod(name: &str, node: &str, app: &str, owner: Option<&str>) -> Value {
    let owners: Vec<Value> = owner
        .map(|name| {
            json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name,
                    "uid": "00000000-0000-0000-0000-000000000001", "controller": true })
        })
        .into_iter()
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "app": app },
                      "ownerReferences": owners },
        "spec": { "nodeName": node, "containers": [{ "name": "main", "image": "i" }] },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}

fn budget(name: &str, app: &str, expected: i32, desired: i32) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "minAvailable": desired, "selector": { "matchLabels": { "app": app } } },
        "status": { "observedGeneration": 1, "disruptionsAllowed": expected - desired,
                    "currentHealthy": expected, "desiredHealthy": desired,
                    "expectedPods": expected },
    })
}

/// Three nodes: one with an ordinary pod, one with a pod under a hopeless budget, one with a bare pod.
pub(crate) async fn scene() -> Cluster {
    let cluster = Cluster::start().await;
    let objects = [
        node("n1", "a"),
        node("n2", "a"),
        node("n3", "b"),
        pod("web-1", "n1", "web", Some("web")),
        pod("db-1", "n2", "db", Some("db")),
        pod("alone", "n3", "alone", None),
        budget("web", "web", 1, 0),
        budget("db", "db", 1, 1),
    ];
    for object in objects {
        cluster.create(object).await;
    }
    cluster
}

pub(crate) const RUN: &str = "
apiVersion: shipshape.dev/v1alpha1
kind: NodePatchRun
metadata: { name: january, namespace: default }
spec:
  provider: { type: aws, aws: { region: us-east-1 } }
  canary: { nodes: 1, soak: 10m }
  partitionIterations: 1
  maxAttempts: 1
  drain: { timeout: 5m }
";

async fn plan(cluster: &Cluster, manifest: &str, options: &[&str]) -> Answer {
    let file = cluster.kubeconfig().with_file_name("run.yaml");
    std::fs::write(&file, manifest).unwrap();
    let file = file.display().to_string();
    let mut arguments = vec!["plan", "-f", &file];
    arguments.extend(options);
    cluster.run(&arguments).await
}

#[tokio::test]
async fn a_plan_warns_of_pods_that_go_with_their_machine_and_of_a_manifest_that_does_nothing() {
    let cluster = scene().await;
    let force = RUN.replace("timeout: 5m", "timeout: 5m, onDeadline: Force");
    let answer = plan(&cluster, &format!("{force}  paused: true\n"), &[]).await;
    let text = answer.out;
    for expected in [
        "WARNING: spec.paused is true",
        "WARNING: the machines of 2 node(s) will be ended with pods on them, 5m after",
        "will be ended with pods on it",
    ] {
        assert!(
            text.contains(expected),
            "{expected:?} is missing in\n{text}{}",
            answer.complaint
        );
    }
    assert!(!text.contains("parked"), "{text}");
}

#[tokio::test]
async fn a_plan_tells_waves_blockers_time_and_cost() {
    let cluster = scene().await;
    let answer = plan(&cluster, RUN, &[]).await;
    let text = answer.out;
    assert_eq!(answer.code, Some(0), "{}", answer.complaint);
    for expected in [
        "run default/january would replace 3 of 3 nodes in 2 wave(s)",
        "wave 1 of 2 (canaries): 1 node(s), from 0s to 4m30s, then watched for 10m",
        "wave 2 of 2: 2 node(s), from 14m to 22m",
        "2 pod(s) cannot be evicted as things are",
        "pod default/db-1 on n2: disruption budget db can never allow an eviction",
        "would help: let db allow at least one pod to be away",
        "pod default/alone on n3: no controller would bring this pod back",
        "will fail",
        "2 node(s) will fail unless somebody helps",
        "Nothing was written; evictions asked for as dry runs: 1.",
    ] {
        assert!(
            text.contains(expected),
            "{expected:?} is missing in\n{text}"
        );
    }
    let answer = plan(&cluster, RUN, &["-o", "json", "--machine-ready", "10m"]).await;
    let value: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(value["waves"][0]["nodes"][0]["node"], "n1");
    assert_eq!(value["waves"][0]["ends"], 600 + 30 + 60);
    assert_eq!(value["findings"][1].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_plan_writes_nothing_but_dry_runs() {
    let cluster = scene().await;
    let before = cluster.api.log_since(0).len();
    let answer = plan(&cluster, RUN, &[]).await;
    assert_eq!(answer.code, Some(0), "{}", answer.complaint);
    let asked = cluster.api.log_since(before);
    assert!(asked.len() > 4, "it looked at the cluster");
    for entry in &asked {
        let is_read = matches!(entry.verb.as_str(), "get" | "list" | "watch");
        assert!(is_read || entry.dry_run, "{entry:?}");
    }
    assert!(
        asked.iter().any(|entry| entry.dry_run),
        "dry runs were asked for"
    );
}

#[tokio::test]
async fn a_wrong_manifest_is_refused_with_the_field() {
    let cluster = scene().await;
    let wrong = RUN.replace("partitionIterations: 1", "partitionIterations: 0");
    let answer = plan(&cluster, &wrong, &[]).await;
    assert_eq!(answer.code, Some(2), "{}", answer.out);
    let words = answer.complaint;
    assert!(words.contains("spec.partitionIterations"), "{words}");
    let time = plan(&cluster, RUN, &["--machine-ready=-5m"]).await;
    assert_eq!(time.code, Some(2), "{}", time.out);
    assert!(time.complaint.contains("such as 90s"), "{}", time.complaint);
    let pod = plan(&cluster, "apiVersion: v1\nkind: Pod\n", &[]).await;
    assert_eq!(pod.code, Some(2), "{}", pod.complaint);
    let absent = cluster.run(&["plan", "-f", "/nowhere.yaml"]).await;
    assert_eq!(absent.code, Some(2));
    assert!(absent.complaint.contains("-f /nowhere.yaml"));
}

#[tokio::test]
async fn a_manifest_is_checked_word_by_word_as_it_was_written() {
    let cluster = scene().await;
    for (right, wrong, field) in [
        ("maxAttempts: 1", "maxAttempt: 1", "spec.maxAttempt"),
        ("maxAttempts: 1", "maxAttempts: many", "maxAttempts"),
        ("soak: 10m", "soak: 10m, soaks: 1m", "spec.canary.soaks"),
        ("name: january", "nam: january", "metadata.nam"),
    ] {
        let answer = plan(&cluster, &RUN.replace(right, wrong), &[]).await;
        assert_eq!(answer.code, Some(2), "{wrong}\n{}", answer.out);
        let words = answer.complaint;
        assert!(words.contains(field), "{wrong}\n{words}");
        assert!(!words.contains("dry-run"), "{words}");
    }
    // A rehearsal sends nothing, and is as strict.
    let file = cluster.kubeconfig().with_file_name("wrong.yaml");
    std::fs::write(&file, RUN.replace("maxAttempts", "maxAttempt")).unwrap();
    let file = file.display().to_string();
    let arguments = ["simulate", "--from-cluster", "-f", &file];
    let answer = cluster.run(&arguments).await;
    assert_eq!(answer.code, Some(2), "{}", answer.out);
    let words = answer.complaint;
    assert!(words.contains("spec.maxAttempt"), "{words}");
    let answer = plan(&cluster, RUN, &["-n", "ops"]).await;
    assert_eq!(answer.code, Some(2), "{}", answer.out);
    assert!(
        answer.complaint.contains("-n says ops"),
        "{}",
        answer.complaint
    );
}

#[tokio::test]
async fn a_run_that_came_out_of_the_cluster_is_checked_too_and_told_to_exist() {
    let cluster = scene().await;
    let status = json!({ "total": 3, "completed": 1 });
    cluster.create(crate::orders::run("january", &status)).await;
    let api: kube::Api<shipshape_api::NodePatchRun> =
        kube::Api::namespaced(cluster.client(), "default");
    let stored = serde_json::to_value(api.get("january").await.unwrap()).unwrap();
    assert!(stored["metadata"]["uid"].is_string(), "{stored}");
    let answer = plan(&cluster, &stored.to_string(), &[]).await;
    assert_eq!(answer.code, Some(0), "{}", answer.complaint);
    let text = answer.out;
    assert!(!text.contains("not checked"), "{text}");
    let exists = "WARNING: run default/january exists already (Active, 1 of 3 nodes replaced)";
    assert!(text.contains(exists), "{text}");
    let wrong = stored
        .to_string()
        .replace("\"embedded\"}", "\"embedded\"},\"typo\":1");
    let answer = plan(&cluster, &wrong, &[]).await;
    assert_eq!(answer.code, Some(2), "{wrong}\n{}", answer.out);
    assert!(
        answer.complaint.contains("spec.typo"),
        "{}",
        answer.complaint
    );
}

#[tokio::test]
async fn a_cloud_that_the_controller_will_refuse_is_told_before() {
    let cluster = scene().await;
    let wrong = RUN.replace("type: aws, aws: { region: us-east-1 }", "type: vmware");
    let answer = plan(&cluster, &wrong, &[]).await;
    assert_eq!(answer.code, Some(0), "{}", answer.complaint);
    let words = "would refuse the run: it does not support spec.provider.type \"vmware\"";
    assert!(answer.out.contains(words), "{}", answer.out);
    let answer = plan(&cluster, &wrong, &["-o", "json"]).await;
    let value: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(value["warnings"].as_array().unwrap().len(), 1, "{value}");
}

#[tokio::test]
async fn a_plan_can_be_had_before_the_kinds_are_installed() {
    let cluster = Cluster::bare().await;
    cluster.create(node("n1", "a")).await;
    let answer = plan(&cluster, RUN, &[]).await;
    assert_eq!(answer.code, Some(0), "{}", answer.complaint);
    let text = answer.out;
    assert!(text.contains("was not checked by the cluster"), "{text}");
    assert!(text.contains("would replace 1 of 1 nodes"), "{text}");
}
