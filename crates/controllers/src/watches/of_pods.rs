//! Which change of a pod or a volume wakes whom.
//!
//! Owns what is news of a pod: each pod of a node that is emptied changes several times, and hundreds go at once. Must not
//! leave out what a drain, an undo or a gate reads.

use jiff::Timestamp;
use shipshape_api::{NodePatchRun, NodePatchTask, NodePatchTaskStatus, TaskStep};
use shipshape_cluster::queue::Queue;
use shipshape_cluster::{Change, Key, Store};
use shipshape_engine::closing::keeps_closed;
use shipshape_engine::drain::is_news;
use shipshape_engine::view::PodView;

use super::wake_all;
use crate::context::{PODS_BY_NODE, Stores, TASKS_BY_NODE, TASKS_BY_REPLACEMENT, TASKS_BY_STEP};
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
    waiting.retain(|task| waits_for_pods(task, node));
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
    let name = change.object().node.as_str();
    if !name.is_empty() && !is_as_asked {
        let mut waiting = stores.tasks.by_index(TASKS_BY_NODE, name);
        let node = stores.nodes.get(&Key::cluster(name));
        if let Some(id) = node.as_ref().and_then(|node| node.provider_id.as_ref()) {
            waiting.extend(stores.tasks.by_index(TASKS_BY_REPLACEMENT, id.as_str()));
        }
        waiting.retain(|task| waits_for_pods(task, name));
        waiting.retain(|task| !is_draining(task) || moves_drain(stores, task, change));
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
        for run in runs.list().iter().filter(|run| keeps_closed(run)) {
            queue.add(Key::of(run.as_ref()));
        }
    }
}

/// Whether a task waits for pods on the node of this name, which is its old or its new one. A drain empties the
/// old one: each pod that it moves changes several times on a new one.
fn waits_for_pods(task: &NodePatchTask, node: &str) -> bool {
    let step = task.status.as_ref().map(NodePatchTaskStatus::step_name);
    let has_daemons = !task.spec.required_node_daemon_pod_selectors.is_empty();
    let is_old = task.spec.node_name == node;
    match step {
        Some(TaskStep::Drain | TaskStep::RemoveMember | TaskStep::Remove | TaskStep::Parked) => {
            is_old
        }
        // Where the old machine goes first, its daemons are looked at before the cordon.
        Some(TaskStep::Cordon) => is_old && has_daemons,
        // The new node may have the old one's name.
        Some(TaskStep::Join) => has_daemons,
        Some(TaskStep::Undo) => true,
        _ => false,
    }
}

fn is_draining(task: &NodePatchTask) -> bool {
    let step = task.status.as_ref().map(NodePatchTaskStatus::step_name);
    step == Some(TaskStep::Drain)
}

/// Whether the drain of a pod's node has something to do about what has become of the pod.
fn moves_drain(stores: &Stores, task: &NodePatchTask, change: &Change<PodView>) -> bool {
    let (old, new) = match change {
        Change::Deleted { old } => (Some(old.as_ref()), None),
        Change::Applied { old, new } => (old.as_deref(), Some(new.as_ref())),
    };
    let left = stores.pods.by_index(PODS_BY_NODE, &task.spec.node_name);
    let left = left.iter().map(AsRef::as_ref);
    let status = task.status.as_ref();
    let record = status.and_then(|status| status.drain.as_ref());
    is_news((old, new), left, record)
}

/// Whether a pod begins to leave that was asked to: its drain has counted it as leaving since it asked.
pub(super) fn is_as_asked(evictions: &Evictions, change: &Change<PodView>, now: Timestamp) -> bool {
    match change {
        Change::Applied {
            old: Some(old),
            new,
        } => {
            let begins = !old.terminating && new.terminating && !new.finished;
            begins && evictions.is_asked(&new.uid, now)
        }
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

    use k8s_openapi::api::core::v1::Pod;
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
        // By pods of the old node, without and with daemons that are required, and by those of the new one.
        let table = [
            (TaskStep::Drain, true, true, false),
            (TaskStep::Remove, true, true, false),
            (TaskStep::Undo, true, true, true),
            (TaskStep::Parked, true, true, false),
            (TaskStep::Join, false, true, true),
            (TaskStep::Cordon, false, true, false),
            (TaskStep::Provision, false, false, false),
        ];
        for (step, without, with, by_new) in table {
            for (spec, node, wanted) in [
                (NodePatchTaskSpec::default(), "", without),
                (daemons.clone(), "", with),
                (daemons.clone(), "new", by_new),
            ] {
                let mut task = NodePatchTask::new("task", spec);
                task.status.get_or_insert_default().step = Some(StepRecord {
                    name: step,
                    since: Time(Timestamp::UNIX_EPOCH),
                    deadline: None,
                });
                assert_eq!(waits_for_pods(&task, node), wanted, "{step:?} {node}");
            }
        }
    }

    #[test]
    fn a_drain_is_woken_by_the_last_of_its_pods_and_by_none_before() {
        let stores = Stores::new();
        let on_node = |uid: &str| {
            let mut pod = Pod::default();
            pod.metadata.name = Some(uid.to_owned());
            pod.metadata.namespace = Some("shop".to_owned());
            pod.metadata.uid = Some(uid.to_owned());
            pod.metadata.resource_version = Some("1".to_owned());
            pod.spec.get_or_insert_default().node_name = Some("old".to_owned());
            pod
        };
        let task = NodePatchTask::new(
            "task",
            NodePatchTaskSpec {
                node_name: "old".to_owned(),
                ..NodePatchTaskSpec::default()
            },
        );
        let deleted = Change::Deleted {
            old: Arc::new(pod(true, false)),
        };
        assert!(moves_drain(&stores, &task, &deleted), "it was the last");
        stores.pods.learn(on_node("other"));
        assert!(!moves_drain(&stores, &task, &deleted), "another is left");
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
        let ended = PodView {
            finished: true,
            ..pod(true, false)
        };
        let at_once = change(pod(false, true), ended);
        assert!(!is_as_asked(&evictions, &at_once, now), "it counts no more");
        let goes_on = change(pod(true, true), pod(true, false));
        assert!(!is_as_asked(&evictions, &goes_on, now));
    }
}
