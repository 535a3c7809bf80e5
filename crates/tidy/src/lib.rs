//! Rules of the repository that neither the compiler nor clippy can check.
//!
//! Owns the rules and what is generated from the kinds. Must not change a file unless asked to
//! (`generated::write`). Called by `cargo xtask tidy` and by this crate's test under `cargo test`.

mod arrow;
mod cargo;
pub mod generated;
mod regressions;
mod sources;

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// File or crate in which it was found.
    pub place: String,
    /// What is wrong and what to do.
    pub text: String,
}

impl Finding {
    fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            text: text.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.text)
    }
}

/// What a look at the repository gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Broken rules, sorted.
    pub findings: Vec<Finding>,
    /// Files looked at.
    pub files: usize,
}

/// Why the repository could not be looked at.
#[derive(Debug, Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot read or write {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program could not be run or failed.
    #[error("{program} failed: {message}")]
    Program {
        /// The program and its arguments.
        program: String,
        /// What it said.
        message: String,
    },
    /// Cargo answered something else than expected.
    #[error("unexpected answer of cargo")]
    Answer(#[from] serde_json::Error),
    /// A generated file could not be rendered.
    #[error("cannot render the kinds")]
    Render(#[from] shipshape_api::render::Error),
}

/// Looks at everything.
pub fn check(root: &Path) -> Result<Report, Error> {
    let mut report = Report::default();
    let files = sources::tracked(root)?;
    report.files = files.len();
    for file in &files {
        report.findings.extend(sources::check(root, file)?);
    }
    report.findings.extend(generated::stale(root)?);
    report.findings.extend(arrow::check(root)?);
    report.findings.extend(regressions::check(root, &files)?);
    report.findings.sort();
    Ok(report)
}

/// The root of the repository that this crate was built from.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}
