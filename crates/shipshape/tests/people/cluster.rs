//! An API server on loopback without actors: objects stay as a test has made them.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use shipshape_cluster::Clock;
use shipshape_simulator::ApiServer;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::JoinHandle;

/// Far longer than any command takes.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster, a way to it, and the commands that are tried on it.
pub(crate) struct Cluster {
    pub(crate) api: ApiServer,
    folder: tempfile::TempDir,
    serving: JoinHandle<std::io::Result<()>>,
}

/// What a command came to.
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) complaint: String,
}

impl Cluster {
    /// One with the kinds and the namespace of the operator.
    pub(crate) async fn start() -> Self {
        let cluster = Self::bare().await;
        let crds = Api::all(cluster.client());
        for crd in shipshape_api::crds() {
            crds.create(&PostParams::default(), &crd).await.unwrap();
        }
        cluster
            .create(json!({ "apiVersion": "v1", "kind": "Namespace",
                            "metadata": { "name": "shipshape-system" } }))
            .await;
        cluster
    }

    /// One that does not know the kinds.
    pub(crate) async fn bare() -> Self {
        let api = ApiServer::new(Clock::System);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(api.clone().serve(listener));
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{address}") } }],
            "users": [{ "name": "u", "user": {} }],
            "contexts": [{ "name": "here",
                           "context": { "cluster": "c", "user": "u", "namespace": "default" } }],
        });
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        Self {
            api,
            folder,
            serving,
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.api.client("test")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Creates an object, with its status if it has one, and gives its UID.
    pub(crate) async fn create(&self, manifest: Value) -> String {
        let object: DynamicObject = serde_json::from_value(manifest.clone()).unwrap();
        let kind = GroupVersionKind::try_from(object.types.clone().unwrap()).unwrap();
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(self.client(), &namespace, &resource),
            None => Api::all_with(self.client(), &resource),
        };
        let made = api.create(&PostParams::default(), &object).await.unwrap();
        if let Some(status) = manifest.get("status") {
            let patch = Patch::Merge(json!({ "status": status }));
            let params = PatchParams::default();
            let written = api.patch_status(&object.name_any(), &params, &patch).await;
            written.unwrap();
        }
        made.uid().unwrap()
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Answer {
        let child = self
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let ended = tokio::time::timeout(PATIENCE, child.wait_with_output());
        let ended = ended.await.unwrap().unwrap();
        Answer {
            code: ended.status.code(),
            out: String::from_utf8_lossy(&ended.stdout).into_owned(),
            complaint: String::from_utf8_lossy(&ended.stderr).into_owned(),
        }
    }

    /// The binary with the way to this cluster.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shipshape"));
        command
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            // Nobody answers questions.
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
