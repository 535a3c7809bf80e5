//! The account of the DaemonSet mode on a real API server: what its role and the admission policy let it do, and
//! that what `verify --patch-node` does is among that.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, ServiceAccount, Taint};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use shipshape_cluster::Clock;
use shipshape_cluster::own_node::{Gate, OwnNode};
use shipshape_testbed::{ControlPlane, Options};

const NAMESPACE: &str = "shipshape-system";
const ACCOUNT: &str = "shipshape-verify";

/// Everything that the mode needs, as it is shipped.
fn manifests() -> Result<Vec<Value>> {
    let path = "/../../deploy/daemonset/verify.yaml";
    let text = std::fs::read_to_string(format!("{}{path}", env!("CARGO_MANIFEST_DIR")))?;
    let documents = text.split("\n---\n");
    let read = |document: &str| serde_saphyr::from_str(document).context("a manifest is no YAML");
    documents.map(read).collect()
}

async fn create(client: &Client, manifest: &Value) -> Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(manifest.clone())?;
    let types = object.types.clone().context("a manifest has a kind")?;
    let kind = GroupVersionKind::try_from(types)?;
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let made = api.create(&PostParams::default(), &object).await;
    made.with_context(|| format!("{} {}", kind.kind, object.name_any()))
}

/// A node as it is when it waits at the gate.
async fn put_node(client: &Client, name: &str) -> Result<()> {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { "zone": "a" }, "annotations": { "note": "x" } },
        "spec": { "providerID": format!("x:///{name}") },
    });
    create(client, &node).await?;
    let nodes: Api<Node> = Api::all(client.clone());
    let params = PatchParams::default();
    // The server adds a taint of its own to whatever is created.
    let spec = json!({ "spec": { "taints": [
        { "key": "dedicated", "value": "db", "effect": "NoSchedule" },
        { "key": "node-ready/unverified", "value": "true", "effect": "NoSchedule" },
        { "key": "node-ready/unverified", "effect": "PreferNoSchedule" },
    ] } });
    nodes.patch(name, &params, &Patch::Merge(spec)).await?;
    let status = json!({ "status": {
        "conditions": [{ "type": "Ready", "status": "True", "reason": "r", "message": "m" }],
        "capacity": { "cpu": "4", "pods": "110" }, "allocatable": { "cpu": "4", "pods": "110" },
        "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
    } });
    let status = Patch::Merge(status);
    nodes.patch_status(name, &params, &status).await?;
    Ok(())
}

/// A token of the account: of a pod on that node, or of no pod.
async fn token(admin: &Client, node: Option<&str>) -> Result<String> {
    let mut bound = Value::Null;
    if let Some(node) = node {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "generateName": "verify-", "namespace": NAMESPACE },
            "spec": { "serviceAccountName": ACCOUNT, "nodeName": node,
                      "containers": [{ "name": "verify", "image": "shipshape" }] },
        });
        let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(pod)?;
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(admin.clone(), NAMESPACE);
        let pod = pods.create(&PostParams::default(), &pod).await?;
        bound =
            json!({ "apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "uid": pod.uid() });
    }
    let request =
        json!({ "spec": { "audiences": [], "expirationSeconds": 600, "boundObjectRef": bound } });
    let request: TokenRequest = serde_json::from_value(request)?;
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), NAMESPACE);
    let params = PostParams::default();
    let answer = accounts
        .create_token_request(ACCOUNT, &params, &request)
        .await?;
    let status = answer
        .status
        .context("a token request is answered by a token")?;
    Ok(status.token)
}

/// A call that the account may try, on a node of that name.
#[derive(Clone)]
enum Call {
    /// A patch of the node.
    Node(Value),
    /// A patch of its status.
    Status(Value),
    /// Its deletion.
    Delete,
}

async fn answer(client: &Client, node: &str, call: &Call) -> Result<(), String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let outcome = match call {
        Call::Node(patch) => nodes
            .patch(node, &params, &Patch::Merge(patch))
            .await
            .map(drop),
        Call::Status(patch) => {
            let patch = Patch::Strategic(patch);
            nodes.patch_status(node, &params, &patch).await.map(drop)
        }
        Call::Delete => {
            let params = kube::api::DeleteParams {
                dry_run: true,
                ..kube::api::DeleteParams::default()
            };
            nodes.delete(node, &params).await.map(drop)
        }
    };
    outcome.map_err(|error| error.to_string())
}

fn taints(list: &Value) -> Call {
    Call::Node(json!({ "spec": { "taints": list } }))
}

fn condition(kind: &str) -> Call {
    let condition = json!({ "type": kind, "status": "True", "reason": "r", "message": "m" });
    Call::Status(json!({ "status": { "conditions": [condition] } }))
}

/// What is tried, and the words of the refusal that must come.
type Trial = (&'static str, Call, Option<&'static str>);

