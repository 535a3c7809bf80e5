//! Whoever brought a node is found by what the server serves, and a refusal is never "nobody".

use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::*;
use crate::fake::{Fake, Fault, failure};

const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const MACHINE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet/machines/m1";

/// The server serves the group in these versions, of which it prefers the first; it is asked once.
fn serve(fake: &Fake, group: &str, versions: &[&str]) {
    let version = |version: &&str| json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    let versions: Vec<Value> = versions.iter().map(version).collect();
    let groups = json!({
        "kind": "APIGroupList", "apiVersion": "v1",
        "groups": [{ "name": group, "versions": versions, "preferredVersion": versions[0] }],
    });
    fake.fault("GET /apis", Fault::Answer((200, groups)));
}

fn put_claim(fake: &Fake, name: &str, status: &Value) {
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": { "name": name }, "status": status,
    });
    fake.put(&format!("{CLAIMS}/{name}"), claim);
}

fn sought() -> Sought<'static> {
    Sought {
        name: "n1",
        provider_id: Some("x:///n1"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_found_in_the_version_that_the_server_prefers_by_id_before_name() {
    let fake = Fake::new();
    put_claim(&fake, "by-name", &json!({ "nodeName": "n1" }));
    put_claim(&fake, "by-id", &json!({ "providerID": "x:///n1" }));
    put_claim(
        &fake,
        "other",
        &json!({ "providerID": "x:///n2", "nodeName": "n2" }),
    );
    serve(&fake, "karpenter.sh", &["v1", "v1beta1"]);
    let found = claim(&fake.client(), &sought()).await.unwrap().unwrap();
    assert_eq!(
        (found.name.as_str(), found.api_version.as_str()),
        ("by-id", "karpenter.sh/v1")
    );
    fake.remove(&format!("{CLAIMS}/by-id"));
    serve(&fake, "karpenter.sh", &["v1"]);
    let found = claim(&fake.client(), &sought()).await.unwrap().unwrap();
    assert_eq!(found.name, "by-name");
    fake.remove(&format!("{CLAIMS}/by-name"));
    serve(&fake, "karpenter.sh", &["v1"]);
    assert_eq!(claim(&fake.client(), &sought()).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_not_served_is_surely_absent_and_a_refused_list_is_not() {
    let fake = Fake::new();
    serve(&fake, "apps", &["v1"]);
    assert_eq!(claim(&fake.client(), &sought()).await.unwrap(), None);
    serve(&fake, "karpenter.sh", &["v1"]);
    let denial = failure(403, "Forbidden", "nodeclaims is forbidden");
    fake.fault(&format!("GET {CLAIMS}"), Fault::Answer(denial));
    let error = claim(&fake.client(), &sought()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Denied);
    let denial = failure(403, "Forbidden", "no discovery");
    fake.fault("GET /apis", Fault::Answer(denial));
    claim(&fake.client(), &sought()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_names_the_machine_of_another_in_its_annotations_gets_nobody_deleted() {
    let fake = Fake::new();
    let node = |name: &str| -> Node {
        let notes = json!({ MACHINE_NAME: "m1", MACHINE_NAMESPACE: "fleet" });
        let node = json!({ "metadata": { "name": name, "annotations": notes } });
        serde_json::from_value(node).unwrap()
    };
    fake.put(
        MACHINE,
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": { "name": "m1", "namespace": "fleet" }, "status": { "nodeRef": { "name": "n1" } },
        }),
    );
    serve(&fake, "cluster.x-k8s.io", &["v1beta2"]);
    let own = machine(&fake.client(), &node("n1")).await.unwrap().unwrap();
    assert_eq!(
        (own.name.as_str(), own.namespace.as_deref()),
        ("m1", Some("fleet"))
    );
    serve(&fake, "cluster.x-k8s.io", &["v1beta2"]);
    let forged = machine(&fake.client(), &node("n2")).await.unwrap();
    assert_eq!(forged, None);
}

#[tokio::test(start_paused = true)]
async fn only_the_claim_of_that_uid_is_deleted_and_one_that_is_gone_needs_nothing() {
    let fake = Fake::new();
    put_claim(&fake, "c1", &json!({ "nodeName": "n1" }));
    serve(&fake, "karpenter.sh", &["v1"]);
    let found = claim(&fake.client(), &sought()).await.unwrap().unwrap();
    let namesake = ForeignObject {
        uid: "another".to_owned(),
        ..found.clone()
    };
    let path = format!("{CLAIMS}/c1");
    delete(&fake.client(), &namesake).await.unwrap();
    assert!(fake.get(&path).is_some());
    delete(&fake.client(), &found).await.unwrap();
    assert_eq!(fake.get(&path), None);
    delete(&fake.client(), &found).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_another_machine_is_left_alone_though_it_names_the_node() {
    let fake = Fake::new();
    let stranger = json!({ "providerID": "x:///n7", "nodeName": "n1" });
    put_claim(&fake, "stranger", &stranger);
    serve(&fake, "karpenter.sh", &["v1"]);
    assert_eq!(claim(&fake.client(), &sought()).await.unwrap(), None);
    // A node that does not say which machine it is has only its name.
    serve(&fake, "karpenter.sh", &["v1"]);
    let nameless = Sought {
        provider_id: None,
        ..sought()
    };
    let found = claim(&fake.client(), &nameless).await.unwrap();
    assert_eq!(found.unwrap().name, "stranger");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_registers_with_the_machine_of_another_gets_nobody_deleted() {
    let fake = Fake::new();
    let victim = json!({ "providerID": "x:///n1", "nodeName": "victim" });
    put_claim(&fake, "victims", &victim);
    serve(&fake, "karpenter.sh", &["v1"]);
    let error = claim(&fake.client(), &sought()).await.unwrap_err();
    assert!(error.to_string().contains("node victim"), "{error}");
    // A claim whose node has not been noted yet, or is this one, is its own.
    for name in ["", "n1"] {
        let own = json!({ "providerID": "x:///n1", "nodeName": name });
        put_claim(&fake, "victims", &own);
        serve(&fake, "karpenter.sh", &["v1"]);
        let found = claim(&fake.client(), &sought()).await.unwrap();
        assert_eq!(found.unwrap().name, "victims");
    }
}
