//! Which nodes a run still has to mark, and which still carry its marks.
//!
//! Owns how many are looked at in one pass. Must not write: the marks are effects of the decision.

use shipshape_api::node_patch_run::{Partition, RunPlan};
use shipshape_cluster::Key;
use shipshape_engine::decision::NodeTarget;
use shipshape_engine::plan;
use shipshape_engine::run::marks_wanted;
use shipshape_engine::view::NodeView;

use super::super::line::{Part, Turn};
use super::Look;
use crate::context::NODES_BY_MARK;

/// Nodes that are marked or unmarked in one pass.
const MARKS_AT_ONCE: usize = 50;

impl Look<'_> {
    pub(super) fn unmarked(&self) -> Vec<NodeTarget> {
        let is_marked = self.run.status.as_ref().and_then(|it| it.marked) == Some(true);
        let Some(plan) = self.plan().filter(|_| !is_marked) else {
            return Vec::new();
        };
        let part = Part {
            name: self.marks(),
            plan_version: plan.plan_version.clone(),
            iteration: usize::MAX,
            size: plan.total(),
        };
        let nodes = &self.context.stores.nodes;
        let wanted = marks_wanted(&self.run.spec);
        let is_due = |number| {
            let (wave, place) = place_of(plan, number)?;
            let node = nodes.get(&Key::cluster(wave.nodes.get(place)?))?;
            let is_due = plan::is_meant(wave, place, &node) && node.lacks(wanted);
            is_due.then(|| self.target(&node))
        };
        let lines = &self.context.lines;
        lines.walk(part, MARKS_AT_ONCE, |number| {
            is_due(number).map_or(Turn::Over, Turn::Waits)
        })
    }

    /// The line of those that are to be marked.
    pub(super) fn marks(&self) -> String {
        format!("{} marks", self.uid)
    }

    /// Asked for only once nobody is in work, because marks go last.
    pub(super) fn marked(&self, is_idle: bool) -> Vec<NodeTarget> {
        if !is_idle {
            return Vec::new();
        }
        let nodes = &self.context.stores.nodes;
        let marked = nodes.first_by_index(NODES_BY_MARK, &self.uid, MARKS_AT_ONCE);
        marked.iter().map(|node| self.target(node)).collect()
    }

    fn target(&self, node: &NodeView) -> NodeTarget {
        NodeTarget {
            name: node.name.clone(),
            uid: node.uid.clone(),
            resource_version: node.resource_version.clone(),
            operation: self.uid.clone(),
        }
    }
}

/// Partition and place of the node with that number in the whole plan.
fn place_of(plan: &RunPlan, number: usize) -> Option<(&Partition, usize)> {
    let mut place = number;
    for wave in &plan.partitions {
        if place < wave.nodes.len() {
            return Some((wave, place));
        }
        place -= wave.nodes.len();
    }
    None
}
