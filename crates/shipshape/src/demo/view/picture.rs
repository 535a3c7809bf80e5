//! The picture of a roll: nodes by zone, the step of each, what it waits for, how far the run is.
//!
//! A pure function of the cluster's objects, so that a test can look at it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use shipshape_api::{NodePatchRun, NodePatchTask};
use shipshape_engine::view::NodeView;

use crate::drawing::{bar, colour, paint};

/// What the picture is drawn from.
pub(super) struct Facts<'a> {
    pub(super) nodes: &'a [Arc<Node>],
    pub(super) tasks: &'a [Arc<NodePatchTask>],
    pub(super) runs: &'a [Arc<NodePatchRun>],
    pub(super) elapsed: SignedDuration,
    pub(super) speed: String,
    pub(super) is_coloured: bool,
}

/// The picture, not yet cut to a terminal.
pub(super) struct Picture {
    /// How far everything is.
    head: Vec<String>,
    /// By zone, what is known of each node.
    zones: BTreeMap<String, Vec<NodeLine>>,
}

struct NodeLine {
    text: String,
    step: String,
    in_work: bool,
}

impl Picture {
    /// The lines, at most `rows` of them: where not all nodes fit, those in work go first and the
    /// others are counted.
    pub(super) fn fit(&self, rows: Option<usize>) -> Vec<String> {
        let mut lines = self.head.clone();
        lines.push(String::new());
        for (zone, nodes) in &self.zones {
            lines.push(format!("zone {zone}"));
            lines.extend(nodes.iter().map(|node| node.text.clone()));
        }
        match rows {
            Some(rows) if rows < lines.len() => self.condensed(rows),
            _ => lines,
        }
    }

    fn condensed(&self, rows: usize) -> Vec<String> {
        let mut lines = self.head.clone();
        let room = rows.saturating_sub(lines.len() + 1);
        let (in_work, others): (Vec<_>, Vec<_>) =
            self.zones.values().flatten().partition(|node| node.in_work);
        let (shown, left) = in_work.split_at(room.min(in_work.len()));
        lines.extend(shown.iter().map(|node| node.text.clone()));
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for node in left.iter().chain(&others) {
            *counts.entry(&node.step).or_default() += 1;
        }
        let counts = counts.iter().map(|(step, count)| format!("{count} {step}"));
        let counts: Vec<_> = counts.collect();
        lines.push(format!(
            "  and {} more nodes: {}",
            left.len() + others.len(),
            counts.join(", ")
        ));
        lines.truncate(rows);
        lines
    }
}

/// Draws the picture.
pub(super) fn picture(facts: &Facts<'_>) -> Picture {
    let seconds = facts.elapsed.as_secs();
    let mut head = vec![format!(
        "Shipshape demo   {:02}:{:02}:{:02} in the cluster, speed {}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        facts.speed
    )];
    head.extend(facts.runs.iter().map(|run| run_line(run)));
    let mut zones: BTreeMap<String, Vec<NodeLine>> = BTreeMap::new();
    for node in facts.nodes {
        let node = NodeView::of(node);
        let line = node_line(&node, facts);
        zones.entry(node.zone).or_default().push(line);
    }
    Picture { head, zones }
}

fn run_line(run: &NodePatchRun) -> String {
    let status = run.status.clone().unwrap_or_default();
    let (done, total) = (status.completed.unwrap_or(0), status.total.unwrap_or(0));
    let bar = bar(done, total);
    let name = run.metadata.name.as_deref().unwrap_or_default();
    let waiting = status
        .waiting_for
        .map(|text| format!("  waits for {text}"))
        .unwrap_or_default();
    format!("run {name}  {bar}  {done} of {total}{waiting}")
}