fn of_taints() -> Vec<Trial> {
    let db = json!({ "key": "dedicated", "value": "db", "effect": "NoSchedule" });
    let gate = json!({ "key": "node-ready/unverified", "value": "true", "effect": "NoSchedule" });
    let soft = json!({ "key": "node-ready/unverified", "effect": "PreferNoSchedule" });
    let new = json!({ "key": "new", "effect": "NoSchedule" });
    let other = json!({ "key": "dedicated", "value": "web", "effect": "NoSchedule" });
    let no = Some("node-ready/unverified:NoSchedule and no other");
    vec![
        ("the gate's taint off", taints(&json!([db, soft])), None),
        ("nothing", taints(&json!([db, gate, soft])), None),
        ("all taints off", taints(&json!([])), no),
        ("another taint off", taints(&json!([gate, soft])), no),
        ("another effect off", taints(&json!([db, gate])), no),
        ("a taint on", taints(&json!([db, gate, soft, new])), no),
        ("a taint changed", taints(&json!([other, gate, soft])), no),
    ]
}

fn of_metadata() -> Vec<Trial> {
    let label =
        |key: &str, value: Value| Call::Node(json!({ "metadata": { "labels": { key: value } } }));
    let metadata = |fields: Value| Call::Node(json!({ "metadata": fields }));
    let role = "node-role.kubernetes.io/control-plane";
    let no = Some("node-ready/verified=true and no other");
    let others = Some("no annotations, finalizers or owners");
    vec![
        (
            "the label",
            label("node-ready/verified", json!("true")),
            None,
        ),
        (
            "another value",
            label("node-ready/verified", json!("yes")),
            no,
        ),
        ("another label", label("pool", json!("x")), no),
        ("a label changed", label("zone", json!("b")), no),
        ("a label off", label("zone", Value::Null), no),
        ("a role", label(role, json!("")), no),
        (
            "a note",
            metadata(json!({ "annotations": { "note": "y" } })),
            others,
        ),
        (
            "a finalizer",
            metadata(json!({ "finalizers": ["a.example/b"] })),
            others,
        ),
    ]
}

fn of_the_rest() -> Vec<Trial> {
    let status = |status: Value| Call::Status(json!({ "status": status }));
    let address = json!([{ "type": "InternalIP", "address": "10.0.0.9" }]);
    let cordon = Call::Node(json!({ "spec": { "unschedulable": true } }));
    let by_status = Call::Status(json!({ "metadata": { "labels": { "pool": "x" } } }));
    let no = Some("nothing of a node's status but one condition");
    vec![
        (
            "a cordon",
            cordon,
            Some("nothing of a node's spec but its taint"),
        ),
        ("the condition", condition("NetworkVerified"), None),
        (
            "another condition",
            condition("DiskPressure"),
            Some("NetworkVerified and no other"),
        ),
        (
            "a condition off",
            status(json!({ "conditions": [{ "$patch": "delete", "type": "Ready" }] })),
            Some("NetworkVerified and no other"),
        ),
        (
            "another boot",
            status(json!({ "nodeInfo": { "bootID": "b" } })),
            no,
        ),
        (
            "another port",
            status(json!({ "daemonEndpoints": { "kubeletEndpoint": { "Port": 9 } } })),
            no,
        ),
        (
            "more room",
            status(json!({ "allocatable": { "cpu": "400" } })),
            no,
        ),
        (
            "another address",
            status(json!({ "addresses": address })),
            no,
        ),
        (
            "a label by way of the status",
            by_status,
            Some("node-ready/verified=true and no other"),
        ),
        ("its deletion", Call::Delete, Some("cannot delete resource")),
    ]
}

fn gate() -> Gate {
    Gate {
        taint: Taint {
            key: "node-ready/unverified".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        },
        label: ("node-ready/verified".to_owned(), "true".to_owned()),
    }
}

