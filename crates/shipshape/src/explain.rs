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
use shipshape_api::{NodePatchRun, NodePatchTask};
use shipshape_engine::explain::{self, Explanation, Scene, task_of_node};
use shipshape_engine::view::{BudgetView, NodeView, PodView};

use crate::cli::{ExplainOptions, Format};
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
    super::block_on(async {
        let cluster = Cluster::connect(&options.cluster).await?;
        let told = tell_all(&cluster, &options.target).await?;
        match options.output {
            Format::Text => say(&words(&told, is_coloured()))?,
            Format::Json => say(&format!("{}\n", serde_json::to_string(&told)?))?,
        };
        Ok(ExitCode::SUCCESS)
    })
}

async fn tell_all(cluster: &Cluster, target: &Target) -> Result<Told, Failure> {
    let runs: Vec<NodePatchRun> = cluster.all().await?;
    let tasks: Vec<NodePatchTask> = cluster.all().await?;
    let nodes: Vec<NodeView> = match target.thing {
        Thing::Node => {
            let nodes: Vec<Node> = cluster.all().await?;
            nodes.iter().map(NodeView::of).collect()
        }
        Thing::Run | Thing::Task => Vec::new(),
    };
    let task = match target.thing {
        Thing::Node => task_of_node(&tasks, &target.name),
        Thing::Task => Some(find_task(cluster, target, &tasks)?),
        Thing::Run => None,
    };
    let (budgets, pods) = around(cluster, task).await?;
    let scene = Scene {
        runs: &runs,
        tasks: &tasks,
        nodes: &nodes,
        budgets: &budgets,
        pods: &pods,
    };
    let (explanation, about) = match (target.thing, task) {
        (Thing::Run, _) => {
            let run = find_run(cluster, &target.name).await?;
            let about = ("NodePatchRun", run.namespace(), run.name_any());
            (Some(explain::run(&run, &scene)), Some(about))
        }
        (Thing::Task, Some(task)) => (Some(explain::task(task, &scene)), Some(about(task))),
        (_, task) => (explain::node(&target.name, &scene), task.map(about)),
    };
    let explanation = explanation.ok_or_else(|| {
        let name = &target.name;
        Failure::Refused(format!(
            "there is no node {name}, and no task ever was about one of that name"
        ))
    })?;
    Ok(Told {
        now: cluster.now().await?,
        explanation,
        events: events(cluster, about).await?,
    })
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
    let Some((kind, Some(namespace), name)) = about else {
        return Ok(Vec::new());
    };
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
