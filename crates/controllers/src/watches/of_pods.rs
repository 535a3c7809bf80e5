//! Which change of a pod or a volume wakes whom.
//!
//! Owns what is news of a pod: each pod of a node that is emptied changes several times, and hundreds go at once. Must not
//! leave out what a drain, an undo or a gate reads.

use jiff::Timestamp;
use shipshape_api::{NodePatchRun, NodePatchTask, NodePatchTaskStatus, TaskStep};
use shipshape_cluster::queue::Queue;
use shipshape_cluster::{Change, Key, Store};
use shipshape_engine::closing::may_reopen;
use shipshape_engine::view::PodView;

use super::wake_all;
use crate::context::{Stores, TASKS_BY_NODE, TASKS_BY_REPLACEMENT, TASKS_BY_STEP};
use crate::evictions::Evictions;

/// A pod that leaves, or whose name another has taken, settles what was asked of it.
pub(super) fn note_leaving(evictions: &Evictions, change: &Change<PodView>) {
    let gone = match change {
        Change::Applied { new, .. } if new.terminating => Some(new),
        Change::Applied { old, new } => old.as_ref().filter(|old| old.uid != new.uid),
        Change::Deleted { old } => Some(old),
    };
    if let Some(pod) = gone {
        evictions.saw_leaving(&pod.uid);
    }
}

/// A volume that is detached lets the drain of its node go on.
pub(super) fn wake_drain(tasks: &Store<NodePatchTask>, queue: &Queue<Key>, node: &str) {
    let mut waiting = tasks.by_index(TASKS_BY_NODE, node);
    waiting.retain(|task| waits_for_pods(task));
    wake_all(queue, waiting);
}

/// The drain of its node waits for a pod, the join of its node may, and the gates wait for pods that
/// become ready anywhere. A change that no decision can see is no news, nor is what the drain has just asked for.
pub(super) fn wake_for_pod(
    stores: &Stores,
    queue: &Queue<Key>,
    change: &Change<PodView>,
    is_as_asked: bool,
) {
    if !is_pod_news(change) {
        return;
    }
    let node = change.object().node.as_str();
    if !node.is_empty() && !is_as_asked {
        let mut waiting = stores.tasks.by_index(TASKS_BY_NODE, node);
        let node = stores.nodes.get(&Key::cluster(node));
        if let Some(id) = node.as_ref().and_then(|node| node.provider_id.as_ref()) {
            waiting.extend(stores.tasks.by_index(TASKS_BY_REPLACEMENT, id.as_str()));
        }
        waiting.retain(|task| waits_for_pods(task));
        wake_all(queue, waiting);
    }
    if is_readiness_news(change) {
        for step in ["Settle", "Recover", "Parked"] {
            wake_all(queue, stores.tasks.by_index(TASKS_BY_STEP, step));
        }
    }
}

/// A pod that finds no place may open nodes that a run has closed.
pub(super) fn wake_for_homeless(
    runs: &Store<NodePatchRun>,
    queue: &Queue<Key>,
    change: &Change<PodView>,
) {
    let Change::Applied { old, new } = change else {
        return;
    };
    let was_homeless = old.as_ref().is_some_and(|old| old.homeless_since.is_some());
    if new.homeless_since.is_some() && !was_homeless {
        for run in runs.list().iter().filter(|run| may_reopen(run)) {
            queue.add(Key::of(run.as_ref()));
        }
    }
}

fn waits_for_pods(task: &NodePatchTask) -> bool {
    let step = task.status.as_ref().map(NodePatchTaskStatus::step_name);
    let has_daemons = !task.spec.required_node_daemon_pod_selectors.is_empty();
    match step {
        Some(
            TaskStep::Drain
            | TaskStep::RemoveMember
            | TaskStep::Remove
            | TaskStep::Undo
            | TaskStep::Parked,
        ) => true,
        // Where the old machine goes first, its daemons are looked at before the cordon.
        Some(TaskStep::Join | TaskStep::Cordon) => has_daemons,
        _ => false,
    }
}

/// Whether a pod begins to leave that was asked to: its drain has counted it as leaving since it asked.
pub(super) fn is_as_asked(evictions: &Evictions, change: &Change<PodView>, now: Timestamp) -> bool {
    match change {
        Change::Applied {
            old: Some(old),
            new,
        } => !old.terminating && new.terminating && evictions.is_asked(&new.uid, now),
        Change::Applied { old: None, .. } | Change::Deleted { .. } => false,
    }
}

