//! Questions to programs that know the repository: cargo and git.
//!
//! Owns the way they are called. Must not interpret the answers.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use serde::de::DeserializeOwned;

use crate::Error;

/// Standard output of `program`, which must succeed.
pub(crate) fn output(root: &Path, program: OsString, arguments: &[&str]) -> Result<String, Error> {
    let name = format!("{} {}", program.to_string_lossy(), arguments.join(" "));
    let failed = |message: String| Error::Program {
        program: name.clone(),
        message,
    };
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Standard output of cargo: the one that runs us, if any.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<String, Error> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    output(root, program, arguments)
}

/// `cargo metadata` with more arguments.
pub(crate) fn metadata<T: DeserializeOwned>(root: &Path, more: &[&str]) -> Result<T, Error> {
    let mut arguments = vec!["metadata", "--format-version", "1"];
    arguments.extend(more);
    Ok(serde_json::from_str(&cargo(root, &arguments)?)?)
}
