//! Creates, updates, patches and deletes through the served API.

use serde_json::{Value, json};

use super::{cluster, expect, pod, send};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test(start_paused = true)]
async fn create_refuses_what_the_real_server_refuses() {
    let server = cluster();
    let name = |name: &str| json!({ "metadata": { "name": name } });
    expect(
        &server,
        &[
            ("POST", MAPS, name("a"), 201, ""),
            ("POST", MAPS, name("a"), 409, "AlreadyExists"),
            ("POST", MAPS, name("Bad_Name"), 422, "Invalid"),
            ("POST", MAPS, json!({}), 422, "Invalid"),
            (
                "POST",
                MAPS,
                json!({ "metadata": { "name": "l", "labels": { "a b": "" } } }),
                422,
                "Invalid",
            ),
            (
                "POST",
                MAPS,
                json!({ "kind": "Secret", "metadata": { "name": "s" } }),
                400,
                "BadRequest",
            ),
            (
                "POST",
                MAPS,
                json!({ "metadata": { "name": "d" }, "data": { "n": 1 } }),
                400,
                "BadRequest",
            ),
            (
                "POST",
                MAPS,
                json!({ "metadata": { "name": "o", "namespace": "other" } }),
                400,
                "BadRequest",
            ),
            (
                "POST",
                MAPS,
                json!({ "metadata": { "name": "v", "resourceVersion": "5" } }),
                500,
                "",
            ),
            (
                "POST",
                "/api/v1/namespaces/nowhere/configmaps",
                name("a"),
                404,
                "NotFound",
            ),
            (
                "POST",
                PODS,
                json!({ "metadata": { "name": "p" }, "spec": {} }),
                422,
                "Invalid",
            ),
            (
                "POST",
                &format!("{MAPS}?fieldValidation=Strict"),
                json!({ "metadata": { "name": "f" }, "foo": 1 }),
                400,
                "BadRequest",
            ),
            ("PUT", MAPS, name("a"), 405, "MethodNotAllowed"),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn dry_run_stores_nothing() {
    let server = cluster();
    let (code, made) = send(
        &server,
        "POST",
        &format!("{MAPS}?dryRun=All"),
        json!({ "metadata": { "generateName": "a-" } }),
    )
    .await;
    assert_eq!(code, 201);
    assert!(made["metadata"]["name"].as_str().unwrap().starts_with("a-"));
    let (_, list) = send(&server, "GET", MAPS, Value::Null).await;
    assert_eq!(list["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn new_pod_gets_the_defaults_of_the_real_server() {
    let server = cluster();
    let (_, made) = send(&server, "POST", PODS, pod("p")).await;
    let spec = &made["spec"];
    assert_eq!(spec["restartPolicy"], "Always");
    assert_eq!(spec["terminationGracePeriodSeconds"], 30);
    assert_eq!(spec["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(spec["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(spec["priority"], 0);
    assert_eq!(
        made["status"],
        json!({ "phase": "Pending", "qosClass": "BestEffort" })
    );
    assert_eq!(made["metadata"]["generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn status_and_spec_are_written_apart() {
    let server = cluster();
    send(&server, "POST", PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    let status = json!({ "status": { "phase": "Running" }, "spec": { "nodeName": "other" } });
    let (_, main) = send(
        &server,
        "PATCH",
        &path,
        json!({ "status": { "phase": "Running" } }),
    )
    .await;
    assert_eq!(main["status"]["phase"], "Pending");
    let (_, after) = send(&server, "PATCH", &format!("{path}/status"), status).await;
    assert_eq!(after["status"]["phase"], "Running");
    assert_eq!(after["spec"]["nodeName"], "n");
}

#[tokio::test(start_paused = true)]
async fn spec_change_makes_a_generation_and_a_repeat_makes_nothing() {
    let server = cluster();
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let labels = json!({ "app": "a" });
    let body = json!({
        "metadata": { "name": "d" },
        "spec": { "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels }, "spec": pod("x")["spec"] } },
    });
    send(&server, "POST", path, body).await;
    let one = format!("{path}/d");
    let (_, labelled) = send(
        &server,
        "PATCH",
        &one,
        json!({ "metadata": { "labels": { "a": "b" } } }),
    )
    .await;
    assert_eq!(labelled["metadata"]["generation"], 1);
    let (_, scaled) = send(
        &server,
        "PATCH",
        &format!("{one}/scale"),
        json!({ "spec": { "replicas": 3 } }),
    )
    .await;
    assert_eq!(
        (&scaled["kind"], &scaled["spec"]["replicas"]),
        (&json!("Scale"), &json!(3))
    );
    let (_, first) = send(&server, "GET", &one, Value::Null).await;
    assert_eq!(first["metadata"]["generation"], 2);
    let (_, again) = send(&server, "PATCH", &one, json!({ "spec": { "replicas": 3 } })).await;
    assert_eq!(
        again["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    expect(
        &server,
        &[(
            "PATCH",
            &one,
            json!({ "spec": { "selector": { "matchLabels": { "x": "y" } } } }),
            422,
            "Invalid",
        )],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn guarded_writes_meet_their_guards() {
    let server = cluster();
    let one = format!("{MAPS}/a");
    send(
        &server,
        "POST",
        MAPS,
        json!({ "metadata": { "name": "a", "finalizers": ["x/y"] } }),
    )
    .await;
    expect(
        &server,
        &[
            (
                "PATCH",
                &one,
                json!({ "metadata": { "resourceVersion": "1" } }),
                409,
                "Conflict",
            ),
            (
                "PATCH",
                &one,
                json!({ "metadata": { "uid": "other" } }),
                422,
                "Invalid",
            ),
            (
                "PATCH:json",
                &one,
                json!([{ "op": "test", "path": "/data", "value": 1 }]),
                422,
                "Invalid",
            ),
            (
                "DELETE",
                &one,
                json!({ "preconditions": { "uid": "other" } }),
                409,
                "Conflict",
            ),
            (
                "DELETE",
                &one,
                json!({ "preconditions": { "resourceVersion": "1" } }),
                409,
                "Conflict",
            ),
            ("DELETE", &one, Value::Null, 200, ""),
            (
                "PATCH",
                &one,
                json!({ "metadata": { "finalizers": ["x/y", "a/b"] } }),
                422,
                "Invalid",
            ),
            ("GET", &one, Value::Null, 200, ""),
            (
                "PATCH",
                &one,
                json!({ "metadata": { "finalizers": null } }),
                200,
                "",
            ),
            ("GET", &one, Value::Null, 404, "NotFound"),
        ],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn binding_happens_once() {
    let server = cluster();
    let mut unbound = pod("p");
    unbound["spec"].as_object_mut().unwrap().remove("nodeName");
    send(&server, "POST", PODS, unbound).await;
    let path = format!("{PODS}/p/binding");
    let body = json!({ "metadata": { "name": "p" }, "target": { "kind": "Node", "name": "m" } });
    expect(
        &server,
        &[
            ("POST", &path, body.clone(), 201, ""),
            ("POST", &path, body, 409, "Conflict"),
        ],
    )
    .await;
    let (_, bound) = send(&server, "GET", &format!("{PODS}/p"), Value::Null).await;
    assert_eq!(bound["spec"]["nodeName"], "m");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
}

#[tokio::test(start_paused = true)]
async fn namespace_waits_for_its_finalizer_and_takes_nothing_new() {
    let server = cluster();
    let path = "/api/v1/namespaces/n";
    expect(
        &server,
        &[
            (
                "POST",
                "/api/v1/namespaces",
                json!({ "metadata": { "name": "n" } }),
                201,
                "",
            ),
            ("DELETE", path, Value::Null, 200, ""),
            (
                "POST",
                "/api/v1/namespaces/n/configmaps",
                json!({ "metadata": { "name": "a" } }),
                403,
                "Forbidden",
            ),
            (
                "PUT",
                "/api/v1/namespaces/n/finalize",
                json!({ "metadata": { "name": "n" }, "spec": {} }),
                200,
                "",
            ),
            ("GET", path, Value::Null, 404, "NotFound"),
            (
                "DELETE",
                "/api/v1/namespaces/default",
                Value::Null,
                403,
                "Forbidden",
            ),
        ],
    )
    .await;
}
