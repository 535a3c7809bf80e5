//! The fixed sequences: text files in `conformance/`, one per subject.
//!
//! Owns their list. Called by the run.

use anyhow::Result;
use serde_json::Value;

use super::examples;
use super::script::{Sequence, parse};

const FILES: &[(&str, &str)] = &[
    ("discovery", include_str!("../../conformance/discovery.txt")),
    ("objects", include_str!("../../conformance/objects.txt")),
    ("patches", include_str!("../../conformance/patches.txt")),
    ("apply", include_str!("../../conformance/apply.txt")),
    ("delete", include_str!("../../conformance/delete.txt")),
    ("lists", include_str!("../../conformance/lists.txt")),
    ("watch", include_str!("../../conformance/watch.txt")),
    ("pods", include_str!("../../conformance/pods.txt")),
    ("workloads", include_str!("../../conformance/workloads.txt")),
    ("kinds", include_str!("../../conformance/kinds.txt")),
    ("custom", include_str!("../../conformance/custom.txt")),
    ("tables", include_str!("../../conformance/tables.txt")),
    ("bad", include_str!("../../conformance/bad.txt")),
];

/// The kinds that the sequences need beside the built-in ones.
pub(crate) fn definitions() -> Result<Vec<Value>> {
    let widgets = include_str!("../../conformance/widgets.json");
    let mut all = vec![serde_json::from_str(widgets)?];
    for definition in shipshape_api::crds() {
        all.push(serde_json::to_value(definition)?);
    }
    Ok(all)
}

/// All fixed sequences, in the order of the files.
pub(crate) fn sequences() -> Result<Vec<Sequence>> {
    let mut all = Vec::new();
    for (name, text) in FILES {
        all.extend(parse(text, name)?);
    }
    all.extend(examples::sequences()?);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::sequences;

    #[test]
    fn fixed_sequences_hold_at_least_three_hundred_requests() {
        let requests: usize = sequences()
            .unwrap()
            .iter()
            .map(|one| one.requests.len())
            .sum();
        assert!(requests >= 300, "{requests} requests");
    }
}
