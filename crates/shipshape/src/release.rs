//! `shipshape release-nodes`: lets all nodes go when the gate is taken away.
//!
//! Owns the asking, the order of steps and the words. Taints go first, by key and effect, each by a write that
//! holds only if nobody wrote in between; records and pods of the gate follow. Asked twice, the second time
//! changes nothing. Must not touch any other taint, machine or pod, nor forget nodes that it has not let go.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde::Serialize;
use shipshape_api::{PendingNode, VerificationVerdict, names};
use shipshape_cluster::error::{ErrorClass, in_full};
use shipshape_cluster::node::{Live, Nodes, carries, without_gate};
use shipshape_cluster::pending::PendingNodes;
use shipshape_cluster::worker::Workers;
use shipshape_engine::decision::PodTarget;
use shipshape_engine::verify::settings::{GateSettings, is_foreign_taint};

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
    /// Nodes that wait at a gate, by their records, and carry none of its taints but others, which are named.
    elsewhere: Vec<String>,
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
        if let Some(why) = scene.doubt(&taints) {
            return Err(Failure::Refused(why).into());
        }
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
    let records: Vec<PendingNode> = records
        .into_iter()
        .filter(|one| one.spec.node_uid.is_some())
        .collect();
    let (tainted, others) = nodes.into_iter().partition(|node| carries(node, taints));
    Ok(Scene {
        nodes: tainted,
        elsewhere: elsewhere(&others, &records),
        records,
        pods: pods.items.into_iter().filter(is_worker).collect(),
    })
}

impl Scene {
    /// Why the taints are hardly those of the gate: nobody carries them, and whoever waits carries others. Where
    /// such a node has none left, an earlier call took it off, and only its record is to go.
    fn doubt(&self, taints: &[Taint]) -> Option<String> {
        if taints.is_empty() || !self.nodes.is_empty() || self.elsewhere.is_empty() {
            return None;
        }
        let taints: Vec<String> = taints.iter().map(written).collect();
        Some(format!(
            "no node carries {}, and nothing was changed: nodes that wait at the gate carry others ({}); name the \
             gate's own with --taint KEY:EFFECT, or if it is none of these delete what is remembered: kubectl delete \
             pendingnode NAME",
            taints.join(", "),
            self.elsewhere.join("; ")
        ))
    }
}

/// The nodes without the gate's taints that are not verified, by their records, and carry what may be one.
fn elsewhere(nodes: &[Node], records: &[PendingNode]) -> Vec<String> {
    let waits = |record: &PendingNode| {
        let status = record.status.as_ref();
        let told = status.and_then(|status| status.verification.as_ref());
        told.and_then(|told| told.verdict) != Some(VerificationVerdict::Verified)
    };
    let mut waiting = Vec::new();
    for node in nodes {
        let (name, uid) = (node.name_any(), node.uid());
        let mut of_node = records.iter().filter(|one| one.spec.node_uid == uid);
        let taints = node
            .spec
            .iter()
            .flat_map(|spec| spec.taints.iter())
            .flatten();
        let taints: Vec<String> = taints
            .filter(|taint| !is_foreign_taint(&taint.key))
            .map(written)
            .collect();
        if of_node.any(waits) && !taints.is_empty() {
            waiting.push(format!("{name}: {}", taints.join(", ")));
        }
    }
    waiting
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
    if done.nodes.is_empty() && done.failures.is_empty() {
        let is_rest = !done.pending_nodes.is_empty() || !done.pods.is_empty();
        let left = if is_rest {
            ""
        } else {
            ", and nothing else of the gate is left"
        };
        row(format!("no node carries {taints}{left}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    const GATE: &str = "node-ready/unverified";

    fn taint(key: &str) -> Taint {
        from_value(json!({ "key": key, "effect": "NoSchedule" })).unwrap()
    }

    fn scene(carried: &[&str], verdict: &Value, asked: &str) -> Option<String> {
        let taints: Vec<Taint> = carried.iter().map(|key| taint(key)).collect();
        let node: Node = from_value(json!({
            "metadata": { "name": "n1", "uid": "u" }, "spec": { "taints": taints },
        }))
        .unwrap();
        let record: PendingNode = from_value(json!({
            "apiVersion": "shipshape.dev/v1alpha1", "kind": "PendingNode", "metadata": { "name": "node-n1" },
            "spec": { "nodeName": "n1", "nodeUID": "u", "goal": "Join" },
            "status": { "verification": { "verdict": verdict } },
        }))
        .unwrap();
        let asked = [taint(asked)];
        let (nodes, others) = [node].into_iter().partition(|node| carries(node, &asked));
        let records = vec![record];
        let scene = Scene {
            nodes,
            elsewhere: elsewhere(&others, &records),
            records,
            pods: Vec::new(),
        };
        scene.doubt(&asked)
    }

    #[test]
    fn only_a_node_that_waits_with_another_taint_makes_one_doubt_what_was_asked() {
        let waits = json!(null);
        let doubt = scene(&[GATE], &waits, "node-redy/unverified").unwrap();
        assert!(
            doubt.contains("n1: node-ready/unverified:NoSchedule"),
            "{doubt}"
        );
        assert!(scene(&[GATE], &json!("Failed"), "a").is_some());
        assert_eq!(scene(&[GATE], &waits, GATE), None, "it is the one");
        assert_eq!(scene(&[GATE], &json!("Verified"), "a"), None);
        let left = ["node.kubernetes.io/not-ready"];
        assert_eq!(
            scene(&left, &waits, GATE),
            None,
            "an earlier call took it off"
        );
    }
}
