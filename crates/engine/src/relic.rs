//! Relics: what a run or a task that is gone has left on what is not its own, and how it is put back.
//!
//! A finalizer keeps a run until everything is put back, but somebody may take the finalizer off, and an
//! operator that dies between two writes may have marked what it did not live to record. Owns the
//! judgement of one thing at a time. Must not conclude anything from silence: only a live read that
//! proves the holder gone, or ended and let go, makes a relic. Called by the leader's sweep.

use shipshape_api::{NodePatchRun, NodePatchTask, names};

use crate::autoscaler::DeploymentView;
use crate::decision::{Effect, Marks, NodeTarget};
use crate::ledger::Slot;
use crate::run::is_over;
use crate::snapshot::LockView;
use crate::view::{NodeView, Observed, is_kept};

/// Whether whoever has left its name on something is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// It is, or some of its work is under way.
    Alive,
    /// A live read says that it is gone, or that it has ended and keeps nothing any more.
    Gone,
    /// Nobody could tell; the text says why.
    Unclear(String),
}

/// Whether a run lives. `found` is what a live read of its name found; a run of the same name with
/// another UID is a stranger.
pub fn run_holder(uid: &str, found: &Observed<NodePatchRun>, open_tasks: usize) -> Holder {
    if open_tasks > 0 {
        return Holder::Alive;
    }
    match found {
        Observed::Present(run) if run.metadata.uid.as_deref() == Some(uid) => {
            let has_ended = run.status.as_ref().is_some_and(is_over);
            if has_ended && !is_kept(&run.metadata) {
                Holder::Gone
            } else {
                Holder::Alive
            }
        }
        Observed::Present(_) | Observed::Absent => Holder::Gone,
        Observed::Unknown(why) => Holder::Unclear(why.clone()),
        Observed::NotAsked => Holder::Unclear("nobody has looked".to_owned()),
    }
}

/// What gives a held Deployment back. One that another run has recorded too stays held. Without the
/// run nobody can say whether a count that somebody has set meanwhile may be overwritten, so it may not.
pub fn of_deployment(held: &DeploymentView, holder: &Holder, is_shared: bool) -> Option<Effect> {
    let is_relic = *holder == Holder::Gone && !is_shared && held.held_by.is_some();
    is_relic.then(|| Effect::ReleaseDeployment {
        namespace: held.namespace.clone(),
        name: held.name.clone(),
        replicas: held.saved.filter(|_| held.replicas == 0),
    })
}

/// What takes the marks of one run off a node. `run` is its name, as the node tells it.
pub fn of_node(node: &NodeView, run_uid: &str, run: &str, holder: &Holder) -> Option<Effect> {
    let is_marked = node.marked_by().any(|one| one == run_uid);
    let is_relic = *holder == Holder::Gone && is_marked;
    is_relic.then(|| Effect::MarkNode {
        node: target(node, run_uid),
        run: run.to_owned(),
        marks: Marks::NONE,
    })
}

/// What frees the lock of a task that is gone, after its cordon is lifted. A node that is unclear keeps
/// both, because the lock says whose the cordon is. One that is leaving stays closed: it takes no pods any
/// more.
pub fn of_lock(
    lock: &LockView,
    node_name: &str,
    node: &Observed<NodeView>,
    is_leaving: bool,
) -> Vec<Effect> {
    if !lock.is_abandoned {
        return Vec::new();
    }
    let mut effects = Vec::new();
    match node {
        Observed::Unknown(_) | Observed::NotAsked => return effects,
        Observed::Absent => {}
        Observed::Present(node) => {
            let is_ours = node.cordoned_by.as_ref() == Some(&lock.operation);
            if is_ours && node.uid == lock.node_uid && !is_leaving {
                effects.push(Effect::EnsureUncordoned(target(node, &lock.operation)));
            }
        }
    }
    effects.push(Effect::ReleaseLock {
        node: node_name.to_owned(),
        operation: lock.operation.clone(),
    });
    effects
}

