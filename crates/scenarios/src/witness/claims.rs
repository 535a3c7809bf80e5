//! I24: what a task says of itself, against the world.
//!
//! Owns the check of each condition at the moment it becomes true, and of what must never be taken
//! back. Only where watches keep their order.

use jiff::Timestamp;
use shipshape_api::conditions::{
    CORDONED, DRAINED, NEW_NODE_READY, OLD_DELETED, REPLACEMENT_ENSURED,
};
use shipshape_api::node_patch_task::NodePatchTaskStatus;
use shipshape_api::{NodePatchTask, TaskStep};
use shipshape_engine::condition;
use shipshape_engine::view::NodeView;

use super::Witness;

impl Witness {
    /// Holds the news of a task against the world. `before` is what was known of it.
    pub(super) fn check_claims(
        &mut self,
        at: Timestamp,
        before: Option<&NodePatchTask>,
        task: &NodePatchTask,
        old_machine_runs: bool,
    ) {
        let Some(status) = task.status.as_ref().filter(|_| self.is_exact) else {
            return;
        };
        let was = before.and_then(|task| task.status.as_ref());
        let is_news = |kind: &str| {
            let knew = was.is_some_and(|was| condition::is_true(&was.conditions, kind));
            condition::is_true(&status.conditions, kind) && !knew
        };
        let node = &task.spec.node_name;
        let old = self
            .nodes
            .get(node)
            .filter(|old| old.uid == task.spec.node_uid);
        let machine = status.new_machine.as_ref();
        let mut broken = Vec::new();
        if is_news(REPLACEMENT_ENSURED)
            && machine.is_none_or(|machine| !self.made.contains(&machine.id))
        {
            broken.push("a replacement that nobody made");
        }
        let id = machine.and_then(|machine| machine.provider_id.as_ref());
        if is_news(NEW_NODE_READY) && id.is_none_or(|id| !self.was_ready.contains(id)) {
            broken.push("a new node that never was ready");
        }
        let is_open = |old: &NodeView| !old.unschedulable;
        if is_news(CORDONED) && old.is_some_and(is_open) && !self.foreign_uncordons.contains(node) {
            broken.push("a cordon that is not there");
        }
        if is_news(DRAINED) && old.is_some() && self.pod_left(node).is_some() {
            broken.push("an empty node that has pods");
        }
        if is_news(OLD_DELETED) && old_machine_runs {
            broken.push("the end of a machine that runs");
        }
        if let Some(was) = was {
            broken.extend(taken_back(was, status));
        }
        for what in broken {
            self.violated("I24", at, format!("the task of node {node} claims {what}"));
        }
    }
}

/// What a status must never take back.
fn taken_back(was: &NodePatchTaskStatus, is: &NodePatchTaskStatus) -> Vec<&'static str> {
    let mut broken = Vec::new();
    if is.attempt.unwrap_or(1) < was.attempt.unwrap_or(1) {
        broken.push("an earlier attempt than before");
    }
    if was.step_name() == TaskStep::Done && is.step_name() != TaskStep::Done {
        broken.push("to be under way after its end");
    }
    let is_gone =
        |status: &NodePatchTaskStatus| condition::is_true(&status.conditions, OLD_DELETED);
    if is_gone(was) && !is_gone(is) {
        broken.push("that a machine which was gone is back");
    }
    broken
}