fn node_line(node: &NodeView, facts: &Facts<'_>) -> NodeLine {
    let tasks = facts.tasks;
    let about = |task: &&Arc<NodePatchTask>| task.spec.node_uid == node.uid;
    let replaced_by = |task: &&Arc<NodePatchTask>| {
        let status = task.status.as_ref();
        status.and_then(|status| status.new_node_uid.as_deref()) == Some(node.uid.as_str())
    };
    let mut in_work = false;
    let (colour, step, words) = if let Some(task) = tasks.iter().find(about) {
        let status = task.status.clone().unwrap_or_default();
        let step = status.step_name();
        in_work = !step.is_final();
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
    let shown = paint(&format!("{step:<10}"), colour, facts.is_coloured);
    let text = format!("  {:<24} {shown} {cordon:<9} {words}", node.name);
    NodeLine {
        text,
        step,
        in_work,
    }
}

#[cfg(test)]
mod tests {
    use shipshape_api::node_patch_run::{NodePatchRunSpec, NodePatchRunStatus};
    use shipshape_api::{NodePatchTaskSpec, NodePatchTaskStatus};
    use shipshape_engine::decision::PodTarget;
    use shipshape_engine::drain::{Block, BlockedPod, DrainMove};

    use super::*;

    fn node(name: &str) -> Arc<Node> {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node.metadata.uid = Some(name.to_owned());
        let zone = ("topology.kubernetes.io/zone".to_owned(), "a".to_owned());
        node.metadata.labels = Some([zone].into());
        Arc::new(node)
    }

    fn task(node: &str) -> Arc<NodePatchTask> {
        let spec = NodePatchTaskSpec {
            node_name: node.to_owned(),
            node_uid: node.to_owned(),
            ..NodePatchTaskSpec::default()
        };
        Arc::new(NodePatchTask::new(node, spec))
    }

    fn drawn(nodes: &[Arc<Node>], tasks: &[Arc<NodePatchTask>]) -> Picture {
        let mut run = NodePatchRun::new("roll", NodePatchRunSpec::default());
        run.status = Some(NodePatchRunStatus {
            completed: Some(1),
            total: Some(2),
            waiting_for: Some("a slot".to_owned()),
            ..NodePatchRunStatus::default()
        });
        picture(&Facts {
            nodes,
            tasks,
            runs: &[Arc::new(run)],
            elapsed: SignedDuration::from_secs(3_725),
            speed: "20x".to_owned(),
            is_coloured: false,
        })
    }

    #[test]
    fn the_picture_names_zones_nodes_and_progress() {
        let text = drawn(&[node("n1")], &[]).fit(None).join("\n");
        for expected in ["01:02:05", "1 of 2", "waits for a slot", "zone a", "n1"] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
        assert!(!text.contains('\x1b'), "nobody asked for colours\n{text}");
    }

    #[test]
    fn a_budget_that_blocks_a_drain_is_named_with_its_pod() {
        let blocked = DrainMove {
            blocked: vec![BlockedPod {
                pod: PodTarget {
                    namespace: "shop".to_owned(),
                    name: "web-1".to_owned(),
                    uid: "u".to_owned(),
                },
                block: Block::Hopeless {
                    budget: "web-budget".to_owned(),
                    demand: "maxUnavailable 0".to_owned(),
                },
            }],
            remaining: 1,
            ..DrainMove::default()
        };
        let mut draining = NodePatchTask::clone(&task("n1"));
        draining.status = Some(NodePatchTaskStatus {
            waiting_for: blocked.reason(),
            ..NodePatchTaskStatus::default()
        });
        let picture = drawn(&[node("n1"), node("n2")], &[Arc::new(draining)]);
        for rows in [None, Some(5)] {
            let text = picture.fit(rows).join("\n");
            for expected in ["shop/web-1", "web-budget", "maxUnavailable 0"] {
                assert!(text.contains(expected), "{expected} is missing in\n{text}");
            }
        }
    }

    #[test]
    fn a_low_terminal_shows_the_nodes_in_work_and_counts_the_others() {
        let nodes: Vec<_> = (0..30).map(|place| node(&format!("n{place:02}"))).collect();
        let picture = drawn(&nodes, &[task("n17"), task("n23")]);
        assert_eq!(picture.fit(Some(34)).len(), 34, "all fit");
        let lines = picture.fit(Some(9));
        let text = lines.join("\n");
        assert!(lines.len() <= 9, "{text}");
        for expected in ["1 of 2", "n17", "n23", "and 28 more nodes: 28 joining"] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
        for rows in 0..40 {
            assert!(picture.fit(Some(rows)).len() <= rows, "{rows} rows");
        }
    }
}