/// What opens a node again that a task has closed and then let go of: one that is gone, or has ended and
/// keeps nothing any more. A node that is open and still bears the task's name loses that, before a person's
/// cordon is taken for the task's. `task` is what a live read found under the UID that the cordon names. A node that
/// is leaving stays closed.
pub fn of_cordon(
    node: &NodeView,
    task: &Observed<NodePatchTask>,
    is_leaving: bool,
) -> Option<Effect> {
    let operation = node.cordoned_by.as_ref()?;
    let has_let_go = match task {
        Observed::Absent => true,
        Observed::Present(task) => {
            let has_ended = task
                .status
                .as_ref()
                .is_some_and(|it| it.step_name().is_final());
            has_ended && !is_kept(&task.metadata)
        }
        Observed::Unknown(_) | Observed::NotAsked => false,
    };
    let is_relic = has_let_go && !is_leaving;
    is_relic.then(|| Effect::EnsureUncordoned(target(node, operation)))
}

/// Whether a slot whose task is gone is taken all the same, because what the task has done to its node
/// stands: its lock, or a cordon of ours. The cordon names an operation that nobody can ask any more, but
/// nobody else may have begun on a node that has a slot. What could not be read may stand.
pub fn keeps_slot(
    node_uid: &str,
    slot: &Slot,
    lock: &Observed<LockView>,
    node: &Observed<NodeView>,
) -> bool {
    let is_locked = match lock {
        Observed::Present(lock) => lock.holder == slot.task && lock.node_uid == node_uid,
        Observed::Absent => false,
        Observed::Unknown(_) | Observed::NotAsked => true,
    };
    let is_closed = match node {
        Observed::Present(node) => {
            node.uid == node_uid && node.unschedulable && node.cordoned_by.is_some()
        }
        Observed::Absent => false,
        Observed::Unknown(_) | Observed::NotAsked => true,
    };
    is_locked || is_closed
}

/// The key of the run that a mark names, `namespace` and `name`.
pub fn run_key(text: Option<&String>) -> Result<(&str, &str), String> {
    text.and_then(|text| text.split_once('/')).ok_or_else(|| {
        format!(
            "no annotation of {} names its run",
            names::ANNOTATION_RUN_DOMAIN
        )
    })
}

