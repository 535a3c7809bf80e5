//! Builds the binaries from published Go modules, into a temporary folder that is then renamed.
//!
//! Owns the Go command lines. Wrapper modules (`testbed/modules`) carry the pinned versions and
//! checksums, because the Kubernetes modules cannot be installed by name. Called by `testbed build`
//! alone, and by the builds of Karpenter and of nodes.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Binaries, HELM, KUBERNETES, KWOK, Source};

/// What a build did.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All binaries were there already.
    Present,
    /// These were built.
    Built(Vec<&'static str>),
}

impl Outcome {
    /// How many were built.
    pub fn count(&self) -> usize {
        match self {
            Self::Present => 0,
            Self::Built(names) => names.len(),
        }
    }
}

/// Builds what is missing; does nothing when all is there.
pub fn ensure(binaries: &Binaries) -> Result<Outcome> {
    let missing = binaries.missing();
    if missing.is_empty() {
        return Ok(Outcome::Present);
    }
    if binaries.source == Source::Environment {
        bail!(
            "SHIPSHAPE_TESTBED_BIN is {} but {} not in it; unset it to have them built",
            binaries.folder.display(),
            missing.join(", ")
        );
    }
    require_go()?;
    let parent = binaries
        .folder
        .parent()
        .context("the cache folder has no parent")?;
    fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    let workshop = tempfile::Builder::new()
        .prefix("build-")
        .tempdir_in(parent)?;
    for name in &missing {
        build_one(name, workshop.path())?;
    }
    move_in(&missing, workshop.path(), &binaries.folder)?;
    Ok(Outcome::Built(missing))
}

pub(super) fn require_go() -> Result<()> {
    match Command::new("go").arg("version").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) | Err(_) => bail!(
            "the testbed is built from Go modules and no working `go` is on the PATH: \
             install Go 1.26 or newer, or point SHIPSHAPE_TESTBED_BIN at a folder with the binaries"
        ),
    }
}

/// Each binary is renamed into place on its own, so that a second builder loses nothing.
fn move_in(names: &[&str], from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    for name in names {
        fs::rename(from.join(name), to.join(name))
            .with_context(|| format!("moving {name} into {}", to.display()))?;
    }
    Ok(())
}

fn build_one(name: &str, into: &Path) -> Result<()> {
    let etcd = |package: &str, output: &str| Recipe::Module {
        module: "etcd",
        package: format!("go.etcd.io/etcd/{package}/v3"),
        output: into.join(output),
        stamp: String::new(),
    };
    let recipe = match name {
        "etcd" => etcd("server", "etcd"),
        "etcdctl" | "etcdutl" => etcd(name, name),
        "kwok" => Recipe::Install(format!("sigs.k8s.io/kwok/cmd/kwok@v{KWOK}")),
        "helm" => Recipe::Install(format!("helm.sh/helm/v3/cmd/helm@v{HELM}")),
        _ => Recipe::Module {
            module: "kubernetes",
            package: format!("k8s.io/kubernetes/cmd/{name}"),
            output: into.join(name),
            stamp: kubernetes_stamp(),
        },
    };
    run(recipe, into).with_context(|| format!("building {name}"))
}

/// How one binary is made.
pub(super) enum Recipe {
    /// `go build` of a package in one of our wrapper modules.
    Module {
        module: &'static str,
        package: String,
        output: PathBuf,
        stamp: String,
    },
    /// `go install` of a package by name and version.
    Install(String),
}

/// Where a wrapper module has the sources of a module that it requires, once they are downloaded.
pub(super) fn sources(module: &'static str, of: &str) -> Result<PathBuf> {
    let mut go = go();
    go.current_dir(modules_folder().join(module))
        .env("GOFLAGS", "-mod=readonly")
        .args(["list", "-m", "-f", "{{.Dir}}", of]);
    let output = go.output().context("starting go")?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!(
            "go does not know where {of} is ({}): {words}",
            output.status
        );
    }
    let folder = String::from_utf8(output.stdout)?;
    match folder.trim() {
        "" => bail!("the sources of {of} are not there; `go mod download` fetches them"),
        folder => Ok(PathBuf::from(folder)),
    }
}

fn go() -> Command {
    let mut go = Command::new("go");
    go.env("CGO_ENABLED", "0")
        .env("GOTOOLCHAIN", "local")
        .env("GOWORK", "off");
    go
}

/// Runs a recipe.
pub(super) fn run(recipe: Recipe, into: &Path) -> Result<()> {
    let mut go = go();
    match recipe {
        Recipe::Module {
            module,
            package,
            output,
            stamp,
        } => {
            let folder = modules_folder().join(module);
            go.current_dir(&folder)
                .env("GOFLAGS", "-mod=readonly")
                .arg("build");
            go.arg("-ldflags")
                .arg(format!("-s -w{stamp}"))
                .arg("-o")
                .arg(output)
                .arg(package);
        }
        Recipe::Install(package) => {
            go.current_dir(into).env("GOFLAGS", "").env("GOBIN", into);
            go.args([
                OsStr::new("install"),
                OsStr::new("-ldflags"),
                OsStr::new("-s -w"),
            ]);
            go.arg(package);
        }
    }
    let status = go.status().context("starting go")?;
    if !status.success() {
        bail!("go ended with {status}");
    }
    Ok(())
}

/// Unstamped binaries call themselves v0.0.0-master, and version checks then fail.
pub(super) fn kubernetes_stamp() -> String {
    let mut parts = KUBERNETES.split('.');
    let (major, minor) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    [
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ]
    .map(|package| {
        format!(
            " -X {package}.gitVersion=v{KUBERNETES} -X {package}.gitMajor={major} \
                 -X {package}.gitMinor={minor}"
        )
    })
    .concat()
}

/// The wrapper modules lie beside the crates; the versions they require are checked by a test.
fn modules_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/modules")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binaries::{ETCD, karpenter, nodes};

    #[test]
    fn wrapper_modules_require_the_pinned_versions() {
        for (module, needle) in [
            ("kubernetes", format!("k8s.io/kubernetes v{KUBERNETES}")),
            ("etcd", format!("go.etcd.io/etcd/server/v3 v{ETCD}")),
            (
                "karpenter",
                format!("{} v{}", karpenter::MODULE, karpenter::VERSION),
            ),
            (
                "coredns",
                format!("github.com/coredns/coredns v{}", nodes::COREDNS),
            ),
        ] {
            let text = fs::read_to_string(modules_folder().join(module).join("go.mod")).unwrap();
            assert!(
                text.contains(&needle),
                "{module}/go.mod does not require {needle}"
            );
        }
    }

    #[test]
    fn stamp_names_version_in_both_packages() {
        let stamp = kubernetes_stamp();
        assert_eq!(
            stamp.matches(&format!("gitVersion=v{KUBERNETES}")).count(),
            2
        );
        assert_eq!(stamp.matches("gitMinor=35").count(), 2);
    }
}
