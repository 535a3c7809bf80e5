//! `bench planner`: plan a very large cluster and decide one admission, in memory alone.
//!
//! Owns the made-up cluster and the two goals. Nothing here talks to anybody.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use shipshape_api::names;
use shipshape_api::node_patch_run::{NodePatchRunSpec, RunPlan};
use shipshape_api::selectors::PodSelector;
use shipshape_engine::admit::{self, Books, Waiting};
use shipshape_engine::labels::Labels;
use shipshape_engine::ledger::Ledger;
use shipshape_engine::plan;
use shipshape_engine::view::{NodeView, Observed, PodView};
use tokio::time::Instant;

use super::table::Table;
use super::usage::{Process, machine, megabytes};
use super::{Figure, judge};

/// Pods on each node.
const PODS_PER_NODE: usize = 20;
/// Most time for plan and admission together.
const TIME: Duration = Duration::from_secs(1);
/// Most memory, the cluster itself included.
const MEMORY: u64 = 400_000_000;

/// How large.
#[derive(clap::Args, Debug)]
pub struct Settings {
    /// Nodes of the cluster.
    #[arg(long, default_value_t = 20_000)]
    pub nodes: usize,
}

/// Plans and admits once.
pub fn run(settings: &Settings) -> Result<Figure> {
    let nodes: Vec<NodeView> = (0..settings.nodes).map(node).collect();
    let pods: BTreeMap<String, Vec<PodView>> = nodes.iter().map(pods_of).collect();
    let spec = spec();
    let before = Process::own().resident()?;

    let start = Instant::now();
    let plan = plan::plan(&spec, &nodes)?;
    let planned = start.elapsed();
    let waiting = first_in_line(&plan, &nodes, &pods, &spec)?;
    let ledger = Ledger::default();
    let books = Books {
        ledger: &ledger,
        down: &[],
        begun_within_hour: 0,
        on_their_way: &BTreeMap::new(),
        etcd: &Observed::NotAsked,
        open: &[],
    };
    let admission = admit::admit(&spec, "run", &waiting, books, Timestamp::UNIX_EPOCH)?;
    let all = start.elapsed();

    let peak = Process::own().peak()?;
    let mut table = Table::new(["planner", "seen", "goal"]);
    let counts = format!("{} / {}", nodes.len(), nodes.len() * PODS_PER_NODE);
    table.row(["nodes / pods", &counts, ""]);
    table.row(["planned in", &format!("{planned:.1?}"), ""]);
    let granted = format!("{:.1?}", all.saturating_sub(planned));
    table.row(["one admission decided in", &granted, ""]);
    table.row(["both", &format!("{all:.1?}"), &format!("< {TIME:?}")]);
    table.row(["nodes granted", &admission.grants.len().to_string(), ""]);
    table.row(["memory of nodes and pods", &megabytes(before), ""]);
    let most = format!("< {}", megabytes(MEMORY));
    table.row(["peak memory", &megabytes(peak), &most]);
    let stored = serde_json::to_vec(&plan)?.len();
    let bytes = megabytes(u64::try_from(stored)?);
    let most = format!("≤ {}", megabytes(u64::try_from(plan::BYTES_MAX)?));
    table.row(["plan as stored in the run", &bytes, &most]);
    let words = format!(
        "{} nodes planned in {all:.1?} with {}",
        nodes.len(),
        megabytes(peak)
    );
    Ok(Figure {
        text: format!("{}\n\n{}", machine(), table.render()),
        last_line: format!("bench planner: {words}"),
        shortfalls: judge([
            (all < TIME, format!("{all:?} is not under {TIME:?}")),
            (peak < MEMORY, format!("{} is too much", megabytes(peak))),
            (
                stored <= plan::BYTES_MAX,
                format!("a plan of {bytes} cannot be stored"),
            ),
            (
                !admission.grants.is_empty(),
                "nothing was admitted".to_owned(),
            ),
        ]),
    })
}

fn spec() -> NodePatchRunSpec {
    let labels = [("app".to_owned(), "app-7".to_owned())].into();
    NodePatchRunSpec {
        batch_size_non_important: Some(50),
        max_concurrent_per_zone: Some(40),
        important_pod_selectors: vec![PodSelector {
            namespace: None,
            label_selector: LabelSelector {
                match_labels: Some(labels),
                match_expressions: None,
            },
        }],
        ..NodePatchRunSpec::default()
    }
}

/// The nodes that one pass of a run looks at: a window over the first partition.
fn first_in_line(
    plan: &RunPlan,
    nodes: &[NodeView],
    pods: &BTreeMap<String, Vec<PodView>>,
    spec: &NodePatchRunSpec,
) -> Result<Vec<Waiting>> {
    let partition = plan.partitions.first().context("the plan is empty")?;
    let by_name: BTreeMap<&str, &NodeView> = nodes
        .iter()
        .map(|node| (node.name.as_str(), node))
        .collect();
    let window = usize::try_from(spec.batch_size_non_important() + spec.batch_size_important())?;
    let names = partition.nodes.iter().take(window + 8);
    let waiting = names.filter_map(|name| {
        Some(Waiting {
            node: (*by_name.get(name.as_str())?).clone(),
            pods: pods.get(name)?.iter().cloned().map(Arc::new).collect(),
            task: format!("default/task-{name}"),
            group: Observed::NotAsked,
        })
    });
    Ok(waiting.collect())
}

fn node(number: usize) -> NodeView {
    let zone = format!(
        "eu-central-1{}",
        ["a", "b", "c"].get(number % 3).unwrap_or(&"a")
    );
    let name = format!("ip-10-{}-{}.internal", number / 256, number % 256);
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    NodeView {
        uid: format!("{number:08x}-0000-4000-8000-000000000000"),
        labels: [
            label("kubernetes.io/hostname", &name),
            label("kubernetes.io/os", "linux"),
            label("kubernetes.io/arch", "amd64"),
            label("node.kubernetes.io/instance-type", "m5.4xlarge"),
            label("topology.kubernetes.io/region", "eu-central-1"),
            label(names::LABEL_ZONE, &zone),
        ]
        .into(),
        provider_id: Some(format!("aws:///{zone}/i-{number:017x}").as_str().into()),
        resource_version: number.to_string(),
        ready: true,
        zone,
        name,
        ..NodeView::default()
    }
}

fn pods_of(node: &NodeView) -> (String, Vec<PodView>) {
    // Every tenth node or so has a pod that the run calls important.
    let first = usize::from_str_radix(node.uid.get(..8).unwrap_or_default(), 16).unwrap_or(0) * 7;
    let pod = |number: usize| {
        let app = format!("app-{}", (first + number) % 200);
        PodView {
            namespace: format!("team-{}", number % 5),
            name: format!(
                "{app}-6f7c8d9b54-{}",
                &node.uid.get(..8).unwrap_or_default()
            ),
            uid: format!("{number:04x}{}", node.uid.get(4..).unwrap_or_default()),
            labels: Labels::from([
                ("app", app.as_str()),
                ("app.kubernetes.io/part-of", "shop"),
                ("pod-template-hash", "6f7c8d9b54"),
            ]),
            node: node.name.clone(),
            owner: Some(("ReplicaSet".to_owned(), format!("{app}-6f7c8d9b54"))),
            ready: true,
            ..PodView::default()
        }
    };
    (node.name.clone(), (0..PODS_PER_NODE).map(pod).collect())
}
