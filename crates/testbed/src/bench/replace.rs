//! `bench replace`: every node of a cluster replaced, on the real control plane with kwok's nodes.
//!
//! Owns the order of a run and what counts as done: no old node left, as many new ones ready, all pods
//! ready. Time, processor and memory are the controller's own, by the kernel; counts are from the audit
//! log. The workload and the definitions are those that rivals were measured with.

mod eyes;
mod log;
mod report;
mod scene;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use shipshape_api::NodePatchRun;
use shipshape_api::conditions::COMPLETED;
use shipshape_api::gates::OutdatedTaintEffect;
use shipshape_cluster::Clock;
use shipshape_engine::condition;
use shipshape_scenarios::stage::OPERATOR;
use shipshape_simulator::cloud::wire;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use super::Figure;
use super::usage::Process;
use crate::controller::{CloudAt, Controller};
use crate::kwok::Readiness;
use log::{Actor, Counts};
use report::Roll;
use scene::{Case, Scene};

/// How long a roll may take.
const PATIENCE: Duration = Duration::from_mins(30);
/// How long slow pods take to be ready.
const SLOW: Readiness = Readiness::Between(Duration::from_secs(5), Duration::from_secs(6));

/// Which rolls.
#[derive(clap::Args, Debug)]
pub struct Settings {
    /// Nodes of the cluster; one roll each.
    #[arg(long, value_delimiter = ',', default_values_t = [50, 200])]
    pub nodes: Vec<u32>,
    /// Seconds from the request for a machine to its Node; one roll each.
    #[arg(long, value_delimiter = ',', default_values_t = [0])]
    pub boot: Vec<u64>,
    /// Outdated nodes are closed to the scheduler from the start (`outdatedTaintEffect: NoSchedule`).
    #[arg(long)]
    pub close_outdated: bool,
    /// No further roll, of the smallest cluster, with pods that take 5 to 6 s to be ready.
    #[arg(long)]
    pub no_slow: bool,
}

impl Settings {
    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for nodes in self.nodes.iter().copied() {
            cases.extend(self.boot.iter().map(|seconds| Case {
                nodes,
                boot: Duration::from_secs(*seconds),
                readiness: Readiness::AtOnce,
                closes_outdated: self.close_outdated,
            }));
        }
        let smallest = self.nodes.iter().min().filter(|_| !self.no_slow);
        cases.extend(smallest.map(|nodes| Case {
            nodes: *nodes,
            boot: Duration::ZERO,
            readiness: SLOW,
            closes_outdated: self.close_outdated,
        }));
        cases
    }
}

/// Rolls once for each case.
pub async fn run(settings: &Settings) -> Result<Figure> {
    let mut rolls = Vec::new();
    for case in settings.cases() {
        let roll = Box::pin(roll(case)).await;
        let roll = roll.with_context(|| format!("the roll of {} nodes", case.nodes))?;
        tracing::info!(?roll, "rolled");
        rolls.push(roll);
    }
    Ok(report::figure(&rolls))
}

async fn roll(case: Case) -> Result<Roll> {
    let scene = Scene::set(&case).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let cloud_at = CloudAt::Embedded(listener.local_addr()?);
    let serving = tokio::spawn(wire::serve(scene.cloud.handle("remote"), listener));
    let (kubeconfig, folder) = (scene.plane.kubeconfig(), scene.plane.folder());
    let mut controller = Controller::prepare_with(kubeconfig, folder, &cloud_at, "")?;
    controller.start()?;
    wait_for_work(&scene, &controller).await?;
    let process = Process(controller.pid().context("it has just been started")?);
    process.reset_peak()?;
    let cpu_before = process.cpu()?;

    let old = scene.eyes.node_names();
    let since = Clock::System.now();
    let start = Instant::now();
    begin(&scene, &case).await?;
    wait_until_rolled(&scene, &case, &old, &controller).await?;
    let wall = start.elapsed();
    wait_for_completion(&scene, &controller).await?;

    let roll = Roll {
        case,
        wall,
        cpu: process.cpu()?.saturating_sub(cpu_before),
        peak: process.peak()?,
        closed: scene.eyes.closures().most,
        counts: counts(&scene, since)?,
    };
    controller.kill()?;
    serving.abort();
    Ok(roll)
}

fn counts(scene: &Scene, since: Timestamp) -> Result<Counts> {
    let actor = Actor {
        agent: OPERATOR,
        since,
    };
    Ok(log::count(
        &scene.plane.audit()?,
        actor,
        &scene.eyes.closures(),
    ))
}

/// Until the controller has read what there is: its watches are logged only when they end, so its lists
/// of pods tell.
async fn wait_for_work(scene: &Scene, controller: &Controller) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let entries = scene.plane.audit()?;
        let mut ours = entries
            .iter()
            .filter(|entry| entry.user_agent.starts_with(OPERATOR));
        if ours.any(|entry| entry.is("list", "pods") && entry.succeeded()) {
            sleep(Duration::from_secs(3)).await;
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("the controller does not work\n{}", controller.last_words());
        }
        sleep(Duration::from_millis(500)).await;
    }
}

async fn begin(scene: &Scene, case: &Case) -> Result<()> {
    let effect = if case.closes_outdated {
        OutdatedTaintEffect::NoSchedule
    } else {
        OutdatedTaintEffect::default()
    };
    let run: NodePatchRun = serde_json::from_value(json!({
        "apiVersion": "shipshape.dev/v1alpha1",
        "kind": "NodePatchRun",
        "metadata": { "name": "bench" },
        "spec": {
            "provider": { "type": "embedded" },
            "batchSizeNonImportant": case.allowed(),
            "partitionIterations": 1,
            "outdatedTaintEffect": effect,
        },
    }))?;
    runs(scene).create(&PostParams::default(), &run).await?;
    Ok(())
}

fn runs(scene: &Scene) -> Api<NodePatchRun> {
    Api::namespaced(scene.client.clone(), "default")
}

async fn wait_until_rolled(
    scene: &Scene,
    case: &Case,
    old: &BTreeSet<String>,
    controller: &Controller,
) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let names = scene.eyes.node_names();
        let left = names.intersection(old).count();
        let is_full = scene.eyes.ready_nodes() == old.len();
        if left == 0 && is_full && scene.eyes.ready_pods() == case.pods() {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!(
                "{left} nodes were left after {PATIENCE:?}\n{}",
                controller.last_words()
            );
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// What is written after the last node counts too.
async fn wait_for_completion(scene: &Scene, controller: &Controller) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(2);
    loop {
        let run = runs(scene).get("bench").await?;
        let status = run.status.unwrap_or_default();
        if condition::is_true(&status.conditions, COMPLETED) {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!(
                "all nodes are replaced, and the run waits for {:?}\n{}",
                status.waiting_for,
                controller.last_words()
            );
        }
        sleep(Duration::from_millis(500)).await;
    }
}
