//! A real kubectl says the same of the embedded cluster as of a real one.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use shipshape_cluster::Clock;
use shipshape_simulator::ApiServer;
use shipshape_testbed::binaries::Binaries;
use shipshape_testbed::{ControlPlane, Options};
use tokio::net::TcpListener;

/// A node, a pod on it that is up, and a budget that lets nothing go.
const OBJECTS: &str = r#"[
  {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"team": "blue"}},
   "spec": {"providerID": "embedded:///a/n1"}},
  {"apiVersion": "v1", "kind": "Pod",
   "metadata": {"name": "web-1", "namespace": "default", "labels": {"app": "web"},
     "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
       "uid": "00000000-0000-0000-0000-000000000001", "controller": true}]},
   "spec": {"nodeName": "n1", "terminationGracePeriodSeconds": 0,
     "containers": [{"name": "main", "image": "registry.example/web:1"}]}},
  {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"},
   "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}},
     "template": {"metadata": {"labels": {"app": "web"}},
       "spec": {"containers": [{"name": "main", "image": "registry.example/web:1"}]}}}},
  {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
   "metadata": {"name": "web", "namespace": "default"},
   "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}},
  {"apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchRun",
   "metadata": {"name": "january", "namespace": "default"},
   "spec": {"provider": {"type": "embedded"}}}
]"#;

const POD_STATUS: &str = r#"{"status": {"phase": "Running", "conditions": [
  {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"#;
const NODE_STATUS: &str = r#"{"status": {"conditions": [
  {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "up",
   "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"#;
/// A budget that nobody has counted yet is answered with "come back in ten seconds", and kubectl does
/// so ten times before it says a word.
const BUDGET_STATUS: &str = r#"{"status": {"observedGeneration": 1, "disruptionsAllowed": 0,
  "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}}"#;
const RUN_STATUS: &str = r#"{"status": {"total": 3, "completed": 1, "conditions": [
  {"type": "Accepted", "status": "True", "reason": "Supported", "message": "yes",
   "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"#;

/// What is asked of both worlds, in this order; `CRDS` and `OBJECTS` stand for files.
const COMMANDS: &[&[&str]] = &[
    &["apply", "--server-side", "-f", "CRDS"],
    &[
        "wait",
        "--for=condition=Established",
        "crd/nodepatchruns.shipshape.dev",
        "--timeout=20s",
    ],
    &["apply", "-f", "OBJECTS"],
    &["apply", "-f", "OBJECTS"],
    &[
        "patch",
        "pod",
        "web-1",
        "--subresource=status",
        "--type=merge",
        "-p",
        POD_STATUS,
    ],
    &[
        "patch",
        "node",
        "n1",
        "--subresource=status",
        "--type=merge",
        "-p",
        NODE_STATUS,
    ],
    &[
        "patch",
        "pdb",
        "web",
        "--subresource=status",
        "--type=merge",
        "-p",
        BUDGET_STATUS,
    ],
    &[
        "patch",
        "npr",
        "january",
        "--subresource=status",
        "--type=merge",
        "-p",
        RUN_STATUS,
    ],
    &["get", "nodes,npr,npt", "-o", "wide"],
    &["get", "pods,pdb,rs"],
    &["describe", "node", "n1"],
    &["describe", "npr", "january"],
    &["describe", "pod", "web-1"],
    &["explain", "npr.spec"],
    &["explain", "npt.status.step"],
    &["label", "node", "n1", "team=red"],
    &["label", "node", "n1", "team=red", "--overwrite"],
    &["apply", "--server-side", "-f", "OBJECTS"],
    &[
        "apply",
        "--server-side",
        "--force-conflicts",
        "-f",
        "OBJECTS",
    ],
    &["cordon", "n1"],
    &["cordon", "n1"],
    &["uncordon", "n1"],
    &["drain", "n1", "--timeout=2s"],
    &["uncordon", "n1"],
    &["wait", "--for=condition=Ready", "node/n1", "--timeout=5s"],
    &[
        "wait",
        "--for=condition=Accepted",
        "npr/january",
        "--timeout=5s",
    ],
    &[
        "wait",
        "--for=condition=Completed",
        "npr/january",
        "--timeout=1s",
    ],
    &["get", "npr", "-w", "--request-timeout=2s"],
    &["get", "npr", "february"],
    &["delete", "npr", "january"],
    &["delete", "-f", "OBJECTS"],
];

struct World<'a> {
    kubectl: &'a Path,
    kubeconfig: &'a Path,
    folder: &'a Path,
    /// Discovery documents are kept here and must not be shared between the worlds.
    home: &'static str,
}

impl World<'_> {
    /// Runs all commands, one after the other.
    fn say_all(&self) -> Vec<String> {
        COMMANDS.iter().map(|command| self.say(command)).collect()
    }

    /// Runs kubectl and gives its code and everything it printed.
    fn say(&self, arguments: &[&str]) -> String {
        let arguments = arguments.iter().map(|word| match *word {
            file @ ("CRDS" | "OBJECTS") => self.folder.join(file).display().to_string(),
            word => word.to_owned(),
        });
        let output = Command::new(self.kubectl)
            .env_clear()
            .env("HOME", self.folder.join(self.home))
            .env("KUBECONFIG", self.kubeconfig)
            .args(arguments)
            .output()
            .unwrap();
        let code = output.status.code().unwrap_or(-1);
        let out = String::from_utf8_lossy(&output.stdout);
        let err = String::from_utf8_lossy(&output.stderr);
        cleaned(&format!("{out}--\n{err}--\ncode {code}\n"))
    }
}

/// One document an object.
fn documents(objects: &Value) -> String {
    let objects = objects.as_array().unwrap().iter();
    let documents: Vec<String> = objects.map(Value::to_string).collect();
    documents.join("\n---\n")
}

/// One document that holds all.
fn list(objects: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string()
}

/// Without ages, times, uids, resource versions and the width of columns.
fn cleaned(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().map(word).collect();
        match words.first() {
            Some(&"Resource") if words.get(1) == Some(&"Version:") => "Resource Version: N".into(),
            Some(&"CreationTimestamp:" | &"Start") => "TIME".into(),
            Some(_) | None => words.join(" "),
        }
    });
    lines.collect::<Vec<String>>().join("\n")
}

