//! OpenAPI v3: what `kubectl explain` reads and `kubectl apply` asks before it sends.
//!
//! Owns the index and the document of each group version, made from plain discovery and from the
//! schemas, and a v2 document that names no kind. Pure. Must not serve anything. Called by the
//! server for `/openapi/v3` and `/openapi/v2`. Strategic merge
//! patches are left out of the documents on purpose: our schemas carry no merge keys, and kubectl
//! then takes its own.

mod components;
mod operations;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// One group version of the API, as the documents see it.
#[derive(Debug)]
pub struct GroupVersion<'a> {
    /// The group; empty for the core one.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// Its `APIResourceList`.
    pub resources: &'a Value,
    /// Schemas of its custom kinds, by kind, as CRDs give them.
    pub custom: BTreeMap<&'a str, &'a Value>,
}

impl GroupVersion<'_> {
    /// Its place below `/openapi/v3/`.
    pub fn path(&self) -> String {
        if self.group.is_empty() {
            format!("api/{}", self.version)
        } else {
            format!("apis/{}/{}", self.group, self.version)
        }
    }

    /// Changes when the document does, so that clients may keep what they have read.
    fn hash(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(self.resources.to_string());
        for (kind, schema) in &self.custom {
            digest.update(kind);
            digest.update(schema.to_string());
        }
        let bytes = digest.finalize();
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        hex.concat()
    }
}

/// The media type in which clients ask for version 2.
pub const V2_ACCEPT: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type in which they get it: a name with an `@` cannot be parsed as one.
pub const V2_CONTENT_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The answer to `/openapi/v2` in that media type: swagger 2.0, title and version, and no kinds.
/// kubectl checks a `List` against version 2 before it sends the items, skips kinds that the
/// document does not name, and has each item checked by the server, as it does without a list.
pub const V2_DOCUMENT: &[u8] = b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.35.0";

/// The answer to `/openapi/v2` as JSON.
pub fn v2_document() -> Value {
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.35.0"},
        "paths": {},
    })
}

/// The answer to `/openapi/v3`.
pub fn index(versions: &[GroupVersion<'_>]) -> Value {
    let paths: Map<String, Value> = versions
        .iter()
        .map(|version| {
            let path = version.path();
            let url = format!("/openapi/v3/{path}?hash={}", version.hash());
            (path, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// The document of one group version.
pub fn document(version: &GroupVersion<'_>) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.35.0"},
        "paths": operations::paths(version),
        "components": {"schemas": components::build(version)},
    })
}
