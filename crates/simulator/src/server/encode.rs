//! What answers look like on the wire: which form the client accepts, and objects in that form.
//!
//! Owns content negotiation and the outer shape of objects and lists. Must not choose what is sent.

use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::table::{IncludeObject, TableOptions};

use super::{
    convert,
    failure::{Failure, Outcome},
    kinds::{Kind, Nature},
    meta,
    request::Verb,
    store::Object,
};

/// The form of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The objects themselves.
    Json,
    /// Their metadata alone.
    Metadata,
    /// Cells for people.
    Table(IncludeObject),
}

/// Picks the first form that the client accepts and the server writes.
pub(crate) fn negotiate(accept: &str, include: &str, verb: Verb) -> Outcome<Format> {
    if accept.trim().is_empty() {
        return Ok(Format::Json);
    }
    let mut shaped = false;
    for clause in accept.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        if !matches!(media, "application/json" | "application/*" | "*/*") {
            continue;
        }
        let wanted = parts.find_map(|part| part.strip_prefix("as="));
        match wanted {
            None => return Ok(Format::Json),
            // A list is not one object, and one object is not a list.
            Some("PartialObjectMetadata") if verb != Verb::List => return Ok(Format::Metadata),
            Some("PartialObjectMetadataList") if verb == Verb::List => return Ok(Format::Metadata),
            Some("Table") if clause.contains("v=v1;") || clause.trim_end().ends_with("v=v1") => {
                let include = IncludeObject::parse(include).ok_or_else(|| {
                    Failure::bad_request(format!("unrecognized includeObject value: \"{include}\""))
                })?;
                return Ok(Format::Table(include));
            }
            Some(_) => shaped = true,
        }
    }
    Err(if shaped {
        Failure::wrong_shape()
    } else {
        Failure::not_acceptable()
    })
}

/// One object with its `apiVersion` and `kind`, in the form asked for.
pub(crate) fn object(kind: &Kind, format: &Format, object: &Object, now: Timestamp) -> Bytes {
    match format {
        Format::Json => whole(kind, object).into(),
        Format::Metadata => metadata_only(object).to_string().into(),
        Format::Table(_) => row(kind, format, object, (now, true)),
    }
}

/// One object as a table, with or without the description of its columns.
pub(crate) fn row(
    kind: &Kind,
    format: &Format,
    object: &Object,
    (now, headers): (Timestamp, bool),
) -> Bytes {
    let Format::Table(include) = *format else {
        return self::object(kind, format, object, now);
    };
    let options = TableOptions {
        include,
        headers,
        now,
    };
    let table = kind.layout().render(&typed_value(kind, object), &options);
    table.to_string().into()
}

fn typed_value(kind: &Kind, object: &Object) -> Value {
    let mut value = convert::served(kind, object.value()).unwrap_or_else(|| object.value().clone());
    let map = meta::as_map(&mut value);
    map.insert("kind".into(), kind.kind.clone().into());
    map.insert("apiVersion".into(), kind.api_version.clone().into());
    value
}

fn whole(kind: &Kind, object: &Object) -> Vec<u8> {
    match convert::served(kind, object.value()) {
        Some(other) => with_type(kind, &serde_json::to_vec(&other).unwrap_or_default()),
        None => with_type(kind, object.json()),
    }
}

fn with_type(kind: &Kind, json: &[u8]) -> Vec<u8> {
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\"",
        kind.kind, kind.api_version
    );
    let mut out = Vec::with_capacity(head.len() + json.len() + 1);
    out.extend_from_slice(head.as_bytes());
    match json.get(1..) {
        Some(rest) if rest.len() > 1 => {
            out.push(b',');
            out.extend_from_slice(rest);
        }
        _ => out.push(b'}'),
    }
    out
}

fn metadata_only(object: &Object) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.value().get("metadata"),
    })
}

/// The metadata of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListMeta {
    pub(crate) version: u64,
    pub(crate) next: String,
    pub(crate) remaining: Option<usize>,
}

impl ListMeta {
    fn json(&self) -> Value {
        let mut metadata = json!({ "resourceVersion": self.version.to_string() });
        let map = meta::as_map(&mut metadata);
        if !self.next.is_empty() {
            map.insert("continue".into(), self.next.clone().into());
        }
        if let Some(remaining) = self.remaining {
            map.insert("remainingItemCount".into(), remaining.into());
        }
        metadata
    }
}

/// A list of objects.
pub(crate) fn list(
    kind: &Kind,
    format: &Format,
    objects: &[Arc<Object>],
    (list_info, now): (&ListMeta, Timestamp),
) -> Bytes {
    let (list_kind, api_version) = match format {
        Format::Json => (kind.list_kind.as_str(), kind.api_version.as_str()),
        Format::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1"),
        Format::Table(include) => {
            let items: Vec<Value> = objects.iter().map(|o| typed_value(kind, o)).collect();
            let options = TableOptions {
                include: *include,
                headers: true,
                now,
            };
            let list = json!({ "metadata": list_info.json(), "items": items });
            return kind.layout().render(&list, &options).to_string().into();
        }
    };
    let mut list_meta = list_info.json();
    if matches!(kind.nature, Nature::Custom(_)) && *format == Format::Json {
        // Lists of custom kinds name their continuation even when there is none.
        meta::default_to(meta::as_map(&mut list_meta), "continue", "");
    }
    let mut out = format!(
        "{{\"kind\":\"{list_kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{list_meta},\"items\":["
    )
    .into_bytes();
    // The real server writes an empty list of metadata as null.
    if objects.is_empty() && *format == Format::Metadata {
        let end = out.len().saturating_sub(1);
        out.truncate(end);
        out.extend_from_slice(b"null}");
        return out.into();
    }
    for (index, item) in objects.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&list_item(kind, format, item));
    }
    out.extend_from_slice(b"]}");
    out.into()
}

/// Items of typed lists carry no type of their own; those of custom kinds do.
fn list_item(kind: &Kind, format: &Format, item: &Object) -> Bytes {
    match (format, &kind.nature) {
        (Format::Metadata, _) => metadata_only(item).to_string().into(),
        (Format::Json | Format::Table(_), Nature::Custom(_)) => whole(kind, item).into(),
        (Format::Json | Format::Table(_), Nature::BuiltIn(..)) => {
            match convert::served(kind, item.value()) {
                Some(other) => serde_json::to_vec(&other).unwrap_or_default().into(),
                None => item.json().clone(),
            }
        }
    }
}
