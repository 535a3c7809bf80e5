//! The one-way arrow between crates, and what the pure crates must not pull in.
//!
//! Owns the table of allowed edges (docs/architecture.md draws it). A crate that is not in the
//! table is a finding: it needs a decision.

use std::path::Path;

use serde::Deserialize;

use crate::{Error, Finding, cargo};

/// What a crate may depend on, inside the workspace.
enum Allowed {
    Only(&'static [&'static str]),
    /// Stands beside the arrow; nothing may depend on it but others that stand there.
    Everything,
}

use Allowed::{Everything, Only};

const ARROW: [(&str, Allowed); 14] = [
    ("shipshape-api", Only(&[])),
    ("shipshape-engine", Only(&["shipshape-api"])),
    (
        "shipshape-cluster",
        Only(&["shipshape-api", "shipshape-engine"]),
    ),
    (
        "shipshape-provider",
        Only(&["shipshape-api", "shipshape-engine"]),
    ),
    ("shipshape-etcd", Only(&["shipshape-engine"])),
    (
        "shipshape-provider-aws",
        Only(&[
            "shipshape-api",
            "shipshape-engine",
            "shipshape-cluster",
            "shipshape-provider",
        ]),
    ),
    (
        "shipshape-controllers",
        Only(&[
            "shipshape-api",
            "shipshape-engine",
            "shipshape-cluster",
            "shipshape-etcd",
            "shipshape-provider",
        ]),
    ),
    ("shipshape-verifier", Only(&[])),
    (
        "shipshape-simulator",
        Only(&[
            "shipshape-api",
            "shipshape-engine",
            "shipshape-cluster",
            "shipshape-etcd",
            "shipshape-provider",
        ]),
    ),
    (
        "shipshape-scenarios",
        Only(&[
            "shipshape-api",
            "shipshape-engine",
            "shipshape-cluster",
            "shipshape-etcd",
            "shipshape-provider",
            "shipshape-controllers",
            "shipshape-simulator",
        ]),
    ),
    (
        "shipshape",
        Only(&[
            "shipshape-api",
            "shipshape-engine",
            "shipshape-cluster",
            "shipshape-etcd",
            "shipshape-provider",
            "shipshape-provider-aws",
            "shipshape-controllers",
            "shipshape-verifier",
            "shipshape-simulator",
            "shipshape-scenarios",
        ]),
    ),
    ("shipshape-tidy", Only(&["shipshape-api"])),
    ("shipshape-testbed", Everything),
    ("xtask", Everything),
];

/// Crates that decide: nothing asynchronous may come in, by any road.
const PURE: [&str; 2] = ["shipshape-api", "shipshape-engine"];
const RUNTIMES: [&str; 2] = ["tokio", "hyper"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    path: Option<String>,
    /// `dev` for what only tests need.
    kind: Option<String>,
}

impl Dependency {
    /// The tests of a cloud play against the embedded one, which its users must not need.
    fn is_stage_of(&self, package: &Package) -> bool {
        package.name.starts_with("shipshape-provider-")
            && self.name == "shipshape-simulator"
            && self.kind.as_deref() == Some("dev")
    }
}

/// Edges against the arrow, and runtimes in pure crates.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>, Error> {
    let metadata: Metadata = cargo::metadata(root, &["--no-deps"])?;
    let mut findings: Vec<Finding> = metadata.packages.iter().flat_map(edges).collect();
    for name in PURE {
        let tree = cargo::cargo(
            root,
            &[
                "tree",
                "--package",
                name,
                "--edges",
                "normal",
                "--prefix",
                "none",
                "--locked",
            ],
        )?;
        findings.extend(runtimes(name, &tree));
    }
    Ok(findings)
}

fn edges(package: &Package) -> Vec<Finding> {
    let Some((_, allowed)) = ARROW.iter().find(|(name, _)| *name == package.name) else {
        return vec![Finding::new(
            &package.name,
            "is not in the table of allowed dependencies",
        )];
    };
    let Only(allowed) = allowed else {
        return Vec::new();
    };
    package
        .dependencies
        .iter()
        .filter(|other| other.path.is_some() && !allowed.contains(&other.name.as_str()))
        .filter(|other| !other.is_stage_of(package))
        .map(|other| {
            Finding::new(
                &package.name,
                format!("must not depend on {}: against the arrow", other.name),
            )
        })
        .collect()
}

fn runtimes(name: &str, tree: &str) -> Vec<Finding> {
    tree.lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|other| RUNTIMES.contains(other))
        .map(|other| Finding::new(name, format!("must build without {other}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, on: &str) -> Package {
        let dependency = Dependency {
            name: on.to_owned(),
            path: Some(String::new()),
            kind: None,
        };
        Package {
            name: name.to_owned(),
            dependencies: vec![dependency],
        }
    }

    #[test]
    fn an_edge_along_the_arrow_is_fine() {
        assert_eq!(edges(&package("shipshape-engine", "shipshape-api")), []);
    }

    #[test]
    fn an_edge_against_the_arrow_is_found() {
        let found = edges(&package("shipshape-engine", "shipshape-cluster"));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn a_crate_without_a_place_on_the_arrow_is_found() {
        assert_eq!(edges(&package("newcomer", "shipshape-api")).len(), 1);
    }

    #[test]
    fn a_runtime_deep_in_the_tree_is_found() {
        let found = runtimes(
            "shipshape-api",
            "kube v5.0.0\ntokio v1.54.0\ntokio-util v0.7.0\n",
        );
        assert_eq!(
            found,
            [Finding::new("shipshape-api", "must build without tokio")]
        );
    }
}
