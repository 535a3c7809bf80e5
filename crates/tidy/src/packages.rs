//! What the packages of others may be: licences, sources, and a few that are banned by name.
//!
//! Owns the policy (docs/adr has the reason why no other tool checks it). Looks at what is built on
//! this platform, from `cargo metadata`.

use std::path::Path;

use serde::Deserialize;

use crate::{Error, Finding, cargo};

/// Licences that a dependency may have.
const LICENCES: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Zlib",
];

/// Packages that must not come in, and why.
const BANNED: [(&str, &str); 4] = [
    (
        "aws-lc-sys",
        "there is one TLS provider, ring; two at once fail at run time",
    ),
    ("native-tls", "there is one TLS provider, ring"),
    ("openssl-sys", "the build needs no C library"),
    ("serde_yaml", "it is not maintained; use serde-saphyr"),
];

/// The only place where packages of others come from.
const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

/// How many packages there are, and what is wrong with them.
pub(crate) fn check(root: &Path) -> Result<(usize, Vec<Finding>), Error> {
    let version = cargo::output(root, "rustc".into(), &["--version", "--verbose"])?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap_or_default();
    let metadata: Metadata = cargo::metadata(root, &["--locked", "--filter-platform", host])?;
    let findings = metadata.packages.iter().flat_map(look).collect();
    Ok((metadata.packages.len(), findings))
}

fn look(package: &Package) -> Vec<Finding> {
    let place = format!("{} {}", package.name, package.version);
    let mut findings = Vec::new();
    let licence = package.license.as_deref().unwrap_or_default();
    if !is_allowed(licence) {
        findings.push(Finding::new(
            &place,
            format!("has a licence not on the list: {licence:?}"),
        ));
    }
    if let Some((_, why)) = BANNED.iter().find(|(name, _)| *name == package.name) {
        findings.push(Finding::new(&place, format!("is banned: {why}")));
    }
    match package.source.as_deref() {
        None | Some(SOURCE) => {}
        Some(other) => findings.push(Finding::new(&place, format!("comes from {other}"))),
    }
    findings
}

/// Whether an SPDX expression can be met by the list alone.
fn is_allowed(expression: &str) -> bool {
    // The old way to write a choice was a slash.
    let expression = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = expression.split_whitespace().peekable();
    let allowed = choice(&mut words);
    allowed && words.next().is_none()
}

type Words<'text> = std::iter::Peekable<std::str::SplitWhitespace<'text>>;

/// `a OR b`: one is enough. All are read, so that the rest of the text stays in step.
fn choice(words: &mut Words<'_>) -> bool {
    let mut allowed = all_of(words);
    while words.next_if_eq(&"OR").is_some() {
        allowed |= all_of(words);
    }
    allowed
}

/// `a AND b`: all are needed.
fn all_of(words: &mut Words<'_>) -> bool {
    let mut allowed = term(words);
    while words.next_if_eq(&"AND").is_some() {
        allowed &= term(words);
    }
    allowed
}

/// A licence, with its exception if it has one, or an expression in brackets.
fn term(words: &mut Words<'_>) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let allowed = choice(words);
        return words.next_if_eq(&")").is_some() && allowed;
    }
    let mut licence = words.next().unwrap_or_default().to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        licence = format!("{licence} WITH {}", words.next().unwrap_or_default());
    }
    LICENCES.contains(&licence.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_the_list_can_meet_are_allowed() {
        for expression in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0",
        ] {
            assert!(is_allowed(expression), "{expression}");
        }
    }

    #[test]
    fn expressions_that_the_list_cannot_meet_are_not() {
        for expression in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR ISC) AND AGPL-3.0",
            "MIT)",
            "(MIT",
            "MIT ISC",
        ] {
            assert!(!is_allowed(expression), "{expression}");
        }
    }

    #[test]
    fn a_banned_package_from_elsewhere_has_two_findings() {
        let package = Package {
            name: "openssl-sys".into(),
            version: "0.9.0".into(),
            license: Some("MIT".into()),
            source: Some("git+https://example.com/openssl".into()),
        };
        assert_eq!(look(&package).len(), 2);
    }
}
