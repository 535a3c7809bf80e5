//! What real nodes are made of: programs, a root file system, images. Where they lie, and how they are built.
//!
//! Owns their versions and three cache folders of their own, so that nobody needs them who starts no node: programs by
//! version, root file system and images by the scripts that make them too. Called by `testbed build --nodes` and by
//! `nodes`, which starts them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use shipshape_engine::naming::hex;

use super::build::{self, Outcome, Recipe};
use super::{Binaries, ETCD, KUBERNETES};

/// Release of CoreDNS, the one that kubeadm of this release asks for.
pub const COREDNS: &str = "1.13.1";
/// What kubeadm is told to take images from. Nobody answers there: all are imported.
pub const REPOSITORY: &str = "shipshape.test";

/// Programs of a node, besides those of the control plane.
const PROGRAMS: [&str; 5] = ["coredns", "kube-proxy", "kubeadm", "kubelet", "pause"];
/// Digits that tell one state of a script from another.
const DIGITS: usize = 10;

/// The folders, or where they will be after a build.
#[derive(Debug, Clone)]
pub struct Parts {
    programs: PathBuf,
    rootfs: PathBuf,
    images: PathBuf,
}

impl Parts {
    /// The cache folders of these versions and scripts.
    pub fn locate() -> Result<Self> {
        let cache = super::cache()?;
        let versions = format!("kubernetes-{KUBERNETES}_coredns-{COREDNS}");
        let rootfs = state_of(&["rootfs.sh"])?;
        let images = state_of(&["rootfs.sh", "images.sh", "image.sh"])?;
        Ok(Self {
            programs: cache.join(format!("nodes-{versions}")),
            rootfs: cache.join(format!("nodes-rootfs-{rootfs}")),
            images: cache.join(format!("nodes-images-{versions}_etcd-{ETCD}_{images}")),
        })
    }

    /// Where programs are.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// The root file system that nodes lay theirs over.
    pub fn rootfs(&self) -> &Path {
        &self.rootfs
    }

    /// Images as archives, one a program and named after it.
    pub fn images(&self) -> &Path {
        &self.images
    }

    /// An error that names the remedy when something is not there.
    pub fn check(&self) -> Result<()> {
        for folder in [&self.programs, &self.rootfs, &self.images] {
            ensure!(
                folder.is_dir(),
                "{} is missing; run `cargo xtask testbed build --nodes` first",
                folder.display()
            );
        }
        Ok(())
    }

    /// Builds what is missing. Needs root, and packages of the machine's distribution.
    pub fn ensure(&self) -> Result<Outcome> {
        script("tools.sh", &[])?;
        let mut made = Vec::new();
        if !self.programs.is_dir() {
            build::require_go()?;
            into_place(&self.programs, build_programs)?;
            made.extend(PROGRAMS);
        }
        if !self.rootfs.is_dir() {
            into_place(&self.rootfs, |folder| script("rootfs.sh", &[folder]))?;
            made.push("rootfs");
        }
        if !self.images.is_dir() {
            into_place(&self.images, |folder| self.pack_images(folder))?;
            made.push("images");
        }
        Ok(if made.is_empty() {
            Outcome::Present
        } else {
            Outcome::Built(made)
        })
    }

    fn pack_images(&self, into: &Path) -> Result<()> {
        let binaries = Binaries::locate()?;
        build::ensure(&binaries)?;
        let (version, repository) = (Path::new(KUBERNETES), Path::new(REPOSITORY));
        let folders = [self.programs.as_path(), binaries.folder()];
        let words = [into, version, repository, &self.rootfs];
        script("images.sh", &[&words[..], &folders].concat())
    }
}

/// The scripts lie beside the crates.
pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/nodes")
}

/// Runs one of the scripts; what it says goes where our words go.
pub(crate) fn script(name: &str, words: &[&Path]) -> Result<()> {
    let path = scripts().join(name);
    let status = Command::new(&path).args(words).status();
    let status = status.with_context(|| format!("starting {}", path.display()))?;
    ensure!(status.success(), "{name} ended with {status}");
    Ok(())
}

/// Names what these scripts say, so that a change makes another folder.
fn state_of(names: &[&str]) -> Result<String> {
    let mut texts = Vec::new();
    for name in names {
        let path = scripts().join(name);
        let text = fs::read_to_string(&path);
        texts.push(text.with_context(|| format!("reading {}", path.display()))?);
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Ok(hex(&texts, DIGITS))
}

/// Lets `make` fill a folder beside the final one, which then appears as a whole.
fn into_place(folder: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let parent = folder.parent().context("the cache folder has no parent")?;
    fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    let workshop = tempfile::Builder::new()
        .prefix("build-")
        .tempdir_in(parent)?;
    let made = workshop.path().join("made");
    make(&made)?;
    if let Err(error) = fs::rename(&made, folder) {
        // Another builder may have been faster; what it made is as good.
        if !folder.is_dir() {
            return Err(error).with_context(|| format!("making {}", folder.display()));
        }
    }
    Ok(())
}

fn build_programs(into: &Path) -> Result<()> {
    fs::create_dir_all(into)?;
    for name in PROGRAMS {
        let module = |module, package: &str, stamp| Recipe::Module {
            module,
            package: package.to_owned(),
            output: into.join(name),
            stamp,
        };
        let recipe = match name {
            "pause" => module("pause", ".", String::new()),
            "coredns" => module("coredns", "github.com/coredns/coredns", String::new()),
            "kube-proxy" | "kubeadm" | "kubelet" => module(
                "kubernetes",
                &format!("k8s.io/kubernetes/cmd/{name}"),
                build::kubernetes_stamp(),
            ),
            _ => bail!("nobody knows how {name} is built"),
        };
        build::run(recipe, into).with_context(|| format!("building {name}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_their_own_and_named_after_what_they_are_made_of() {
        let parts = Parts::locate().unwrap();
        let others = Binaries::locate().unwrap();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        assert_eq!(
            name(parts.programs()),
            "nodes-kubernetes-1.35.8_coredns-1.13.1"
        );
        assert!(name(parts.images()).contains("_etcd-3.6.14_"));
        for folder in [parts.programs(), parts.rootfs(), parts.images()] {
            assert_ne!(folder, others.folder());
        }
    }

    #[test]
    fn a_folder_appears_whole_or_not_at_all() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("programs");
        let half = |into: &Path| -> Result<()> {
            fs::create_dir_all(into)?;
            fs::write(into.join("one"), "1")?;
            bail!("no more")
        };
        into_place(&folder, half).unwrap_err();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        into_place(&folder, |into| Ok(fs::create_dir_all(into)?)).unwrap();
        assert!(folder.is_dir());
    }
}
