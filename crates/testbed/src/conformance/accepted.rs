//! Differences that are known and accepted, each with its reason.
//!
//! Owns the table; `crates/simulator/MISMATCH.md` names every id of it, which a test checks. An
//! entry that no longer shows in a complete run fails that run. Called by the report.

use super::compare::Difference;
use super::script::Request;

/// One accepted difference.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// The name that `MISMATCH.md` uses.
    pub(crate) id: &'static str,
    /// Text that the request must contain.
    pub(crate) request: &'static str,
    /// Start of the place where the answers part.
    pub(crate) place: &'static str,
    /// Why it stays.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "written for the reader and checked by a test")
    )]
    pub(crate) reason: &'static str,
}

impl Accepted {
    /// Whether this entry explains that difference.
    pub(crate) fn covers(&self, request: &Request, difference: &Difference) -> bool {
        request.text.contains(self.request) && difference.place.starts_with(self.place)
    }
}

/// All accepted differences.
pub(crate) const ACCEPTED: &[Accepted] = &[];

#[cfg(test)]
mod tests {
    use super::ACCEPTED;

    #[test]
    fn every_accepted_difference_is_in_the_mismatch_list_with_its_reason() {
        let list = include_str!("../../../simulator/MISMATCH.md");
        for entry in ACCEPTED {
            assert!(
                list.contains(&format!("`{}`", entry.id)),
                "{} is not in the list",
                entry.id
            );
            assert!(!entry.reason.is_empty());
        }
    }
}
