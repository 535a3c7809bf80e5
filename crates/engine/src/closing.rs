//! Closing: which outdated nodes take no new pods, and when they do again.
//!
//! Owns the choice between a soft and a hard taint where a run leaves it open. The scheduler scores
//! every node of a small cluster, so that a soft taint is enough for a moved pod to land where it may
//! stay. Of a large one it scores about half, misses the new nodes at times, and the pod moves twice.
//! There the first nodes of a plan are closed, half of the cluster at most: what is left is open, and
//! among it the scheduler finds the new nodes. A pod that finds no place opens them all again. Where the run
//! itself asks for closed nodes, they are opened only for pods that its tasks take back from new nodes: those have
//! nowhere else to go. Must not close anything on its own: taints are marks of `run`.

use jiff::Timestamp;
use shipshape_api::gates::OutdatedTaintEffect;
use shipshape_api::{NodePatchRun, NodePatchRunSpec, NodePatchTask, TaskStep};

use crate::run::is_over;

/// Up to so many nodes the scheduler scores them all, unless it is told otherwise.
const SCORED: usize = 100;

/// A pod that the scheduler has no place for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Homeless {
    /// Namespace and name.
    pub pod: String,
    /// Since when.
    pub since: Timestamp,
}

/// How many nodes from the beginning of a plan are closed, in a cluster of so many.
pub fn closed(spec: &NodePatchRunSpec, planned: usize, nodes: usize) -> Option<i32> {
    let count = match spec.outdated_taint_effect {
        Some(OutdatedTaintEffect::NoSchedule) => planned,
        None if nodes > SCORED => planned.min(nodes / 2),
        Some(OutdatedTaintEffect::PreferNoSchedule) | None => 0,
    };
    i32::try_from(count).ok().filter(|count| *count > 0)
}

/// What the taint on the node with this number in the plan asks of the scheduler.
pub fn effect(run: &NodePatchRun, number: usize) -> OutdatedTaintEffect {
    let status = run.status.as_ref();
    let is_reopened = status.is_some_and(|status| status.reopened.is_some());
    let closed = status.and_then(|status| status.plan.as_ref()?.closed);
    let closed = closed.and_then(|count| usize::try_from(count).ok());
    let is_closed = closed.is_some_and(|count| number < count);
    match run.spec.outdated_taint_effect {
        _ if is_reopened => OutdatedTaintEffect::PreferNoSchedule,
        Some(said) => said,
        None if is_closed => OutdatedTaintEffect::NoSchedule,
        None => OutdatedTaintEffect::PreferNoSchedule,
    }
}

/// Whether the run has come to ask for soft taints after it has closed nodes.
pub fn is_overruled(run: &NodePatchRun) -> bool {
    let soft = Some(OutdatedTaintEffect::PreferNoSchedule);
    let closed = run.status.as_ref().filter(|status| {
        status.reopened.is_none() && status.plan.as_ref().is_some_and(|it| it.closed.is_some())
    });
    run.spec.outdated_taint_effect == soft && closed.is_some_and(|status| !is_over(status))
}

/// Whether the run keeps nodes closed, which a homeless pod may open.
pub fn keeps_closed(run: &NodePatchRun) -> bool {
    let soft = Some(OutdatedTaintEffect::PreferNoSchedule);
    // A plan of an earlier version does not count what its run has asked to close.
    let is_asked_for = run.spec.outdated_taint_effect == Some(OutdatedTaintEffect::NoSchedule);
    let closed = run.status.as_ref().filter(|status| {
        let plan = status.plan.as_ref();
        status.reopened.is_none() && plan.is_some_and(|it| is_asked_for || it.closed.is_some())
    });
    run.spec.outdated_taint_effect != soft && closed.is_some_and(|status| !is_over(status))
}

/// Whether a homeless pod opens what the run keeps closed. Where somebody has asked for closed nodes, a pod may have to
/// wait for a new one; but not for ever, while a task that takes its attempt back empties just those.
pub fn may_reopen<'a>(
    run: &NodePatchRun,
    open: impl IntoIterator<Item = &'a NodePatchTask>,
) -> bool {
    let is_own_choice = run.spec.outdated_taint_effect.is_none();
    keeps_closed(run) && (is_own_choice || open.into_iter().any(is_taking_back))
}

