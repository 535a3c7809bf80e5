//! A kubeconfig for the demo's cluster.
//!
//! Owns one file. The cluster asks for no credentials and answers on loopback only.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Writes the file and says where it is.
pub(super) fn write(wanted: Option<&Path>, server: SocketAddr) -> anyhow::Result<PathBuf> {
    let path = wanted.map_or_else(
        || std::env::temp_dir().join(format!("shipshape-demo-{}.kubeconfig", std::process::id())),
        Path::to_path_buf,
    );
    // Whoever is told of it may stand in another folder.
    let path = std::path::absolute(&path).unwrap_or(path);
    let text = format!(
        "apiVersion: v1
kind: Config
current-context: shipshape-demo
clusters:
  - name: shipshape-demo
    cluster: {{ server: \"http://{server}\" }}
users:
  - name: demo
    user: {{}}
contexts:
  - name: shipshape-demo
    context: {{ cluster: shipshape-demo, user: demo, namespace: default }}
"
    );
    std::fs::write(&path, text)
        .with_context(|| format!("cannot write the kubeconfig {}", path.display()))?;
    Ok(path)
}
