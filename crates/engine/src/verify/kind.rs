//! Kinds of checks, by which metrics count.
//!
//! Owns the words. What a worker reports is written by the node itself, so a check that nobody knows is of the kind
//! `other`, and no text of a node becomes a label. Called by the controller's metrics and by those of a node that checks
//! itself, which must agree.

/// All kinds: what stands before the first dash of a check's name, and `other`.
pub const KINDS: [&str; 11] = [
    "dns", "api", "network", "service", "egress", "metadata", "peer", "udp", "host", "worker",
    "other",
];

/// The kind of a check.
pub fn kind_of(check: &str) -> &'static str {
    let word = check.split('-').next().unwrap_or_default();
    let known = KINDS.into_iter().find(|kind| *kind == word);
    known.unwrap_or("other")
}
