//! The manifests of `examples/` as sequences: all admitted, and their bad twins all refused.
//!
//! Owns the way from a manifest to a request. Called by the fixed sequences.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::script::{Sequence, parse};

/// One sequence for the good manifests, one for the bad ones.
pub(crate) fn sequences() -> Result<Vec<Sequence>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut text = String::new();
    for (title, folder) in [
        ("admitted", folder.clone()),
        ("refused", folder.join("refused")),
    ] {
        text.push_str(&format!("== {title}\n\n"));
        for file in manifests(&folder)? {
            text.push_str(&request(&file).with_context(|| file.display().to_string())?);
        }
    }
    parse(&text, "examples")
}

fn manifests(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The create of a manifest, in the sequence's own namespace.
fn request(file: &Path) -> Result<String> {
    let mut manifest: Value = serde_saphyr::from_str(&fs::read_to_string(file)?)?;
    let kind = manifest
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let definition = shipshape_api::crds()
        .into_iter()
        .find(|definition| definition.spec.names.kind == kind)
        .with_context(|| format!("no kind {kind}"))?;
    let plural = &definition.spec.names.plural;
    let place = if definition.spec.scope == "Namespaced" {
        "/namespaces/$ns"
    } else {
        ""
    };
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("namespace");
    }
    Ok(format!(
        "POST /apis/shipshape.dev/v1alpha1{place}/{plural}\n{manifest}\n\n"
    ))
}