/// Whether a pod has changed in what anybody reads of it. Of one that is leaving that is until when, what holds
/// it, and whether it has ended: each pod of a node that is emptied goes through several changes before it is gone.
fn is_pod_news(change: &Change<PodView>) -> bool {
    let leaving = |pod: &PodView| {
        let (uid, finalizers) = (pod.uid.clone(), pod.finalizers.clone());
        (uid, pod.gone_by, finalizers, pod.finished)
    };
    match change {
        Change::Applied {
            old: Some(old),
            new,
        } if old.terminating && new.terminating => leaving(old) != leaving(new),
        Change::Applied {
            old: Some(old),
            new,
        } => old != new,
        Change::Applied { old: None, .. } | Change::Deleted { .. } => true,
    }
}

pub(super) fn is_readiness_news(change: &Change<PodView>) -> bool {
    match change {
        Change::Applied {
            old: Some(old),
            new,
        } => old.ready != new.ready,
        Change::Applied { old: None, .. } | Change::Deleted { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use shipshape_api::NodePatchTaskSpec;
    use shipshape_api::node_patch_task::StepRecord;
    use shipshape_api::selectors::PodSelector;
    use shipshape_engine::decision::PodTarget;

    use super::*;

    fn pod(terminating: bool, ready: bool) -> PodView {
        PodView {
            uid: "uid".to_owned(),
            terminating,
            ready,
            ..PodView::default()
        }
    }

    fn change(old: PodView, new: PodView) -> Change<PodView> {
        Change::Applied {
            old: Some(Arc::new(old)),
            new: Arc::new(new),
        }
    }

    #[test]
    fn of_a_pod_that_leaves_only_what_a_drain_reads_is_news() {
        let (leaving, still) = (pod(true, true), pod(true, false));
        assert!(!is_pod_news(&change(leaving.clone(), still.clone())));
        let ended = PodView {
            finished: true,
            ..still.clone()
        };
        let held = PodView {
            finalizers: vec!["a/b".to_owned()],
            ..still.clone()
        };
        let another = PodView {
            uid: "another".to_owned(),
            ..still.clone()
        };
        for news in [ended, held, another] {
            assert!(is_pod_news(&change(still.clone(), news)));
        }
        assert!(is_pod_news(&change(pod(false, true), pod(false, false))));
        assert!(is_pod_news(&change(pod(false, true), leaving.clone())));
        assert!(!is_pod_news(&change(pod(false, true), pod(false, true))));
        let old = Arc::new(leaving);
        assert!(is_pod_news(&Change::Deleted { old }));
    }

    #[test]
    fn each_step_that_reads_pods_is_woken_by_them() {
        let daemons = NodePatchTaskSpec {
            required_node_daemon_pod_selectors: vec![PodSelector::default()],
            ..NodePatchTaskSpec::default()
        };
        let table = [
            (TaskStep::Drain, true, true),
            (TaskStep::Remove, true, true),
            (TaskStep::Undo, true, true),
            (TaskStep::Parked, true, true),
            (TaskStep::Join, false, true),
            (TaskStep::Cordon, false, true),
            (TaskStep::Provision, false, false),
        ];
        for (step, without, with) in table {
            for (spec, wanted) in [
                (NodePatchTaskSpec::default(), without),
                (daemons.clone(), with),
            ] {
                let mut task = NodePatchTask::new("task", spec);
                task.status.get_or_insert_default().step = Some(StepRecord {
                    name: step,
                    since: Time(Timestamp::UNIX_EPOCH),
                    deadline: None,
                });
                assert_eq!(waits_for_pods(&task), wanted, "{step:?}");
            }
        }
    }

    #[test]
    fn a_pod_that_somebody_else_sends_away_wakes_its_drain() {
        let (evictions, now) = (Evictions::default(), Timestamp::UNIX_EPOCH);
        let begins = change(pod(false, true), pod(true, true));
        assert!(!is_as_asked(&evictions, &begins, now));
        let target = PodTarget {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: "uid".to_owned(),
        };
        evictions.take(&target, None, now);
        assert!(is_as_asked(&evictions, &begins, now));
        let goes_on = change(pod(true, true), pod(true, false));
        assert!(!is_as_asked(&evictions, &goes_on, now));
    }
}