/// Whether the task takes its attempt back and has pods to move for that: they may have no place but old nodes.
pub fn is_taking_back(task: &NodePatchTask) -> bool {
    task.status.as_ref().is_some_and(|status| {
        let is_emptying = status.drain.as_ref().is_some_and(|it| it.remaining > 0);
        status.step_name() == TaskStep::Undo && is_emptying
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use shipshape_api::NodePatchRunStatus;
    use shipshape_api::conditions::COMPLETED;
    use shipshape_api::node_patch_run::RunPlan;
    use shipshape_api::node_patch_task::{DrainRecord, StepRecord};

    use super::*;
    use crate::condition::{self, Claim, Truth};

    #[test]
    fn the_first_nodes_of_a_large_cluster_are_closed_up_to_half_of_it() {
        let table = [
            (100, 100, None),
            (101, 101, Some(50)),
            (200, 200, Some(100)),
            (30, 200, Some(30)),
            (0, 200, None),
        ];
        for (planned, nodes, expected) in table {
            let spec = NodePatchRunSpec::default();
            let count = closed(&spec, planned, nodes);
            assert_eq!(count, expected, "{planned} of {nodes}");
            let said = NodePatchRunSpec {
                outdated_taint_effect: Some(OutdatedTaintEffect::PreferNoSchedule),
                ..spec
            };
            assert_eq!(closed(&said, planned, nodes), None, "the run says it");
            let said = NodePatchRunSpec {
                outdated_taint_effect: Some(OutdatedTaintEffect::NoSchedule),
                ..said
            };
            let all = i32::try_from(planned).ok().filter(|all| *all > 0);
            assert_eq!(closed(&said, planned, nodes), all, "the run says it");
        }
    }

    fn at(step: TaskStep, remaining: i32) -> NodePatchTask {
        let mut task = NodePatchTask::default();
        let status = task.status.get_or_insert_default();
        status.step = Some(StepRecord {
            name: step,
            since: Time(Timestamp::UNIX_EPOCH),
            deadline: None,
        });
        status.drain = Some(DrainRecord {
            remaining,
            ..DrainRecord::default()
        });
        task
    }

    #[test]
    fn a_run_that_says_what_it_wants_gets_it_until_tasks_take_pods_back() {
        let (soft, hard) = (
            OutdatedTaintEffect::PreferNoSchedule,
            OutdatedTaintEffect::NoSchedule,
        );
        let table = [
            (None, Some(2), false, [hard, soft]),
            (None, Some(2), true, [soft, soft]),
            (None, None, false, [soft, soft]),
            (Some(soft), Some(2), false, [soft, soft]),
            (Some(hard), None, false, [hard, hard]),
            (Some(hard), Some(2), false, [hard, hard]),
            (Some(hard), Some(2), true, [soft, soft]),
        ];
        for (asked, closed, is_reopened, expected) in table {
            let mut run = NodePatchRun::default();
            run.spec.outdated_taint_effect = asked;
            let plan = RunPlan {
                closed,
                ..RunPlan::default()
            };
            run.status = Some(NodePatchRunStatus {
                plan: Some(Arc::new(plan)),
                reopened: is_reopened.then(|| "a pod".to_owned()),
                ..NodePatchRunStatus::default()
            });
            let effects = [effect(&run, 1), effect(&run, 2)];
            assert_eq!(effects, expected, "{asked:?} {closed:?} {is_reopened}");
            let is_chosen = asked.is_none() && closed.is_some();
            let keeps = (is_chosen || asked == Some(hard)) && !is_reopened;
            assert_eq!(keeps_closed(&run), keeps);
            assert_eq!(may_reopen(&run, []), is_chosen && !is_reopened);
            // One that drains its old node, one whose new node is empty or never was, and one that empties it.
            let others = [at(TaskStep::Drain, 1), at(TaskStep::Undo, 0)];
            assert_eq!(may_reopen(&run, &others), is_chosen && !is_reopened);
            assert_eq!(may_reopen(&run, [&at(TaskStep::Undo, 1)]), keeps);
            let overruled = asked == Some(soft) && closed.is_some() && !is_reopened;
            assert_eq!(is_overruled(&run), overruled);
            let over = run.status.as_mut().unwrap();
            let claim = Claim {
                kind: COMPLETED,
                truth: Truth::True,
                reason: "Done",
                message: String::new(),
            };
            condition::set(&mut over.conditions, claim, None, Timestamp::UNIX_EPOCH);
            assert!(!keeps_closed(&run) && !is_overruled(&run), "it is over");
        }
    }
}
