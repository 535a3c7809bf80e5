//! Evictions and the budgets that refuse them.

use serde_json::{Value, json};

use super::{cluster, pod, send};
use crate::ApiServer;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn evict(server: &ApiServer) -> (u16, Value) {
    let body = json!({ "metadata": { "name": "p" } });
    send(server, "POST", &format!("{PODS}/p/eviction"), body).await
}

async fn running_pod_with_budget(allowed: i64) -> ApiServer {
    let server = cluster();
    send(&server, "POST", PODS, pod("p")).await;
    let ready = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    send(&server, "PATCH", &format!("{PODS}/p/status"), ready).await;
    budget(&server, "b").await;
    let status = json!({ "status": {
        "observedGeneration": 1, "disruptionsAllowed": allowed,
        "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
    } });
    send(&server, "PATCH", &format!("{BUDGETS}/b/status"), status).await;
    server
}

async fn budget(server: &ApiServer, name: &str) {
    let body = json!({
        "metadata": { "name": name },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "a" } } },
    });
    send(server, "POST", BUDGETS, body).await;
}

#[tokio::test(start_paused = true)]
async fn eviction_within_the_budget_is_charged_and_the_pod_ends() {
    let server = running_pod_with_budget(1).await;
    assert_eq!(evict(&server).await.0, 201);
    let (_, budget) = send(&server, "GET", &format!("{BUDGETS}/b"), Value::Null).await;
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["p"].is_string());
    let (_, pod) = send(&server, "GET", &format!("{PODS}/p"), Value::Null).await;
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test(start_paused = true)]
async fn eviction_beyond_the_budget_names_it() {
    let server = running_pod_with_budget(0).await;
    let (code, answer) = evict(&server).await;
    assert_eq!(
        (code, answer["reason"].as_str()),
        (429, Some("TooManyRequests"))
    );
    assert_eq!(answer["details"]["causes"][0]["reason"], "DisruptionBudget");
    assert_eq!(
        answer["details"]["causes"][0]["message"],
        "The disruption budget b needs 1 healthy pods and has 1 currently"
    );
}

#[tokio::test(start_paused = true)]
async fn eviction_under_two_budgets_is_an_error() {
    let server = running_pod_with_budget(1).await;
    budget(&server, "b2").await;
    assert_eq!(evict(&server).await.0, 500);
}

#[tokio::test(start_paused = true)]
async fn eviction_before_the_budget_was_seen_waits() {
    let server = running_pod_with_budget(1).await;
    send(
        &server,
        "PATCH",
        &format!("{BUDGETS}/b"),
        json!({ "spec": { "minAvailable": 2 } }),
    )
    .await;
    let (code, answer) = evict(&server).await;
    assert_eq!(
        (code, answer["details"]["retryAfterSeconds"].as_i64()),
        (429, Some(10))
    );
}

#[tokio::test(start_paused = true)]
async fn dry_eviction_changes_nothing() {
    let server = running_pod_with_budget(1).await;
    let body = json!({ "metadata": { "name": "p" }, "deleteOptions": { "dryRun": ["All"] } });
    assert_eq!(
        send(&server, "POST", &format!("{PODS}/p/eviction"), body)
            .await
            .0,
        201
    );
    let (_, budget) = send(&server, "GET", &format!("{BUDGETS}/b"), Value::Null).await;
    assert_eq!(budget["status"]["disruptionsAllowed"], 1);
}