fn word(word: &str) -> &str {
    let is_age = word.len() > 1
        && word.starts_with(|first: char| first.is_ascii_digit())
        && word
            .chars()
            .all(|one| one.is_ascii_digit() || "smhd".contains(one))
        && word.ends_with(['s', 'm', 'h', 'd']);
    let is_uid = word.len() == 36 && word.chars().filter(|one| *one == '-').count() == 4;
    let is_time = word.len() >= 20 && word.starts_with("20") && word.ends_with('Z');
    if is_age {
        "AGE"
    } else if is_uid {
        "UID"
    } else if is_time {
        "TIME"
    } else {
        word
    }
}

/// Starts the embedded cluster on loopback and writes its kubeconfig.
async fn serve(kubeconfig: &Path) -> tokio::task::JoinHandle<std::io::Result<()>> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = format!(
        r#"{{"apiVersion": "v1", "kind": "Config", "current-context": "e",
          "clusters": [{{"name": "e", "cluster": {{"server": "http://{address}"}}}}],
          "users": [{{"name": "e", "user": {{}}}}],
          "contexts": [{{"name": "e", "context": {{"cluster": "e", "user": "e"}}}}]}}"#
    );
    std::fs::write(kubeconfig, config).unwrap();
    tokio::spawn(ApiServer::new(Clock::System).serve(listener))
}

/// Writes the files that the commands name, and a home for each world.
fn prepare(folder: &Path) {
    let crds = documents(&json!(shipshape_api::crds()));
    std::fs::write(folder.join("CRDS"), crds).unwrap();
    let objects: Value = serde_json::from_str(OBJECTS).unwrap();
    std::fs::write(folder.join("OBJECTS"), list(&objects)).unwrap();
    for home in ["home-embedded", "home-real"] {
        std::fs::create_dir(folder.join(home)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_says_the_same_of_both_worlds() {
    let options = Options {
        controllers: false,
        ..Options::default()
    };
    let plane = ControlPlane::start(options).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let embedded = folder.path().join("embedded");
    let serving = serve(&embedded).await;
    let kubectl = Binaries::locate().unwrap().path("kubectl").unwrap();
    let world = |kubeconfig, home| World {
        kubectl: &kubectl,
        kubeconfig,
        folder: folder.path(),
        home,
    };
    let left = world(embedded.as_path(), "home-embedded");
    let right = world(plane.kubeconfig(), "home-real");
    // Each world waits in its own thread: most of the time goes to commands that must not succeed.
    let (ones, others) = std::thread::scope(|scope| {
        let (left, right) = (
            scope.spawn(|| left.say_all()),
            scope.spawn(|| right.say_all()),
        );
        (left.join().unwrap(), right.join().unwrap())
    });
    let mut differing = Vec::new();
    for (command, (one, other)) in COMMANDS.iter().zip(ones.iter().zip(&others)) {
        if one != other {
            let name = command.join(" ");
            differing.push(format!(
                "kubectl {name}\nembedded:\n{one}\nreal:\n{other}\n"
            ));
        }
    }
    serving.abort();
    let (count, all) = (differing.len(), COMMANDS.len());
    assert!(
        differing.is_empty(),
        "{count} of {all} differ:\n{}",
        differing.join("\n")
    );
}
