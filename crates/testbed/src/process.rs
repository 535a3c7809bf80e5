//! One child process of the testbed, with its log file.
//!
//! Owns start, death check and end. A child is killed by its own handle when the value is
//! dropped, also while a panic unwinds. Called by the harness alone.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// A running child.
pub(crate) struct Daemon {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `binary` with `flags`; both output streams go to `<folder>/<name>.log`.
    pub(crate) fn start(
        name: &'static str,
        binary: &Path,
        flags: &[String],
        folder: &Path,
    ) -> Result<Self> {
        Self::start_with(name, binary, flags, &[], folder)
    }

    /// As `start`, with variables of its environment that differ from ours.
    pub(crate) fn start_with(
        name: &'static str,
        binary: &Path,
        flags: &[String],
        variables: &[(&str, String)],
        folder: &Path,
    ) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let child = Command::new(binary)
            .args(flags)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        Ok(Self { name, child, log })
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The name given at start.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// How it ended, when it has.
    pub(crate) fn ending(&mut self) -> Result<Option<String>> {
        Ok(self.child.try_wait()?.map(|status| status.to_string()))
    }

    /// The last lines of its log, for an error message.
    pub(crate) fn last_words(&self, lines: usize) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let all: Vec<&str> = text.lines().collect();
        let tail = all
            .get(all.len().saturating_sub(lines)..)
            .unwrap_or_default();
        format!("last lines of {}:\n{}", self.name, tail.join("\n"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // An error here means that it is gone already, which is what we want.
        if self.child.kill().is_ok() {
            drop(self.child.wait());
        }
    }
}
