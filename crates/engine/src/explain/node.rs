//! Why a node is as it is: its task, its place in a plan, or nothing at all.

use shipshape_api::node_patch_run::{NodePatchRunStatus, RunPlan};
use shipshape_api::{NodePatchRun, NodePatchTask, RunState, TaskStep};

use super::{Explanation, Scene, name_of, step_of, task, wait};
use crate::plan::is_meant;
use crate::run::{is_over, state};
use crate::view::NodeView;
use crate::wish::handle;

/// The task that says most about a node: one under way before one that has ended, the latest first.
pub fn task_of_node<'a>(tasks: &'a [NodePatchTask], name: &str) -> Option<&'a NodePatchTask> {
    let about = tasks.iter().filter(|task| task.spec.node_name == name);
    about.max_by_key(|task| {
        let made = task.metadata.creation_timestamp.as_ref().map(|at| at.0);
        (step_of(task) != TaskStep::Done, made)
    })
}

/// Explains a node; `None` when nobody has ever heard of it.
pub fn node(name: &str, scene: &Scene<'_>) -> Option<Explanation> {
    let live = scene.nodes.iter().find(|node| node.name == name);
    let own = task_of_node(scene.tasks, name);
    // What has ended says less than a run that has yet to come to the node.
    let own = own.filter(|own| {
        let next = live.and_then(|live| planned(live, scene));
        let run_uid = next.and_then(|(run, ..)| run.metadata.uid.as_deref());
        !step_of(own).is_final() || run_uid.is_none_or(|uid| uid == own.spec.run_uid)
    });
    let mut told = if let Some(own) = own {
        task(own, scene)
    } else {
        of_node_without_task(live?, scene)
    };
    told.object = format!("node {name}");
    if let Some(live) = live {
        notes(&mut told, live);
    }
    Some(told)
}

/// How a node stands that no task is about: its place in a plan, or that no run touches it.
pub fn place_of(name: &str, scene: &Scene<'_>) -> Option<String> {
    let live = scene.nodes.iter().find(|node| node.name == name)?;
    let told = of_node_without_task(live, scene);
    Some(match told.waits_for {
        Some(waits_for) => format!("{}, and waits for {waits_for}", told.state),
        None => told.state,
    })
}

fn of_node_without_task(node: &NodeView, scene: &Scene<'_>) -> Explanation {
    let mut told = Explanation::default();
    let Some((run, status, place)) = planned(node, scene) else {
        let mut tasks = scene.tasks.iter();
        let brought_by = tasks.find(|task| is_replacement(task, node));
        told.state = match brought_by {
            Some(task) => format!(
                "a replacement: it took the place of {}",
                task.spec.node_name
            ),
            None => "no run touches this node".to_owned(),
        };
        return told;
    };
    if state(run) == RunState::Ending {
        told.state = format!(
            "stays as it is: run {} ends before its turn",
            name_of(&run.metadata)
        );
        return told;
    }
    let now = status.current_iteration.unwrap_or(0) + 1;
    told.state = format!(
        "waits for its turn in run {}: number {} of {} in wave {} of {}",
        name_of(&run.metadata),
        place.number,
        place.size,
        place.wave,
        place.waves
    );
    told.waits_for = Some(if place.wave > now {
        format!("wave {now} to end")
    } else {
        status
            .waiting_for
            .as_deref()
            .map_or_else(|| "a slot".to_owned(), wait)
    });
    if state(run) == RunState::Paused {
        told.waits_for = Some("its run to be resumed".to_owned());
        told.since = status.state_since.as_ref().map(|at| at.0);
        told.help(format!(
            "its run is paused; go on with: shipshape resume {}",
            handle(run)
        ));
    }
    told
}

/// The run that has the node in its plan and is not over, with the node's place there.
fn planned<'a>(
    node: &NodeView,
    scene: &Scene<'a>,
) -> Option<(&'a NodePatchRun, &'a NodePatchRunStatus, Place)> {
    scene.runs.iter().find_map(|run| {
        let status = run.status.as_ref().filter(|status| !is_over(status))?;
        let place = place(status.plan.as_ref()?, node)?;
        Some((run, status, place))
    })
}

struct Place {
    wave: i32,
    waves: usize,
    number: usize,
    size: usize,
}

fn place(plan: &RunPlan, node: &NodeView) -> Option<Place> {
    plan.partitions.iter().find_map(|wave| {
        let place = wave.nodes.iter().position(|name| *name == node.name)?;
        is_meant(wave, place, node).then_some(Place {
            wave: wave.index + 1,
            waves: plan.partitions.len(),
            number: place + 1,
            size: wave.nodes.len(),
        })
    })
}

fn is_replacement(task: &NodePatchTask, node: &NodeView) -> bool {
    let status = task.status.as_ref();
    status.and_then(|status| status.new_node_uid.as_deref()) == Some(node.uid.as_str())
}

fn notes(told: &mut Explanation, node: &NodeView) {
    if !node.ready {
        told.notes.push("the node is not ready".to_owned());
    }
    match (&node.cordoned_by, node.unschedulable) {
        (Some(_), true) => told.notes.push("it is cordoned by Shipshape".to_owned()),
        (None, true) => told
            .notes
            .push("it is cordoned by somebody else, and stays so".to_owned()),
        (_, false) => {}
    }
}
