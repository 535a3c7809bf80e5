//! Rehearsal: a run played in virtual time on a copy of somebody's cluster.
//!
//! Owns how the copy is set up and what is told besides the usual report. Must not reach the cluster
//! that was copied: it gets values and gives values. Called by `shipshape simulate --from-cluster`.

mod affinity;
mod copy;
mod pods;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use shipshape_api::{NodePatchRun, NodePatchTask, NodePatchTaskStatus, TaskStep};
use shipshape_engine::machine::{MachineId, MachineState};
use shipshape_engine::settings::Settings;
use shipshape_simulator::cloud::{CloudSettings, CloudSpec, GroupSpec};
use shipshape_simulator::world::{World, WorldSpec};

use crate::report::Outcome;
use crate::scenario::{Expectations, Scenario, WorldSection};
use crate::stage::Stage;
use crate::story::{Played, StoryError, create, play_on};
pub use copy::{Copy, Original};

/// Pods start and budgets are counted within this time.
const SETTLING: Duration = Duration::from_mins(5);
/// Longer than any run should take.
const LIMIT: SignedDuration = SignedDuration::from_hours(24 * 14);

/// So often in its own time a rehearsal says how far it is.
const TICK: Duration = Duration::from_secs(30);

/// How far a rehearsal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The time that has passed in it since the run began.
    pub elapsed: SignedDuration,
    /// Machines that are gone, of those that there were.
    pub replaced: usize,
    /// Machines that there were.
    pub total: usize,
}

/// How long machines take in the copy.
#[derive(Clone, Copy, Debug)]
pub struct Machines {
    /// From the call to a ready node.
    pub ready: SignedDuration,
    /// From the request of a machine's end to its end.
    pub gone: SignedDuration,
}

/// What a rehearsal came to.
pub struct Rehearsed {
    /// The usual report and picture.
    pub played: Played,
    /// Nodes that were not replaced, and why.
    pub left: Vec<(String, String)>,
}

/// Plays a run on a copy, on a runtime of its own; not to be called from within one. `watch` is told now
/// and then how far it is.
pub fn rehearse_alone(
    copy: &Copy,
    run: &NodePatchRun,
    machines: Machines,
    seed: u64,
    watch: &mut dyn FnMut(Progress),
) -> Result<Rehearsed, StoryError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(StoryError::Runtime)?;
    runtime.block_on(Box::pin(rehearse(copy, run, machines, seed, watch)))
}

async fn rehearse(
    copy: &Copy,
    run: &NodePatchRun,
    machines: Machines,
    seed: u64,
    watch: &mut dyn FnMut(Progress),
) -> Result<Rehearsed, StoryError> {
    let mut run = run.clone();
    let groups = copy
        .marked(&mut run.spec)
        .map_err(|error| StoryError::Unreadable {
            what: "spec.nodeSelector".to_owned(),
            message: error.to_string(),
        })?;
    let world = World::start(spec(groups, machines, seed)).await?;
    let stage = Stage::embedded(&world);
    // First the cordons, so that nothing is scheduled where nothing would be.
    cordon(&stage, copy).await?;
    for object in &copy.objects {
        create(&stage.client("world"), object).await?;
    }
    tokio::time::sleep(SETTLING).await;
    let scenario = scenario(&run);
    let mut played = tokio::select! {
        biased;
        played = Box::pin(play_on(&stage, &scenario)) => played?,
        never = tell(&stage, watch) => match never {},
    };
    played.report.seed = seed;
    played.report.trace_hash = world.trace_hash();
    let left = left(&stage).await?;
    Ok(Rehearsed { played, left })
}

/// Tells how far it is, for as long as it is polled. Asks the cloud's own books, which nobody logs: the
/// story is the same whether somebody watches or not.
async fn tell(stage: &Stage, watch: &mut dyn FnMut(Progress)) -> Infallible {
    let began = stage.clock.now();
    let before: Vec<MachineId> = ids(stage);
    loop {
        tokio::time::sleep(TICK).await;
        let now = ids(stage);
        let gone = before.iter().filter(|one| !now.contains(one)).count();
        watch(Progress {
            elapsed: stage.clock.now().duration_since(began),
            replaced: gone,
            total: before.len(),
        });
    }
}

