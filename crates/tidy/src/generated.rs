//! Files that are made from the kinds: definitions to install, reference to read.
//!
//! Owns which file holds what. `cargo xtask crds` writes them; a stale one is a finding.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use shipshape_api::render;

use crate::{Error, Finding};

const CRDS: &str = "deploy/crds";
const REFERENCE: &str = "docs/reference.md";
const REMEDY: &str = "run `cargo xtask crds`";

/// Every generated file: path from the root, and content.
fn expected() -> Result<BTreeMap<String, String>, Error> {
    let mut files = BTreeMap::from([(REFERENCE.to_owned(), render::reference())]);
    for (name, text) in render::crd_files()? {
        files.insert(format!("{CRDS}/{name}"), text);
    }
    Ok(files)
}

/// Generated files that are missing, differ from their source, or have none.
pub fn stale(root: &Path) -> Result<Vec<Finding>, Error> {
    let expected = expected()?;
    let mut findings = Vec::new();
    for (path, text) in &expected {
        match fs::read_to_string(root.join(path)) {
            Ok(found) if found == *text => {}
            Ok(_) => findings.push(Finding::new(path, format!("is stale: {REMEDY}"))),
            Err(_) => findings.push(Finding::new(path, format!("cannot be read: {REMEDY}"))),
        }
    }
    for path in present(root)?
        .into_iter()
        .filter(|path| !expected.contains_key(path))
    {
        findings.push(Finding::new(path, "belongs to no kind: remove it"));
    }
    Ok(findings)
}

/// Writes every generated file; says how many there are.
pub fn write(root: &Path) -> Result<usize, Error> {
    let expected = expected()?;
    for (path, text) in &expected {
        let path = root.join(path);
        let failed = |source| Error::File {
            path: path.clone(),
            source,
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::write(&path, text).map_err(failed)?;
    }
    Ok(expected.len())
}

/// What is in the folder of definitions now.
fn present(root: &Path) -> Result<Vec<String>, Error> {
    let folder = root.join(CRDS);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let failed = |source| Error::File {
        path: folder.clone(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        names.push(format!("{CRDS}/{}", name.to_string_lossy()));
    }
    names.sort();
    Ok(names)
}
