//! What answers look like on the wire: which form the client accepts, and objects in that form.
//!
//! Owns content negotiation and the outer shape of objects and lists. Must not choose what is sent.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    convert,
    failure::{Failure, Outcome},
    kinds::{Kind, Nature},
    meta,
    store::Object,
};

/// The form of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The objects themselves.
    Json,
    /// Their metadata alone.
    Metadata,
}

/// Picks the first form that the client accepts and the server writes.
pub(crate) fn negotiate(accept: &str) -> Outcome<Format> {
    if accept.trim().is_empty() {
        return Ok(Format::Json);
    }
    for clause in accept.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        if !matches!(media, "application/json" | "application/*" | "*/*") {
            continue;
        }
        let wanted = parts.find_map(|part| part.strip_prefix("as="));
        match wanted {
            None => return Ok(Format::Json),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => {
                return Ok(Format::Metadata);
            }
            Some(_) => {}
        }
    }
    Err(Failure::not_acceptable())
}

/// One object with its `apiVersion` and `kind`.
pub(crate) fn object(kind: &Kind, format: &Format, object: &Object) -> Bytes {
    match format {
        Format::Json => whole(kind, object).into(),
        Format::Metadata => metadata_only(object).to_string().into(),
    }
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
        kind.kind,
        kind.api_version()
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
    meta: &ListMeta,
) -> Bytes {
    let (list_kind, api_version) = match format {
        Format::Json => (kind.list_kind.clone(), kind.api_version()),
        Format::Metadata => (
            "PartialObjectMetadataList".to_owned(),
            "meta.k8s.io/v1".to_owned(),
        ),
    };
    let mut out = format!(
        "{{\"kind\":\"{list_kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{},\"items\":[",
        meta.json()
    )
    .into_bytes();
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
        (Format::Json, Nature::Custom(_)) => whole(kind, item).into(),
        (Format::Json, Nature::BuiltIn(..)) => match convert::served(kind, item.value()) {
            Some(other) => serde_json::to_vec(&other).unwrap_or_default().into(),
            None => item.json().clone(),
        },
    }
}
