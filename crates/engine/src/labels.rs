//! The labels of a pod, packed into one piece of memory.
//!
//! Owns the packing. A cluster has a hundred thousand pods with five labels each; as a map they
//! would be most of what the operator remembers. Reading one label walks the few there are.

use std::collections::BTreeMap;
use std::fmt;

/// Whatever has labels that can be asked for by key.
pub trait LabelSet {
    /// The value of the label `key`.
    fn value(&self, key: &str) -> Option<&str>;
}

impl LabelSet for BTreeMap<String, String> {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// Labels, packed as `key=value` lines; neither sign can be part of a key or a value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels(Box<str>);

impl Labels {
    /// All labels, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| line.split_once('='))
    }
}

impl LabelSet for Labels {
    fn value(&self, key: &str) -> Option<&str> {
        self.iter()
            .find(|(known, _)| *known == key)
            .map(|(_, value)| value)
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut packed = String::new();
        for (key, value) in pairs {
            packed.push_str(key.as_ref());
            packed.push('=');
            packed.push_str(value.as_ref());
            packed.push('\n');
        }
        Self(packed.into())
    }
}

impl<K: AsRef<str>, V: AsRef<str>, const N: usize> From<[(K, V); N]> for Labels {
    fn from(pairs: [(K, V); N]) -> Self {
        pairs.into_iter().collect()
    }
}

impl From<&BTreeMap<String, String>> for Labels {
    fn from(map: &BTreeMap<String, String>) -> Self {
        map.iter().collect()
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_labels_answer_like_the_map_they_were_made_from() {
        let map: BTreeMap<String, String> = [("app", "web"), ("empty", ""), ("z.io/tier", "a.b_c")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let packed = Labels::from(&map);
        for key in ["app", "empty", "z.io/tier", "ap", "missing", ""] {
            assert_eq!(packed.value(key), map.value(key), "{key:?}");
        }
        assert_eq!(packed.iter().count(), map.len());
        assert_eq!(Labels::default().value(""), None);
    }
}
