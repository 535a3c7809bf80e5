//! Shipshape as a roller: its controller as a process, machines from the embedded cloud.
//!
//! Owns the run that is created and the wait for its end. Must not measure.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use shipshape_api::NodePatchRun;
use shipshape_api::conditions::COMPLETED;
use shipshape_api::gates::OutdatedTaintEffect;
use shipshape_api::names::DEFAULT_NAMESPACE;
use shipshape_cluster::Clock;
use shipshape_engine::condition;
use shipshape_scenarios::stage::OPERATOR;
use shipshape_simulator::cloud::{Cloud, CloudSettings, CloudSpec, GroupSpec, wire};
use shipshape_simulator::seed::Seed;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::roller::Roller;
use super::scene::{Case, Scene};
use crate::controller::{CloudAt, Controller};
use crate::fleet::Fleet;
use crate::stage::install_kinds;

/// The controller and its cloud. Parts end in this order.
pub(super) struct ShipshapeRoller {
    controller: Controller,
    serving: JoinHandle<()>,
    _fleet: Fleet,
}

impl Roller for ShipshapeRoller {
    const NAME: &'static str = "Shipshape";
    const AGENT: &'static str = OPERATOR;
    type There = ();

    async fn enter(scene: &Scene, case: &Case, (): &()) -> Result<Self> {
        install_kinds(&scene.client).await?;
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(DEFAULT_NAMESPACE.to_owned());
        let namespaces: Api<Namespace> = Api::all(scene.client.clone());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        let cloud = cloud(case);
        let fleet = Fleet::start(scene.client.clone(), &cloud);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let cloud_at = CloudAt::Embedded(listener.local_addr()?);
        let (kubeconfig, folder) = (scene.plane.kubeconfig(), scene.plane.folder());
        let controller = Controller::prepare_with(kubeconfig, folder, &cloud_at, "")?;
        let remote = cloud.handle("remote");
        let serving = tokio::spawn(async move {
            if let Err(error) = wire::serve(remote, listener).await {
                tracing::warn!(%error, "the cloud is no longer served");
            }
        });
        let roller = Self {
            controller,
            serving,
            _fleet: fleet,
        };
        let nodes = usize::try_from(case.nodes)?;
        scene.wait(|eyes| eyes.ready_nodes() == nodes).await?;
        Ok(roller)
    }

    async fn get_ready(&mut self, scene: &Scene) -> Result<()> {
        self.controller.start()?;
        self.controller.wait_until_at_work(&scene.plane).await
    }

    fn pid(&self) -> Result<u32> {
        self.controller.pid().context("no controller runs")
    }

    async fn begin(&mut self, scene: &Scene, case: &Case) -> Result<()> {
        let effect = case
            .closes_outdated
            .then_some(OutdatedTaintEffect::NoSchedule);
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

    async fn wait_for_rest(&self, scene: &Scene) -> Result<()> {
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
                    self.last_words()
                );
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    fn last_words(&self) -> String {
        self.controller.last_words()
    }

    fn end(mut self) -> Result<()> {
        self.serving.abort();
        self.controller.kill()
    }
}

fn runs(scene: &Scene) -> Api<NodePatchRun> {
    Api::namespaced(scene.client.clone(), "default")
}

fn cloud(case: &Case) -> Cloud {
    let mut group = GroupSpec::new("workers", "image-2", case.nodes);
    group.running_image = Some("image-1".to_owned());
    let spec = CloudSpec {
        region: "north".to_owned(),
        groups: vec![group],
        settings: CloudSettings {
            boot: case.boot,
            terminate: Duration::ZERO,
            jitter: 0,
            ..CloudSettings::default()
        },
        ..CloudSpec::default()
    };
    Cloud::new(&spec, Clock::System, &Seed::new(1))
}
