//! What a conformance run found.
//!
//! Owns the counts and the blocks that a person reads. It must not compare. Called by the run
//! and printed by the command line.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::accepted::{ACCEPTED, Accepted};
use super::compare::{Comparison, Difference};
use super::script::Sequence;

/// Where a sequence comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A text file of ours.
    Fixed,
    /// The generator.
    Random,
}

/// Counts and findings of a run.
#[derive(Debug)]
pub struct Report {
    seed: u64,
    verbose: bool,
    fixed_requests: usize,
    random_requests: usize,
    random_sequences: usize,
    codes: BTreeMap<u16, usize>,
    blocks: Vec<String>,
    used: BTreeMap<&'static str, usize>,
    stale: Vec<&'static str>,
    last_random: String,
}

impl Report {
    pub(crate) fn new(seed: u64, verbose: bool) -> Self {
        Self {
            seed,
            verbose,
            fixed_requests: 0,
            random_requests: 0,
            random_sequences: 0,
            codes: BTreeMap::new(),
            blocks: Vec::new(),
            used: BTreeMap::new(),
            stale: Vec::new(),
            last_random: String::new(),
        }
    }

    /// Takes in one compared request.
    pub(crate) fn note(
        &mut self,
        kind: Kind,
        sequence: &Sequence,
        index: usize,
        pair: &Comparison,
    ) {
        match kind {
            Kind::Fixed => self.fixed_requests += 1,
            Kind::Random => {
                self.random_requests += 1;
                if self.last_random != sequence.name {
                    self.last_random.clone_from(&sequence.name);
                    self.random_sequences += 1;
                }
            }
        }
        *self.codes.entry(pair.code).or_default() += 1;
        let Some(request) = sequence.requests.get(index) else {
            return;
        };
        let mut unexplained = Vec::new();
        for difference in &pair.differences {
            match ACCEPTED
                .iter()
                .find(|entry| entry.covers(request, difference))
            {
                Some(Accepted { id, .. }) => *self.used.entry(id).or_default() += 1,
                None => unexplained.push(difference),
            }
        }
        if !unexplained.is_empty() || self.verbose {
            self.blocks
                .push(block(sequence, index, &unexplained, pair, self.verbose));
        }
    }

    /// Accepted differences that no longer show are findings too, after a complete run.
    pub(crate) fn finish(&mut self, complete: bool) {
        if complete {
            self.stale = ACCEPTED
                .iter()
                .map(|entry| entry.id)
                .filter(|id| !self.used.contains_key(id))
                .collect();
        }
    }

    /// Whether nothing is unexplained and nothing accepted is stale.
    pub fn passed(&self) -> bool {
        self.verbose || (self.blocks.is_empty() && self.stale.is_empty())
    }
}

fn block(
    sequence: &Sequence,
    index: usize,
    differences: &[&Difference],
    pair: &Comparison,
    verbose: bool,
) -> String {
    let text = sequence
        .requests
        .get(index)
        .map_or("", |request| request.text.as_str());
    let mut lines = vec![
        format!("--- {} #{}", sequence.name, index + 1),
        text.to_owned(),
    ];
    // Where the codes part, the two bodies have little to say to each other.
    let parted = differences
        .iter()
        .any(|difference| difference.place == "code");
    let telling =
        |place: &str| place == "code" || place == "/reason" || place.starts_with("/details");
    for difference in differences
        .iter()
        .filter(|one| !parted || telling(&one.place))
    {
        lines.push(format!(
            "  {}\n    embedded {}\n    real     {}",
            difference.place,
            show(difference.embedded.as_ref()),
            show(difference.real.as_ref())
        ));
    }
    if verbose {
        lines.push(format!("  real {} {}", pair.code, pair.real));
    }
    lines.join("\n")
}

fn show(value: Option<&Value>) -> String {
    value.map_or_else(|| "(nothing)".into(), Value::to_string)
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for block in &self.blocks {
            writeln!(out, "{block}\n")?;
        }
        for id in &self.stale {
            writeln!(
                out,
                "--- accepted difference {id} no longer shows: remove it\n"
            )?;
        }
        let codes: Vec<String> = self
            .codes
            .iter()
            .map(|(code, count)| format!("{code}×{count}"))
            .collect();
        writeln!(out, "real status codes: {}", codes.join(" "))?;
        let used: Vec<String> = self
            .used
            .iter()
            .map(|(id, n)| format!("{id}×{n}"))
            .collect();
        writeln!(out, "accepted differences: {}", used.join(" "))?;
        write!(
            out,
            "conformance: {} unexplained differences in {} fixed requests and {} random \
             sequences ({} requests, seed {}), {} stale acceptances",
            self.blocks.len(),
            self.fixed_requests,
            self.random_sequences,
            self.random_requests,
            self.seed,
            self.stale.len()
        )
    }
}
