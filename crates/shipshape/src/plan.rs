//! `shipshape plan`: what a run would do to a live cluster. Writes nothing.
//!
//! Owns the reads and the dry runs; order, waves, blockers and times are the engine's.

mod words;

use std::process::ExitCode;

use serde::Serialize;
use shipshape_api::node_patch_run::{FindingRecord, RunPlan};
use shipshape_api::{NodePatchRun, NodePatchTask};
use shipshape_cluster::error::in_full;
use shipshape_cluster::ledger::LedgerStore;
use shipshape_controllers::ask_dry_runs;
use shipshape_engine::admit::is_important;
use shipshape_engine::drain::{Around, DrainPolicy};
use shipshape_engine::forecast::{self, Fate, Forecast, Load, Pace, Part};
use shipshape_engine::obstacles;
use shipshape_engine::plan::plan;
use shipshape_engine::preflight::{
    Finding, Report, Wave, Weight, findings, pods_of_weight, questions, report,
};
use shipshape_engine::settings::Settings;
use shipshape_engine::span;
use shipshape_engine::view::{NodeView, PodView};
use shipshape_engine::wish::run_name;

use crate::cli::{Format, PlanOptions};
use crate::connect::Cluster;
use crate::controller::built_in;
use crate::drawing::is_coloured;
use crate::failure::Failure;
use crate::manifest;
use crate::output::{Progress, say};
use crate::survey::{Survey, Views};

/// How RBAC says that somebody may not evict.
const MAY_NOT_EVICT: &str = "cannot create resource \"pods/eviction\"";

/// What a run would do.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Preview {
    run: String,
    /// Nodes of the cluster, and those that the run takes.
    nodes: usize,
    candidates: usize,
    plan: RunPlan,
    /// What is in the way, by wave.
    findings: Vec<Vec<FindingRecord>>,
    /// Pods that cannot leave by themselves.
    blocked_pods: usize,
    dry_runs: usize,
    #[serde(flatten)]
    forecast: Forecast,
    assumptions: Assumptions,
    /// Why the run as it stands would not be done at all, and what it would break.
    warnings: Vec<String>,
    notes: Vec<String>,
}

/// What the times were worked out from.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Assumptions {
    machine_ready_seconds: i64,
    pod_move_seconds: i64,
    machine_gone_seconds: i64,
    /// Nodes replaced here before, from which the times of machines are taken.
    measured_nodes: usize,
}

pub(crate) fn run(options: &PlanOptions) -> anyhow::Result<ExitCode> {
    super::block_on(async {
        let cluster = Cluster::connect(&options.cluster).await?;
        let preview = preview(&cluster, options).await?;
        match options.output {
            Format::Text => say(&words::of(&preview, options, is_coloured()))?,
            Format::Json => say(&format!("{}\n", serde_json::to_string(&preview)?))?,
        };
        Ok(ExitCode::SUCCESS)
    })
}

/// Said where the person may not try evictions.
const NO_DRY_RUNS: &str = "you may not ask for evictions as dry runs; what only the server knows is \
                           not among the findings";

async fn preview(cluster: &Cluster, options: &PlanOptions) -> Result<Preview, Failure> {
    let asked = options.cluster.namespace.as_deref();
    let checked = manifest::checked(cluster, asked, &options.file).await?;
    let manifest::Checked { run, mut notes, .. } = checked;
    // A cluster without the kinds has neither runs nor history.
    let runs: Vec<NodePatchRun> = cluster.all().await.unwrap_or_default();
    let mut progress = Progress::new();
    progress.tell(|| format!("reading nodes, pods and budgets of {}", cluster.address));
    let survey = Survey::of(cluster).await?;
    let views = survey.views();
    let wrong = |error: &dyn std::fmt::Display| Failure::WrongInput(error.to_string());
    let plan = plan(&run.spec, &views.nodes).map_err(|error| wrong(&error))?;
    let (pace, measured) = pace(cluster, options, &run).await;
    let mut look = Look {
        cluster,
        run: &run,
        views: &views,
        asked: 0,
        may_ask: true,
    };
    let (mut waves, mut found) = (Vec::new(), Vec::new());
    for (index, partition) in plan.partitions.iter().enumerate() {
        let all = plan.partitions.len();
        progress.tell(|| format!("asking about evictions, wave {} of {all}", index + 1));
        let (loads, findings) = look.wave(&partition.nodes).await?;
        waves.push(Part {
            wave: partition.wave,
            loads,
        });
        found.push(findings);
    }
    notes.extend((!look.may_ask).then(|| NO_DRY_RUNS.to_owned()));
    let rooms = views.budgets.iter().map(forecast::room).collect();
    let blocked = waves.iter().flat_map(|part| &part.loads);
    let blocked = blocked.filter(|load| load.blocked).count();
    let dry_runs = look.asked;
    notes.extend(neighbours(cluster, options, &run, &runs, &views).await);
    let mut warnings = obstacles::found(&run, &runs, built_in());
    if blocked > 0 {
        let fate = Fate::of(&run.spec);
        let told = fate.sentence(blocked, &run.spec, pace.drain_limit);
        let place = if fate.is_grave() {
            &mut warnings
        } else {
            &mut notes
        };
        place.push(told);
    }
    notes.extend(obstacles::in_vain(&run));
    Ok(Preview {
        run: run_name(&run),
        nodes: views.nodes.len(),
        candidates: plan.total(),
        blocked_pods: found.iter().map(|found| blocked_pods(found)).sum(),
        findings: found.iter().map(|found| records(found)).collect(),
        forecast: forecast::forecast(&run.spec, &waves, &rooms, &pace),
        assumptions: Assumptions {
            machine_ready_seconds: pace.machine_ready.as_secs(),
            pod_move_seconds: pace.pod_move.as_secs(),
            machine_gone_seconds: pace.machine_gone.as_secs(),
            measured_nodes: measured,
        },
        warnings,
        plan,
        dry_runs,
        notes,
    })
}

