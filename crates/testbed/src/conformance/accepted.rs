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
    pub(crate) from: &'static str,
    /// End of that place.
    pub(crate) to: &'static str,
    /// Why it stays.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for the reader; a test checks it")
    )]
    pub(crate) reason: &'static str,
}

impl Accepted {
    /// Whether this entry explains that difference.
    pub(crate) fn covers(&self, request: &Request, difference: &Difference) -> bool {
        let place = difference.place.as_str();
        request.text.contains(self.request)
            && place.starts_with(self.from)
            && place.ends_with(self.to)
    }
}

/// All accepted differences.
pub(crate) const ACCEPTED: &[Accepted] = &[
    Accepted {
        id: "storage-version-hash",
        request: "GET /api",
        from: "/resources/",
        to: "/storageVersionHash",
        reason: "a hash of the storage encoding, which the embedded cluster does not have",
    },
    Accepted {
        id: "build-information",
        request: "GET /version",
        from: "/",
        to: "",
        reason: "the embedded cluster is not built by Go",
    },
    Accepted {
        id: "column-description",
        request: " table",
        from: "",
        to: "/description",
        reason: "the text of built-in columns is documentation that no client reads",
    },
    Accepted {
        id: "legacy-watch-path",
        request: "GET /api/v1/watch/",
        from: "",
        to: "",
        reason: "deprecated since 1.11 and sent by no client in use",
    },
    Accepted {
        id: "legacy-bindings-path",
        request: "POST /api/v1/namespaces/$ns/bindings",
        from: "",
        to: "",
        reason: "replaced by pods/binding and sent by no client in use",
    },
    Accepted {
        id: "duplicate-keys",
        request: r#""k":"1","k":"2""#,
        from: "",
        to: "",
        reason: "the JSON reader keeps the last of two equal keys before anybody sees the first",
    },
    Accepted {
        id: "daemon-set-annotation-in-table",
        request: "@ds table",
        from: "/rows/",
        to: "/object/metadata/annotations",
        reason: "the real server makes rows from its internal form, which keeps the count elsewhere",
    },
    Accepted {
        id: "service-account-token",
        request: "GET /api discovery",
        from: "/items/",
        to: "/serviceaccounts/subresources",
        reason: "there are no tokens where nobody signs in",
    },
];

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
