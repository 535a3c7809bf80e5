//! `shipshape release-nodes`: lets all nodes go when the gate is taken away.
//!
//! Owns the asking, the order of steps and the words. Taints go first, by key and effect, each by a write that
//! holds only if nobody wrote in between; records and pods of the gate follow. Asked twice, the second time
//! changes nothing. Must not touch any other taint, machine or pod.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde::Serialize;
use shipshape_api::{PendingNode, names};
use shipshape_cluster::error::{ErrorClass, in_full};
use shipshape_cluster::node::{Live, Nodes, carries, without_gate};
use shipshape_cluster::pending::PendingNodes;
use shipshape_cluster::worker::Workers;
use shipshape_engine::decision::PodTarget;
use shipshape_engine::verify::settings::GateSettings;

use crate::cli::{Format, ReleaseOptions};
use crate::config::Config;
use crate::connect::Cluster;
use crate::failure::Failure;
use crate::output::{complain, say};

/// How often a write is tried that others got in the way of.
const TRIES: usize = 8;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(250);

/// What there is to let go.
struct Scene {
    nodes: Vec<Node>,
    records: Vec<PendingNode>,
    pods: Vec<Pod>,
}

/// What was done, or would be.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    dry_run: bool,
    taints: Vec<String>,
    nodes: Vec<String>,
    pending_nodes: Vec<String>,
    pods: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<String>,
}

pub(crate) fn run(options: &ReleaseOptions) -> anyhow::Result<ExitCode> {
    let taints = taints(options)?;
    crate::block_on(async {
        let cluster = Cluster::connect(&options.cluster).await?;
        let scene = look(&cluster, &taints).await?;
        let is_nothing =
            scene.nodes.is_empty() && scene.records.is_empty() && scene.pods.is_empty();
        if !options.dry_run && !is_nothing && !is_wanted(options, &scene, &taints)? {
            return Err(Failure::Refused("nothing was changed".to_owned()).into());
        }
        let done = if options.dry_run {
            Done {
                dry_run: true,
                taints: taints.iter().map(written).collect(),
                nodes: scene.nodes.iter().map(ResourceExt::name_any).collect(),
                pending_nodes: scene.records.iter().map(ResourceExt::name_any).collect(),
                pods: scene.pods.iter().map(pod_name).collect(),
                failures: Vec::new(),
            }
        } else {
            release(&cluster, &scene, &taints).await
        };
        match options.output {
            Format::Text => say(&words(&done))?,
            Format::Json => say(&format!("{}\n", serde_json::to_string(&done)?))?,
        };
        for failure in &done.failures {
            complain(failure);
        }
        Ok(ExitCode::from(u8::from(!done.failures.is_empty())))
    })
}

/// The taints of the gate: as told, as in the controller's file, or the usual one.
fn taints(options: &ReleaseOptions) -> Result<Vec<Taint>, Failure> {
    if !options.taints.is_empty() {
        return Ok(options.taints.clone());
    }
    let Some(path) = &options.config else {
        return Ok(GateSettings::default().node_management.taints);
    };
    let config = Config::load(Some(path));
    let config = config.map_err(|wrong| Failure::WrongInput(format!("{wrong:#}")))?;
    let gate = config.gate().ok_or_else(|| {
        Failure::WrongInput(format!(
            "{} has no worker block, so it names no gate; name its taint instead: --taint KEY:EFFECT",
            path.display()
        ))
    })?;
    Ok(gate.node_management.taints)
}

async fn look(cluster: &Cluster, taints: &[Taint]) -> Result<Scene, Failure> {
    let nodes: Vec<Node> = cluster.all().await?;
    let records: Vec<PendingNode> = match cluster.all().await {
        // The kinds may be gone already; the taints are what matters.
        Err(Failure::NoKinds { .. }) => Vec::new(),
        other => other?,
    };
    let api: Api<Pod> = Api::all(cluster.client.clone());
    let params = ListParams::default().labels(names::LABEL_WORKER);
    let pods = api.list(&params).await;
    let pods = pods.map_err(|error| cluster.failure("list pods", &error))?;
    let is_worker = |pod: &Pod| pod.name_any().starts_with(names::WORKER_PREFIX);
    Ok(Scene {
        nodes: nodes
            .into_iter()
            .filter(|node| carries(node, taints))
            .collect(),
        records: records
            .into_iter()
            .filter(|one| one.spec.node_uid.is_some())
            .collect(),
        pods: pods.items.into_iter().filter(is_worker).collect(),
    })
}

