//! How much memory pods of a machine have had at most, as the kernel counts it for their cgroups.
//!
//! Owns a task that looks every few milliseconds: the figures go with the pod. They hold what a cgroup is charged for:
//! pages of the program's file that it was first to read, and the runtime that starts it, too. Called by tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Machine;

const PAUSE: Duration = Duration::from_millis(5);
/// The highest figure so far, by the name that the kernel's second and first version of cgroups have for it.
const FILES: [&str; 2] = ["memory.peak", "memory.max_usage_in_bytes"];

/// Highest figures of one pod, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    /// All of its containers together, that of its sandbox too.
    pub pod: u64,
    /// Its largest container.
    pub container: u64,
}

type Seen = Arc<Mutex<BTreeMap<String, Peak>>>;

/// A task that looks, until this is dropped.
pub struct Watch {
    seen: Seen,
    _task: JoinSet<()>,
}

impl Watch {
    /// Begins to look at a machine.
    pub fn start(machine: &Machine) -> Result<Self> {
        let folder = folder_of(machine.keeper())?;
        let seen = Seen::default();
        let mut task = JoinSet::new();
        let to = Arc::clone(&seen);
        task.spawn(async move {
            loop {
                look(&folder, &to);
                sleep(PAUSE).await;
            }
        });
        Ok(Self { seen, _task: task })
    }

    /// What was seen of a pod, by its UID.
    pub fn of(&self, uid: &str) -> Option<Peak> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(uid).copied()
    }
}

/// The cgroup that counts the memory of a process.
fn folder_of(pid: u32) -> Result<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let path_in = |marker: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.split_once(marker).map(|(_, path)| path.to_owned()))
    };
    let root = Path::new("/sys/fs/cgroup");
    if let Some(path) = path_in(":memory:/") {
        return Ok(root.join("memory").join(path));
    }
    let path = path_in("0::/").context("the process has no cgroup for memory")?;
    Ok(root.join(path))
}

/// Looks at all pods below a cgroup. Any of them may go meanwhile.
fn look(folder: &Path, seen: &Seen) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let Some(uid) = uid_of(&name) else {
            look(&path, seen);
            continue;
        };
        let pod = figure(&path).unwrap_or_default();
        let container = fs::read_dir(&path).into_iter().flatten().flatten();
        let container = container.filter_map(|entry| figure(&entry.path())).max();
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let peak = seen.entry(uid).or_default();
        peak.pod = peak.pod.max(pod);
        peak.container = peak.container.max(container.unwrap_or_default());
    }
}

/// The pod's UID, where a cgroup is one of a pod: `kubepods-burstable-podUID.slice`, with `_` for `-`.
fn uid_of(name: &str) -> Option<String> {
    let (_, rest) = name.strip_prefix("kubepods-")?.rsplit_once("pod")?;
    Some(rest.strip_suffix(".slice")?.replace('_', "-")).filter(|uid| uid.len() == 36)
}

fn figure(folder: &Path) -> Option<u64> {
    let mut files = FILES.iter();
    files.find_map(|file| {
        let text = fs::read_to_string(folder.join(file)).ok()?;
        text.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_told_by_its_cgroup() {
        let uid = "0d0e3c4e-7b0f-4c44-9a5e-2d9a1a2f3b4c";
        for class in ["burstable-", "besteffort-", ""] {
            let name = format!("kubepods-{class}pod{}.slice", uid.replace('-', "_"));
            assert_eq!(uid_of(&name).as_deref(), Some(uid), "{name}");
        }
        for name in ["kubepods-burstable.slice", "kubepods.slice", "system.slice"] {
            assert_eq!(uid_of(name), None, "{name}");
        }
    }

    #[test]
    fn the_highest_figure_of_a_pod_and_of_a_container_stays() {
        let folder = tempfile::tempdir().unwrap();
        let uid = "0d0e3c4e-7b0f-4c44-9a5e-2d9a1a2f3b4c";
        let pod = format!("kubepods.slice/kubepods-pod{}.slice", uid.replace('-', "_"));
        let pod = folder.path().join(pod);
        let container = pod.join("cri-containerd-1.scope");
        fs::create_dir_all(&container).unwrap();
        let seen = Seen::default();
        for (of_pod, of_container) in [(3, 2), (9, 5), (4, 4)] {
            fs::write(pod.join(FILES[1]), format!("{of_pod}\n")).unwrap();
            fs::write(container.join(FILES[1]), format!("{of_container}\n")).unwrap();
            look(folder.path(), &seen);
        }
        fs::remove_dir_all(&container).unwrap();
        look(folder.path(), &seen);
        let peak = seen.lock().unwrap().get(uid).copied();
        let wanted = Peak {
            pod: 9,
            container: 5,
        };
        assert_eq!(peak, Some(wanted));
    }
}
