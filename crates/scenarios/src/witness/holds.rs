//! What is held for a while and given back: Deployments and scale-down of nodes (I9, I10), and node
//! locks (I26).
//!
//! Owns the checks of one holder at a time, of originals that are saved once, and of their return.

use jiff::Timestamp;
use shipshape_api::conditions::HELD;
use shipshape_api::names::lock_name;
use shipshape_api::reasons::SCALE_DOWN_FORBIDDEN;
use shipshape_api::{NodePatchRun, NodePatchTask, NodePatchTaskStatus, TaskStep};
use shipshape_engine::view::{NodeView, ScaleDown};

use super::Witness;

/// A Deployment as it was last seen.
#[derive(Clone, Debug)]
pub(super) struct Deployed {
    pub(super) replicas: i32,
    pub(super) saved: Option<String>,
}

impl Witness {
    /// I10: what is saved is the count before the change, and is never written over. I9: what comes
    /// back is what was saved.
    pub(super) fn take_deployment(&mut self, at: Timestamp, name: String, now: Deployed) {
        let Some(before) = self.deployments.get(&name).cloned() else {
            self.deployments.insert(name, now);
            return;
        };
        match (&before.saved, &now.saved) {
            (None, Some(saved)) if *saved != before.replicas.to_string() => {
                let text = format!(
                    "{saved} was saved for Deployment {name}, which had {}",
                    before.replicas
                );
                self.violated("I10", at, text);
            }
            (Some(first), Some(second)) if first != second => {
                let text = format!(
                    "what was saved for Deployment {name} changed from {first} to {second}"
                );
                self.violated("I10", at, text);
            }
            (Some(saved), None)
                if *saved != now.replicas.to_string() && !self.is_left_as_set(&before, &now) =>
            {
                let text = format!(
                    "Deployment {name} got {} back, {saved} were saved",
                    now.replicas
                );
                self.violated("I9", at, text);
            }
            _ => {}
        }
        self.deployments.insert(name, now);
    }

    /// Whether somebody has set another count during the hold, and a run has said to leave it then.
    fn is_left_as_set(&self, before: &Deployed, now: &Deployed) -> bool {
        let mut runs = self.runs.values();
        let leaves = runs.any(|run| {
            let control = run.spec.autoscaler_control.as_ref();
            control.is_some_and(|control| !control.force_restore())
        });
        leaves && before.replicas != 0 && now.replicas == before.replicas
    }

    /// I9: a run that says so keeps the autoscaler from removing any node of its plan. Told from two watches,
    /// so only where they keep their order. Must be called before the run is taken in.
    pub(super) fn check_all_held(&mut self, at: Timestamp, run: &NodePatchRun) {
        let says_so = |run: &NodePatchRun| {
            let mut conditions = run.status.iter().flat_map(|status| &status.conditions);
            conditions.any(|one| one.type_ == HELD && one.reason == SCALE_DOWN_FORBIDDEN)
        };
        let uid = run.metadata.uid.clone().unwrap_or_default();
        let is_news = says_so(run) && !self.runs.get(&uid).is_some_and(|before| says_so(before));
        let plan = run.status.as_ref().and_then(|status| status.plan.as_ref());
        let waves = plan.into_iter().flat_map(|plan| &plan.partitions);
        let nodes = waves.flat_map(|wave| &wave.nodes);
        let free: Vec<String> = nodes
            .filter_map(|name| self.nodes.get(name))
            .filter(|node| is_news && self.is_exact && node.scale_down == ScaleDown::Unsaid)
            .map(|node| format!("the autoscaler may remove node {} of the plan", node.name))
            .collect();
        for text in free {
            self.violated("I9", at, text);
        }
    }

    /// I9: what a run has given back it does not hold again, unless its plan has grown or one of its nodes
    /// is tried again. Must be called before the Deployment is taken in.
    pub(super) fn check_held_once(&mut self, at: Timestamp, name: &str, held_by: Option<&str>) {
        let before = self.deployments.get(name);
        let was_held = before.is_some_and(|before| before.saved.is_some());
        let Some(uid) = held_by.filter(|_| !was_held) else {
            return;
        };
        let run = self.runs.get(uid).and_then(|run| run.status.as_ref());
        let plan = run.and_then(|status| status.plan.as_ref());
        let plan = plan.map(|plan| plan.plan_version.clone());
        let place = (name.to_owned(), uid.to_owned());
        let first = self.held_for.insert(place, plan.clone());
        let mut tasks = self.tasks.values();
        let is_tried_again = tasks.any(|task| task.spec.run_uid == uid && is_under_way(task));
        if first == Some(plan) && !is_tried_again {
            let text = format!("run {uid} holds Deployment {name} again, which it had given back");
            self.violated("I9", at, text);
        }
    }

