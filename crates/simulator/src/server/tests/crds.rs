//! Definitions and the kinds they bring, through the served API.

use serde_json::{Value, json};

use super::{cluster, expect, send};
use crate::ApiServer;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FOOS: &str = "/apis/example.com/v1/namespaces/default/foos";

async fn with_foos() -> ApiServer {
    let server = cluster();
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": { "type": "object", "properties": {
                "a": { "type": "string", "maxLength": 3 },
                "n": { "type": "integer", "default": 1 },
            } },
            "status": { "type": "object", "properties": { "phase": { "type": "string" } } },
        },
    });
    let definition = json!({
        "metadata": { "name": "foos.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "foos", "kind": "Foo" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {} }, "schema": { "openAPIV3Schema": schema } }],
        },
    });
    assert_eq!(send(&server, "POST", DEFINITIONS, definition).await.0, 201);
    server
}

fn foo(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Foo", "metadata": { "name": name }, "spec": spec })
}

#[tokio::test(start_paused = true)]
async fn definition_is_established_and_its_kind_served() {
    let server = with_foos().await;
    let (_, definition) = send(
        &server,
        "GET",
        &format!("{DEFINITIONS}/foos.example.com"),
        Value::Null,
    )
    .await;
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|c| c["type"] == "Established" && c["status"] == "True")
    );
    let (code, made) = send(
        &server,
        "POST",
        FOOS,
        foo("a", &json!({ "a": "x", "unknown": 1 })),
    )
    .await;
    assert_eq!((code, &made["spec"]), (201, &json!({ "a": "x", "n": 1 })));
    expect(
        &server,
        &[
            (
                "POST",
                FOOS,
                foo("b", &json!({ "a": "long" })),
                422,
                "Invalid",
            ),
            (
                "PUT",
                &format!("{FOOS}/a"),
                foo("a", &json!({ "a": "y" })),
                422,
                "Invalid",
            ),
            (
                "PATCH:strategic",
                &format!("{FOOS}/a"),
                json!({}),
                415,
                "UnsupportedMediaType",
            ),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn status_of_a_custom_object_has_its_own_door() {
    let server = with_foos().await;
    send(&server, "POST", FOOS, foo("a", &json!({ "a": "x" }))).await;
    let both = json!({ "spec": { "a": "y" }, "status": { "phase": "P" } });
    let (_, main) = send(&server, "PATCH", &format!("{FOOS}/a"), both.clone()).await;
    assert_eq!(
        (&main["spec"]["a"], &main["status"]),
        (&json!("y"), &Value::Null)
    );
    assert_eq!(main["metadata"]["generation"], 2);
    let (_, status) = send(&server, "PATCH", &format!("{FOOS}/a/status"), both).await;
    assert_eq!(
        (
            &status["status"]["phase"],
            &status["metadata"]["generation"]
        ),
        (&json!("P"), &json!(2))
    );
}

#[tokio::test(start_paused = true)]
async fn definition_leaves_after_its_last_object() {
    let server = with_foos().await;
    let mut held = foo("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["x/y"]);
    send(&server, "POST", FOOS, held).await;
    send(&server, "POST", FOOS, foo("free", &json!({}))).await;
    let definition = format!("{DEFINITIONS}/foos.example.com");
    expect(
        &server,
        &[
            ("DELETE", &definition, Value::Null, 200, ""),
            ("GET", &format!("{FOOS}/free"), Value::Null, 404, "NotFound"),
            ("GET", &definition, Value::Null, 200, ""),
            (
                "PATCH",
                &format!("{FOOS}/held"),
                json!({ "metadata": { "finalizers": null } }),
                200,
                "",
            ),
            ("GET", &definition, Value::Null, 404, "NotFound"),
            ("GET", FOOS, Value::Null, 404, ""),
        ],
    )
    .await;
}
