//! Karpenter with its provider for kwok's nodes: where it lies, and how it is built.
//!
//! Owns its version and a cache folder of its own, so that nobody needs it who does not measure it.
//! Its kinds are copied beside the binary from the same sources. Called by `testbed build --karpenter`
//! and by the benchmark of replacing.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::build::{self, Outcome, Recipe};

/// Release of Karpenter.
pub const VERSION: &str = "1.14.0";
/// The module that it is part of.
pub(super) const MODULE: &str = "sigs.k8s.io/karpenter";
/// The binary's name, and that of our wrapper module.
const NAME: &str = "karpenter";
/// Folders of the sources with definitions of kinds: its own, and its provider's.
const KINDS: [&str; 2] = ["pkg/apis/crds", "kwok/apis/crds"];

/// The folder that holds it, or will after a build.
#[derive(Debug, Clone)]
pub struct Karpenter {
    folder: PathBuf,
}

impl Karpenter {
    /// The cache folder of this version.
    pub fn locate() -> Result<Self> {
        Ok(Self {
            folder: super::cache()?.join(format!("{NAME}-{VERSION}")),
        })
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it has been built. The folder appears as a whole.
    pub fn is_there(&self) -> bool {
        self.binary().is_file()
    }

    /// The program.
    pub fn binary(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// The files that define its kinds.
    pub fn kinds(&self) -> Result<Vec<PathBuf>> {
        definitions(&self.folder.join("crds"))
    }

    /// Builds it, if it is not there.
    pub fn ensure(&self) -> Result<Outcome> {
        if self.is_there() {
            return Ok(Outcome::Present);
        }
        build::require_go()?;
        let parent = self
            .folder
            .parent()
            .context("the cache folder has no parent")?;
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        let workshop = tempfile::Builder::new()
            .prefix("build-")
            .tempdir_in(parent)?;
        let recipe = Recipe::Module {
            module: NAME,
            package: format!("{MODULE}/kwok"),
            output: workshop.path().join(NAME),
            // It names itself by this in the audit log.
            stamp: format!(" -X {MODULE}/pkg/operator.Version={VERSION}"),
        };
        build::run(recipe, workshop.path()).with_context(|| format!("building {NAME}"))?;
        copy_kinds(
            &build::sources(NAME, MODULE)?,
            &workshop.path().join("crds"),
        )?;
        let made = workshop.keep();
        if let Err(error) = fs::rename(&made, &self.folder) {
            drop(fs::remove_dir_all(&made));
            // Another builder may have been faster; what it made is as good.
            if !self.is_there() {
                return Err(error).with_context(|| format!("making {}", self.folder.display()));
            }
        }
        Ok(Outcome::Built(vec![NAME]))
    }
}

fn copy_kinds(sources: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for folder in KINDS {
        for file in definitions(&sources.join(folder))? {
            let name = file.file_name().context("a file has a name")?;
            // The module cache is read-only, and copies of its files would be too.
            let text = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
            fs::write(to.join(name), text)?;
        }
    }
    Ok(())
}

/// The definitions in a folder, in order of their names. None at all is an error.
fn definitions(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "yaml") {
            files.push(path);
        }
    }
    if files.is_empty() {
        bail!("{} holds no definition of a kind", folder.display());
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_folder_is_its_own_and_names_the_version() {
        let karpenter = Karpenter::locate().unwrap();
        assert!(karpenter.folder().ends_with("karpenter-1.14.0"));
        let others = crate::binaries::Binaries::locate().unwrap();
        assert_ne!(karpenter.folder(), others.folder());
    }

    #[test]
    fn kinds_of_both_folders_are_copied_and_nothing_else() {
        let sources = tempfile::tempdir().unwrap();
        for (folder, file) in [(0, "b.yaml"), (0, "a.yaml"), (0, "notes.md"), (1, "c.yaml")] {
            let folder = sources.path().join(KINDS.get(folder).unwrap());
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(file), file).unwrap();
        }
        let to = sources.path().join("to");
        copy_kinds(sources.path(), &to).unwrap();
        let names: Vec<PathBuf> = ["a.yaml", "b.yaml", "c.yaml"].map(|it| to.join(it)).into();
        assert_eq!(definitions(&to).unwrap(), names);
    }

    #[test]
    fn sources_without_kinds_are_an_error_that_names_the_folder() {
        let sources = tempfile::tempdir().unwrap();
        for folder in KINDS {
            fs::create_dir_all(sources.path().join(folder)).unwrap();
        }
        let error = copy_kinds(sources.path(), &sources.path().join("to")).unwrap_err();
        assert!(error.to_string().contains(KINDS[0]), "{error}");
    }
}
