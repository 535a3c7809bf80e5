//! `bench verify`: many nodes join at once and pass the gate, on the real control plane with kwok's nodes.
//!
//! Owns the order of a wave: nodes in service, the controller, then all newcomers at once, until no taint
//! and no worker is left. kwok plays kubelets and checks. Times and counts are from the audit log, processor
//! and memory the controller's own, by the kernel.

mod log;
mod report;

use std::time::Duration;

use anyhow::{Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Taint};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use shipshape_api::names::{DEFAULT_GATE_TAINT, DEFAULT_NAMESPACE};
use shipshape_cluster::store::{self, Following};
use shipshape_cluster::{Clock, Store};
use shipshape_engine::view::NodeView;
use shipshape_scenarios::stage::OPERATOR;
use tokio::time::{Instant, sleep};

use super::Figure;
use super::usage::{Process, load};
use super::writes::Actor;
use crate::controller::{CloudAt, Controller};
use crate::fleet::{Registration, register};
use crate::kwok::{Checks, Kwok, Readiness};
use crate::stage::install_kinds;
use crate::{ControlPlane, Options};
use report::Wave;

/// Nodes that are there before the others come.
const IN_SERVICE: usize = 10;
/// Nodes that register at the same time.
const AT_ONCE: usize = 32;
/// How long a wave may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// The gate as a file would have it.
const GATE: &str = "worker: { image: { repository: shipshape, tag: bench } }\n";

/// Which waves.
#[derive(clap::Args, Debug)]
pub struct Settings {
    /// Nodes that join at once; one wave each.
    #[arg(long, value_delimiter = ',', default_values_t = [200, 1000])]
    pub nodes: Vec<usize>,
    /// Milliseconds that the checks of one node take.
    #[arg(long, default_value_t = 1000)]
    pub check: u64,
}

/// One wave after the other, each on a control plane of its own.
pub async fn run(settings: &Settings) -> Result<Figure> {
    let mut waves = Vec::new();
    for nodes in &settings.nodes {
        let wave = Box::pin(measure(*nodes, Duration::from_millis(settings.check))).await?;
        tracing::info!("{nodes} nodes are through");
        tracing::debug!(?wave, "measured");
        waves.push(wave);
    }
    Ok(report::figure(&waves))
}

async fn measure(nodes: usize, check: Duration) -> Result<Wave> {
    let load_before = load();
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client("bench-stage").await?;
    let _kwok = Kwok::start_with(&plane, Readiness::AtOnce, Checks::Pass(check))?;
    install_kinds(&client).await?;
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(DEFAULT_NAMESPACE.to_owned());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let eyes = Eyes::open(&client).await;
    join(&client, "old", IN_SERVICE, &[]).await?;
    eyes.wait(IN_SERVICE).await?;

    let (kubeconfig, folder) = (plane.kubeconfig(), plane.folder());
    let mut controller = Controller::prepare_with(kubeconfig, folder, &CloudAt::Nowhere, GATE)?;
    controller.start()?;
    controller.wait_until_at_work(&plane).await?;
    let Some(pid) = controller.pid() else {
        bail!("no controller runs");
    };
    let process = Process(pid);
    process.reset_peak()?;
    let cpu_before = process.cpu()?;

    let since = Clock::System.now();
    join(&client, "new", nodes, &[taint()]).await?;
    eyes.wait(IN_SERVICE + nodes).await?;
    rest(&client).await?;
    let actor = Actor {
        agent: OPERATOR,
        since,
    };
    let cpu = process.cpu()?.saturating_sub(cpu_before);
    let peak = process.peak()?;
    controller.kill()?;
    let entries = plane.audit()?;
    Ok(Wave {
        nodes,
        check,
        load: [load_before, load()],
        cpu,
        peak,
        writes: log::writes(&entries, actor),
        passages: log::passages(&entries),
    })
}

fn taint() -> Taint {
    let (key, value, effect) = DEFAULT_GATE_TAINT;
    Taint {
        key: key.to_owned(),
        value: Some(value.to_owned()),
        effect: effect.to_owned(),
        time_added: None,
    }
}

/// So many nodes register, as fast as the server takes them.
async fn join(client: &Client, kind: &str, count: usize, taints: &[Taint]) -> Result<()> {
    let registrations = (1..=count).map(|number| Registration {
        name: format!("{kind}-{number:04}"),
        provider_id: format!("kwok://{kind}-{number:04}"),
        zone: "a".to_owned(),
        labels: [("group".to_owned(), kind.to_owned())].into(),
        taints: taints.to_vec(),
    });
    stream::iter(registrations)
        .map(Ok)
        .try_for_each_concurrent(AT_ONCE, |one| async move { register(client, &one).await })
        .await
}

/// Until no worker is left: what is written after the last node counts too.
async fn rest(client: &Client) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), DEFAULT_NAMESPACE);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = pods
            .list_metadata(&ListParams::default())
            .await?
            .items
            .len();
        if left == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{left} workers were left after {PATIENCE:?}");
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// What an outsider sees of the wave.
struct Eyes {
    /// Whether pods may land on each node.
    nodes: Store<Node, bool>,
    _following: Following,
}

impl Eyes {
    async fn open(client: &Client) -> Self {
        let nodes = Store::keeping(|node: Node| {
            let (key, _, effect) = DEFAULT_GATE_TAINT;
            let view = NodeView::of(&node);
            let mut taints = view.taints.iter();
            view.ready && !taints.any(|taint| taint.key == key && taint.effect == effect)
        });
        let following = nodes.start(Api::all(client.clone()), store::Settings::default(), |_| ());
        nodes.synced().await;
        Self {
            nodes,
            _following: following,
        }
    }

    /// Until so many nodes are open.
    async fn wait(&self, wanted: usize) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let open = self.nodes.list().iter().filter(|open| ***open).count();
            if open == wanted {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{open} of {wanted} nodes were open after {PATIENCE:?}");
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}
