//! Deterministic names and tokens: the same work always gets the same name.
//!
//! Owns every derived name. Must not use randomness or a counter: after a crash the same inputs must
//! lead back to the same object, so that it is adopted and not made twice.

use sha2::{Digest, Sha256};

use crate::machine::Token;

/// Longest object name that the API server takes.
const NAME_MAX: usize = 253;
/// Digits of the hash that end a task's name: enough to tell apart what the readable part cannot.
const TASK_HASH_DIGITS: usize = 8;
/// Digits of an idempotency token; clouds take up to 64 characters.
const TOKEN_DIGITS: usize = 32;

/// Identity of one node's work within one run.
#[derive(Clone, Copy, Debug)]
pub struct WorkId<'a> {
    /// Name of the run.
    pub run_name: &'a str,
    /// UID of the run.
    pub run_uid: &'a str,
    /// Partition that the node belongs to.
    pub iteration: usize,
    /// Name of the node.
    pub node_name: &'a str,
    /// UID of the node.
    pub node_uid: &'a str,
}

/// Name of the task for a node: readable first, then a hash of the two UIDs, because run and node
/// names joined by dashes can be read in two ways and a node name can come back with another UID.
pub fn task_name(work: WorkId<'_>) -> String {
    let hash = hex(&[work.run_uid, work.node_uid], TASK_HASH_DIGITS);
    let readable = format!(
        "task-{}-{}-{}",
        work.run_name, work.iteration, work.node_name
    );
    let room = NAME_MAX - TASK_HASH_DIGITS - 1;
    let cut: String = readable.chars().take(room).collect();
    format!("{}-{hash}", cut.trim_end_matches(['-', '.']))
}

/// Token of the create call for one attempt at replacing a node. It belongs to the task and not to
/// its run: a task that was deleted and made anew must not be handed the machine that went with the
/// first one.
pub fn replacement_token(task_uid: &str, node_uid: &str, attempt: i32) -> Token {
    Token(hex(
        &[task_uid, node_uid, &attempt.to_string()],
        TOKEN_DIGITS,
    ))
}

/// First digits of the SHA-256 over the parts, each ended by a byte that no part contains.
pub fn hex(parts: &[&str], digits: usize) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    let mut text = String::new();
    for byte in hasher.finalize() {
        text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
    }
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work<'a>(run_name: &'a str, node_name: &'a str) -> WorkId<'a> {
        WorkId {
            run_name,
            run_uid: "run-uid",
            iteration: 0,
            node_name,
            node_uid: node_name,
        }
    }

    #[test]
    fn same_work_has_the_same_name() {
        assert_eq!(
            task_name(work("january", "n1")),
            task_name(work("january", "n1"))
        );
    }

    #[test]
    fn names_that_read_alike_are_told_apart() {
        let one = task_name(WorkId {
            iteration: 0,
            ..work("a", "1-x")
        });
        let two = task_name(WorkId {
            iteration: 1,
            ..work("a-0", "x")
        });
        assert_ne!(one, two);
    }

    #[test]
    fn longest_names_still_fit() {
        let long = "n".repeat(NAME_MAX);
        let name = task_name(work(&long, &long));
        assert!(name.len() <= NAME_MAX, "{}", name.len());
    }

    #[test]
    fn each_attempt_has_a_token_of_its_own() {
        assert_ne!(
            replacement_token("r", "n", 1),
            replacement_token("r", "n", 2)
        );
        assert_eq!(replacement_token("r", "n", 1).as_str().len(), TOKEN_DIGITS);
    }
}
