//! Which published binaries the testbed runs, and where they lie.
//!
//! Owns the pinned versions and the cache folder. It must not start anything but the build in
//! `binaries::build`. Called by the harness and by `testbed build`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

pub mod build;
pub mod karpenter;
pub mod nodes;

/// Release of kube-apiserver, kube-controller-manager, kube-scheduler and kubectl.
pub const KUBERNETES: &str = "1.35.8";
/// Release of etcd, etcdctl and etcdutl.
pub const ETCD: &str = "3.6.14";
/// Release of kwok.
pub const KWOK: &str = "0.8.0";
/// Release of helm.
pub const HELM: &str = "3.22.0";

/// Every binary that the cache folder must hold.
pub const NAMES: [&str; 9] = [
    "etcd",
    "etcdctl",
    "etcdutl",
    "helm",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
];

/// A folder that holds the binaries, or will after a build.
#[derive(Debug, Clone)]
pub struct Binaries {
    folder: PathBuf,
    source: Source,
}

/// Who chose the folder: a folder that somebody else chose is never built into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Environment,
    Cache,
}

impl Binaries {
    /// `SHIPSHAPE_TESTBED_BIN` when set, else the cache folder of these versions.
    pub fn locate() -> Result<Self> {
        if let Some(folder) = non_empty("SHIPSHAPE_TESTBED_BIN") {
            return Ok(Self {
                folder,
                source: Source::Environment,
            });
        }
        Ok(Self {
            folder: cache()?.join(cache_key()),
            source: Source::Cache,
        })
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The names that are not there yet.
    pub fn missing(&self) -> Vec<&'static str> {
        NAMES
            .into_iter()
            .filter(|name| !self.folder.join(name).is_file())
            .collect()
    }

    /// The path of one binary; an error that names the remedy when it is not there.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        if !path.is_file() {
            bail!(
                "{} is missing; run `cargo xtask testbed build` first",
                path.display()
            );
        }
        Ok(path)
    }
}

/// The cache folder's last part: another version is another folder.
pub fn cache_key() -> String {
    format!("kubernetes-{KUBERNETES}_etcd-{ETCD}_kwok-{KWOK}_helm-{HELM}")
}

/// What is built once per version lies here, outside the target directory.
fn cache() -> Result<PathBuf> {
    let cache = match non_empty("XDG_CACHE_HOME") {
        Some(folder) => folder,
        None => non_empty("HOME")
            .context("neither SHIPSHAPE_TESTBED_BIN, XDG_CACHE_HOME nor HOME is set")?
            .join(".cache"),
    };
    Ok(cache.join("shipshape").join("testbed"))
}

fn non_empty(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
