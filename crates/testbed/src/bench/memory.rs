//! `bench memory`: the controller's memory and idle writes with a large cluster in its stores.
//!
//! Owns the made-up cluster, which the embedded API serves over loopback; the controller is a process
//! of its own, so that its memory is its own. Objects are as fat as those of a real cluster, because
//! what the controller drops of them is the point.

mod objects;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use shipshape_api::names::DEFAULT_NAMESPACE;
use shipshape_cluster::Clock;
use shipshape_scenarios::stage::OPERATOR;
use shipshape_simulator::server::{ApiServer, LogEntry, Verb};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use super::table::Table;
use super::usage::{Process, machine, megabytes};
use super::{Figure, judge};
use crate::controller::{CloudAt, Controller};

/// Most memory of the controller.
const MEMORY: u64 = 256_000_000;
/// How long the controller may take to read everything.
const PATIENCE: Duration = Duration::from_mins(5);
/// Kinds that the controller follows; each list ends when its watch begins.
const WATCHED: usize = 9;

/// How large, and how long to look.
#[derive(clap::Args, Debug)]
pub struct Settings {
    /// Nodes of the cluster.
    #[arg(long, default_value_t = 5_000)]
    pub nodes: usize,
    /// Pods of the cluster.
    #[arg(long, default_value_t = 100_000)]
    pub pods: usize,
    /// Seconds of rest in which writes are counted.
    #[arg(long, default_value_t = 60)]
    pub rest: u64,
}

/// Fills a cluster, starts the controller, waits until it has read everything, and watches it rest.
pub async fn run(settings: &Settings) -> Result<Figure> {
    let api = ApiServer::new(Clock::System);
    fill(&api, settings).await?;
    let folder = TempDir::new()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let kubeconfig = write_kubeconfig(&folder, &listener)?;
    let serving = tokio::spawn(api.clone().serve(listener));
    let from = api.log_len();
    let mut controller = Controller::prepare(&kubeconfig, folder.path(), &CloudAt::Nowhere)?;
    let start = Instant::now();
    controller.start()?;
    let process = Process(controller.pid().context("it has just been started")?);
    wait_for_watches(&api, from, &controller).await?;
    let read_in = start.elapsed();
    let (cpu_before, first_idle) = (process.cpu()?, api.log_len());
    sleep(Duration::from_secs(settings.rest)).await;
    let idle_cpu = process.cpu()?.saturating_sub(cpu_before);
    let (resident, peak) = (process.resident()?, process.peak()?);
    let writes = idle_writes(&api.log_since(first_idle));
    controller.kill()?;
    serving.abort();

    let mut table = Table::new(["memory", "seen", "goal"]);
    let counts = format!("{} / {}", settings.nodes, settings.pods);
    table.row(["nodes / pods", &counts, ""]);
    table.row(["read in", &format!("{read_in:.1?}"), ""]);
    let most = format!("≤ {}", megabytes(MEMORY));
    table.row(["resident at rest", &megabytes(resident), &most]);
    table.row(["most resident", &megabytes(peak), ""]);
    let rest = format!("writes in {} s of rest, leases aside", settings.rest);
    table.row([rest.as_str(), &writes.len().to_string(), "0"]);
    table.row(["CPU while at rest", &format!("{idle_cpu:.2?}"), ""]);
    let seen = megabytes(resident);
    Ok(Figure {
        text: format!("{}\n\n{}", machine(), table.render()),
        last_line: format!(
            "bench memory: {seen} resident, {} idle writes",
            writes.len()
        ),
        shortfalls: judge([
            (resident <= MEMORY, format!("{seen} is too much")),
            (writes.is_empty(), format!("written at rest: {writes:?}")),
        ]),
    })
}

async fn fill(api: &ApiServer, settings: &Settings) -> Result<()> {
    let client = api.client("bench");
    crate::stage::install_kinds(&client).await?;
    let params = PostParams::default();
    let namespaces: Api<Namespace> = Api::all(client);
    for name in objects::namespaces().chain([DEFAULT_NAMESPACE.to_owned()]) {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name);
        namespaces.create(&params, &namespace).await?;
    }
    // By requests this would take many minutes; what the controller reads is the same.
    api.load("nodes.", (0..settings.nodes).map(objects::node));
    let pods = (0..settings.pods).map(|number| objects::pod(number, settings.nodes));
    api.load("pods.", pods);
    Ok(())
}

fn write_kubeconfig(folder: &TempDir, listener: &TcpListener) -> Result<PathBuf> {
    let path = folder.path().join("kubeconfig");
    let server = format!("http://{}", listener.local_addr()?);
    std::fs::write(&path, crate::kubeconfig::open(&server).to_string())?;
    Ok(path)
}

/// A store watches once it has listed, so as many watches as kinds say that all is read.
async fn wait_for_watches(api: &ApiServer, from: usize, controller: &Controller) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let entries = api.log_since(from);
        let watches = entries.iter().filter(|entry| entry.verb == Verb::Watch);
        if watches.count() >= WATCHED {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("not read after {PATIENCE:?}\n{}", controller.last_words());
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// Changes by the controller that are not leases.
fn idle_writes(entries: &[LogEntry]) -> Vec<String> {
    let changes = entries.iter().filter(|entry| {
        let is_change = !matches!(entry.verb, Verb::Get | Verb::List | Verb::Watch);
        is_change && entry.user_agent.starts_with(OPERATOR) && entry.resource != "leases"
    });
    changes
        .map(|entry| format!("{:?} {} {}", entry.verb, entry.resource, entry.name))
        .collect()
}
