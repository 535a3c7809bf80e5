//! Tables for the sweep: who is left alone, who waits, who goes.

use jiff::SignedDuration;
use shipshape_api::node_patch_task::{MachineRecord, ReplacementRecord};
use shipshape_api::{NodePatchTaskSpec, NodePatchTaskStatus, PendingNodeSpec};

use super::*;

fn start() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn late() -> Timestamp {
    start() + SignedDuration::from_hours(1)
}

fn orphan() -> Stray {
    let tags = [
        (names::TAG_TOKEN.to_owned(), "token-1".to_owned()),
        (names::TAG_TASK.to_owned(), "ns/task".to_owned()),
    ];
    Stray {
        machine: Machine {
            id: "m-1".into(),
            provider_id: "embedded:///a/m-1".into(),
            group: Some("workers".into()),
            zone: "a".to_owned(),
            image: "image-1".into(),
            state: MachineState::Ready,
            protected: true,
            tags: tags.into(),
            subnet: None,
        },
        task: Observed::Absent,
        pending: Observed::Absent,
        node: Observed::Absent,
        pods: Vec::new(),
        since: start(),
    }
}

fn verdict(stray: &Stray, now: Timestamp) -> Verdict {
    judge(stray, &SweepSettings::default(), now)
}

fn task(status: NodePatchTaskStatus) -> Observed<NodePatchTask> {
    let mut task = NodePatchTask::new("task", NodePatchTaskSpec::default());
    task.status = Some(status);
    Observed::Present(task)
}

#[test]
fn an_orphan_goes_once_the_grace_period_is_over_and_not_before() {
    assert_eq!(verdict(&orphan(), start()), Verdict::Watch);
    assert_eq!(verdict(&orphan(), late()), Verdict::Remove);
}

#[test]
fn tags_of_others_completed_machines_and_those_on_their_way_out_are_left_alone() {
    for key in [names::TAG_TOKEN, names::TAG_TASK] {
        let mut stray = orphan();
        stray.machine.tags.remove(key);
        assert_eq!(verdict(&stray, late()), Verdict::Leave(Reason::NotOurs));
    }
    let mut stray = orphan();
    let state = (names::TAG_STATE.to_owned(), COMPLETED.to_owned());
    stray.machine.tags.extend([state]);
    assert_eq!(verdict(&stray, late()), Verdict::Leave(Reason::Completed));
    let mut stray = orphan();
    stray.machine.state = MachineState::Terminating;
    assert_eq!(verdict(&stray, late()), Verdict::Leave(Reason::Leaving));
}

#[test]
fn a_machine_that_an_intent_speaks_of_is_never_taken() {
    let by_token = NodePatchTaskStatus {
        replacement: Some(ReplacementRecord {
            token: "token-1".to_owned(),
            group_id: "workers".to_owned(),
            zone: "a".to_owned(),
            image: None,
            requested_at: k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(start()),
            no_room: None,
        }),
        ..NodePatchTaskStatus::default()
    };
    let by_id = NodePatchTaskStatus {
        new_machine: Some(MachineRecord {
            id: "m-1".to_owned(),
            ..MachineRecord::default()
        }),
        ..NodePatchTaskStatus::default()
    };
    for status in [by_token, by_id] {
        let mut stray = orphan();
        stray.task = task(status);
        assert_eq!(verdict(&stray, late()), Verdict::Leave(Reason::Referred));
    }
    let mut stray = orphan();
    stray.pending = Observed::Present(PendingNode::new("m-1", PendingNodeSpec::default()));
    assert_eq!(verdict(&stray, late()), Verdict::Leave(Reason::Referred));
}

#[test]
fn a_machine_of_an_attempt_that_its_task_has_given_up_is_an_orphan() {
    let mut stray = orphan();
    stray.task = task(NodePatchTaskStatus::default());
    assert_eq!(verdict(&stray, late()), Verdict::Remove);
}

#[test]
fn without_a_clear_answer_nothing_is_taken() {
    let unknown = "no answer".to_owned();
    let table: [fn(&mut Stray, String); 3] = [
        |stray, why| stray.task = Observed::Unknown(why),
        |stray, why| stray.pending = Observed::Unknown(why),
        |stray, why| stray.node = Observed::Unknown(why),
    ];
    for blind in table {
        let mut stray = orphan();
        blind(&mut stray, unknown.clone());
        let reason = Reason::Unclear(unknown.clone());
        assert_eq!(verdict(&stray, late()), Verdict::Leave(reason));
    }
}

#[test]
fn an_orphan_in_service_is_adopted_and_one_with_pods_is_left() {
    let mut stray = orphan();
    let node = NodeView {
        ready: true,
        ..NodeView::default()
    };
    stray.node = Observed::Present(node.clone());
    assert_eq!(verdict(&stray, late()), Verdict::Adopt);
    let sick = NodeView {
        ready: false,
        ..node
    };
    stray.node = Observed::Present(sick);
    assert_eq!(verdict(&stray, late()), Verdict::Remove);
    stray.pods = vec![PodView::default()];
    assert_eq!(verdict(&stray, late()), Verdict::Leave(Reason::Occupied));
}

#[test]
fn what_a_drain_would_not_move_is_no_load() {
    let pod = PodView {
        name: "verify-node-1".to_owned(),
        ..PodView::default()
    };
    assert!(is_load(&pod));
    let verifier = PodView {
        labels: [(names::LABEL_WORKER, "node")].into(),
        ..pod.clone()
    };
    let daemon = PodView {
        owner: Some(("DaemonSet".to_owned(), "cni".to_owned())),
        ..pod.clone()
    };
    let finished = PodView {
        finished: true,
        ..pod.clone()
    };
    let mirror = PodView {
        mirror: true,
        ..pod
    };
    for spared in [verifier, daemon, finished, mirror] {
        assert!(!is_load(&spared), "{spared:?}");
    }
}
