//! The list of defects that must not come back: each names a test, and each test exists.
//!
//! Owns the reading of `docs/regressions.md`. Whether a test would fail with its defect is for whoever
//! puts the defect in; that a test is renamed or removed without a word is what this finds.

use std::fs;
use std::path::Path;

use crate::{Error, Finding};

/// The list.
const LIST: &str = "docs/regressions.md";
/// How the name of every crate begins, as a path in code has it.
const CRATES: &str = "shipshape_";

/// Tests that the list names and no source has.
pub(crate) fn check(root: &Path, files: &[String]) -> Result<Vec<Finding>, Error> {
    let list = read(root, LIST)?;
    let named: Vec<(usize, &str)> = tests_in(&list).collect();
    if named.is_empty() {
        return Ok(vec![Finding::new(LIST, "names no test")]);
    }
    let mut findings = Vec::new();
    for (line, test) in named {
        let (folder, name) = place_of(test);
        let mut sources = files
            .iter()
            .filter(|file| file.starts_with(&folder) && is_source(file));
        let found = sources.try_fold(false, |found, file| {
            Ok::<_, Error>(found || has_test(&read(root, file)?, name))
        })?;
        if !found {
            let text = format!("no test in {folder} is called {name}");
            findings.push(Finding::new(format!("{LIST}:{line}"), text));
        }
    }
    Ok(findings)
}

fn is_source(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|it| it == "rs")
}

fn read(root: &Path, file: &str) -> Result<String, Error> {
    let path = root.join(file);
    fs::read_to_string(&path).map_err(|source| Error::File { path, source })
}

/// Every test of the list with its line: what stands in backticks and is a path of one of our crates.
fn tests_in(list: &str) -> impl Iterator<Item = (usize, &str)> {
    list.lines().enumerate().flat_map(|(number, line)| {
        let quoted = line.split('`').skip(1).step_by(2);
        quoted
            .filter(|text| text.starts_with(CRATES) && text.contains("::"))
            .map(move |text| (number + 1, text))
    })
}

/// The folder of a test's crate, and its name.
fn place_of(test: &str) -> (String, &str) {
    let package = test.split("::").next().unwrap_or_default();
    let package = package.strip_prefix(CRATES).unwrap_or(package);
    let name = test.rsplit("::").next().unwrap_or_default();
    (format!("crates/{}/", package.replace('_', "-")), name)
}

/// Whether a source has the test: as a function, or as a story by its name and file.
fn has_test(source: &str, name: &str) -> bool {
    let function = format!("fn {name}(");
    let story = format!("{name}: \"");
    source
        .lines()
        .any(|line| line.contains(&function) || line.trim_start().starts_with(&story))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_from_the_list_with_their_lines() {
        let list = "# List\n| `spec` | `shipshape_engine::a::b` and `shipshape_api::c` |\n";
        let found: Vec<_> = tests_in(list).collect();
        assert_eq!(
            found,
            [(2, "shipshape_engine::a::b"), (2, "shipshape_api::c")]
        );
        let place = place_of("shipshape_provider_aws::embedded::one");
        assert_eq!(place, ("crates/provider-aws/".to_owned(), "one"));
    }

    #[test]
    fn a_test_is_a_function_or_a_story_of_exactly_that_name() {
        assert!(has_test("#[test]\nfn one() {", "one"));
        assert!(has_test("    async fn one() {", "one"));
        assert!(has_test("    one: \"one.yaml\",", "one"));
        assert!(!has_test("fn another_one() {", "one"));
        assert!(!has_test("fn one_more() {", "one"));
    }
}
