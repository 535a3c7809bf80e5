//! Karpenter as a roller: its release as a process, with its own provider for kwok's nodes.
//!
//! Owns its one pool and the drift. Nodes come by its provider, as large as those of the embedded cloud and
//! as late. Must not measure.

use std::time::Duration;

use anyhow::{Result, bail};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::json;
use shipshape_scenarios::story;
use tokio::time::{Instant, sleep};

use super::roller::Roller;
use super::scene::{Case, Scene};
use crate::binaries::karpenter::Karpenter as Built;
use crate::karpenter::{self, Karpenter};

/// Name of the pool, its class and its one type of machine.
const POOL: &str = "bench";
/// A change of this label is what nodes drift from.
const GENERATION: &str = "bench.shipshape.dev/generation";
/// For this long after it gave a node to a pod it does not touch that node: twice the longest batch of
/// pods. It begins without that handicap.
const NOMINATION: Duration = Duration::from_secs(20);
/// How long it may take to do what is not measured.
const PATIENCE: Duration = Duration::from_mins(2);

/// The process.
pub(super) struct KarpenterRoller {
    process: Karpenter,
}

impl Roller for KarpenterRoller {
    const NAME: &'static str = "Karpenter";
    const AGENT: &'static str = "karpenter/";
    type There = Built;

    async fn enter(scene: &Scene, case: &Case, there: &Built) -> Result<Self> {
        let process = Karpenter::start(&scene.plane, &scene.client, there).await?;
        // A tenth of the nodes at once, and nothing but drift moves any.
        let pool = karpenter::pool(POOL, &json!({ GENERATION: "1" }), &json!([]));
        for object in [karpenter::class(POOL, case.boot), pool] {
            story::create(&scene.client, &object).await?;
        }
        Ok(Self { process })
    }

    async fn get_ready(&mut self, scene: &Scene) -> Result<()> {
        let nodes = scene.eyes.ready_nodes();
        self.wait_for_claims(scene, |claims| {
            claims.len() == nodes && claims.iter().all(karpenter::is_initialized)
        })
        .await?;
        sleep(NOMINATION).await;
        self.process.check()
    }

    fn pid(&self) -> Result<u32> {
        Ok(self.process.pid())
    }

    async fn begin(&mut self, scene: &Scene, _case: &Case) -> Result<()> {
        let patch =
            json!({ "spec": { "template": { "metadata": { "labels": { GENERATION: "2" } } } } });
        let pools = karpenter::api(&scene.client, "NodePool");
        pools
            .patch(POOL, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    async fn wait_for_rest(&self, scene: &Scene) -> Result<()> {
        self.wait_for_claims(scene, |claims| {
            let mut leaving = claims
                .iter()
                .filter(|claim| claim.metadata.deletion_timestamp.is_some());
            leaving.next().is_none()
        })
        .await
    }

    fn last_words(&self) -> String {
        self.process.last_words()
    }

    fn end(mut self) -> Result<()> {
        // It ends with the value.
        self.process.check()
    }
}

impl KarpenterRoller {
    async fn wait_for_claims(
        &self,
        scene: &Scene,
        is_so: impl Fn(&[DynamicObject]) -> bool,
    ) -> Result<()> {
        let api = karpenter::api(&scene.client, "NodeClaim");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let claims = api.list(&ListParams::default()).await?.items;
            if is_so(&claims) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "Karpenter's {} claims are not as they should be after {PATIENCE:?}\n{}",
                    claims.len(),
                    self.last_words()
                );
            }
            sleep(Duration::from_millis(500)).await;
        }
    }
}
