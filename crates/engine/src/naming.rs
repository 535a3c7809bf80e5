//! Deterministic names and tokens: the same work always gets the same name.
//!
//! Owns every derived name. Must not use randomness or a counter: after a crash the same inputs must
//! lead back to the same object, so that it is adopted and not made twice.

use sha2::{Digest, Sha256};

use crate::machine::Token;

/// Longest object name that the API server takes.
const NAME_MAX: usize = 253;
/// Digits of the hash that ends a name: enough to tell apart what the readable part cannot.
const NAME_HASH_DIGITS: usize = 8;
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
    let hash = hex(&[work.run_uid, work.node_uid], NAME_HASH_DIGITS);
    let readable = format!(
        "task-{}-{}-{}",
        work.run_name, work.iteration, work.node_name
    );
    let room = NAME_MAX - NAME_HASH_DIGITS - 1;
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

/// Name of the PendingNode of a machine: what people know it by, then a hash of the whole provider id,
/// because two zones or clouds may use one name.
pub fn pending_name(provider_id: &str) -> String {
    let known = provider_id.rsplit('/').next().unwrap_or_default();
    let plain: String = known
        .chars()
        .map(|one| match one.to_ascii_lowercase() {
            good @ ('a'..='z' | '0'..='9' | '-' | '.') => good,
            _ => '-',
        })
        .collect();
    let plain = plain.trim_matches(['-', '.']);
    let hash = hex(&[provider_id], NAME_HASH_DIGITS);
    let room = NAME_MAX - NAME_HASH_DIGITS - 1;
    let cut: String = plain.chars().take(room).collect();
    match cut.trim_end_matches(['-', '.']) {
        "" => hash,
        cut => format!("{cut}-{hash}"),
    }
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
    fn machines_of_every_cloud_have_names_that_the_api_takes_and_that_differ() {
        let ids = [
            "aws:///eu-west-1a/i-0abc",
            "aws:///eu-west-1b/i-0abc",
            "azure:///x/virtualMachineScaleSets/Workers/virtualMachines/3_A",
            "weird:///a/--",
        ];
        let names: Vec<String> = ids.iter().map(|id| pending_name(id)).collect();
        assert!(names[0].starts_with("i-0abc-"), "{names:?}");
        assert_ne!(names[0], names[1]);
        assert!(names[2].starts_with("3-a-"), "{names:?}");
        let is_plain = |name: &String| {
            let ends = name.chars().next().zip(name.chars().last()).unwrap();
            ends.0.is_ascii_alphanumeric() && ends.1.is_ascii_alphanumeric()
        };
        assert!(names.iter().all(is_plain), "{names:?}");
        assert!(pending_name(&"x".repeat(1000)).len() <= NAME_MAX);
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
