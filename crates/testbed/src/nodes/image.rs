//! An image of our own binary, with the libraries that it is linked with and nothing else.
//!
//! Owns the folder that is packed. Called by tests with real pods.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::bench::worker::image::libraries;
use crate::binaries::nodes::{REPOSITORY, script};

/// The tag that it gets.
pub const TAG: &str = "test";
const NAME: &str = "shipshape";

/// Its name without the tag.
pub fn repository() -> String {
    format!("{REPOSITORY}/{NAME}")
}

/// Packs the binary in a folder; returns the archive.
pub fn pack(binary: &Path, folder: &Path) -> Result<PathBuf> {
    let root = folder.join("image");
    let program = root.join("usr/local/bin").join(NAME);
    fs::create_dir_all(program.parent().context("it has a folder")?)?;
    // What a debugger would need is most of a debug build.
    let status = Command::new("strip")
        .arg("-o")
        .arg(&program)
        .arg(binary)
        .status()
        .context("starting strip")?;
    ensure!(status.success(), "strip: {status}");
    for library in libraries(binary)? {
        let to = root.join(library.strip_prefix("/")?);
        fs::create_dir_all(to.parent().context("it has a folder")?)?;
        fs::copy(&library, to).with_context(|| format!("copying {}", library.display()))?;
    }
    let archive = folder.join(format!("{NAME}.tar"));
    let reference = format!("{}:{TAG}", repository());
    let entrypoint = Path::new("/usr/local/bin").join(NAME);
    script(
        "image.sh",
        &[&archive, Path::new(&reference), &root, &entrypoint],
    )?;
    Ok(archive)
}