fn target(node: &NodeView, operation: &str) -> NodeTarget {
    NodeTarget {
        name: node.name.clone(),
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        operation: operation.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
    use shipshape_api::{NodePatchRunSpec, NodePatchTaskSpec, TaskStep};

    use super::*;
    use crate::ledger::Role;
    use crate::view::ScaleDown;

    fn run(uid: &str, is_kept: bool, is_completed: bool) -> Observed<NodePatchRun> {
        let mut run = NodePatchRun::new("run", NodePatchRunSpec::default());
        run.metadata.uid = Some(uid.to_owned());
        run.metadata.finalizers = is_kept.then(|| vec![names::FINALIZER.to_owned()]);
        if is_completed {
            let completed: Condition = serde_json::from_value(serde_json::json!({
                "type": "Completed", "status": "True", "reason": "AllPartitionsDone",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }))
            .unwrap();
            run.status.get_or_insert_default().conditions = vec![completed];
        }
        Observed::Present(run)
    }

    #[test]
    fn only_a_live_read_that_proves_it_makes_a_run_gone() {
        assert_eq!(run_holder("a", &Observed::Absent, 0), Holder::Gone);
        assert_eq!(run_holder("a", &run("b", true, false), 0), Holder::Gone);
        assert_eq!(run_holder("a", &run("a", false, true), 0), Holder::Gone);
        assert_eq!(run_holder("a", &run("a", true, true), 0), Holder::Alive);
        assert_eq!(run_holder("a", &run("a", false, false), 0), Holder::Alive);
        assert_eq!(run_holder("a", &Observed::Absent, 1), Holder::Alive);
        let unclear = run_holder("a", &Observed::Unknown("refused".to_owned()), 0);
        assert_eq!(unclear, Holder::Unclear("refused".to_owned()));
        let unasked = run_holder("a", &Observed::NotAsked, 0);
        assert!(matches!(unasked, Holder::Unclear(_)));
    }

    fn held(replicas: i32) -> DeploymentView {
        DeploymentView {
            namespace: "kube-system".to_owned(),
            name: "autoscaler".to_owned(),
            replicas,
            saved: Some(2),
            held_by: Some("run-uid".to_owned()),
        }
    }

    #[test]
    fn the_hold_of_a_run_that_is_gone_is_lifted_and_no_other() {
        let lifted = |view: &DeploymentView, holder, is_shared| {
            let effect = of_deployment(view, &holder, is_shared)?;
            let Effect::ReleaseDeployment { replicas, .. } = effect else {
                panic!("{effect:?}")
            };
            Some(replicas)
        };
        assert_eq!(lifted(&held(0), Holder::Gone, false), Some(Some(2)));
        assert_eq!(lifted(&held(5), Holder::Gone, false), Some(None));
        assert_eq!(lifted(&held(0), Holder::Gone, true), None);
        assert_eq!(lifted(&held(0), Holder::Alive, false), None);
        let unclear = Holder::Unclear(String::new());
        assert_eq!(lifted(&held(0), unclear, false), None);
        let free = DeploymentView {
            held_by: None,
            ..held(2)
        };
        assert_eq!(lifted(&free, Holder::Gone, false), None);
    }

    #[test]
    fn marks_of_a_run_that_is_gone_are_taken_off_and_no_others() {
        let mut node = NodeView {
            marks: vec!["dead".to_owned()],
            scale_down: ScaleDown::HeldBy("alive".to_owned()),
            ..NodeView::default()
        };
        let effect = of_node(&node, "dead", "ns/run", &Holder::Gone);
        let Some(Effect::MarkNode {
            node: on, marks, ..
        }) = effect
        else {
            panic!("{effect:?}")
        };
        assert_eq!((on.operation.as_str(), marks), ("dead", Marks::NONE));
        assert_eq!(of_node(&node, "alive", "ns/run", &Holder::Alive), None);
        assert_eq!(of_node(&node, "other", "ns/run", &Holder::Gone), None);
        node.scale_down = ScaleDown::HeldBy("dead".to_owned());
        node.marks.clear();
        assert!(of_node(&node, "dead", "ns/run", &Holder::Gone).is_some());
    }

    #[test]
    fn a_lock_of_a_task_that_is_gone_is_freed_after_its_cordon() {
        let mut lock = LockView {
            operation: "task".to_owned(),
            holder: "ns/task".to_owned(),
            node_uid: "node-uid".to_owned(),
            renewed: None,
            is_abandoned: true,
            goes_with_node: false,
        };
        let node = |cordoned_by: Option<&str>| {
            Observed::Present(NodeView {
                name: "n".to_owned(),
                uid: "node-uid".to_owned(),
                unschedulable: true,
                cordoned_by: cordoned_by.map(str::to_owned),
                ..NodeView::default()
            })
        };
        let names = |lock: &LockView, node: &Observed<NodeView>| {
            let effects = of_lock(lock, "n", node, false);
            effects.iter().map(Effect::name).collect::<Vec<_>>()
        };
        let leaving = of_lock(&lock, "n", &node(Some("task")), true);
        let leaving: Vec<_> = leaving.iter().map(Effect::name).collect();
        assert_eq!(leaving, ["ReleaseLock"], "it stays closed");
        let both = ["EnsureUncordoned", "ReleaseLock"];
        assert_eq!(names(&lock, &node(Some("task"))), both);
        assert_eq!(names(&lock, &node(Some("other"))), ["ReleaseLock"]);
        assert_eq!(names(&lock, &node(None)), ["ReleaseLock"]);
        assert_eq!(names(&lock, &Observed::Absent), ["ReleaseLock"]);
        let unclear = Observed::Unknown(String::new());
        assert_eq!(names(&lock, &unclear), Vec::<&str>::new());
        lock.is_abandoned = false;
        assert_eq!(names(&lock, &node(Some("task"))), Vec::<&str>::new());
    }

    #[test]
    fn a_cordon_whose_task_has_let_go_is_lifted_and_no_other() {
        let task = |step: TaskStep, is_kept: bool| {
            let mut task = NodePatchTask::new("task", NodePatchTaskSpec::default());
            task.metadata.finalizers = is_kept.then(|| vec![names::FINALIZER.to_owned()]);
            let step = serde_json::json!({"step": {"name": step, "since": "2026-01-01T00:00:00Z"}});
            task.status = serde_json::from_value(step).unwrap();
            Observed::Present(task)
        };
        let closed = NodeView {
            unschedulable: true,
            cordoned_by: Some("uid".to_owned()),
            ..NodeView::default()
        };
        let lifts = |node: &NodeView, task| of_cordon(node, &task, false).is_some();
        assert_eq!(
            of_cordon(&closed, &Observed::Absent, true),
            None,
            "it leaves"
        );
        assert!(lifts(&closed, Observed::Absent));
        let opened = NodeView {
            unschedulable: false,
            ..closed.clone()
        };
        assert!(lifts(&opened, Observed::Absent), "its name is left");
        assert!(lifts(&closed, task(TaskStep::Failed, false)));
        assert!(!lifts(&closed, task(TaskStep::Failed, true)));
        assert!(!lifts(&closed, task(TaskStep::Drain, false)));
        assert!(!lifts(&closed, Observed::Unknown(String::new())));
        let by_a_person = NodeView {
            cordoned_by: None,
            ..closed
        };
        assert!(!lifts(&by_a_person, Observed::Absent));
    }

    #[test]
    fn a_slot_is_taken_while_the_lock_or_the_cordon_of_its_task_stands() {
        let slot = Slot {
            node: "n".to_owned(),
            owner: "run".to_owned(),
            task: "ns/task".to_owned(),
            zone: "z".to_owned(),
            role: Role::Worker,
            important: false,
            surges: None,
            granted_at: Timestamp::UNIX_EPOCH,
        };
        let lock = |holder: &str, node_uid: &str| {
            Observed::Present(LockView {
                operation: "uid".to_owned(),
                holder: holder.to_owned(),
                node_uid: node_uid.to_owned(),
                renewed: None,
                is_abandoned: false,
                goes_with_node: true,
            })
        };
        let node = |uid: &str, unschedulable, cordoned_by: Option<&str>| {
            Observed::Present(NodeView {
                uid: uid.to_owned(),
                unschedulable,
                cordoned_by: cordoned_by.map(str::to_owned),
                ..NodeView::default()
            })
        };
        let open = || node("node-uid", false, None);
        let table = [
            (lock("ns/task", "node-uid"), open(), true),
            (lock("ns/other", "node-uid"), open(), false),
            (lock("ns/task", "another"), open(), false),
            (Observed::Absent, open(), false),
            (Observed::Absent, Observed::Absent, false),
            (Observed::Absent, node("node-uid", true, Some("uid")), true),
            (Observed::Absent, node("another", true, Some("uid")), false),
            (Observed::Absent, node("node-uid", true, None), false),
            (
                Observed::Absent,
                node("node-uid", false, Some("uid")),
                false,
            ),
            (Observed::Absent, Observed::Unknown(String::new()), true),
            (Observed::Unknown(String::new()), open(), true),
        ];
        for (lock, node, is_kept) in table {
            let says = keeps_slot("node-uid", &slot, &lock, &node);
            assert_eq!(says, is_kept, "{lock:?} {node:?}");
        }
    }

    #[test]
    fn a_mark_without_a_name_tells_nothing() {
        assert_eq!(run_key(Some(&"ns/run".to_owned())), Ok(("ns", "run")));
        assert!(run_key(Some(&"run".to_owned())).is_err());
        assert!(run_key(None).is_err());
    }
}
