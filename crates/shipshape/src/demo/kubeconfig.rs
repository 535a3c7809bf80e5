//! A kubeconfig for the demo's cluster.
//!
//! Owns one file, from its first line to its end: it goes with the cluster that it leads to, as the entries
//! of kind and minikube do. Must not write over what somebody else has written, nor take it away. A lock
//! of the system tells a file of a demo at work from one that a killed demo has left.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{Read, Seek, Write};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use kube::config::Kubeconfig;

use crate::output::complain;

/// What the cluster, and the way to it, are called.
const NAME: &str = "shipshape-demo";

/// The file, while the cluster lives.
#[derive(Debug)]
pub(super) struct KubeconfigFile {
    path: PathBuf,
    /// Holds the lock. `None` where what was named is no ordinary file, such as `/dev/stdout`.
    file: Option<File>,
}

impl KubeconfigFile {
    /// Writes the file, unless somebody else needs what is there.
    pub(super) fn write(wanted: Option<&Path>, server: SocketAddr) -> anyhow::Result<Self> {
        let path = wanted.map_or_else(own_path, Path::to_path_buf);
        // Whoever is told of it may stand in another folder.
        let path = std::path::absolute(&path).unwrap_or(path);
        let cannot = || format!("cannot write the kubeconfig {}", path.display());
        if fs::metadata(&path).is_ok_and(|is| !is.is_file() && !is.is_dir()) {
            fs::write(&path, text(server)).with_context(cannot)?;
            return Ok(Self { path, file: None });
        }
        let mut file = locked(&path)?;
        let mut there = String::new();
        // What is no text is nothing of ours either.
        let is_text = file.read_to_string(&mut there).is_ok();
        anyhow::ensure!(
            is_text && is_ours(&there),
            "--kubeconfig {} exists, and the demo has not written it; {}",
            path.display(),
            other_path()
        );
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text(server).as_bytes()))
            .with_context(cannot)?;
        let file = Some(file);
        Ok(Self { path, file })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the file away, if it is still the one that was written and nobody has put more into it.
    fn remove(&self) {
        let Some(file) = &self.file else { return };
        if !is_at(file, &self.path) {
            return;
        }
        let path = self.path.display();
        if !fs::read_to_string(&self.path).is_ok_and(|text| is_ours(&text)) {
            complain(&format!("{path} stays: somebody has put more into it"));
        } else if let Err(error) = fs::remove_file(&self.path) {
            complain(&format!("cannot remove the kubeconfig {path}: {error}"));
        }
    }
}

impl Drop for KubeconfigFile {
    fn drop(&mut self) {
        self.remove();
    }
}

fn own_path() -> PathBuf {
    std::env::temp_dir().join(format!("{NAME}-{}.kubeconfig", std::process::id()))
}

fn other_path() -> String {
    format!(
        "name another file, or leave --kubeconfig away for one of its own in {}",
        std::env::temp_dir().display()
    )
}

/// The file, with the lock that says that a demo uses it.
fn locked(path: &Path) -> anyhow::Result<File> {
    loop {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .with_context(|| format!("cannot write the kubeconfig {}", path.display()))?;
        match file.try_lock() {
            // Another demo may have taken its file away between the two calls.
            Ok(()) if !is_at(&file, path) => {}
            // A file system without locks knows no other demo either.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(file),
            Err(TryLockError::WouldBlock) => anyhow::bail!(
                "--kubeconfig {} leads to the cluster of another demo, which is still running; {}",
                path.display(),
                other_path()
            ),
        }
    }
}

/// Whether the path still leads to the file.
fn is_at(file: &File, path: &Path) -> bool {
    let key = |is: Metadata| (is.dev(), is.ino());
    let (open, named) = (file.metadata().map(key), fs::metadata(path).map(key));
    matches!((open, named), (Ok(open), Ok(named)) if open == named)
}

/// Whether nothing would be lost with this text: it is empty, or knows no cluster but a demo's. Its user may
/// have changed it by kubectl, for example to another namespace.
fn is_ours(text: &str) -> bool {
    if text.trim().is_empty() {
        return true;
    }
    Kubeconfig::from_yaml(text).is_ok_and(|it| {
        !it.clusters.is_empty() && it.clusters.iter().all(|cluster| cluster.name == NAME)
    })
}

fn text(server: SocketAddr) -> String {
    format!(
        "# Leads to the cluster of a running `shipshape demo`, and goes with it.
apiVersion: v1
kind: Config
current-context: {NAME}
clusters:
  - name: {NAME}
    cluster: {{ server: \"http://{server}\" }}
users:
  - name: demo
    user: {{}}
contexts:
  - name: {NAME}
    context: {{ cluster: {NAME}, user: demo, namespace: default }}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(path: &Path) -> anyhow::Result<KubeconfigFile> {
        KubeconfigFile::write(Some(path), "127.0.0.1:1".parse().unwrap())
    }

    fn refusal(path: &Path) -> String {
        written(path).unwrap_err().to_string()
    }

    #[test]
    fn the_file_goes_with_its_demo_and_is_nobody_elses_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let first = written(&path).unwrap();
        let before = fs::read_to_string(&path).unwrap();
        let told = refusal(&path);
        assert!(
            told.contains("another demo, which is still running"),
            "{told}"
        );
        assert!(told.contains("name another file"), "{told}");
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_demo_or_mktemp_has_left_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        for left in ["", &text("127.0.0.1:2".parse().unwrap())] {
            fs::write(&path, left).unwrap();
            let file = written(&path).unwrap();
            let now = fs::read_to_string(&path).unwrap();
            assert!(now.contains("127.0.0.1:1\""), "{now}");
            assert!(!now.contains("127.0.0.1:2\""), "{now}");
            drop(file);
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_file_of_somebody_else_is_neither_written_over_nor_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let theirs = text("127.0.0.1:2".parse().unwrap()).replace(NAME, "production");
        for text in [theirs.as_str(), "a shopping list", "{}"] {
            fs::write(&path, text).unwrap();
            let told = refusal(&path);
            assert!(told.contains("the demo has not written it"), "{told}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        fs::remove_file(&path).unwrap();
        let file = written(&path).unwrap();
        fs::write(&path, &theirs).unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), theirs);
    }
}
