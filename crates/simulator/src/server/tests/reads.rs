//! Gets and lists through the served API.

use serde_json::{Value, json};

use super::{cluster, expect, send};
use crate::ApiServer;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn five() -> ApiServer {
    let server = cluster();
    for i in 0..5 {
        let parity = if i % 2 == 0 { "even" } else { "odd" };
        let body = json!({ "metadata": { "name": format!("c{i}"), "labels": { "i": i.to_string(), "p": parity } } });
        send(&server, "POST", MAPS, body).await;
    }
    server
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn selectors_choose() {
    let server = five().await;
    for (query, expected) in [
        ("labelSelector=p%3Dodd", vec!["c1", "c3"]),
        ("labelSelector=p!%3Dodd", vec!["c0", "c2", "c4"]),
        ("labelSelector=i%20in%20(1,4)", vec!["c1", "c4"]),
        ("labelSelector=i%20notin%20(1,4),p%3Dodd", vec!["c3"]),
        ("labelSelector=!p", vec![]),
        ("labelSelector=i%3E3", vec!["c4"]),
        ("fieldSelector=metadata.name%3Dc2", vec!["c2"]),
    ] {
        let (_, list) = send(&server, "GET", &format!("{MAPS}?{query}"), Value::Null).await;
        assert_eq!(names(&list), expected, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_show_one_moment() {
    let server = five().await;
    let (_, first) = send(&server, "GET", &format!("{MAPS}?limit=2"), Value::Null).await;
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    send(&server, "DELETE", &format!("{MAPS}/c3"), Value::Null).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = send(
        &server,
        "GET",
        &format!("{MAPS}?continue={token}"),
        Value::Null,
    )
    .await;
    assert_eq!(names(&rest), ["c2", "c3", "c4"]);
    server.forget_history();
    send(&server, "DELETE", &format!("{MAPS}/c4"), Value::Null).await;
    let path = format!("{MAPS}?continue={token}");
    expect(&server, &[("GET", &path, Value::Null, 410, "Expired")]).await;
}

#[tokio::test(start_paused = true)]
async fn versions_are_honoured_or_refused() {
    let server = five().await;
    let (_, list) = send(&server, "GET", MAPS, Value::Null).await;
    let version: u64 = list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let exact = format!(
        "{MAPS}?resourceVersionMatch=Exact&resourceVersion={}",
        version - 2
    );
    let (_, past) = send(&server, "GET", &exact, Value::Null).await;
    assert_eq!(names(&past), ["c0", "c1", "c2"]);
    let rows = [
        ("resourceVersion=99999", 504, "Timeout"),
        ("resourceVersion=abc", 400, "BadRequest"),
        ("resourceVersionMatch=Exact", 422, "Invalid"),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            422,
            "Invalid",
        ),
        ("fieldSelector=data%3Dx", 400, "BadRequest"),
        ("labelSelector=a%20in", 400, "BadRequest"),
        ("limit=x", 400, "BadRequest"),
    ];
    for (query, code, reason) in rows {
        expect(
            &server,
            &[("GET", &format!("{MAPS}?{query}"), Value::Null, code, reason)],
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn paths_outside_of_objects_answer() {
    let server = cluster();
    for (path, code) in [
        ("/version", 200),
        ("/readyz", 200),
        ("/api/v1", 200),
        ("/apis", 200),
        ("/apis/apps/v1", 200),
        ("/nope", 404),
        ("/apis/x/v1/y", 404),
    ] {
        assert_eq!(
            send(&server, "GET", path, Value::Null).await.0,
            code,
            "{path}"
        );
    }
}

#[tokio::test]
async fn only_loopback_is_served() {
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    assert!(cluster().serve(listener).await.is_err());
}