    /// I9: at rest nothing is held.
    pub(super) fn check_nothing_held(&mut self, at: Timestamp) {
        let held = self
            .deployments
            .iter()
            .filter(|(_, one)| one.saved.is_some());
        let mut held: Vec<String> = held.map(|(name, _)| format!("Deployment {name}")).collect();
        let nodes = self.nodes.values();
        let nodes = nodes.filter(|node| matches!(node.scale_down, ScaleDown::HeldBy(_)));
        held.extend(nodes.map(|node| format!("node {}", node.name)));
        for what in held {
            self.violated("I9", at, format!("{what} is still held"));
        }
    }

    /// I10: what somebody else has told the autoscaler about a node stays. I9: what we have told it goes
    /// without a trace.
    pub(super) fn check_scale_down(&mut self, at: Timestamp, node: &NodeView) {
        let before = self.known.get(&node.uid).map(|known| &known.scale_down);
        let invariant = match (before, &node.scale_down) {
            (Some(ScaleDown::Foreign), ScaleDown::Unsaid | ScaleDown::HeldBy(_)) => "I10",
            (Some(ScaleDown::HeldBy(_)), ScaleDown::Foreign) => "I9",
            _ => return,
        };
        let text = format!(
            "what the autoscaler is told of node {} went from {before:?} to {:?}",
            node.name, node.scale_down
        );
        self.violated(invariant, at, text);
    }

    /// I9: a replacement that counts is held, where the run forbids scale-down. Told from two watches,
    /// so only where they keep their order.
    pub(super) fn check_replacement_held(&mut self, at: Timestamp, task: &NodePatchTask) {
        let run = self.runs.get(&task.spec.run_uid).filter(|_| self.is_exact);
        let forbids = run.is_some_and(|run| run.spec.forbids_scale_down());
        let status = task.status.as_ref();
        let is_over = status.is_some_and(|status| status.step_name().is_final());
        let new = status.and_then(|status| status.new_node_name.as_ref());
        let new = new.and_then(|name| self.nodes.get(name));
        if let Some(node) = new.filter(|_| forbids && !is_over)
            && node.scale_down == ScaleDown::Unsaid
        {
            let text = format!("the autoscaler may remove replacement {}", node.name);
            self.violated("I9", at, text);
        }
    }

    /// I26: a lock goes from one task to another only when the first has come to its end.
    pub(super) fn take_lock(&mut self, at: Timestamp, name: &str, operation: &str) {
        let first = self.lock_of.insert(name.to_owned(), operation.to_owned());
        let Some(first) = first.filter(|first| *first != operation) else {
            return;
        };
        if self
            .tasks
            .get(&first)
            .is_some_and(|task| is_under_way(task))
        {
            let text = format!(
                "lock {name} went from task {first} to {operation} while the first was under way"
            );
            self.violated("I26", at, text);
        }
    }

    /// I26: a task that cordons its node holds the node's lock. Told from two watches, so only where
    /// they keep their order.
    pub(super) fn check_lock_of(&mut self, at: Timestamp, node: &NodeView, operation: &str) {
        let Some(task) = self.tasks.get(operation).filter(|_| self.is_exact) else {
            return;
        };
        let holder = self.lock_of.get(&lock_name(&node.name));
        if task.spec.node_uid == node.uid && holder.is_none_or(|holder| holder != operation) {
            let text = format!("node {} was cordoned without its lock", node.name);
            self.violated("I26", at, text);
        }
    }
}

/// Whether a task has taken its lock and not come to give it back.
fn is_under_way(task: &NodePatchTask) -> bool {
    let step = task.status.as_ref().map(NodePatchTaskStatus::step_name);
    step.is_some_and(|step| !step.is_final() && !matches!(step, TaskStep::Lock | TaskStep::Release))
}
