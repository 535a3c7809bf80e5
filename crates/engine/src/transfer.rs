//! Transfer: which of the old node's labels the new one gets.
//!
//! Owns the lists of `labelTransfer` and the reserved beginnings. Must not overwrite: a key that the
//! new node has keeps its value. Called by `replace`, once while the old node is there and once when
//! the new one is.

use std::collections::BTreeMap;

use shipshape_api::gates::LabelTransfer;

/// Beginnings of keys that the kubelet or the cloud sets: copied, they would lie about the new node.
const RESERVED: [&str; 6] = [
    "kubernetes.io/",
    "beta.kubernetes.io/",
    "topology.kubernetes.io/",
    "failure-domain.beta.kubernetes.io/",
    "failure-domain.kubernetes.io/",
    "node.kubernetes.io/",
];

/// Whether a key, or a beginning of keys, is reserved.
pub fn is_reserved(key: &str) -> bool {
    RESERVED.iter().any(|prefix| key.starts_with(prefix))
}

/// Entries of the lists that can never have an effect, because they are reserved.
pub fn refused(transfer: &LabelTransfer) -> Vec<&str> {
    transfer
        .keys
        .iter()
        .chain(&transfer.prefixes)
        .map(String::as_str)
        .filter(|key| is_reserved(key))
        .collect()
}

/// Whether the lists let this key move.
pub fn is_allowed(transfer: &LabelTransfer, key: &str) -> bool {
    let is_listed = transfer.keys.iter().any(|one| one == key)
        || transfer
            .prefixes
            .iter()
            .any(|prefix| !prefix.is_empty() && key.starts_with(prefix.as_str()));
    let is_excluded = transfer.exclude_keys.iter().any(|one| one == key);
    is_listed && !is_excluded && !is_reserved(key)
}

/// The labels of the old node that the lists take.
pub fn selected(
    transfer: &LabelTransfer,
    old: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    old.iter()
        .filter(|(key, _)| is_allowed(transfer, key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// What is still to be done to the new node's labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Labels to add.
    pub add: BTreeMap<String, String>,
    /// Keys to take away.
    pub remove: Vec<String>,
    /// Keys that the new node has with another value; they stay as they are.
    pub kept: Vec<String>,
}

impl Delta {
    /// Whether nothing is left to write.
    pub fn is_done(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }
}

/// Compares what was selected with what the new node has.
pub fn delta(
    transfer: &LabelTransfer,
    selected: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> Delta {
    let mut delta = Delta::default();
    for (key, value) in selected {
        match new.get(key) {
            None => {
                delta.add.insert(key.clone(), value.clone());
            }
            Some(present) if present != value => delta.kept.push(key.clone()),
            Some(_) => {}
        }
    }
    if transfer.remove_missing() {
        delta.remove = new
            .keys()
            .filter(|key| is_allowed(transfer, key) && !selected.contains_key(*key))
            .cloned()
            .collect();
    }
    delta
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn transfer() -> LabelTransfer {
        LabelTransfer {
            keys: vec!["team".to_owned(), "kubernetes.io/hostname".to_owned()],
            prefixes: vec![
                "example.com/".to_owned(),
                "topology.kubernetes.io/".to_owned(),
            ],
            exclude_keys: vec!["example.com/secret".to_owned()],
            remove_missing: Some(true),
        }
    }

    #[test]
    fn only_listed_labels_move_and_reserved_ones_never() {
        let old = labels(&[
            ("team", "blue"),
            ("other", "x"),
            ("example.com/pool", "a"),
            ("example.com/secret", "s"),
            ("kubernetes.io/hostname", "old"),
            ("topology.kubernetes.io/zone", "z"),
        ]);
        assert_eq!(
            selected(&transfer(), &old),
            labels(&[("team", "blue"), ("example.com/pool", "a")])
        );
        assert_eq!(
            refused(&transfer()),
            ["kubernetes.io/hostname", "topology.kubernetes.io/"]
        );
    }

    #[test]
    fn a_label_that_the_new_node_has_is_never_overwritten() {
        let wanted = labels(&[("team", "blue"), ("example.com/pool", "a")]);
        let new = labels(&[
            ("team", "red"),
            ("example.com/left-over", "1"),
            ("other", "y"),
        ]);
        let delta = delta(&transfer(), &wanted, &new);
        assert_eq!(delta.add, labels(&[("example.com/pool", "a")]));
        assert_eq!(delta.kept, ["team"]);
        assert_eq!(delta.remove, ["example.com/left-over"]);
    }

    proptest! {
        #[test]
        fn once_applied_nothing_is_left_to_do(
            old in proptest::collection::btree_map("(team|other|example.com/[ab])", "[ab]", 0..4),
            new in proptest::collection::btree_map("(team|other|example.com/[ab])", "[ab]", 0..4),
        ) {
            let wanted = selected(&transfer(), &old);
            let first = delta(&transfer(), &wanted, &new);
            let mut after = new.clone();
            after.extend(first.add.clone());
            after.retain(|key, _| !first.remove.contains(key));
            prop_assert!(delta(&transfer(), &wanted, &after).is_done());
            for (key, value) in &new {
                prop_assert!(after.get(key).is_none_or(|now| now == value));
            }
        }
    }
}
