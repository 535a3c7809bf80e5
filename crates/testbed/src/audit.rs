//! The audit log of the API server: the witness that no status of ours can colour.
//!
//! Owns the policy and the reading of the log. It must not judge. Called by the harness and, for
//! `AuditEntry`, by the tests of the real tier.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;

/// Everything at Metadata level, once per request, when its answer is complete.
pub(crate) const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
  "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
  "rules": [{"level": "Metadata"}]
}
"#;

/// One request as the API server saw it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// The Kubernetes verb: create, update, patch, delete, deletecollection, get, list, watch.
    pub verb: String,
    /// The whole request path with its query.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// What the client calls itself.
    #[serde(default)]
    pub user_agent: String,
    /// Who asked.
    #[serde(default)]
    pub user: AuditUser,
    /// What was asked for; none for paths that are not resources.
    pub object_ref: Option<ObjectRef>,
    /// How it was answered.
    pub response_status: Option<ResponseStatus>,
    /// When the request came in.
    pub request_received_timestamp: Timestamp,
    /// When its answer was complete.
    pub stage_timestamp: Timestamp,
}

/// The authenticated user of a request.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct AuditUser {
    /// User name.
    #[serde(default)]
    pub username: String,
}

/// The object that a request names.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    /// Plural resource.
    pub resource: String,
    /// Subresource such as `eviction`; empty for the object itself.
    pub subresource: String,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name; empty for collections.
    pub name: String,
    /// API group; empty for the core group.
    pub api_group: String,
}

/// The status of an answer.
#[derive(Debug, Clone, Deserialize)]
pub struct ResponseStatus {
    /// HTTP status code.
    pub code: u16,
}

impl AuditEntry {
    /// The status code, 0 when the server noted none.
    pub fn code(&self) -> u16 {
        self.response_status
            .as_ref()
            .map_or(0, |status| status.code)
    }

    /// Whether this request is `verb` on `resource` or, with a slash, on `resource/subresource`.
    pub fn is(&self, verb: &str, resource: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        self.verb == verb
            && self.object_ref.as_ref().is_some_and(|object| {
                object.resource == resource && object.subresource == subresource
            })
    }
}

/// All complete entries of a log file, in the order the server wrote them.
pub(crate) fn read(path: &Path) -> Result<Vec<AuditEntry>> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    // The server may be in the middle of its last line.
    let complete = text
        .rfind('\n')
        .and_then(|end| text.get(..end))
        .unwrap_or_default();
    complete
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("audit line {line}")))
        .collect()
}
