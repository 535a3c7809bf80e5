//! What an image with the binary weighs: the binary, what it is linked with, packed as registries keep layers.
//!
//! Owns the calls of `ldd`, `tar`, `gzip` and `zstd`. Makes no image: that of tests with real pods is made by `nodes::image`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Sizes in bytes.
pub(super) struct Image {
    pub(super) binary: u64,
    /// By how it is packed; nothing where the tool is missing.
    pub(super) packed: Vec<(String, Option<u64>)>,
    /// What is in it, for people.
    pub(super) contents: String,
}

/// Packs binary and libraries in a folder.
pub(super) fn weigh(binary: &Path, folder: &Path) -> Result<Image> {
    let libraries = libraries(binary)?;
    let layer = folder.join("layer.tar");
    let status = Command::new("tar")
        .args(["--create", "--dereference", "--absolute-names", "--file"])
        .arg(&layer)
        .arg(binary)
        .args(&libraries)
        .status()
        .context("starting tar")?;
    ensure!(status.success(), "tar: {status}");
    let mut packed = vec![(
        "image, as it is".to_owned(),
        Some(fs::metadata(&layer)?.len()),
    )];
    for (tool, level) in [("gzip", "-6"), ("zstd", "-3")] {
        packed.push((format!("image, {tool} {level}"), pack(tool, level, &layer)?));
    }
    Ok(Image {
        binary: fs::metadata(binary)?.len(),
        packed,
        contents: format!("an image of the binary and {} libraries", libraries.len()),
    })
}

/// What the loader brings in.
pub(crate) fn libraries(binary: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd")
        .arg(binary)
        .output()
        .context("starting ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    // A line is `name => path (address)` or `path (address)`; one without a path comes from the kernel.
    let paths = text.lines().filter_map(|line| {
        let line = line.rsplit("=> ").next()?.trim();
        let path = line.split(' ').next()?;
        path.starts_with('/').then(|| PathBuf::from(path))
    });
    Ok(paths.collect())
}

fn pack(tool: &str, level: &str, layer: &Path) -> Result<Option<u64>> {
    let into = layer.with_extension(tool);
    let child = Command::new(tool)
        .args([level, "--stdout"])
        .arg(layer)
        .stdout(fs::File::create(&into)?)
        .stderr(Stdio::null())
        .status();
    match child {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("starting {tool}")),
        Ok(status) => {
            ensure!(status.success(), "{tool}: {status}");
            Ok(Some(fs::metadata(&into)?.len()))
        }
    }
}