/// A policy takes a moment to be heard of: until then too much is allowed.
async fn policy_is_on(own: &Client) -> Result<()> {
    for _ in 0..100 {
        if answer(own, "n1", &taints(&json!([]))).await.is_err() {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    anyhow::bail!("the policy has no effect after 20 seconds")
}

/// A control plane with the mode's manifests, and two nodes that wait at the gate.
async fn stage() -> Result<(ControlPlane, Client)> {
    let plane = ControlPlane::start(Options {
        controllers: false,
        ..Options::default()
    });
    let plane = plane.await?;
    let admin = plane.client("admin").await?;
    let meta = json!({ "name": NAMESPACE });
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": meta });
    create(&admin, &namespace).await?;
    for manifest in manifests()? {
        create(&admin, &manifest).await?;
    }
    for name in ["n1", "n2"] {
        put_node(&admin, name).await?;
    }
    Ok((plane, admin))
}

async fn is_open(admin: &Client, name: &str) -> bool {
    let nodes: Api<Node> = Api::all(admin.clone());
    let node = nodes.get(name).await.unwrap();
    let has_label = node.labels().get("node-ready/verified").map(String::as_str) == Some("true");
    let taints = node.spec.unwrap().taints.unwrap_or_default();
    let taints = taints
        .iter()
        .map(|taint| (taint.key.as_str(), taint.effect.as_str()));
    let taints: Vec<_> = taints.collect();
    let kept = [
        ("dedicated", "NoSchedule"),
        ("node-ready/unverified", "PreferNoSchedule"),
    ];
    has_label && taints == kept
}

#[tokio::test]
async fn the_account_of_the_daemonset_opens_its_own_node_and_does_nothing_else() {
    let (plane, admin) = stage().await.unwrap();
    let bearer = token(&admin, Some("n1")).await.unwrap();
    let own = plane.client_with_token(&bearer).await.unwrap();
    policy_is_on(&own).await.unwrap();
    let table = [of_taints(), of_metadata(), of_the_rest()].concat();
    for (what, call, refusal) in table {
        let outcome = answer(&own, "n1", &call).await;
        match (refusal, outcome) {
            (None, outcome) => assert_eq!(outcome, Ok(()), "{what}"),
            (Some(words), Err(why)) => assert!(why.contains(words), "{what}: {why}"),
            (Some(_), Ok(())) => panic!("{what} is allowed"),
        }
        let elsewhere = answer(&own, "n2", &call).await;
        assert!(elsewhere.is_err(), "{what} is allowed on another node");
    }
    let unbound = token(&admin, None).await.unwrap();
    let unbound = plane.client_with_token(&unbound).await.unwrap();
    let refused = answer(&unbound, "n1", &condition("NetworkVerified")).await;
    assert!(
        refused
            .unwrap_err()
            .contains("only the node that its pod runs on")
    );

    // What the mode does itself.
    let node = OwnNode::find(own.clone(), "n1", &gate()).await.unwrap();
    node.open(&gate(), Clock::System).await.unwrap();
    assert!(is_open(&admin, "n1").await);
    let stranger = OwnNode::find(own.clone(), "n2", &gate()).await.unwrap();
    stranger.open(&gate(), Clock::System).await.unwrap_err();
    assert!(!is_open(&admin, "n2").await);

    // A role that grants too much meets the policy.
    for manifest in generous() {
        create(&admin, &manifest).await.unwrap();
    }
    let mut refusal = String::from("cannot delete resource");
    while refusal.contains("cannot delete resource") {
        refusal = answer(&own, "n1", &Call::Delete).await.unwrap_err();
    }
    assert!(refusal.contains("neither makes nor deletes"), "{refusal}");
}

/// The right to delete nodes, for the account.
fn generous() -> [Value; 2] {
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    [
        json!({
            "apiVersion": version, "kind": "ClusterRole", "metadata": { "name": "generous" },
            "rules": [{ "apiGroups": [""], "resources": ["nodes"], "verbs": ["create", "delete"] }],
        }),
        json!({
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": { "name": "generous" },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "generous" },
            "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE }],
        }),
    ]
}

/// The way to the server with a token.
fn kubeconfig(server: &str, ca: &str, bearer: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": server, "certificate-authority": ca } }],
        "users": [{ "name": "u", "user": { "token": bearer } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
    })
    .to_string()
}

#[tokio::test]
async fn the_binary_opens_its_own_node_rests_and_ends_when_it_is_asked() {
    let (plane, admin) = stage().await.unwrap();
    let bearer = token(&admin, Some("n1")).await.unwrap();
    let file = |name: &str| plane.folder().join(name).display().to_string();
    let (ca, server) = (file("ca.crt"), plane.server());
    let way = kubeconfig(server, &ca, &bearer);
    std::fs::write(file("own.kubeconfig"), way).unwrap();
    std::fs::write(file("resolv.conf"), "").unwrap();
    let settings = format!(
        "dnsTestDomains: []\nservices: []\ndns: {{ resolvConf: {} }}\n",
        file("resolv.conf")
    );
    std::fs::write(file("settings.yaml"), settings).unwrap();
    let port = server.rsplit(':').next().unwrap();
    let binary = tokio::task::spawn_blocking(shipshape_testbed::controller::build);
    let binary = binary.await.unwrap().unwrap();
    let mut child = tokio::process::Command::new(binary)
        .args([
            "verify",
            "--patch-node",
            "--node-name",
            "n1",
            "--kubeconfig",
            &file("own.kubeconfig"),
        ])
        .args([
            "--k8s-service-host",
            "127.0.0.1",
            "--k8s-service-port",
            port,
            "--ca-file",
            &ca,
        ])
        .args([
            "--config",
            &file("settings.yaml"),
            "--termination-log",
            &file("none"),
        ])
        .env_clear()
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let opened = async {
        while !is_open(&admin, "n1").await {
            assert!(
                child.try_wait().unwrap().is_none(),
                "it ended before the gate was open"
            );
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let patience = std::time::Duration::from_mins(1);
    tokio::time::timeout(patience, opened).await.unwrap();
    assert!(!is_open(&admin, "n2").await);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(
        child.try_wait().unwrap().is_none(),
        "it rests until its pod is removed"
    );
    let pid = child.id().unwrap().to_string();
    let asked = tokio::process::Command::new("kill")
        .arg(&pid)
        .status()
        .await;
    assert!(asked.unwrap().success());
    let ended = tokio::time::timeout(patience, child.wait()).await.unwrap();
    assert_eq!(ended.unwrap().code(), Some(0));
}