/// Asks whoever sits in front, unless that was said beforehand.
fn is_wanted(options: &ReleaseOptions, scene: &Scene, taints: &[Taint]) -> Result<bool, Failure> {
    if options.yes {
        return Ok(true);
    }
    let taints: Vec<String> = taints.iter().map(written).collect();
    let question = format!(
        "{} node(s) lose the taint {} and take any pod, verified or not; {} PendingNode(s) and {} pod(s) of the gate are deleted",
        scene.nodes.len(),
        taints.join(", "),
        scene.records.len(),
        scene.pods.len()
    );
    if !io::stdin().is_terminal() {
        return Err(Failure::WrongInput(format!(
            "{question}; say --yes if that is wanted, or --dry-run to see which"
        )));
    }
    let failed = |error: io::Error| Failure::Other {
        action: "ask".to_owned(),
        why: error.to_string(),
    };
    let mut screen = io::stderr().lock();
    write!(screen, "{question}. Go on? [y/N] ").map_err(failed)?;
    screen.flush().map_err(failed)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

async fn release(cluster: &Cluster, scene: &Scene, taints: &[Taint]) -> Done {
    let mut done = Done {
        taints: taints.iter().map(written).collect(),
        ..Done::default()
    };
    let nodes = Nodes::new(cluster.client.clone());
    for node in &scene.nodes {
        match open(&nodes, node, taints).await {
            Ok(true) => done.nodes.push(node.name_any()),
            Ok(false) => {}
            Err(why) => done
                .failures
                .push(format!("node {} keeps its taint: {why}", node.name_any())),
        }
    }
    let pending = PendingNodes::new(cluster.client.clone());
    for record in &scene.records {
        let (name, uid) = (record.name_any(), record.uid().unwrap_or_default());
        match forget(&pending, &name, &uid).await {
            Ok(()) => done.pending_nodes.push(name),
            Err(why) => done
                .failures
                .push(format!("PendingNode {name} stays: {why}")),
        }
    }
    let workers = Workers::new(cluster.client.clone());
    for pod in &scene.pods {
        let target = PodTarget {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
        };
        match workers.delete(&target).await {
            Ok(()) => done.pods.push(pod_name(pod)),
            Err(error) => {
                let why = in_full(&error);
                done.failures
                    .push(format!("pod {} stays: {why}", pod_name(pod)));
            }
        }
    }
    done
}

/// Takes the taints off one node; false when it is gone, or somebody else has done it meanwhile.
async fn open(nodes: &Nodes, node: &Node, taints: &[Taint]) -> Result<bool, String> {
    let (name, uid) = (node.name_any(), node.uid().unwrap_or_default());
    let mut last = String::new();
    for _ in 0..TRIES {
        let live = match nodes.live(&name, &uid).await {
            Ok(Live::Here(live)) if carries(&live, taints) => live,
            Ok(_) => return Ok(false),
            Err(error) => return Err(in_full(&error)),
        };
        match nodes.write(&live, &without_gate(&live, taints)).await {
            Ok(_) => return Ok(true),
            Err(error) if error.class() == ErrorClass::Conflict => last = in_full(&error),
            Err(error) => return Err(in_full(&error)),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(last)
}

async fn forget(pending: &PendingNodes, name: &str, uid: &str) -> Result<(), String> {
    let mut last = String::new();
    for _ in 0..TRIES {
        match pending.forget(name, uid).await {
            Ok(()) => return Ok(()),
            Err(error) if error.class() == ErrorClass::Conflict => last = in_full(&error),
            Err(error) => return Err(in_full(&error)),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(last)
}

fn written(taint: &Taint) -> String {
    format!("{}:{}", taint.key, taint.effect)
}

fn pod_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

fn words(done: &Done) -> String {
    let would = if done.dry_run { "would be" } else { "was" };
    let mut text = String::new();
    let mut row = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    let taints = done.taints.join(", ");
    for node in &done.nodes {
        row(format!("node {node}: {taints} {would} taken off"));
    }
    for name in &done.pending_nodes {
        row(format!("pendingnode {name} {would} deleted"));
    }
    for name in &done.pods {
        row(format!("pod {name} {would} deleted"));
    }
    let is_nothing = done.nodes.is_empty() && done.pending_nodes.is_empty() && done.pods.is_empty();
    if is_nothing && done.failures.is_empty() {
        row(format!(
            "no node carries {taints}, and nothing else of the gate is left"
        ));
    }
    text
}
