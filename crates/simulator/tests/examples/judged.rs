//! What an API server says of every manifest under `examples/`.
//!
//! Owns the way from a file to a request and what the answer must be. The same questions go to the
//! embedded cluster and, from the testbed's tests, to a real API server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::BodyExt;
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};
use shipshape_api::NodePatchRun;

/// Sends every example, and every bad twin, and complains about each wrong answer.
pub(crate) async fn assert_examples_are_judged_rightly(client: &Client) {
    let definitions = shipshape_api::crds();
    for definition in &definitions {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, answer) = post(client, path, &json!(definition)).await;
        assert_eq!(code, 201, "{answer}");
    }
    for definition in &definitions {
        until_served(client, &definition.spec.names.plural).await;
    }
    let namespace = json!({"metadata": {"name": shipshape_api::names::DEFAULT_NAMESPACE}});
    let (code, answer) = post(client, "/api/v1/namespaces", &namespace).await;
    assert_eq!(code, 201, "{answer}");

    let mut wrong = Vec::new();
    let examples = manifests("examples");
    assert!(examples.len() >= 21, "{} examples", examples.len());
    for (file, _, manifest) in examples {
        let (code, answer) = post(client, &path_of(&manifest), &manifest).await;
        if code != 201 {
            wrong.push(format!("{file} should be admitted: {code} {answer}"));
        }
    }
    let twins = manifests("examples/refused");
    assert!(twins.len() >= 20, "{} twins", twins.len());
    for (file, first_line, manifest) in twins {
        let field = first_line.strip_prefix("# refused: ").unwrap();
        assert!(field.starts_with("spec."), "{file}: {field} is no path");
        let (code, answer) = post(client, &path_of(&manifest), &manifest).await;
        let (reason, message) = (text(&answer, "/reason"), text(&answer, "/message"));
        if code != 422 || reason != "Invalid" || !names_field(message, field) {
            wrong.push(format!(
                "{file} should be refused for {field}: {code} {answer}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_provider_is_fixed_by_the_plan(client).await;
}

/// A run's provider can be mended until the run has its plan.
async fn assert_provider_is_fixed_by_the_plan(client: &Client) {
    let api: Api<NodePatchRun> =
        Api::namespaced(client.clone(), shipshape_api::names::DEFAULT_NAMESPACE);
    let run: NodePatchRun = serde_json::from_value(json!({
        "metadata": {"name": "planned"},
        "spec": {"provider": {"type": "embeded"}},
    }))
    .unwrap();
    api.create(&PostParams::default(), &run).await.unwrap();
    let to = |provider: &str| Patch::Merge(json!({"spec": {"provider": {"type": provider}}}));
    let params = PatchParams::default();
    api.patch("planned", &params, &to("embedded"))
        .await
        .unwrap();
    let plan = Patch::Merge(json!({"status": {"plan": {"planVersion": "1"}}}));
    api.patch_status("planned", &params, &plan).await.unwrap();
    api.patch(
        "planned",
        &params,
        &Patch::Merge(json!({"spec": {"paused": true}})),
    )
    .await
    .unwrap();
    let refused = api.patch("planned", &params, &to("vmware")).await;
    let message = refused.unwrap_err().to_string();
    assert!(names_field(&message, "spec.provider.type"), "{message}");
}

/// Whether a message blames this field, and not merely one whose name begins so.
fn names_field(message: &str, field: &str) -> bool {
    message.contains(&format!("{field}: "))
}

/// Name, first line and content of every manifest in a folder of the repository.
fn manifests(folder: &str) -> Vec<(String, String, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(folder);
    let entries = std::fs::read_dir(root).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let first_line = text.lines().next().unwrap_or_default().to_owned();
        (name, first_line, serde_saphyr::from_str(&text).unwrap())
    };
    files.iter().map(read).collect()
}

/// Where objects of the manifest's kind and namespace are created.
fn path_of(manifest: &Value) -> String {
    let definitions = shipshape_api::crds();
    let definition = definitions
        .iter()
        .find(|definition| text(manifest, "/kind") == definition.spec.names.kind)
        .unwrap();
    let place = match text(manifest, "/metadata/namespace") {
        "" => String::new(),
        namespace => format!("namespaces/{namespace}/"),
    };
    let plural = &definition.spec.names.plural;
    format!("/apis/shipshape.dev/v1alpha1/{place}{plural}")
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

async fn post(client: &Client, path: &str, body: &Value) -> (u16, Value) {
    let request = http::Request::post(path).header("content-type", "application/json");
    let body = Body::from(body.to_string().into_bytes());
    answer(client, request.body(body).unwrap()).await
}

/// A real API server takes a moment to serve what was defined.
async fn until_served(client: &Client, plural: &str) {
    let path = format!("/apis/shipshape.dev/v1alpha1/{plural}");
    for tries in 0.. {
        let request = http::Request::get(&path).body(Body::empty()).unwrap();
        if answer(client, request).await.0 == 200 {
            return;
        }
        assert!(tries < 200, "{plural} are not served in time");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn answer(client: &Client, request: http::Request<Body>) -> (u16, Value) {
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}
