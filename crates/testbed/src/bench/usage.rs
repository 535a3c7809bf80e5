//! What a process has used, as the kernel counts it.
//!
//! Owns the reading of `/proc`. Must not start or stop anything. Called by the benchmarks.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// The kernel counts a process's time in hundredths of a second on every architecture that we run on.
const TICKS_PER_SECOND: u64 = 100;

/// One process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process(pub(super) u32);

impl Process {
    /// This one.
    pub(super) fn own() -> Self {
        Self(std::process::id())
    }

    /// Time on a processor since its start, in user and kernel mode.
    pub(super) fn cpu(self) -> Result<Duration> {
        let text = self.read("stat")?;
        // The name of the program stands in brackets and may hold anything.
        let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let field = |place: usize| rest.split(' ').nth(place)?.parse::<u64>().ok();
        let (user, kernel) = (field(11).context("utime")?, field(12).context("stime")?);
        Ok(Duration::from_millis(
            (user + kernel) * (1000 / TICKS_PER_SECOND),
        ))
    }

    /// Memory that is resident now, in bytes.
    pub(super) fn resident(self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// The most memory that was resident since the start or the last `reset_peak`, in bytes.
    pub(super) fn peak(self) -> Result<u64> {
        self.memory("VmHWM:")
    }

    /// Forgets the peak.
    pub(super) fn reset_peak(self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.0);
        fs::write(&path, "5").with_context(|| format!("writing {path}"))
    }

    fn memory(self, key: &str) -> Result<u64> {
        let text = self.read("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let kilobytes = line.and_then(|line| line.split_whitespace().next());
        let kilobytes: u64 = kilobytes.context("no such line")?.parse()?;
        Ok(kilobytes * 1024)
    }

    fn read(self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.0);
        fs::read_to_string(&path).with_context(|| format!("reading {path}"))
    }
}

/// Megabytes of a million bytes, as goals are written in.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", as_f64(bytes) / 1e6)
}

/// A count as a number to divide by.
#[expect(
    clippy::cast_precision_loss,
    reason = "figures are printed with three digits"
)]
pub(super) fn as_f64(count: u64) -> f64 {
    count as f64
}

/// The machine in one line: cores, kernel and load, for whoever compares results.
pub(super) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let kernel: Vec<&str> = kernel.trim().split('.').take(2).collect();
    format!(
        "{cores} cores, Linux {}, load {} (1 min)",
        kernel.join("."),
        load()
    )
}

/// The machine's load over the last minute.
pub(super) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_has_used_time_and_memory() {
        let own = Process::own();
        assert!(own.resident().unwrap() > 1_000_000);
        assert!(own.peak().unwrap() >= own.resident().unwrap() / 2);
        own.cpu().unwrap();
    }
}
