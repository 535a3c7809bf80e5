//! `shipshape explain`: why something waits, since when, until when, and what would help.
//!
//! Owns the reads and the words around the engine's answer. Writes nothing.

use std::collections::BTreeSet;
use std::process::ExitCode;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde::Serialize;
use shipshape_api::{NodePatchRun, NodePatchTask, NodePatchTaskStatus, PendingNode, TaskStep};
use shipshape_engine::explain::{self, Explanation, GateScene, Scene, task_of_node};
use shipshape_engine::machine::ProviderId;
use shipshape_engine::verify::settings::GateSettings;
use shipshape_engine::view::{BudgetView, NodeView, PodView};

use crate::cli::{ExplainOptions, Format};
use crate::config::Config;
use crate::connect::Cluster;
use crate::drawing::{is_coloured, paint, relative, short};
use crate::failure::Failure;
use crate::orders::{find_run, find_task};
use crate::output::say;
use crate::target::{Target, Thing};

/// Events that are shown.
const EVENTS_MAX: usize = 8;
const BOLD: &str = "\x1b[1m";
const YELLOW: &str = "\x1b[33m";

/// The engine's answer, and what the cluster told people about the object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    now: Timestamp,
    #[serde(flatten)]
    explanation: Explanation,
    events: Vec<EventLine>,
}

/// One event.
#[derive(Serialize)]
struct EventLine {
    at: Timestamp,
    reason: String,
    message: String,
    count: i32,
}

pub(crate) fn run(options: &ExplainOptions) -> anyhow::Result<ExitCode> {
    let gate = gate(options)?;
    super::block_on(async {
        let cluster = Cluster::connect(&options.cluster).await?;
        let told = tell_all(&cluster, &options.target, gate.as_ref()).await?;
        match options.output {
            Format::Text => say(&words(&told, is_coloured()))?,
            Format::Json => say(&format!("{}\n", serde_json::to_string(&told)?))?,
        };
        Ok(ExitCode::SUCCESS)
    })
}

/// Settings of the gate in the controller's file, if one was named that has them.
fn gate(options: &ExplainOptions) -> anyhow::Result<Option<GateSettings>> {
    let Some(path) = &options.config else {
        return Ok(None);
    };
    let config =
        Config::load(Some(path)).map_err(|wrong| Failure::WrongInput(format!("{wrong:#}")))?;
    Ok(config.gate())
}

async fn tell_all(
    cluster: &Cluster,
    target: &Target,
    gate: Option<&GateSettings>,
) -> Result<Told, Failure> {
    let (explanation, about) = match target.thing {
        Thing::Run | Thing::Task => tell_work(cluster, target).await?,
        Thing::Node => tell_node(cluster, &target.name, gate).await?,
        Thing::Pending => tell_pending(cluster, &target.name, gate).await?,
    };
    Ok(Told {
        now: cluster.now().await?,
        explanation,
        events: events(cluster, about).await?,
    })
}

async fn tell_work(
    cluster: &Cluster,
    target: &Target,
) -> Result<(Explanation, Option<About>), Failure> {
    let runs: Vec<NodePatchRun> = cluster.all().await?;
    let tasks: Vec<NodePatchTask> = cluster.all().await?;
    let task = match target.thing {
        Thing::Task => Some(find_task(cluster, target, &tasks)?),
        Thing::Run | Thing::Node | Thing::Pending => None,
    };
    let (budgets, pods) = around(cluster, task).await?;
    let scene = Scene {
        runs: &runs,
        tasks: &tasks,
        nodes: &[],
        budgets: &budgets,
        pods: &pods,
    };
    if let Some(task) = task {
        return Ok((explain::task(task, &scene), Some(about(task))));
    }
    let run = find_run(cluster, &target.name).await?;
    let about = ("NodePatchRun", run.namespace(), run.name_any());
    Ok((explain::run(&run, &scene), Some(about)))
}

