//! What the derived schema cannot say by itself: lengths, list types, defaults and rules.
//!
//! Owns the bounds. Every string, list and map has one, because the API server refuses a rule whose
//! worst-case cost it cannot bound. Called from attributes on the kinds, nobody else.

mod labels;

use schemars::transform::{Transform, transform_subschemas};
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

pub(crate) use labels::{
    filled_deployment_selector, filled_label_selector, label_keys, label_map, label_prefixes,
    label_selector, namespace, some_namespace,
};

/// Longest object name.
pub(crate) const NAME: u32 = 253;
/// Longest UID.
pub(crate) const UID: u32 = 64;
/// Longest identifier of a cloud: machine, group, image.
pub(crate) const CLOUD_ID: u32 = 1024;
/// Longest short word: zone, region, version, duration.
pub(crate) const WORD: u32 = 128;
/// Longest sentence for a person.
pub(crate) const SENTENCE: u32 = 4096;
/// Most nodes that one object names.
pub(crate) const NODES: u32 = 30_000;
/// Most entries of a list that a person writes.
pub(crate) const ENTRIES: u32 = 32;

/// A Go-style duration, for example `1h30m` or `1.5h`: largest unit first, a fraction in the last one
/// only, and no number so long that the end of such a time would have no date.
const DURATION: &str = "^(0|([0-9]{1,5}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?([0-9]{1,9}ms)?([0-9]{1,9}us)?([0-9]{1,9}ns)?\
                        |([0-9]{1,5}h)?([0-9]{1,7}m)?[0-9]{1,9}[.][0-9]{1,9}s\
                        |([0-9]{1,5}h)?[0-9]{1,7}[.][0-9]{1,9}m\
                        |[0-9]{1,5}[.][0-9]{1,9}h\
                        |[0-9]{1,9}[.][0-9]{1,6}ms)$";

/// A string of at most `max` characters.
pub(crate) fn text(max: u32) -> impl Transform {
    move |schema: &mut Schema| {
        schema.insert("maxLength".into(), max.into());
    }
}

/// A string of one to `max` characters.
pub(crate) fn some_text(max: u32) -> impl Transform {
    move |schema: &mut Schema| {
        schema.insert("minLength".into(), 1.into());
        schema.insert("maxLength".into(), max.into());
    }
}

/// A Go-style duration.
pub(crate) fn duration(schema: &mut Schema) {
    schema.insert("minLength".into(), 1.into());
    schema.insert("maxLength".into(), 64.into());
    schema.insert("pattern".into(), DURATION.into());
}

/// A list replaced as a whole, of at most `max` entries.
pub(crate) fn atomic(max: u32) -> impl Transform {
    move |schema: &mut Schema| {
        schema.insert("x-kubernetes-list-type".into(), "atomic".into());
        schema.insert("maxItems".into(), max.into());
    }
}

/// A list without duplicates, of at most `max` entries.
pub(crate) fn set(max: u32) -> impl Transform {
    move |schema: &mut Schema| {
        schema.insert("x-kubernetes-list-type".into(), "set".into());
        schema.insert("maxItems".into(), max.into());
    }
}

/// A list of at most `max` entries, each known by its `keys`.
pub(crate) fn keyed(max: u32, keys: &'static [&'static str]) -> impl Transform {
    move |schema: &mut Schema| {
        schema.insert("x-kubernetes-list-type".into(), "map".into());
        schema.insert("x-kubernetes-list-map-keys".into(), json!(keys));
        schema.insert("maxItems".into(), max.into());
    }
}

/// A set of at most `entries` strings of one to `length` characters.
pub(crate) fn strings(entries: u32, length: u32) -> impl Transform {
    move |schema: &mut Schema| {
        set(entries).transform(schema);
        schema.insert(
            "items".into(),
            json!({"type": "string", "minLength": 1, "maxLength": length}),
        );
    }
}

/// A list, replaced as a whole, of at most `entries` strings of at most `length` characters.
pub(crate) fn texts(entries: u32, length: u32) -> impl Transform {
    move |schema: &mut Schema| {
        atomic(entries).transform(schema);
        schema.insert(
            "items".into(),
            json!({"type": "string", "maxLength": length}),
        );
    }
}

/// A map of at most `entries` strings of at most `length` characters.
pub(crate) fn string_map(entries: u32, length: u32) -> impl Transform {
    move |schema: &mut Schema| {
        schema.insert("maxProperties".into(), entries.into());
        schema.insert(
            "additionalProperties".into(),
            json!({"type": "string", "maxLength": length}),
        );
    }
}

