//! The picture of a roll: nodes by zone, the step of each, what it waits for, how far the run is.
//!
//! A pure function of the cluster's objects, so that a test can look at it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use shipshape_api::{NodePatchRun, NodePatchTask, TaskStep};
use shipshape_engine::view::NodeView;

const BAR: usize = 24;

/// What the picture is drawn from.
pub(super) struct Facts<'a> {
    pub(super) nodes: &'a [Arc<Node>],
    pub(super) tasks: &'a [Arc<NodePatchTask>],
    pub(super) runs: &'a [Arc<NodePatchRun>],
    pub(super) elapsed: SignedDuration,
    pub(super) speed: String,
}

/// Draws the lines of the picture.
pub(super) fn picture(facts: &Facts<'_>) -> Vec<String> {
    let seconds = facts.elapsed.as_secs();
    let mut lines = vec![format!(
        "Shipshape demo   {:02}:{:02}:{:02} in the cluster, speed {}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        facts.speed
    )];
    for run in facts.runs {
        lines.push(run_line(run));
    }
    lines.push(String::new());
    let mut zones: BTreeMap<String, Vec<NodeView>> = BTreeMap::new();
    for node in facts.nodes {
        let node = NodeView::of(node);
        zones.entry(node.zone.clone()).or_default().push(node);
    }
    for (zone, nodes) in &zones {
        lines.push(format!("zone {zone}"));
        lines.extend(nodes.iter().map(|node| node_line(node, facts.tasks)));
    }
    lines
}

fn run_line(run: &NodePatchRun) -> String {
    let status = run.status.clone().unwrap_or_default();
    let (done, total) = (status.completed.unwrap_or(0), status.total.unwrap_or(0));
    let filled =
        usize::try_from(done).unwrap_or(0) * BAR / usize::try_from(total).unwrap_or(0).max(1);
    let bar = format!(
        "{}{}",
        "█".repeat(filled),
        "░".repeat(BAR - filled.min(BAR))
    );
    let name = run.metadata.name.as_deref().unwrap_or_default();
    let waiting = status
        .waiting_for
        .map(|text| format!("  waits for {text}"))
        .unwrap_or_default();
    format!("run {name}  {bar}  {done} of {total}{waiting}")
}

fn node_line(node: &NodeView, tasks: &[Arc<NodePatchTask>]) -> String {
    let about = |task: &&Arc<NodePatchTask>| task.spec.node_uid == node.uid;
    let replaced_by = |task: &&Arc<NodePatchTask>| {
        let status = task.status.as_ref();
        status.and_then(|status| status.new_node_uid.as_deref()) == Some(node.uid.as_str())
    };
    let (colour, step, words) = if let Some(task) = tasks.iter().find(about) {
        let status = task.status.clone().unwrap_or_default();
        let step = status.step_name();
        (
            colour(step),
            format!("{step:?}"),
            status.waiting_for.unwrap_or_default(),
        )
    } else if let Some(task) = tasks.iter().find(replaced_by) {
        (
            "\x1b[32m",
            "new".to_owned(),
            format!("replaces {}", task.spec.node_name),
        )
    } else if node.ready {
        ("", "ready".to_owned(), String::new())
    } else {
        ("\x1b[36m", "joining".to_owned(), String::new())
    };
    let cordon = if node.unschedulable { "cordoned" } else { "" };
    format!(
        "  {:<24} {colour}{step:<10}\x1b[0m {cordon:<9} {words}",
        node.name
    )
}

fn colour(step: TaskStep) -> &'static str {
    match step {
        TaskStep::Lock | TaskStep::Provision | TaskStep::Join => "\x1b[34m",
        TaskStep::Cordon | TaskStep::Drain => "\x1b[33m",
        TaskStep::Remove | TaskStep::Forget | TaskStep::Release => "\x1b[35m",
        TaskStep::Done => "\x1b[32m",
        TaskStep::Failed => "\x1b[31m",
    }
}

#[cfg(test)]
mod tests {
    use shipshape_api::node_patch_run::{NodePatchRunSpec, NodePatchRunStatus};

    use super::*;

    #[test]
    fn the_picture_names_zones_nodes_and_progress() {
        let mut node = Node::default();
        node.metadata.name = Some("n1".to_owned());
        let zone = ("topology.kubernetes.io/zone".to_owned(), "a".to_owned());
        node.metadata.labels = Some([zone].into());
        let mut run = NodePatchRun::new("roll", NodePatchRunSpec::default());
        run.status = Some(NodePatchRunStatus {
            completed: Some(1),
            total: Some(2),
            waiting_for: Some("a slot".to_owned()),
            ..NodePatchRunStatus::default()
        });
        let lines = picture(&Facts {
            nodes: &[Arc::new(node)],
            tasks: &[],
            runs: &[Arc::new(run)],
            elapsed: SignedDuration::from_secs(3_725),
            speed: "20x".to_owned(),
        });
        let text = lines.join("\n");
        for expected in ["01:02:05", "1 of 2", "waits for a slot", "zone a", "n1"] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
    }
}
