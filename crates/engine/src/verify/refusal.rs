//! What the API server refuses to the gate, told where people look.
//!
//! Owns the words of it. Must not decide whether it is tried again: the queue does.

use shipshape_api::{PendingNodeStatus, reasons};

use crate::decision::{Effect, Notice};

/// How the sentence begins by which a refusal is known again.
const REFUSED: &str = "the API server to allow it: ";
/// Longest words of the server.
const WORDS_MAX: usize = 1024;

/// The status of a record whose effect was refused, and what is to be told; `None` when it says so already.
pub fn refused(status: &PendingNodeStatus, why: &str) -> Option<(PendingNodeStatus, Notice)> {
    let end = why.floor_char_boundary(WORDS_MAX.min(why.len()));
    let why = why.get(..end).unwrap_or_default();
    let words = format!("{REFUSED}{why}");
    if status.waiting_for.as_ref() == Some(&words) {
        return None;
    }
    let status = PendingNodeStatus {
        waiting_for: Some(words),
        ..status.clone()
    };
    let message = format!("the verification cannot go on: {why}");
    Some((status, Notice::warning(reasons::REFUSED, message)))
}

/// Whether a sentence is one of a refusal.
pub(super) fn is_refusal(words: Option<&str>) -> bool {
    words.is_some_and(|words| words.starts_with(REFUSED))
}

/// What was refused and is asked for again goes on being told, until it is not asked for any more: else the
/// status would change twice with every pass.
pub(super) fn keep(status: &mut PendingNodeStatus, before: Option<&str>, effects: &[Effect]) {
    if is_refusal(before) && effects.iter().any(Effect::needs_record) {
        status.waiting_for = before.map(str::to_owned);
    }
}
