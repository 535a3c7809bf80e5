//! Each directive of a strategic merge patch, and what makes a patch fail.

use serde_json::{Value, json};

use super::{PatchError, PatchType, patched};
use crate::apply::KindShape;

fn pod() -> KindShape {
    KindShape::core("v1", "Pod").unwrap()
}

fn strategic(live: &Value, patch: &Value) -> Result<Value, PatchError> {
    patched(
        &pod(),
        PatchType::Strategic,
        live.clone(),
        patch.to_string().as_bytes(),
    )
}

/// Patches the spec of a pod and yields the new spec.
fn spec(live: &Value, patch: &Value) -> Value {
    let made = strategic(&json!({ "spec": live }), &json!({ "spec": patch })).unwrap();
    made["spec"].clone()
}

#[test]
fn strategic_patches_treat_each_field_by_its_rule() {
    let c = |name: &str| json!({ "name": name, "image": "i" });
    let live = json!({ "containers": [c("a"), c("b")], "nodeName": "n" });
    let table = [
        (
            "a scalar is set",
            json!({ "nodeName": "m" }),
            json!({ "containers": [c("a"), c("b")], "nodeName": "m" }),
        ),
        (
            "a null removes",
            json!({ "nodeName": null }),
            json!({ "containers": [c("a"), c("b")] }),
        ),
        (
            "items are merged by key and keep their order",
            json!({ "containers": [{ "name": "b", "image": "j" }] }),
            json!({ "containers": [c("a"), { "name": "b", "image": "j" }], "nodeName": "n" }),
        ),
        (
            "new items come first",
            json!({ "containers": [c("c")] }),
            json!({ "containers": [c("c"), c("a"), c("b")], "nodeName": "n" }),
        ),
        (
            "$patch: delete removes an item",
            json!({ "containers": [{ "name": "a", "$patch": "delete" }] }),
            json!({ "containers": [c("b")], "nodeName": "n" }),
        ),
        (
            "$patch: replace replaces a list",
            json!({ "containers": [{ "$patch": "replace" }, c("z")] }),
            json!({ "containers": [c("z")], "nodeName": "n" }),
        ),
        (
            "$patch: replace replaces a map",
            json!({ "$patch": "replace", "nodeName": "only" }),
            json!({ "nodeName": "only" }),
        ),
        (
            "$patch: delete empties a map",
            json!({ "$patch": "delete" }),
            json!({}),
        ),
        (
            "$setElementOrder orders",
            json!({ "$setElementOrder/containers": [{ "name": "b" }, { "name": "a" }] }),
            json!({ "containers": [c("b"), c("a")], "nodeName": "n" }),
        ),
        (
            "$setElementOrder places a new item",
            json!({
                "$setElementOrder/containers": [{ "name": "a" }, { "name": "c" }, { "name": "b" }],
                "containers": [c("c")],
            }),
            json!({ "containers": [c("a"), c("c"), c("b")], "nodeName": "n" }),
        ),
        (
            "$retainKeys drops the rest",
            json!({ "$retainKeys": ["nodeName"], "nodeName": "m" }),
            json!({ "nodeName": "m" }),
        ),
        (
            "a list without merge key is replaced",
            json!({ "tolerations": [{ "key": "x" }] }),
            json!({ "containers": [c("a"), c("b")], "nodeName": "n", "tolerations": [{ "key": "x" }] }),
        ),
    ];
    for (name, patch, expected) in table {
        assert_eq!(spec(&live, &patch), expected, "{name}");
    }
}

#[test]
fn lists_of_scalars_grow_and_shrink_by_value() {
    let live = json!({ "metadata": { "finalizers": ["a", "b"] } });
    let more = json!({ "metadata": { "finalizers": ["b", "c"] } });
    let made = strategic(&live, &more).unwrap();
    assert_eq!(made["metadata"]["finalizers"], json!(["a", "b", "c"]));
    let less = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["a"] } });
    let made = strategic(&live, &less).unwrap();
    assert_eq!(made["metadata"]["finalizers"], json!(["b"]));
}

#[test]
fn new_values_are_stored_without_directives_and_nulls() {
    let patch =
        json!({ "affinity": { "nodeAffinity": null, "podAffinity": { "$patch": "delete" } } });
    assert_eq!(spec(&json!({}), &patch), json!({ "affinity": {} }));
}

#[test]
fn selector_of_a_budget_is_replaced() {
    let budget = KindShape::core("policy/v1", "PodDisruptionBudget").unwrap();
    let live = json!({ "spec": { "selector": { "matchLabels": { "a": "b" } } } });
    let patch = json!({ "spec": { "selector": { "matchLabels": { "c": "d" } } } });
    let made = patched(
        &budget,
        PatchType::Strategic,
        live,
        patch.to_string().as_bytes(),
    )
    .unwrap();
    assert_eq!(made, patch);
}

#[test]
fn malformed_strategic_patches_are_refused() {
    let live = json!({ "spec": { "containers": [{ "name": "a" }] } });
    let bad = |spec: Value| strategic(&live, &json!({ "spec": spec })).unwrap_err();
    let retain = bad(json!({ "$retainKeys": ["x"], "nodeName": "n" }));
    assert!(matches!(retain, PatchError::BadRequest(_)));
    let order = bad(json!({ "$setElementOrder/containers": "a" }));
    assert!(matches!(order, PatchError::BadRequest(_)));
    let delete = bad(json!({ "$deleteFromPrimitiveList": ["a"] }));
    assert!(matches!(delete, PatchError::BadRequest(_)));
    let key = bad(json!({ "containers": [{ "image": "i" }] }));
    assert!(matches!(key, PatchError::Internal(_)));
    let directive = bad(json!({ "$patch": "paint" }));
    assert!(matches!(directive, PatchError::Internal(_)));
}

#[test]
fn custom_kinds_refuse_strategic_patches_with_what_they_take() {
    let refused = PatchType::read(PatchType::Strategic.media(), &KindShape::unknown()).unwrap_err();
    let text = refused.to_string();
    assert!(
        text.ends_with("merge-patch+json, application/apply-patch+yaml"),
        "{text}"
    );
}

#[test]
fn json_patches_tell_an_unreadable_document_from_an_unfit_one() {
    let run = |patch: &str| patched(&pod(), PatchType::Json, json!({ "a": 1 }), patch.as_bytes());
    let ok = run(r#"[{"op":"test","path":"/a","value":1},{"op":"add","path":"/b","value":2}]"#);
    assert_eq!(ok.unwrap(), json!({ "a": 1, "b": 2 }));
    for unfit in [
        r#"[{"op":"test","path":"/a","value":2}]"#,
        r#"[{"op":"remove","path":"/b"}]"#,
        r#"[{"op":"paint","path":"/a"}]"#,
    ] {
        assert!(
            matches!(run(unfit), Err(PatchError::Unprocessable(_))),
            "{unfit}"
        );
    }
    for unreadable in ["{", "{}", "[1]"] {
        assert!(
            matches!(run(unreadable), Err(PatchError::BadRequest(_))),
            "{unreadable}"
        );
    }
}
