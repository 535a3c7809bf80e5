//! The API through `kube::Client` and as bare requests, as its users see it.

mod basics;
mod bodies;
mod crds;
mod evictions;
mod reads;
mod watches;
mod writes;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use shipshape_cluster::Clock;
use tower::ServiceExt;

use super::ApiServer;

/// A cluster whose clock stands still unless a test waits.
fn cluster() -> ApiServer {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    ApiServer::new(Clock::starting_at(start))
}

/// Sends one request; the method may carry the patch type behind a colon.
async fn send(server: &ApiServer, method: &str, path: &str, body: Value) -> (u16, Value) {
    let (method, patch) = method.split_once(':').unwrap_or((method, "merge"));
    let media = match (method, patch) {
        ("PATCH", "json") => "application/json-patch+json",
        ("PATCH", "strategic") => "application/strategic-merge-patch+json",
        ("PATCH", "apply") => "application/apply-patch+yaml",
        ("PATCH", _) => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(http_body_util::Full::new(bytes::Bytes::from(body)))
        .unwrap();
    let response = server.service("test").oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// Sends a table of requests and compares code and reason of each answer.
async fn expect(server: &ApiServer, rows: &[(&str, &str, Value, u16, &str)]) {
    for (method, path, body, code, reason) in rows {
        let (got, answer) = send(server, method, path, body.clone()).await;
        let said = answer["reason"].as_str().unwrap_or_default();
        assert_eq!(
            (got, said),
            (*code, *reason),
            "{method} {path} {body}: {answer}"
        );
    }
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "app": "a" } },
        "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] },
    })
}
