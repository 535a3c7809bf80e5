//! Order of resource versions.
//!
//! Owns the one comparison that is allowed: versions of one kind are decimal numbers of any length
//! (Kubernetes guarantees this order since 1.35, and all its API servers have kept it before). Text
//! in any other form has no order, and whoever holds it must read the object live.

use std::cmp::Ordering;

/// A resource version that can be compared with another one of the same kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

impl Version {
    /// Reads a version; `None` when it has no place in the order. "0" means "anything" to the server
    /// and is no version of an object.
    pub fn parse(text: &str) -> Option<Self> {
        let ordered = !text.is_empty()
            && !text.starts_with('0')
            && text.bytes().all(|byte| byte.is_ascii_digit());
        ordered.then(|| Self(text.to_owned()))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_numbers_not_as_text() {
        let parse = |text| Version::parse(text).unwrap();
        assert!(parse("9") < parse("10"));
        assert!(parse("99999999999999999999998") < parse("99999999999999999999999"));
        assert_eq!(parse("7"), parse("7"));
    }

    #[test]
    fn text_that_is_no_number_has_no_order() {
        for text in ["", "0", "007", "12a", "-1", "1.0", " 1"] {
            assert_eq!(Version::parse(text), None, "{text:?}");
        }
    }
}
