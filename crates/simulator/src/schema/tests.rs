//! Tables for pruning, defaults, validation and rules.

mod rules;

use serde_json::{Value, json};

use super::builtin::schemas;
use super::{Schema, structural, summarize};

fn with_spec(spec: &Value) -> Schema {
    Schema::of_crd(&json!({
        "type": "object",
        "properties": {"spec": spec, "status": {"type": "object", "properties": {
            "phase": {"type": "string", "enum": ["Running", "Done"]},
        }}},
    }))
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
}

fn errors(schema: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    let schema = with_spec(&json!({"type": "object", "properties": {"x": schema}}));
    let wrap = |x: &Value| object(&json!({"x": x}));
    let found = schema.validate(&wrap(new), old.map(wrap).as_ref());
    found
        .iter()
        .map(|error| format!("{} {error}", error.kind.reason()))
        .collect()
}

#[test]
fn schema_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Schema>();
}

#[test]
fn value_outside_its_bounds_gets_the_servers_words() {
    let cases = [
        (
            json!({"type": "integer"}),
            json!("a"),
            "FieldValueTypeInvalid spec.x: Invalid value: \"string\": spec.x in body must be of type integer: \"string\"",
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("c"),
            "FieldValueNotSupported spec.x: Unsupported value: \"c\": supported values: \"a\", \"b\"",
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            "FieldValueInvalid spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
        ),
        (
            json!({"type": "integer", "maximum": 5, "exclusiveMaximum": true}),
            json!(5),
            "FieldValueInvalid spec.x: Invalid value: 5: spec.x in body should be less than 5",
        ),
        (
            json!({"type": "integer", "multipleOf": 3}),
            json!(4),
            "FieldValueInvalid spec.x: Invalid value: 4: spec.x in body should be a multiple of 3",
        ),
        (
            json!({"type": "string", "minLength": 1}),
            json!(""),
            "FieldValueInvalid spec.x: Invalid value: \"\": spec.x in body should be at least 1 chars long",
        ),
        (
            json!({"type": "string", "maxLength": 2}),
            json!("äöü"),
            "FieldValueTooLong spec.x: Too long: may not be more than 2 bytes",
        ),
        (
            json!({"type": "string", "pattern": "^a+$"}),
            json!("b"),
            "FieldValueInvalid spec.x: Invalid value: \"b\": spec.x in body should match '^a+$'",
        ),
    ];
    for (schema, value, expected) in cases {
        assert_eq!(errors(&schema, &value, None), [expected], "{schema}");
    }
}

#[test]
fn list_or_map_outside_its_bounds_gets_the_servers_words() {
    let cases = [
        (
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            json!([]),
            "FieldValueInvalid spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            json!(["a", "b"]),
            "FieldValueTooMany spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            json!({"k": "v"}),
            "FieldValueTypeInvalid spec.x.k: Invalid value: \"string\": spec.x.k in body must be of type integer: \"string\"",
        ),
        (
            json!({"type": "object", "required": ["y"]}),
            json!({}),
            "FieldValueRequired spec.x.y: Required value",
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("yesterday"),
            "FieldValueTypeInvalid spec.x: Invalid value: \"yesterday\": spec.x in body must be of type date-time: \"yesterday\"",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            json!(["a", "b", "a"]),
            "FieldValueDuplicate spec.x[2]: Duplicate value: \"a\"",
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map",
                   "x-kubernetes-list-map-keys": ["type"]}),
            json!([{"type": "a"}, {"type": "a"}]),
            "FieldValueDuplicate spec.x[1]: Duplicate value: {\"type\":\"a\"}",
        ),
        (
            json!({"type": "string", "not": {"enum": ["a"]}}),
            json!("a"),
            "FieldValueInvalid <nil>: Invalid value: \"\": \"spec.x\" must not validate the schema (not)",
        ),
    ];
    for (schema, value, expected) in cases {
        assert_eq!(errors(&schema, &value, None), [expected], "{schema}");
    }
}

#[test]
fn value_within_its_bounds_is_accepted() {
    let cases = [
        (json!({"type": "integer"}), json!(3.0)),
        (json!({"type": "number"}), json!(3)),
        (json!({"type": "string", "maxLength": 3}), json!("äöü")),
        (json!({"x-kubernetes-int-or-string": true}), json!("5%")),
        (json!({"x-kubernetes-int-or-string": true}), json!(5)),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(5_000_000_000_i64),
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("2024-02-29T12:00:00.5+02:00"),
        ),
        (
            json!({"type": "string", "format": "duration"}),
            json!("1h30m"),
        ),
        (json!({"type": "string", "nullable": true}), json!(null)),
        (
            json!({"type": "string", "anyOf": [{"enum": ["a"]}, {"pattern": "^b"}]}),
            json!("bc"),
        ),
    ];
    for (schema, value) in cases {
        assert_eq!(errors(&schema, &value, None), [""; 0], "{schema}");
    }
}

