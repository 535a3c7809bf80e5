//! Which nodes a run still has to mark, and which still carry its marks.
//!
//! Owns how many are looked at in one pass. Must not write: the marks are effects of the decision.

use std::sync::Arc;

use shipshape_api::NodePatchTask;
use shipshape_api::gates::OutdatedTaintEffect;
use shipshape_api::node_patch_run::{Partition, RunPlan};
use shipshape_cluster::Key;
use shipshape_engine::closing::{self, Homeless};
use shipshape_engine::decision::NodeTarget;
use shipshape_engine::plan;
use shipshape_engine::run::marks_wanted;
use shipshape_engine::view::NodeView;

use super::super::line::{Part, Turn};
use super::Look;
use crate::context::{NODES_BY_MARK, PODS_HOMELESS};

/// Nodes that are marked or unmarked in one pass, at least.
const MARKS_AT_ONCE: usize = 50;

/// Passes that all nodes of a plan take at most: fewer than a queue grants one key at once.
const PASSES: usize = 16;

impl Look<'_> {
    pub(super) fn unmarked(&self) -> Vec<(NodeTarget, usize)> {
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
        let is_due = |number| {
            let (wave, place) = place_of(plan, number)?;
            let node = nodes.get(&Key::cluster(wave.nodes.get(place)?))?;
            let wanted = marks_wanted(self.run, number);
            let is_too_hard = wanted.outdated == Some(OutdatedTaintEffect::PreferNoSchedule)
                && node.is_closed_by(&self.uid);
            let is_due = plan::is_meant(wave, place, &node) && (node.lacks(wanted) || is_too_hard);
            is_due.then(|| (self.target(&node), number))
        };
        let lines = &self.context.lines;
        lines.walk(part, at_once(plan), |number| {
            is_due(number).map_or(Turn::Over, Turn::Waits)
        })
    }

    /// The line of those that are to be marked; another one when all are opened again, or held too.
    pub(super) fn marks(&self) -> String {
        let status = self.run.status.as_ref();
        let is_soft = status.is_some_and(|status| status.reopened.is_some());
        let marks = match (is_soft, self.run.spec.forbids_scale_down()) {
            (false, false) => "marks",
            (true, false) => "soft marks",
            (false, true) => "holding marks",
            (true, true) => "soft holding marks",
        };
        format!("{} {marks}", self.uid)
    }

    /// Pods that wanted a place before the run cannot be helped by opening its nodes.
    pub(super) fn homeless(&self, open: &[Arc<NodePatchTask>]) -> Option<Homeless> {
        if !closing::may_reopen(self.run, open.iter().map(Arc::as_ref)) {
            return None;
        }
        let begun = self.run.metadata.creation_timestamp.as_ref()?.0;
        let pods = self.context.stores.pods.by_index(PODS_HOMELESS, "");
        let since = pods
            .iter()
            .filter_map(|pod| Some((pod.homeless_since?, pod)));
        let during = since.filter(|(since, _)| *since > begun);
        let (since, pod) = during.min_by_key(|(since, _)| *since)?;
        Some(Homeless {
            pod: format!("{}/{}", pod.namespace, pod.name),
            since,
        })
    }

    /// Asked for only once nobody is in work, because marks go last.
    pub(super) fn marked(&self, is_idle: bool) -> Vec<NodeTarget> {
        if !is_idle {
            return Vec::new();
        }
        let nodes = &self.context.stores.nodes;
        let wanted = self.plan().map_or(MARKS_AT_ONCE, |plan| at_once(plan));
        let marked = nodes.first_by_index(NODES_BY_MARK, &self.uid, wanted);
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

fn at_once(plan: &RunPlan) -> usize {
    plan.total().div_ceil(PASSES).max(MARKS_AT_ONCE)
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
