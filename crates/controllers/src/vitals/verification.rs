//! What happened between two looks at the verification of a node, as far as it is counted.
//!
//! A pure comparison of two records. A record is written once for each change, so nothing is counted twice,
//! and after a restart nothing is counted that an earlier process has counted.

use shipshape_api::{Verification, VerificationVerdict};

/// One thing worth counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// An attempt has ended, and its findings are in the record.
    AttemptOver,
    /// There is a verdict.
    Verdict(VerificationVerdict),
}

/// What happened between the two.
pub(super) fn between(old: Option<&Verification>, new: &Verification) -> Vec<Mark> {
    let is_of_now = |old: &&Verification| old.boot_id == new.boot_id;
    let old = old.filter(is_of_now);
    let mut marks = Vec::new();
    let was_open = old.is_some_and(|old| old.attempt_started_at.is_some());
    if was_open && new.attempt_started_at.is_none() {
        marks.push(Mark::AttemptOver);
    }
    let before = old.and_then(|old| old.verdict);
    if let Some(verdict) = new.verdict.filter(|_| new.verdict != before) {
        marks.push(Mark::Verdict(verdict));
    }
    marks
}