fn ids(stage: &Stage) -> Vec<MachineId> {
    let machines = stage.cloud.machines().into_iter();
    let is_gone = |state| matches!(state, MachineState::Terminating | MachineState::Terminated);
    let alive = machines.filter(|one| !is_gone(one.state));
    alive.map(|one| one.id).collect()
}

/// Closes the copies of the nodes that are closed.
async fn cordon(stage: &Stage, copy: &Copy) -> Result<(), StoryError> {
    let api: Api<Node> = Api::all(stage.client("world"));
    for name in &copy.cordoned {
        let closed = Patch::Merge(json!({ "spec": { "unschedulable": true } }));
        api.patch(name, &PatchParams::default(), &closed)
            .await
            .map_err(|source| StoryError::Refused {
                what: format!("the cordon of {name}"),
                source: Box::new(source),
            })?;
    }
    Ok(())
}

fn spec(groups: Vec<GroupSpec>, machines: Machines, seed: u64) -> WorldSpec {
    let mut spec = WorldSpec::small(seed, 0);
    let ready = Duration::try_from(machines.ready).unwrap_or_default();
    // The way of a machine to a ready node is boot, join and readiness; the last has its own delay.
    let rest = ready.saturating_sub(spec.delays.node_ready);
    spec.delays.join = rest / 4;
    spec.cloud = CloudSpec {
        region: "copy".to_owned(),
        groups,
        settings: CloudSettings {
            boot: rest * 3 / 4,
            terminate: Duration::try_from(machines.gone).unwrap_or_default(),
            ..CloudSettings::default()
        },
        ..CloudSpec::default()
    };
    spec.patience = ready * 4 + Duration::from_mins(10);
    spec
}

/// The run as the copy can play it: the embedded cloud takes the place of the real one.
fn scenario(run: &NodePatchRun) -> Scenario {
    let name = run.metadata.name.clone().unwrap_or_default();
    let namespace = run.metadata.namespace.clone();
    let mut spec = run.spec.clone();
    spec.provider = shipshape_api::ProviderRef {
        r#type: "embedded".to_owned(),
        ..shipshape_api::ProviderRef::default()
    };
    spec.autoscaler_control = None;
    spec.paused = None;
    spec.abort = None;
    let intent: Value = json!({
        "apiVersion": "shipshape.dev/v1alpha1",
        "kind": "NodePatchRun",
        "metadata": { "name": name, "namespace": namespace.unwrap_or_else(|| "default".to_owned()) },
        "spec": spec,
    });
    Scenario {
        name: format!("rehearsal of {name}"),
        description: String::new(),
        embedded_only: true,
        world: WorldSection::default(),
        settings: Settings::default(),
        gate: None,
        intents: vec![intent],
        events: Vec::new(),
        expect: Expectations {
            outcome: Outcome::Converged,
            within: LIMIT,
            failed: Some(0),
            ..Expectations::default()
        },
    }
}

/// Nodes that were not replaced, and why.
async fn left(stage: &Stage) -> Result<Vec<(String, String)>, StoryError> {
    let api: Api<NodePatchTask> = Api::all(stage.client("story"));
    let tasks = api
        .list(&ListParams::default())
        .await
        .map_err(|source| StoryError::Refused {
            what: "the list of tasks".to_owned(),
            source: Box::new(source),
        })?;
    let open = tasks.items.into_iter().filter(|task| {
        let step = task.status.as_ref().map(NodePatchTaskStatus::step_name);
        step != Some(TaskStep::Done)
    });
    let told = open.map(|task| {
        let status = task.status.unwrap_or_default();
        let why = status.last_error.or(status.waiting_for);
        (task.spec.node_name, why.unwrap_or_default())
    });
    Ok(told.collect())
}
