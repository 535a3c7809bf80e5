//! What somebody wrote to the API, by the audit log.
//!
//! Owns what counts as a write of work. The leader's lease is renewed by the clock, not by work, and is left
//! out. So is the making of a Node: that is a kubelet's work, which a rival's provider does for machines
//! that are not there. Called by the benchmarks on the real control plane.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use shipshape_api::names::LEADER_LEASE;

use super::table::Table;
use super::usage::as_f64;
use crate::audit::AuditEntry;

/// Who is measured, as the log names it, and from when on it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Actor {
    /// How its user agent begins.
    pub(super) agent: &'static str,
    /// The start.
    pub(super) since: Timestamp,
}

impl Actor {
    pub(super) fn did(self, entry: &AuditEntry) -> bool {
        entry.user_agent.starts_with(self.agent) && entry.request_received_timestamp >= self.since
    }
}

/// Whether a request asks for a change that counts, dry runs included.
pub(super) fn is_work(entry: &AuditEntry) -> bool {
    let is_write = matches!(
        entry.verb.as_str(),
        "create" | "update" | "patch" | "delete"
    );
    is_write && !is_leadership(entry) && !entry.is("create", "nodes")
}

fn is_leadership(entry: &AuditEntry) -> bool {
    let object = entry.object_ref.as_ref();
    object.is_some_and(|it| it.resource == "leases" && it.name == LEADER_LEASE)
}

/// Verb and resource of a request.
pub(super) fn words(entry: &AuditEntry) -> String {
    let Some(object) = &entry.object_ref else {
        return format!("{} {}", entry.verb, entry.request_uri);
    };
    match object.subresource.as_str() {
        "" => format!("{} {}", entry.verb, object.resource),
        subresource => format!("{} {}/{subresource}", entry.verb, object.resource),
    }
}

/// Writes of each kind for one node, in columns: a heading, the writes, and how many nodes they were for.
pub(super) fn table(columns: &[(String, &BTreeMap<String, usize>, usize)]) -> Table {
    let names = columns.iter().map(|(name, ..)| name.clone());
    let mut table = Table::new(["writes a node".to_owned()].into_iter().chain(names));
    let kinds: BTreeSet<&String> = columns.iter().flat_map(|(_, all, _)| all.keys()).collect();
    for kind in kinds {
        let cells = columns.iter().map(|(_, all, nodes)| {
            let count = all.get(kind).copied().unwrap_or_default();
            format!("{:.2}", as_f64(count as u64) / as_f64(*nodes as u64))
        });
        table.row([kind.clone()].into_iter().chain(cells));
    }
    table
}