/// A node: by its task while one works on it, else by how it stands at the gate, else by its place in a plan.
async fn tell_node(
    cluster: &Cluster,
    name: &str,
    gate: Option<&GateSettings>,
) -> Result<(Explanation, Option<About>), Failure> {
    let runs: Vec<NodePatchRun> = cluster.all().await?;
    let tasks: Vec<NodePatchTask> = cluster.all().await?;
    let records: Vec<PendingNode> = cluster.all().await?;
    let nodes: Vec<Node> = cluster.all().await?;
    let nodes: Vec<NodeView> = nodes.iter().map(NodeView::of).collect();
    let task = task_of_node(&tasks, name);
    let (budgets, pods) = around(cluster, task).await?;
    let scene = Scene {
        runs: &runs,
        tasks: &tasks,
        nodes: &nodes,
        budgets: &budgets,
        pods: &pods,
    };
    let assumed = GateSettings::default();
    let at_gate = GateScene {
        records: &records,
        settings: gate.unwrap_or(&assumed),
        is_assumed: gate.is_none(),
    };
    let live = nodes.iter().find(|node| node.name == name);
    let gates = explain::at_gate(name, live, &at_gate);
    let is_worked_on = task.is_some_and(|task| !is_over(task));
    if let Some(told) = gates
        .clone()
        .filter(|_| !is_worked_on && explain::is_at_gate(name, live, &at_gate))
    {
        return Ok((told, Some(("Node", None, name.to_owned()))));
    }
    let mut told = explain::node(name, &scene).ok_or_else(|| {
        Failure::Refused(format!(
            "there is no node {name}, and no task ever was about one of that name"
        ))
    })?;
    if let Some(gates) = gates {
        told.notes.push(format!("at the gate: {}", gates.state));
    }
    let about = task.map_or(("Node", None, name.to_owned()), about);
    Ok((told, Some(about)))
}

fn is_over(task: &NodePatchTask) -> bool {
    let step = task.status.as_ref().map(NodePatchTaskStatus::step_name);
    step.is_some_and(TaskStep::is_final)
}

async fn tell_pending(
    cluster: &Cluster,
    name: &str,
    gate: Option<&GateSettings>,
) -> Result<(Explanation, Option<About>), Failure> {
    let records: Vec<PendingNode> = cluster.all().await?;
    let record = records.iter().find(|one| one.name_any() == name);
    let record = record.ok_or_else(|| {
        Failure::Refused(format!(
            "there is no PendingNode {name}; name its node instead: node/NAME"
        ))
    })?;
    if record.spec.node_uid.is_none() {
        return tell_machine(cluster, record).await;
    }
    let node = record.spec.node_name.clone().unwrap_or_default();
    let nodes: Vec<Node> = cluster.all().await?;
    let live = nodes.iter().find(|one| one.name_any() == node);
    let live = live.map(NodeView::of);
    let assumed = GateSettings::default();
    let scene = GateScene {
        records: &records,
        settings: gate.unwrap_or(&assumed),
        is_assumed: gate.is_none(),
    };
    let told = explain::pending(record, live.as_ref(), &scene);
    Ok((told, Some(("Node", None, node))))
}

/// A machine on its way, by its goal, its node and its task.
async fn tell_machine(
    cluster: &Cluster,
    record: &PendingNode,
) -> Result<(Explanation, Option<About>), Failure> {
    let nodes: Vec<Node> = cluster.all().await?;
    let views = nodes.iter().map(NodeView::of);
    let wanted = record.spec.provider_id.as_deref();
    let live = views.into_iter().find(|node| {
        let id = node.provider_id.as_ref().map(ProviderId::as_str);
        match wanted {
            Some(_) => id == wanted,
            None => record.spec.node_name.as_ref() == Some(&node.name),
        }
    });
    let tasks: Vec<NodePatchTask> = cluster.all().await?;
    let told = explain::machine(record, live.as_ref(), &tasks);
    Ok((told, Some(("PendingNode", None, record.name_any()))))
}

