//! The story: a scenario played on a stage, from the first object to the report.
//!
//! Owns the order of a play: namespaces, operator, intents, events, the end, a time of rest. Must not
//! look into the operator: it starts it, may kill it, and reads the world.

mod events;
mod gate;
mod last_words;
mod leftovers;
mod operator_process;
mod own;
mod own_checks;
mod runs;
mod standstill;
mod troubles;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use shipshape_api::conditions::{ACCEPTED, SUCCEEDED};
use shipshape_api::reasons::NODE_LEFT;
use shipshape_api::{NodePatchRun, NodePatchTask, TaskStep, names};
use shipshape_engine::run::is_over;
use shipshape_simulator::world::{World, WorldError};
use thiserror::Error;
use tokio::task::JoinError;

use crate::observer::Observer;
use crate::report::{NodeCount, Outcome, Report};
use crate::scenario::{Expectations, Scenario};
use crate::stage::Stage;
use crate::timeline::Timeline;
use crate::witness::Witness;

pub use operator_process::OperatorProcess;
use own::Own;
pub use troubles::Troubles;

/// A story that could not be played.
#[derive(Debug, Error)]
pub enum StoryError {
    /// The world did not start.
    #[error(transparent)]
    World(#[from] WorldError),
    /// No runtime to play on.
    #[error("cannot start a runtime")]
    Runtime(#[source] std::io::Error),
    /// The API refused an object of the scenario.
    #[error("the API refused {what}")]
    Refused {
        /// The object: where it stands in the file, if it does, kind and name.
        what: String,
        /// What the API said.
        source: Box<kube::Error>,
    },
    /// The operator's process ended by itself.
    #[error("the operator ended badly")]
    Operator(#[source] JoinError),
    /// An object of the scenario is no object.
    #[error("{what} cannot be read: {message}")]
    Unreadable {
        /// Which.
        what: String,
        /// What is wrong with it.
        message: String,
    },
}

impl StoryError {
    /// Says where in the scenario the object stands.
    fn at(mut self, place: &str) -> Self {
        if let Self::Refused { what, .. } | Self::Unreadable { what, .. } = &mut self {
            *what = format!("{place}, {what}");
        }
        self
    }
}

/// What a play leaves behind.
pub struct Played {
    /// The report.
    pub report: Report,
    /// The picture.
    pub timeline: Timeline,
}

/// Plays a scenario on an embedded cluster of its own. To be called on a runtime with paused time
/// and one thread; then the same seed gives the same trace.
pub async fn play(scenario: &Scenario, seed: u64) -> Result<Played, StoryError> {
    play_through(scenario, seed, &Troubles::none()).await
}

/// Plays a scenario whose operator meets these troubles, like `play`.
async fn play_through(
    scenario: &Scenario,
    seed: u64,
    troubles: &Troubles,
) -> Result<Played, StoryError> {
    let world = World::start(scenario.world.spec(seed)).await?;
    let stage = Stage::embedded(&world);
    let mut played = Box::pin(play_troubled(&stage, scenario, troubles)).await?;
    played.report.seed = seed;
    played.report.trace_hash = world.trace_hash();
    Ok(played)
}

/// Plays a scenario in virtual time, on a runtime of its own; not to be called from within one.
pub fn play_alone(scenario: &Scenario, seed: u64) -> Result<Played, StoryError> {
    play_alone_through(scenario, seed, &Troubles::none())
}

/// Plays a scenario whose operator meets these troubles, like `play_alone`.
pub fn play_alone_through(
    scenario: &Scenario,
    seed: u64,
    troubles: &Troubles,
) -> Result<Played, StoryError> {
    let _spans = record_spans();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(StoryError::Runtime)?;
    runtime.block_on(play_through(scenario, seed, troubles))
}

/// Lets spans have ids, by which the witness tells passes apart, unless somebody logs: then they have.
fn record_spans() -> Option<tracing::subscriber::DefaultGuard> {
    use tracing::level_filters::LevelFilter;
    use tracing_subscriber::layer::SubscriberExt;
    let is_logged = tracing::enabled!(tracing::Level::ERROR);
    let spans = || tracing_subscriber::registry().with(LevelFilter::INFO);
    (!is_logged).then(|| tracing::subscriber::set_default(spans()))
}

/// Plays a scenario on a stage that somebody else has set. Seed and hash are the caller's.
pub async fn play_on(stage: &Stage, scenario: &Scenario) -> Result<Played, StoryError> {
    play_troubled(stage, scenario, &Troubles::none()).await
}

/// Plays a scenario whose operator meets these troubles, like `play_on`.
pub async fn play_troubled(
    stage: &Stage,
    scenario: &Scenario,
    troubles: &Troubles,
) -> Result<Played, StoryError> {
    prepare(&stage.client("story"), &scenario.intents).await?;
    let witness = Witness::new(stage.lag.is_zero());
    let observer = Observer::start(stage.clone(), witness, troubles.ears()).await;
    let mut operator_process = OperatorProcess::troubled(stage, &scenario.settings, troubles)
        .with_gate(scenario.gate.as_ref());
    operator_process.start();
    let _rival = troubles.start_rival(stage, scenario);
    let _end = troubles.end_later();
    let (start, began) = (stage.clock.now(), wall_clock());
    let machines = stage.cloud.machines().len();
    for (index, intent) in scenario.intents.iter().enumerate() {
        create(&stage.client("story"), intent)
            .await
            .map_err(|error| error.at(&format!("intents[{index}]")))?;
    }
    let own = Own::of(scenario);
    let mut left_aside = Vec::new();
    let limit = start
        .checked_add(scenario.expect.within)
        .unwrap_or(Timestamp::MAX);
    let has_ended = {
        let play = events::play(stage, &observer, scenario, &mut operator_process);
        tokio::select! {
            biased;
            result = play => { result?; true }
            () = stage.clock.sleep_until(limit) => false,
        }
    };
    let span = Span {
        inside: stage.clock.now().duration_since(start).as_secs_f64(),
        outside: began.elapsed().as_secs_f64(),
    };
    if has_ended {
        troubles.end().await;
        last_words::hear(stage, &own, &observer).await;
        observer.with_witness(|witness| witness.begin_rest(stage.clock.now()));
        let rest = Duration::try_from(scenario.expect.rest).unwrap_or_default();
        tokio::time::sleep(rest).await;
        observer.with_witness(|witness| witness.rest(stage.clock.now()));
        let found = leftovers::find(stage, &own, &observer, machines).await?;
        left_aside = found.left_aside;
        for (invariant, text) in found.leftovers {
            let now = stage.clock.now();
            observer.with_witness(|witness| witness.found(invariant, now, text));
        }
    }
    let at_gate = gate::differences(stage, &observer, &scenario.expect.gate);
    operator_process.stop().await?;
    let mut report = report(scenario, &own, &observer, has_ended, &span);
    report.left_aside = left_aside;
    report.unmet.extend(at_gate);
    report.unmet.extend(untold(stage, &scenario.expect).await?);
    Ok(Played {
        report,
        timeline: observer.timeline(),
    })
}

/// How long a story took from its intents to its end, in seconds of the cluster and outside.
struct Span {
    inside: f64,
    outside: f64,
}

/// Makes the namespaces that the operator and the intents need.
async fn prepare(client: &Client, intents: &[Value]) -> Result<(), StoryError> {
    let mut wanted = vec![names::DEFAULT_NAMESPACE.to_owned()];
    wanted.extend(intents.iter().filter_map(|intent| {
        intent
            .pointer("/metadata/namespace")
            .and_then(Value::as_str)
            .map(str::to_owned)
    }));
    wanted.sort();
    wanted.dedup();
    let api: Api<Namespace> = Api::all(client.clone());
    for name in wanted {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.clone());
        match api.create(&PostParams::default(), &namespace).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            Err(source) => return Err(refused(&format!("Namespace {name}"), source)),
        }
    }
    Ok(())
}

/// Creates any object from its manifest.
pub async fn create(client: &Client, manifest: &Value) -> Result<(), StoryError> {
    let (api, object, what) = dynamic(client, manifest)?;
    api.create(&PostParams::default(), &object)
        .await
        .map_err(|source| refused(&what, source))?;
    Ok(())
}

/// The way to an object, the object, and what to call it.
pub(crate) fn dynamic(
    client: &Client,
    manifest: &Value,
) -> Result<(Api<DynamicObject>, DynamicObject, String), StoryError> {
    let unreadable = |message: String| StoryError::Unreadable {
        what: manifest
            .pointer("/metadata/name")
            .map_or("an object".to_owned(), Value::to_string),
        message,
    };
    let object: DynamicObject =
        serde_json::from_value(manifest.clone()).map_err(|error| unreadable(error.to_string()))?;
    let types = object
        .types
        .clone()
        .ok_or_else(|| unreadable("no apiVersion and kind".to_owned()))?;
    let kind = GroupVersionKind::try_from(types).map_err(|error| unreadable(error.to_string()))?;
    let resource = ApiResource::from_gvk(&kind);
    let api = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let what = format!("{} {}", kind.kind, object.name_any());
    Ok((api, object, what))
}

fn refused(what: &str, source: kube::Error) -> StoryError {
    StoryError::Refused {
        what: what.to_owned(),
        source: Box::new(source),
    }
}

/// Whether a run will not move any more: it is over and free to go, or was not accepted.
pub(crate) fn is_settled(run: &NodePatchRun) -> bool {
    let Some(status) = &run.status else {
        return false;
    };
    let is_kept = run.finalizers().iter().any(|one| one == names::FINALIZER);
    let is_refused = status
        .conditions
        .iter()
        .any(|one| one.type_ == ACCEPTED && one.status == "False");
    (is_over(status) && !is_kept) || is_refused
}

fn report(
    scenario: &Scenario,
    own: &Own,
    observer: &Observer,
    has_ended: bool,
    span: &Span,
) -> Report {
    let runs = own.runs(observer);
    let tasks = own.tasks(observer);
    let is_done = has_ended
        && runs
            .iter()
            .all(|run| run.status.as_ref().is_some_and(is_over));
    let step = |wanted: TaskStep| {
        let steps = tasks.iter().filter_map(|task| task.status.as_ref());
        steps.filter(|status| status.step_name() == wanted).count()
    };
    let total: i32 = runs
        .iter()
        .filter_map(|run| run.status.as_ref()?.total)
        .sum();
    let gone = tasks.iter().filter(|it| has_left(it)).count();
    // A node whose task was removed by force may have gone without a second one: only its run speaks of it.
    let told: i32 = runs
        .iter()
        .filter_map(|run| run.status.as_ref()?.left)
        .sum();
    let nodes = NodeCount {
        total: usize::try_from(total).unwrap_or_default(),
        replaced: step(TaskStep::Done) - gone,
        left: gone.max(usize::try_from(told).unwrap_or_default()),
        failed: step(TaskStep::Failed),
        parked: step(TaskStep::Parked),
        made: observer.with_witness(|witness| witness.machines_made()),
    };
    let mut report = observer.with_witness(|witness| Report {
        scenario: scenario.name.clone(),
        outcome: match (witness.violations().is_empty(), is_done) {
            (false, _) => Outcome::Violated,
            (true, true) => Outcome::Converged,
            (true, false) => Outcome::Stalled,
        },
        unmet: Vec::new(),
        left_aside: Vec::new(),
        seed: 0,
        virtual_seconds: span.inside,
        wall_seconds: span.outside,
        nodes,
        pods: witness.pod_count(),
        evictions: witness.eviction_count(),
        requests: witness.request_count(nodes.replaced),
        violations: witness.violations().to_vec(),
        trace_hash: String::new(),
    });
    report.unmet = unmet(&scenario.expect, &report);
    if report.outcome == Outcome::Stalled && scenario.expect.outcome != Outcome::Stalled {
        report.unmet.extend(standstill::describe(own, observer));
    }
    let missing = runs.iter().flat_map(|run| missing(&scenario.expect, run));
    report.unmet.extend(missing);
    let unsaid = observer.with_witness(|witness| {
        let unsaid = |words: &&String| !witness.has_heard(words);
        let says = scenario.expect.says.iter();
        says.filter(unsaid).cloned().collect::<Vec<String>>()
    });
    let unsaid = unsaid.iter();
    let complaints = unsaid.map(|words| format!("nobody ever waited for {words:?}"));
    report.unmet.extend(complaints);
    report
}

/// Whether a task has ended because its node went by itself: then nothing was replaced.
fn has_left(task: &NodePatchTask) -> bool {
    let status = task.status.as_ref();
    let conditions = status.into_iter().flat_map(|status| &status.conditions);
    let mut ends = conditions.filter(|one| one.type_ == SUCCEEDED);
    ends.any(|one| one.reason == NODE_LEFT)
}

/// Conditions of a run that are not as expected.
fn missing(expect: &Expectations, run: &NodePatchRun) -> Vec<String> {
    let status = run.status.as_ref();
    let reason = |kind: &String| {
        let conditions = status.into_iter().flat_map(|status| &status.conditions);
        let mut found = conditions.filter(|one| one.type_ == *kind);
        found.next().map_or("absent", |one| one.reason.as_str())
    };
    let wrong = expect.conditions.iter().filter_map(|(kind, wanted)| {
        let is = reason(kind);
        (is != wanted).then(|| format!("condition {kind} is {is}, expected {wanted}"))
    });
    wrong.collect()
}

/// What no event has said.
async fn untold(stage: &Stage, expect: &Expectations) -> Result<Vec<String>, StoryError> {
    if expect.told.is_empty() {
        return Ok(Vec::new());
    }
    let events: Api<Event> = Api::all(stage.client("story"));
    let events = events
        .list(&ListParams::default())
        .await
        .map_err(|source| refused("the list of events", source))?;
    let is_told = |words: &str| {
        let mut said = events.iter().filter_map(|event| event.message.as_deref());
        said.any(|sentence| sentence.contains(words))
    };
    let silent = expect.told.iter().filter(|words| !is_told(words));
    Ok(silent
        .map(|words| format!("no event says {words:?}"))
        .collect())
}

/// What was expected and did not come about.
fn unmet(expect: &Expectations, report: &Report) -> Vec<String> {
    let mut unmet = Vec::new();
    if report.outcome != expect.outcome {
        unmet.push(format!(
            "outcome is {:?}, expected {:?}",
            report.outcome, expect.outcome
        ));
    }
    let mut compare = |what: &str, expected: Option<usize>, is: usize| {
        if expected.is_some_and(|expected| expected != is) {
            unmet.push(format!(
                "{what} is {is}, expected {}",
                expected.unwrap_or_default()
            ));
        }
    };
    compare("replaced", expect.replaced, report.nodes.replaced);
    compare("failed", expect.failed, report.nodes.failed);
    let mut limit = |what: &str, most: Option<usize>, is: usize| {
        if let Some(most) = most.filter(|most| is > *most) {
            unmet.push(format!("{what} is {is}, expected at most {most}"));
        }
    };
    limit("maxMachines", expect.max_machines, report.nodes.made);
    limit("maxMoves", expect.max_moves, report.pods.max_moves);
    limit("maxRefused", expect.max_refused, report.evictions.refused);
    unmet
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a play takes outside is not part of it"
)]
fn wall_clock() -> std::time::Instant {
    std::time::Instant::now()
}
