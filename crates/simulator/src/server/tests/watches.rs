//! Watches through the served API.

use serde_json::{Value, json};

use super::{cluster, send};
use crate::ApiServer;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Watches for ten virtual seconds while a change is made, and lists what was told.
async fn told(server: &ApiServer, query: &str, changes: &[(&str, &str, Value)]) -> Vec<String> {
    use http_body_util::BodyExt;
    use tower::ServiceExt;
    let path = format!("{MAPS}?watch=true&timeoutSeconds=10&{query}");
    let request = http::Request::get(path)
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .unwrap();
    let response = server.service("watch").oneshot(request).await.unwrap();
    for (method, name, body) in changes {
        send(server, method, &format!("{MAPS}{name}"), body.clone()).await;
    }
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    text.lines()
        .map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            let subject = event["object"]["metadata"]["name"].as_str();
            let subject =
                subject.map_or_else(|| event["object"]["code"].to_string(), str::to_owned);
            format!("{} {subject}", event["type"].as_str().unwrap())
        })
        .collect()
}

fn label(value: &str) -> Value {
    json!({ "metadata": { "labels": { "a": value } } })
}

#[tokio::test(start_paused = true)]
async fn object_that_leaves_a_selection_is_reported_gone() {
    let server = cluster();
    send(
        &server,
        "POST",
        MAPS,
        json!({ "metadata": { "name": "m", "labels": { "a": "1" } } }),
    )
    .await;
    let changes = [
        ("PATCH", "/m", label("2")),
        ("PATCH", "/m", label("1")),
        ("PATCH", "/m", json!({ "data": { "x": "y" } })),
        ("DELETE", "/m", Value::Null),
    ];
    let events = told(&server, "labelSelector=a%3D1", &changes).await;
    assert_eq!(
        events,
        ["ADDED m", "DELETED m", "ADDED m", "MODIFIED m", "DELETED m"]
    );
}

#[tokio::test(start_paused = true)]
async fn watch_from_forgotten_history_ends_with_410() {
    let server = cluster();
    send(
        &server,
        "POST",
        MAPS,
        json!({ "metadata": { "name": "m" } }),
    )
    .await;
    server.forget_history();
    assert_eq!(told(&server, "resourceVersion=2", &[]).await, ["ERROR 410"]);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_when_asked_for() {
    let server = cluster();
    let events = told(&server, "resourceVersion=0&allowWatchBookmarks=true", &[]).await;
    assert_eq!(events, ["BOOKMARK null"]);
    let events = told(
        &server,
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        &[("POST", "", json!({ "metadata": { "name": "m" } }))],
    )
    .await;
    assert_eq!(events, ["BOOKMARK null", "ADDED m", "BOOKMARK null"]);
}
