//! What clients look for in the documents.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{GroupVersion, document, index};

fn pods() -> Value {
    json!({"resources": [
        {"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod",
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]},
        {"name": "pods/eviction", "namespaced": true, "group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]},
    ]})
}

#[test]
fn built_in_document_has_kind_fields_and_parameters() {
    let resources = pods();
    let core = GroupVersion {
        group: "",
        version: "v1",
        resources: &resources,
        custom: BTreeMap::new(),
    };
    let document = document(&core);
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "", "version": "v1", "kind": "Pod"})
    );
    assert!(patch["parameters"].to_string().contains("fieldValidation"));
    let schemas = &document["components"]["schemas"];
    let pod = &schemas["io.k8s.api.core.v1.Pod"];
    assert_eq!(
        pod["x-kubernetes-group-version-kind"],
        json!([{"group": "", "version": "v1", "kind": "Pod"}])
    );
    let spec = pod["properties"]["spec"]["allOf"][0]["$ref"]
        .as_str()
        .unwrap();
    let name = spec.strip_prefix("#/components/schemas/").unwrap();
    assert!(schemas[name]["properties"]["containers"].is_object());
    assert!(schemas["io.k8s.api.policy.v1.Eviction"].is_object());
}

#[test]
fn every_reference_of_a_document_is_in_it() {
    let resources = pods();
    let core = GroupVersion {
        group: "",
        version: "v1",
        resources: &resources,
        custom: BTreeMap::new(),
    };
    let document = document(&core);
    let text = document.to_string();
    let mut count = 0;
    for part in text.split("\"$ref\":\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(
            document["components"]["schemas"][name].is_object(),
            "{name}"
        );
        count += 1;
    }
    assert!(count > 100, "{count}");
}

#[test]
fn custom_document_adds_the_fields_of_every_object() {
    let resources = json!({"resources": [{"name": "things", "namespaced": false, "kind": "Thing", "verbs": ["get", "patch"]}]});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "description": "What is wanted."}}});
    let version = |schema| GroupVersion {
        group: "example.dev",
        version: "v1",
        resources: &resources,
        custom: BTreeMap::from([("Thing", schema)]),
    };
    let document = document(&version(&schema));
    let thing = &document["components"]["schemas"]["dev.example.v1.Thing"];
    assert_eq!(
        thing["properties"]["spec"]["description"],
        "What is wanted."
    );
    assert_eq!(thing["properties"]["kind"]["type"], "string");
    assert_eq!(
        thing["properties"]["metadata"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );
    assert!(document["paths"]["/apis/example.dev/v1/things/{name}"]["patch"].is_object());
    let changed = json!({"type": "object"});
    let url = |schema| {
        let index = index(&[version(schema)]);
        index["paths"]["apis/example.dev/v1"]["serverRelativeURL"].clone()
    };
    assert_ne!(url(&schema), url(&changed));
    assert_eq!(url(&schema), url(&schema));
}