/// An integer of at least `minimum`.
pub(crate) fn at_least(minimum: i32) -> impl Transform {
    move |schema: &mut Schema| {
        schema.insert("minimum".into(), minimum.into());
    }
}

/// Most that a count may say: more nodes than one cluster has, and sums of a few still fit.
pub(crate) const COUNT: i32 = 10_000;

/// An integer of at least `minimum` and, unless the field says less, at most [`COUNT`]; `default`
/// when absent.
pub(crate) fn count(minimum: i32, default: i32) -> impl Transform {
    move |schema: &mut Schema| {
        at_least(minimum).transform(schema);
        if schema.get("maximum").is_none() {
            schema.insert("maximum".into(), COUNT.into());
        }
        schema.insert("default".into(), default.into());
    }
}

/// A rule of the Common Expression Language and the sentence shown when it is broken.
pub(crate) fn rule(expression: &'static str, message: &'static str) -> impl Transform {
    move |schema: &mut Schema| push_rule(schema, json!({"rule": expression, "message": message}))
}

/// A rule that blames one field of the object that it is on.
pub(crate) fn rule_on(
    field: &'static str,
    expression: &'static str,
    message: &'static str,
) -> impl Transform {
    let rule = json!({"rule": expression, "message": message, "fieldPath": format!(".{field}")});
    move |schema: &mut Schema| push_rule(schema, rule.clone())
}

/// A rule on text: it must match `pattern`, which holds neither quote nor backslash.
pub(crate) fn matches(pattern: &str, message: &'static str) -> impl Transform {
    let expression = format!("self.matches('{pattern}')");
    move |schema: &mut Schema| push_rule(schema, json!({"rule": expression, "message": message}))
}

fn push_rule(schema: &mut Schema, rule: Value) {
    let rules = schema
        .ensure_object()
        .entry("x-kubernetes-validations")
        .or_insert_with(|| json!([]));
    if let Value::Array(rules) = rules {
        rules.push(rule);
    }
}

/// A field that cannot change once it is set.
pub(crate) fn frozen(message: &'static str) -> impl Transform {
    rule("self == oldSelf", message)
}

/// Brings a derived schema into the shape the API server likes best: an absent field is the only
/// way to say nothing (no `null`), a field's own words win over those of its type, and a
/// description is one line.
pub(crate) fn strict(schema: &mut Schema) {
    if let Some(object) = schema.as_object_mut() {
        flatten_option(object);
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                object.insert("type".into(), only);
            }
        }
        if let Some(Value::String(text)) = object.get_mut("description") {
            *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        }
    }
    transform_subschemas(&mut strict, schema);
}

/// `anyOf: [T, null]`, as derived from `Option<T>`, becomes `T`.
fn flatten_option(object: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = object.get("anyOf") else {
        return;
    };
    let [Value::Object(inner), null] = variants.as_slice() else {
        return;
    };
    if null != &json!({"type": "null"}) {
        return;
    }
    let inner = inner.clone();
    object.remove("anyOf");
    for (key, value) in inner {
        object.entry(key).or_insert(value);
    }
}

/// Conditions: one of each type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the object's state.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {"type": "string", "format": "date-time",
                    "description": "When the status last changed."},
                "message": {"type": "string", "maxLength": 32768,
                    "description": "A sentence for a person."},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0,
                    "description": "The generation of the spec that the condition was made from."},
                "reason": {"type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "A stable word for programs."},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"],
                    "description": "Whether the condition holds."},
                "type": {"type": "string", "maxLength": 316,
                    "description": "Which aspect this is."},
            },
        },
    })
}

/// References to objects, at most a thousand: no object may grow with the cluster.
pub(crate) fn references(_: &mut SchemaGenerator) -> Schema {
    let word = |what: &str| json!({"type": "string", "maxLength": 317, "description": what});
    json_schema!({
        "type": "array",
        "maxItems": 1000,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "description": "A reference to one object.",
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "apiVersion": word("API version of the object."),
                "fieldPath": word("A part of the object."),
                "kind": word("Kind of the object."),
                "name": word("Name of the object."),
                "namespace": word("Namespace of the object."),
                "resourceVersion": word("Version of the object that was looked at."),
                "uid": word("UID of the object."),
            },
        },
    })
}
