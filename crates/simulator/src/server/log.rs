//! The request log: who asked for what, and what came of it. Tests read it as their witness.

use jiff::Timestamp;

use super::request::Verb;

/// One request and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// When it was answered.
    pub at: Timestamp,
    /// Who asked, as the client calls itself.
    pub user_agent: String,
    /// What was asked.
    pub verb: Verb,
    /// API group; empty for the core one and for paths that are no resource.
    pub group: String,
    /// Resource in plural; empty for paths that are no resource.
    pub resource: String,
    /// Subresource such as `status` or `eviction`; empty for the object itself.
    pub subresource: String,
    /// Namespace; empty for all or none.
    pub namespace: String,
    /// Name of the object; for a create the one that was given to it.
    pub name: String,
    /// Whether it was a dry run.
    pub dry_run: bool,
    /// HTTP status code of the answer.
    pub code: u16,
    /// UID of the object that was touched; empty when none was.
    pub uid: String,
}