type About = (&'static str, Option<String>, String);

fn about(task: &NodePatchTask) -> About {
    ("NodePatchTask", task.namespace(), task.name_any())
}

/// Budgets and pods in the namespaces of the pods that are blocked.
async fn around(
    cluster: &Cluster,
    task: Option<&NodePatchTask>,
) -> Result<(Vec<BudgetView>, Vec<PodView>), Failure> {
    let drain = task.and_then(|task| task.status.as_ref()?.drain.as_ref());
    let blocked = drain.iter().flat_map(|drain| &drain.blocked);
    let namespaces: BTreeSet<&str> = blocked.map(|one| one.namespace.as_str()).collect();
    let (mut budgets, mut pods) = (Vec::new(), Vec::new());
    for namespace in namespaces {
        let client = || cluster.client.clone();
        let api: Api<PodDisruptionBudget> = Api::namespaced(client(), namespace);
        let found = cluster.list(&api).await?;
        budgets.extend(found.iter().map(BudgetView::of));
        let api: Api<Pod> = Api::namespaced(client(), namespace);
        pods.extend(cluster.list(&api).await?.iter().map(PodView::of));
    }
    Ok((budgets, pods))
}

/// The latest events about an object, the oldest first.
async fn events(cluster: &Cluster, about: Option<About>) -> Result<Vec<EventLine>, Failure> {
    let Some((kind, namespace, name)) = about else {
        return Ok(Vec::new());
    };
    // Events about what has no namespace are kept in that one.
    let namespace = namespace.unwrap_or_else(|| "default".to_owned());
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), &namespace);
    let selector = format!("involvedObject.kind={kind},involvedObject.name={name}");
    let params = ListParams::default().fields(&selector);
    let found = api.list(&params).await;
    let found = found.map_err(|error| cluster.failure("list events", &error))?;
    let mut events: Vec<EventLine> = found
        .items
        .into_iter()
        .filter_map(|event| {
            let times = [event.last_timestamp, event.first_timestamp];
            let at = times.into_iter().flatten().next();
            let at = at.or(event.metadata.creation_timestamp)?;
            Some(EventLine {
                at: at.0,
                reason: event.reason.unwrap_or_default(),
                message: event.message.unwrap_or_default(),
                count: event.count.unwrap_or(1),
            })
        })
        .collect();
    events.sort_by_key(|event| event.at);
    let surplus = events.len().saturating_sub(EVENTS_MAX);
    events.drain(..surplus);
    Ok(events)
}

fn words(told: &Told, is_coloured: bool) -> String {
    let (about, now) = (&told.explanation, told.now);
    let mut lines = vec![
        paint(&about.object, BOLD, is_coloured),
        format!("  {}", about.state),
    ];
    let mut row = |name: &str, text: String| lines.push(format!("  {name:<10} {text}"));
    if let Some(waits) = &about.waits_for {
        row("waits for", waits.clone());
    }
    if let Some(since) = about.since {
        row("since", format!("{since:.0} ({})", relative(since, now)));
    }
    match (about.until, &about.then) {
        (Some(until), Some(then)) => {
            row(
                "until",
                format!("{until:.0} ({}); then {then}", relative(until, now)),
            );
        }
        (Some(until), None) => row("until", format!("{until:.0} ({})", relative(until, now))),
        (None, _) => {}
    }
    for blocker in &about.blockers {
        let on = match blocker.node.as_str() {
            "" => String::new(),
            node => format!(" on {node}"),
        };
        let text = format!("pod {}{on}: {}", blocker.pod, blocker.message);
        row("blocked by", paint(&text, YELLOW, is_coloured));
    }
    for help in &about.helps {
        row("would help", help.clone());
    }
    for note in &about.notes {
        row("note", note.clone());
    }
    for event in &told.events {
        let times = match event.count {
            0 | 1 => String::new(),
            count => format!(" ({count} times)"),
        };
        let age = short(now.duration_since(event.at));
        row(
            "event",
            format!("{age:>6} ago  {}: {}{times}", event.reason, event.message),
        );
    }
    format!("{}\n", lines.join("\n"))
}
