//! `shipshape pause`, `resume`, `abort` and `retry`.
//!
//! Owns finding the object and writing the one change; what a wish means is the engine's business.

use std::process::ExitCode;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::Value;
use shipshape_api::{NodePatchRun, NodePatchTask};
use shipshape_cluster::Clock;
use shipshape_engine::explain::{Scene, place_of, task_of_node};
use shipshape_engine::view::NodeView;
use shipshape_engine::wish::{self, Granted, RunWish};

use crate::cli::{RetryOptions, RunOptions};
use crate::connect::{Cluster, names};
use crate::failure::Failure;
use crate::output::say;
use crate::target::{Target, Thing};

/// Who writes these changes.
const MANAGER: &str = "shipshape-cli";

/// Pauses, resumes or calls off a run.
pub(crate) fn of_run(options: &RunOptions, wish: RunWish) -> anyhow::Result<ExitCode> {
    super::block_on(async {
        let cluster = Cluster::connect(&options.cluster).await?;
        if options.target.thing != Thing::Run {
            return Err(whole_run(&cluster, &options.target).await.into());
        }
        let run = find_run(&cluster, &options.target.name).await?;
        let granted = granted(wish::of_run(&run, wish))?;
        let namespace = run.namespace().unwrap_or_default();
        let api: Api<NodePatchRun> = Api::namespaced(cluster.client.clone(), &namespace);
        let change = granted.change.as_ref();
        write(&cluster, &api, &run.name_any(), change).await?;
        tell(&granted)
    })
}

/// Tries a node again.
pub(crate) fn retry(options: &RetryOptions) -> anyhow::Result<ExitCode> {
    super::block_on(async {
        let cluster = Cluster::connect(&options.cluster).await?;
        let tasks: Vec<NodePatchTask> = cluster.all().await?;
        let runs: Vec<NodePatchRun> = cluster.all().await?;
        let task = match find_task(&cluster, &options.target, &tasks) {
            Ok(task) => task,
            Err(otherwise) => {
                let target = &options.target;
                let known = (runs.as_slice(), tasks.as_slice());
                return Err(without_task(&cluster, target, known, otherwise)
                    .await
                    .into());
            }
        };
        let uid = Some(task.spec.run_uid.as_str());
        let run = runs.iter().find(|run| run.metadata.uid.as_deref() == uid);
        let granted = granted(wish::retry(task, run, Clock::System.now()))?;
        let namespace = task.namespace().unwrap_or_default();
        let api: Api<NodePatchTask> = Api::namespaced(cluster.client.clone(), &namespace);
        write(&cluster, &api, &task.name_any(), granted.change.as_ref()).await?;
        tell(&granted)
    })
}

fn granted(answer: Result<Granted, wish::Refused>) -> Result<Granted, Failure> {
    answer.map_err(|refused| Failure::Refused(refused.to_string()))
}

/// Why a node that no task is about cannot be tried again: it may only wait for its turn.
async fn without_task(
    cluster: &Cluster,
    target: &Target,
    (runs, tasks): (&[NodePatchRun], &[NodePatchTask]),
    otherwise: Failure,
) -> Failure {
    if target.thing != Thing::Node {
        return otherwise;
    }
    let nodes: Vec<Node> = match cluster.all().await {
        Ok(nodes) => nodes,
        Err(failure) => return failure,
    };
    let nodes: Vec<NodeView> = nodes.iter().map(NodeView::of).collect();
    let scene = Scene {
        runs,
        tasks,
        nodes: &nodes,
        budgets: &[],
        pods: &[],
    };
    match place_of(&target.name, &scene) {
        Some(place) => Failure::Refused(format!(
            "node {}: {place}; only a parked or failed node can be tried again",
            target.name
        )),
        None => otherwise,
    }
}

/// Why a node or a task cannot be paused by itself, and which run can.
async fn whole_run(cluster: &Cluster, target: &Target) -> Failure {
    let tasks: Vec<NodePatchTask> = match cluster.all().await {
        Ok(tasks) => tasks,
        Err(failure) => return failure,
    };
    let right = match find_task(cluster, target, &tasks) {
        Ok(task) => format!("npr/{}", task.spec.run_name),
        Err(_) => "npr/NAME".to_owned(),
    };
    Failure::WrongInput(format!(
        "{target} cannot be paused, resumed or called off by itself, only its whole run: {right}"
    ))
}

/// The run of that name; where there is none, the names of those that there are.
pub(crate) async fn find_run(cluster: &Cluster, name: &str) -> Result<NodePatchRun, Failure> {
    let runs: Vec<NodePatchRun> = cluster.all().await?;
    let here = runs
        .iter()
        .find(|run| run.name_any() == name && run.namespace().as_ref() == Some(&cluster.namespace));
    if let Some(run) = here {
        return Ok(run.clone());
    }
    let there = match names(cluster, &runs) {
        none if none.is_empty() => "there are no runs at all".to_owned(),
        names => format!("there are: {names}"),
    };
    Err(Failure::Refused(format!(
        "there is no run {name} in namespace {}; {there}",
        cluster.namespace
    )))
}

/// The task that a target means.
pub(crate) fn find_task<'a>(
    cluster: &Cluster,
    target: &Target,
    tasks: &'a [NodePatchTask],
) -> Result<&'a NodePatchTask, Failure> {
    let name = &target.name;
    match target.thing {
        Thing::Node => task_of_node(tasks, name).ok_or_else(|| {
            Failure::Refused(format!("no task is about node {name}; is the name right?"))
        }),
        Thing::Task => {
            let found = tasks.iter().find(|task| {
                task.name_any() == *name && task.namespace().as_ref() == Some(&cluster.namespace)
            });
            found.ok_or_else(|| {
                Failure::Refused(format!(
                    "there is no task {name} in namespace {}; name its node instead: node/NAME",
                    cluster.namespace
                ))
            })
        }
        Thing::Pending => Err(Failure::WrongInput(format!(
            "{target} has no task; name the node instead: node/NAME"
        ))),
        Thing::Run => Err(Failure::WrongInput(format!(
            "{target} is a whole run; name the node that shall be tried again: node/NAME"
        ))),
    }
}

async fn write<K>(
    cluster: &Cluster,
    api: &Api<K>,
    name: &str,
    change: Option<&Value>,
) -> Result<(), Failure>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let Some(change) = change else {
        return Ok(());
    };
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let written = api.patch(name, &params, &Patch::Merge(change)).await;
    let action = format!("change {name}");
    written
        .map(drop)
        .map_err(|error| cluster.failure(&action, &error))
}

fn tell(granted: &Granted) -> anyhow::Result<ExitCode> {
    say(&format!("{}: {}\n", granted.done, granted.next))?;
    Ok(ExitCode::SUCCESS)
}