#[test]
fn one_of_reports_how_many_alternatives_hold() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let both = errors(&schema, &json!({"a": "1", "b": "2"}), None);
    assert_eq!(
        both,
        [
            "FieldValueInvalid <nil>: Invalid value: \"\": \"spec.x\" must validate one and only one schema (oneOf). Found 2 valid alternatives"
        ]
    );
    let none = errors(&schema, &json!({}), None);
    assert_eq!(none.len(), 2);
    assert_eq!(none[1], "FieldValueRequired spec.x.a: Required value");
}

#[test]
fn unchanged_value_is_not_complained_about_again() {
    let schema = json!({"type": "string", "enum": ["a"]});
    assert_eq!(errors(&schema, &json!("z"), Some(&json!("z"))).len(), 0);
    assert_eq!(errors(&schema, &json!("y"), Some(&json!("z"))).len(), 1);
}

#[test]
fn status_write_names_fields_below_status() {
    let schema = with_spec(&json!({"type": "object", "required": ["x"]}));
    let old = object(&json!({}));
    let mut new = old.clone();
    new["status"] = json!({"phase": "Lost"});
    let found = schema.validate_status(&new, &old);
    assert_eq!(
        summarize(&found),
        "status.phase: Unsupported value: \"Lost\": supported values: \"Running\", \"Done\""
    );
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let schema = with_spec(&json!({"type": "object", "properties": {
        "known": {"type": "string"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": true,
                "properties": {"spec": {"type": "object"}}},
    }}));
    let mut thing = object(&json!({
        "known": "a", "zzz": 1, "free": {"any": {"thing": 1}}, "labels": {"l": "v"},
        "list": [{"a": "1", "b": "2"}],
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "extra": 1, "spec": {"x": 1}},
    }));
    thing["metadata"]["nonsense"] = json!(1);
    let unknown = schema.prune(&mut thing);
    assert_eq!(
        unknown,
        [
            "metadata.nonsense",
            "spec.list[0].b",
            "spec.pod.extra",
            "spec.pod.spec.x",
            "spec.zzz"
        ]
    );
    assert_eq!(
        thing["spec"],
        json!({"known": "a", "free": {"any": {"thing": 1}}, "labels": {"l": "v"}, "list": [{"a": "1"}],
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}})
    );
}

#[test]
fn defaults_fill_what_is_missing_and_replace_nulls() {
    let schema = with_spec(&json!({"type": "object", "default": {}, "properties": {
        "count": {"type": "integer", "default": 2},
        "note": {"type": "string", "nullable": true, "default": "n"},
        "plain": {"type": "string"},
        "deep": {"type": "object", "default": {}, "properties": {"on": {"type": "boolean", "default": true}}},
        "items": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
    }}));
    let mut bare = json!({"apiVersion": "example.dev/v1", "kind": "Thing"});
    schema.fill_defaults(&mut bare);
    assert_eq!(
        bare["spec"],
        json!({"count": 2, "note": "n", "deep": {"on": true}})
    );
    let mut nulls =
        object(&json!({"count": null, "note": null, "plain": null, "items": [{"p": null}, {}]}));
    schema.fill_defaults(&mut nulls);
    assert_eq!(
        nulls["spec"],
        json!({"count": 2, "note": null, "deep": {"on": true}, "items": [{"p": "TCP"}, {"p": "TCP"}]})
    );
}

#[test]
fn schema_that_is_not_structural_is_refused() {
    let cases = [
        (
            json!({"properties": {}}),
            "s.type: Required value: must not be empty at the root",
        ),
        (
            json!({"type": "object", "properties": {"a": {}}}),
            "s.properties[a].type: Required value: must not be empty for specified object fields",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            "s.properties[a].items: Required value: must be specified",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"type": "string"}]}}}),
            "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            "s.properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]}}}),
            "s.properties[a].x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.(\",\"Message\":\"\"",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
            "s.properties[a].default: Invalid value: \"string\"",
        ),
    ];
    for (schema, expected) in cases {
        let found = structural::check_schema(&schema, "s");
        let text = summarize(&found);
        assert!(text.starts_with(expected), "{text}");
    }
    let fine = json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true,
        "anyOf": [{"type": "integer"}, {"type": "string"}]}}});
    assert_eq!(structural::check_schema(&fine, "s"), []);
}

#[test]
fn built_in_kinds_know_their_fields() {
    let pod = schemas().schema("", "v1", "Pod").unwrap();
    let mut object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "imag": "x", "resources": {"requests": {"cpu": "1"}}}],
            "nodeName": "n"}});
    assert_eq!(pod.prune(&mut object), ["spec.containers[0].imag"]);
    let crd = schemas()
        .schema("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
        .unwrap();
    let mut object = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "spec": {"group": "g", "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"a": {"type": "string"}}}}}]}});
    let before = object.clone();
    assert_eq!(crd.prune(&mut object), [""; 0]);
    assert_eq!(object, before);
    for (group, version, kind, name) in schemas().kinds() {
        assert!(
            schemas().definition(name).is_some(),
            "{group}/{version} {kind}"
        );
    }
}
