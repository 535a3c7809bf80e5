//! Schemas of labels and of what selects by them.
//!
//! Owns what a label's key, its value and a namespace look like, as Kubernetes has them. A selector with
//! a key that no object can carry would silently match nothing, and an exclusion would exclude nothing;
//! so it is refused at the door.

use schemars::transform::Transform;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::{rule, set};

/// A label's key: a DNS name and a slash, or neither, and a name of at most 63 characters.
const KEY: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?\
                   [A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";
/// The beginning of a label's key.
const PREFIX: &str = "^[A-Za-z0-9][-A-Za-z0-9_.]*/?[-A-Za-z0-9_.]*$";
/// A label's value; its length is bounded besides.
const VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
/// A namespace, or nothing.
const NAMESPACE: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$";
/// Longest key: a DNS name of 253, a slash, a name of 63.
const KEY_LENGTH: u32 = 317;
/// Longest value, and longest namespace.
const VALUE_LENGTH: u32 = 63;

/// A namespace; empty means all of them.
pub(crate) fn namespace(schema: &mut Schema) {
    schema.insert("maxLength".into(), VALUE_LENGTH.into());
    schema.insert("pattern".into(), NAMESPACE.into());
}

/// A namespace that must be named.
pub(crate) fn some_namespace(schema: &mut Schema) {
    namespace(schema);
    schema.insert("minLength".into(), 1.into());
}

/// A set of at most `entries` label keys.
pub(crate) fn label_keys(entries: u32) -> impl Transform {
    move |schema: &mut Schema| {
        set(entries).transform(schema);
        schema.insert("items".into(), key_schema());
    }
}

/// A set of at most `entries` beginnings of label keys.
pub(crate) fn label_prefixes(entries: u32) -> impl Transform {
    move |schema: &mut Schema| {
        set(entries).transform(schema);
        let items =
            json!({"type": "string", "minLength": 1, "maxLength": KEY_LENGTH, "pattern": PREFIX});
        schema.insert("items".into(), items);
    }
}

/// The map `field` of at most `entries` labels. Its keys have no schema of their own, so a rule looks at
/// them.
pub(crate) fn label_map(field: &'static str, entries: u32) -> impl Transform {
    move |schema: &mut Schema| {
        schema.insert("maxProperties".into(), entries.into());
        schema.insert("additionalProperties".into(), value_schema());
        let rules = json!([{
            "rule": format!("self.all(key, key.matches('{KEY}'))"),
            "message": format!("each key of {field} must be a label's: an optional DNS name with a slash, \
                                then at most 63 letters, digits, dashes, underscores or dots"),
        }]);
        schema.insert("x-kubernetes-validations".into(), rules);
    }
}

/// A label selector.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    let mut labels = json_schema!({
        "type": "object",
        "description": "Labels that must have exactly these values.",
    });
    label_map("matchLabels", 32).transform(&mut labels);
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": labels,
            "matchExpressions": {"type": "array", "maxItems": 32,
                "x-kubernetes-list-type": "atomic",
                "description": "Requirements that must all hold.",
                "items": requirement()},
        },
    })
}

/// A label selector that must not select everything by accident.
pub(crate) fn filled_label_selector(generator: &mut SchemaGenerator) -> Schema {
    filled(
        generator,
        "labelSelector must not be empty: give matchLabels or matchExpressions",
    )
}

/// A selector of Deployments that must not select all of the cluster by accident.
pub(crate) fn filled_deployment_selector(generator: &mut SchemaGenerator) -> Schema {
    filled(
        generator,
        "deploymentSelector must not be empty, it would select every Deployment: give matchLabels or \
         matchExpressions",
    )
}

fn filled(generator: &mut SchemaGenerator, message: &'static str) -> Schema {
    let mut schema = label_selector(generator);
    rule(
        "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
         (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
        message,
    )
    .transform(&mut schema);
    schema
}

fn requirement() -> Value {
    let mut key = key_schema();
    if let Value::Object(key) = &mut key {
        key.insert("description".into(), "The label's key.".into());
    }
    json!({
        "type": "object",
        "description": "One requirement on a label.",
        "required": ["key", "operator"],
        "properties": {
            "key": key,
            "operator": {"type": "string",
                "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
                "description": "How the label is compared with the values."},
            "values": {"type": "array", "maxItems": 32, "x-kubernetes-list-type": "atomic",
                "items": value_schema(),
                "description": "Values of In and NotIn; empty for the others."},
        },
        "x-kubernetes-validations": [{
            "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "message": "values is required with operator In and NotIn, and must be empty otherwise",
        }],
    })
}

fn key_schema() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": KEY_LENGTH, "pattern": KEY})
}

fn value_schema() -> Value {
    json!({"type": "string", "maxLength": VALUE_LENGTH, "pattern": VALUE})
}
