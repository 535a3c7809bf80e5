//! The audit log of the API server: the witness that no status of ours can colour.
//!
//! Owns the policy and the reading of the log. It must not judge. Called by the harness and, for
//! `AuditEntry`, by the tests of the real tier.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// Everything at Metadata level, once per request, when its answer is complete; with their bodies
/// what kubelets say of their nodes and of the operator's pods, what is changed of nodes, where the
/// scheduler puts pods, and what room budgets have.
pub(crate) const POLICY: &str = r#"{
  "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
  "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
  "rules": [
    {"level": "Request", "verbs": ["create", "update", "patch"],
     "resources": [{"group": "", "resources": ["nodes", "nodes/status", "pods/binding"]},
                   {"group": "policy", "resources": ["poddisruptionbudgets/status"]}]},
    {"level": "Request", "verbs": ["update", "patch"], "namespaces": ["shipshape-system"],
     "resources": [{"group": "", "resources": ["pods/status"]}]},
    {"level": "Metadata"}
  ]
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
    /// What was sent, for the few requests whose bodies the policy asks for.
    pub request_object: Option<Value>,
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

    /// The object as `namespace/name`, empty for paths that are not resources.
    pub fn object(&self) -> String {
        let object = self.object_ref.as_ref();
        object.map_or(String::new(), |it| format!("{}/{}", it.namespace, it.name))
    }

    /// Whether the request only asked what would happen.
    pub fn is_dry_run(&self) -> bool {
        self.request_uri.contains("dryRun=")
    }

    /// Whether the server did what was asked.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code()) && !self.is_dry_run()
    }

    /// Whether the server did what was asked, as far as the log can tell: an answer that nobody waited for any
    /// more, because a leader had stepped down meanwhile, is noted as a failure of the server.
    pub fn may_have_succeeded(&self) -> bool {
        !(400..500).contains(&self.code()) && !self.is_dry_run()
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

/// All complete entries of a log file in the order in which their requests came in. The server writes an entry when its
/// answer is complete, so the kubelet's removal of a pod may stand before the eviction that it follows.
pub(crate) fn read_in_order(path: &Path) -> Result<Vec<AuditEntry>> {
    let (mut entries, _) = read_from(path, 0)?;
    entries.sort_by_key(|entry| entry.request_received_timestamp);
    Ok(entries)
}

/// All complete entries of a log file from a position on, in the order the server wrote them, and
/// the position after them.
pub(crate) fn read_from(path: &Path, position: u64) -> Result<(Vec<AuditEntry>, u64)> {
    let mut bytes = Vec::new();
    let reading = || format!("reading {}", path.display());
    let mut file = File::open(path).with_context(reading)?;
    file.seek(SeekFrom::Start(position)).with_context(reading)?;
    file.read_to_end(&mut bytes).with_context(reading)?;
    // The server may be in the middle of its last line.
    let end = bytes.iter().rposition(|byte| *byte == b'\n');
    let complete = bytes.get(..end.map_or(0, |end| end + 1));
    let complete = complete.unwrap_or_default();
    let entries = complete.split(|byte| *byte == b'\n');
    let entries = entries.filter(|line| !line.is_empty()).map(|line| {
        let words = || format!("audit line {}", String::from_utf8_lossy(line));
        serde_json::from_slice(line).with_context(words)
    });
    let entries: Result<Vec<AuditEntry>> = entries.collect();
    Ok((entries?, position + u64::try_from(complete.len())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_in_the_order_in_which_their_requests_came_in() {
        let line = |verb: &str, received: u8, complete: u8| {
            let at = |second: u8| format!("2026-01-01T00:00:{second:02}Z");
            let (received, complete) = (at(received), at(complete));
            serde_json::json!({
                "verb": verb, "requestURI": "/", "requestReceivedTimestamp": received, "stageTimestamp": complete,
            })
        };
        let lines = [line("delete", 2, 3), line("create", 1, 4)].map(|line| format!("{line}\n"));
        let file = std::env::temp_dir().join(format!("shipshape-audit-{}", std::process::id()));
        std::fs::write(&file, lines.concat()).unwrap();
        let entries = read_in_order(&file);
        std::fs::remove_file(&file).unwrap();
        let verbs: Vec<String> = entries.unwrap().into_iter().map(|it| it.verb).collect();
        assert_eq!(verbs, ["create", "delete"]);
    }
}