fn blocked_pods(found: &[Finding]) -> usize {
    pods_of_weight(found, Weight::Blocks)
}

/// The findings as a status would have them: the gravest twenty.
fn records(found: &[Finding]) -> Vec<FindingRecord> {
    let looked = Report::looked("", 0, jiff::Timestamp::UNIX_EPOCH);
    report(found, looked).record.findings
}

/// How long things take here: as measured, unless somebody says otherwise.
async fn pace(cluster: &Cluster, options: &PlanOptions, run: &NodePatchRun) -> (Pace, usize) {
    let mut pace = Pace::default();
    let drain = run.spec.drain.as_ref();
    let timeout = drain.and_then(|drain| drain.timeout.as_deref());
    if let Some(limit) = span::parse(timeout).ok().filter(|span| !span.is_zero()) {
        pace.drain_limit = limit;
    }
    // A cluster without the kinds has no history.
    let tasks: Vec<NodePatchTask> = cluster.all().await.unwrap_or_default();
    let measured = pace.measured(&tasks);
    let set = |field: &mut jiff::SignedDuration, wish: Option<jiff::SignedDuration>| {
        *field = wish.unwrap_or(*field);
    };
    set(&mut pace.machine_ready, options.machine_ready);
    set(&mut pace.pod_move, options.pod_move);
    set(&mut pace.machine_gone, options.machine_gone);
    (pace, measured)
}

/// Who else is at work, and which nodes are down: both take slots.
async fn neighbours(
    cluster: &Cluster,
    options: &PlanOptions,
    run: &NodePatchRun,
    runs: &[NodePatchRun],
    views: &Views,
) -> Vec<String> {
    let mut notes = obstacles::neighbours(run, runs);
    let ledger = LedgerStore::new(cluster.client.clone(), &options.operator_namespace);
    match ledger.read().await {
        Ok(ledger) => {
            if !ledger.slots.is_empty() {
                notes.push(format!("{} slot(s) are taken now", ledger.slots.len()));
            }
            notes.extend(ledger.complaint());
        }
        Err(error) => notes.push(format!(
            "which slots are taken now is not known: {}",
            in_full(&error)
        )),
    }
    let is_down = |node: &&NodeView| !node.ready || node.deleting;
    let down: Vec<&str> = views
        .nodes
        .iter()
        .filter(is_down)
        .map(|node| node.name.as_str())
        .collect();
    if let Some(first) = down.first() {
        notes.push(format!(
            "{} node(s) are not ready and count as taken slots, the first: {first}",
            down.len()
        ));
    }
    notes
}

/// Looks at the waves of a run.
struct Look<'a> {
    cluster: &'a Cluster,
    run: &'a NodePatchRun,
    views: &'a Views,
    asked: usize,
    may_ask: bool,
}

impl Look<'_> {
    async fn wave(&mut self, names: &[String]) -> Result<(Vec<Load>, Vec<Finding>), Failure> {
        let spec = &self.run.spec;
        let nodes: Vec<(String, Vec<PodView>)> = names
            .iter()
            .map(|name| (name.clone(), self.views.pods(name)))
            .collect();
        let policy = DrainPolicy::of(spec.drain.as_ref(), &Settings::default().drain);
        let wave = Wave {
            nodes: &nodes,
            budgets: &self.views.budgets,
            around: &self.views.around,
            policy,
        };
        let answered = self.ask(&wave).await;
        let wave = Wave {
            around: &answered,
            ..wave
        };
        let found = findings(&wave);
        let mut loads = Vec::new();
        for name in names {
            let node = self.views.nodes.iter().find(|node| node.name == *name);
            let pods = self.views.pods(name);
            let important = is_important(&spec.important_pod_selectors, &pods)
                .map_err(|error| Failure::WrongInput(error.to_string()))?;
            let node = node.into_iter();
            loads.extend(node.map(|node| forecast::load(node, important, &wave, &found)));
        }
        Ok((loads, found))
    }

    /// Asks the server about evictions without meaning them.
    async fn ask(&mut self, wave: &Wave<'_>) -> Around {
        let mut answered = wave.around.clone();
        if self.may_ask {
            let questions = questions(wave);
            self.asked += ask_dry_runs(&self.cluster.client, &questions, &mut answered).await;
        }
        let refusals = answered.refusals.len();
        let is_real = |message: &str| !message.contains(MAY_NOT_EVICT);
        answered.refusals.retain(|_, one| is_real(&one.message));
        self.may_ask &= answered.refusals.len() == refusals;
        answered
    }
}
