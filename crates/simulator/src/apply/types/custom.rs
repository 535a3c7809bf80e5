//! The shape of a custom kind, from the schema in its definition.
//!
//! Owns the reading of `properties`, `additionalProperties`, `items` and the `x-kubernetes-*`
//! merge settings. Must not validate the schema: it was admitted before.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use super::{
    ANY, KindShape, LEAF, ListKey, ListKind, ListPatch, Shape, Type, TypeId, Types, core, reset,
};

/// The shape that this schema describes.
pub(super) fn shape(schema: &Value, has_status: bool) -> KindShape {
    let (mut types, metadata) = core::with_metadata();
    let root = add(&mut types, schema);
    declare(
        &mut types,
        root,
        [("metadata", metadata), ("apiVersion", LEAF), ("kind", LEAF)],
    );
    let (reset_by_main, reset_by_status) = reset::custom(has_status);
    KindShape {
        types: Arc::new(types),
        root,
        empty: json!({}),
        is_core: false,
        reset_by_main,
        reset_by_status,
    }
}

/// Adds fields that every object has, whatever its schema says of them.
fn declare<const N: usize>(types: &mut Types, root: TypeId, more: [(&str, TypeId); N]) {
    let Some(object) = types.all.get_mut(root) else {
        return;
    };
    object.atomic = false;
    if !matches!(object.shape, Shape::Struct { .. }) {
        object.shape = Shape::Struct {
            fields: BTreeMap::new(),
            rest: Some(ANY),
        };
    }
    if let Shape::Struct { fields, .. } = &mut object.shape {
        fields.extend(more.map(|(name, id)| (name.to_owned(), id)));
    }
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}

fn add(types: &mut Types, schema: &Value) -> TypeId {
    if flag(schema, "x-kubernetes-int-or-string") {
        return LEAF;
    }
    let open = flag(schema, "x-kubernetes-preserve-unknown-fields");
    let shape = match schema.get("type").and_then(Value::as_str) {
        Some("object") => object(types, schema, open),
        Some("array") => list(types, schema),
        Some(_) => return LEAF,
        None if schema.get("properties").is_some() => object(types, schema, open),
        None => return ANY,
    };
    let atomic = schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic");
    types.add(Type {
        shape,
        atomic,
        replaced: false,
    })
}

fn object(types: &mut Types, schema: &Value, open: bool) -> Shape {
    if let Some(values) = schema.get("additionalProperties").filter(|v| v.is_object()) {
        return Shape::Map {
            of: add(types, values),
        };
    }
    let mut fields: BTreeMap<String, TypeId> = BTreeMap::new();
    for (name, field) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let of = add(types, field);
        fields.insert(name.clone(), of);
    }
    let open = open || fields.is_empty();
    Shape::Struct {
        fields,
        rest: open.then_some(ANY),
    }
}

fn list(types: &mut Types, schema: &Value) -> Shape {
    let items = schema.get("items").unwrap_or(&Value::Null);
    let text = |name: &str| schema.get(name).and_then(Value::as_str);
    let kind = match text("x-kubernetes-list-type") {
        Some("set") => ListKind::Set,
        Some("map") => ListKind::Map(keys(schema, items)),
        _ => ListKind::Atomic,
    };
    Shape::List {
        of: add(types, items),
        kind,
        patch: ListPatch::Replace,
    }
}

fn keys(schema: &Value, items: &Value) -> Vec<ListKey> {
    let listed = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array);
    listed
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(|name| ListKey {
            name: name.to_owned(),
            default: items
                .pointer(&format!("/properties/{name}/default"))
                .cloned(),
        })
        .collect()
}
