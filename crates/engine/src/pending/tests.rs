//! Tables for a machine on its way: what each look asks for, what keeps it from asking.

use shipshape_api::PendingNodeSpec;

use shipshape_api::names;

use super::*;
use crate::sweep::COMPLETED;

fn start() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn machine(state: MachineState) -> Observed<Machine> {
    Observed::Present(Machine {
        id: "m-1".into(),
        provider_id: "embedded:///a/m-1".into(),
        group: Some("workers".into()),
        zone: "a".to_owned(),
        image: "image-1".into(),
        state,
        protected: true,
        tags: [].into(),
        subnet: None,
    })
}

fn node(ready: bool, unschedulable: bool) -> Observed<NodeView> {
    Observed::Present(NodeView {
        name: "node-1".to_owned(),
        ready,
        unschedulable,
        ..NodeView::default()
    })
}

fn world(goal: PendingNodeGoal, state: MachineState) -> PendingSnapshot {
    let spec = PendingNodeSpec {
        provider_id: Some("embedded:///a/m-1".to_owned()),
        goal,
        deadline: Some(Time(start() + SignedDuration::from_mins(30))),
        ..PendingNodeSpec::default()
    };
    let mut pending = PendingNode::new("m-1", spec);
    pending.metadata.uid = Some("pn-uid".to_owned());
    PendingSnapshot {
        pending,
        machine: machine(state),
        node: Observed::Absent,
        pods: Observed::NotAsked,
        asker: Asker::Waiting,
    }
}

fn effects(snapshot: &PendingSnapshot, at: Timestamp) -> Vec<&'static str> {
    let decision = decide(snapshot, &Settings::default(), at);
    decision.effects.iter().map(Effect::name).collect()
}

fn late() -> Timestamp {
    start() + SignedDuration::from_hours(2)
}

const NONE: [&str; 0] = [];

#[test]
fn a_joining_machine_is_protected_watched_and_forgotten_once_its_node_is_ready() {
    let mut one = world(PendingNodeGoal::Join, MachineState::Creating);
    if let Observed::Present(machine) = &mut one.machine {
        machine.protected = false;
    }
    assert_eq!(effects(&one, start()), ["ProtectMachine"]);
    one.machine = machine(MachineState::Ready);
    assert_eq!(effects(&one, start()), NONE);
    one.node = node(false, false);
    assert_eq!(effects(&one, start()), NONE);
    one.node = node(true, false);
    assert_eq!(effects(&one, start()), ["ForgetPending"]);
}

#[test]
fn a_machine_whose_replacement_is_completed_is_not_protected_again_by_a_late_look() {
    let mut one = world(PendingNodeGoal::Join, MachineState::Ready);
    if let Observed::Present(machine) = &mut one.machine {
        machine.protected = false;
        let state = (names::TAG_STATE.to_owned(), COMPLETED.to_owned());
        machine.tags.extend([state]);
    }
    assert_eq!(effects(&one, start()), NONE);
}

#[test]
fn state_reason_and_time_are_written_once_for_each_change() {
    let mut one = world(PendingNodeGoal::Join, MachineState::Creating);
    let first = decide(&one, &Settings::default(), start()).status;
    assert_eq!(first.csp_state, Some(CspState::Creating));
    assert_eq!(first.csp_state_since, Some(Time(start())));
    assert_eq!(first.waiting_for.as_deref(), Some("the cloud to start it"));
    one.pending.status = Some(first.clone());
    let later = start() + SignedDuration::from_secs(5);
    let second = decide(&one, &Settings::default(), later).status;
    assert_eq!(second, first, "nothing changed, so nothing is written");
    one.machine = machine(MachineState::Ready);
    let third = decide(&one, &Settings::default(), later).status;
    assert_eq!(third.csp_state_since, Some(Time(later)));
    assert_eq!(
        third.waiting_for.as_deref(),
        Some("its node to join and be ready")
    );
}

#[test]
fn a_machine_that_was_just_made_has_no_status_until_a_moment_has_passed() {
    let mut one = world(PendingNodeGoal::Join, MachineState::Creating);
    one.pending.metadata.creation_timestamp = Some(Time(start()));
    let early = decide(&one, &Settings::default(), start());
    assert_eq!(early.status, PendingNodeStatus::default());
    assert!(early.wake.unwrap() > start());
    let then = start() + Settings::default().machine_quiet;
    let later = decide(&one, &Settings::default(), then).status;
    assert_eq!(later.csp_state, Some(CspState::Creating));
}

#[test]
fn a_usual_state_is_told_later_the_longer_ago_the_last_was_told_and_an_unusual_one_at_once() {
    let after = |seconds| start() + SignedDuration::from_secs(seconds);
    let mut one = world(PendingNodeGoal::Join, MachineState::Creating);
    one.pending.metadata.creation_timestamp = Some(Time(start()));
    let told = decide(&one, &Settings::default(), after(90)).status;
    one.pending.status = Some(told.clone());
    one.machine = machine(MachineState::Ready);
    let ready = decide(&one, &Settings::default(), after(120));
    assert_eq!(ready.status, told, "its node will join any moment");
    assert!(ready.wake.unwrap() <= after(180));
    let late = decide(&one, &Settings::default(), after(180)).status;
    assert_eq!(late.csp_state, Some(CspState::Ready));
    one.machine = machine(MachineState::Failed);
    let failed = decide(&one, &Settings::default(), after(120)).status;
    assert_eq!(failed.csp_state, Some(CspState::Failed));
    one.machine = Observed::Unknown("no answer".to_owned());
    let unclear = decide(&one, &Settings::default(), after(120)).status;
    let waits_for = unclear.waiting_for.unwrap();
    assert!(waits_for.contains("no answer"), "{waits_for}");
}

#[test]
fn past_its_deadline_a_machine_of_nobody_turns_and_one_of_a_living_task_is_left_to_it() {
    let table = [
        (Asker::Nobody, vec!["TurnPending"]),
        (Asker::Gone, vec!["TurnPending"]),
        (Asker::Waiting, vec![]),
        (Asker::Unknown("no answer".to_owned()), vec![]),
        (Asker::Satisfied, vec!["ForgetPending"]),
    ];
    for (asker, wanted) in table {
        let mut one = world(PendingNodeGoal::Join, MachineState::Ready);
        one.asker = asker.clone();
        assert_eq!(effects(&one, late()), wanted, "{asker:?}");
    }
}

#[test]
fn a_machine_whose_task_is_gone_turns_at_once_and_the_turn_itself_ends_nothing() {
    let mut one = world(PendingNodeGoal::Join, MachineState::Creating);
    one.asker = Asker::Gone;
    assert_eq!(effects(&one, start()), ["TurnPending"]);
}

#[test]
fn a_machine_whose_task_is_gone_stays_when_its_node_is_ready() {
    let mut one = world(PendingNodeGoal::Join, MachineState::Ready);
    one.asker = Asker::Gone;
    one.node = node(true, false);
    assert_eq!(effects(&one, late()), ["ForgetPending"]);
}

#[test]
fn a_leaving_machine_is_chased_until_the_cloud_says_that_it_is_gone() {
    let table = [
        (machine(MachineState::Ready), vec!["DeleteMachine"]),
        (machine(MachineState::Stopped), vec!["DeleteMachine"]),
        (machine(MachineState::Failed), vec!["DeleteMachine"]),
        (machine(MachineState::Terminating), vec![]),
        (machine(MachineState::Terminated), vec!["ForgetPending"]),
        (Observed::Absent, vec!["ForgetPending"]),
        (Observed::Unknown("no answer".to_owned()), vec![]),
        (Observed::NotAsked, vec![]),
    ];
    for (machine, wanted) in table {
        let mut one = world(PendingNodeGoal::Leave, MachineState::Ready);
        one.machine = machine;
        let decision = decide(&one, &Settings::default(), start());
        let names: Vec<&str> = decision.effects.iter().map(Effect::name).collect();
        assert_eq!(names, wanted, "{:?}", one.machine);
        let is_over = names.contains(&"ForgetPending");
        assert_eq!(decision.wake.is_none(), is_over, "{:?}", one.machine);
    }
}

#[test]
fn a_machine_whose_node_is_in_service_or_out_of_sight_is_never_ended() {
    let table = [
        (node(true, false), false),
        (node(true, true), true),
        (node(false, false), true),
        (Observed::Absent, true),
        (Observed::Unknown("no answer".to_owned()), false),
        (Observed::NotAsked, false),
    ];
    for (node, may_end) in table {
        let mut one = world(PendingNodeGoal::Leave, MachineState::Ready);
        one.node = node;
        let is_ended = effects(&one, start()) == ["DeleteMachine"];
        assert_eq!(is_ended, may_end, "{:?}", one.node);
    }
}

#[test]
fn a_machine_that_does_not_go_in_time_is_called_overdue_and_still_chased() {
    let one = world(PendingNodeGoal::Leave, MachineState::Ready);
    let decision = decide(&one, &Settings::default(), late());
    assert!(condition::is_true(&decision.status.conditions, OVERDUE));
    assert_eq!(effects(&one, late()), ["DeleteMachine"]);
}

#[test]
fn a_machine_that_the_cloud_has_lost_is_shown_as_terminated_to_the_task_that_waits() {
    let mut one = world(PendingNodeGoal::Join, MachineState::Ready);
    one.machine = Observed::Absent;
    let decision = decide(&one, &Settings::default(), start());
    assert_eq!(decision.status.csp_state, Some(CspState::Terminated));
    assert_eq!(decision.effects, []);
}

fn pod(name: &str) -> PodView {
    PodView {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        owner: Some(("ReplicaSet".to_owned(), "web".to_owned())),
        ..PodView::default()
    }
}

#[test]
fn a_machine_that_nobody_emptied_stays_until_its_pods_have_left() {
    for asker in [Asker::Nobody, Asker::Gone] {
        let mut one = world(PendingNodeGoal::Leave, MachineState::Ready);
        one.asker = asker;
        one.node = node(true, true);
        assert_eq!(
            effects(&one, start()),
            NONE,
            "nobody has looked at its pods"
        );
        one.pods = Observed::Unknown("no answer".to_owned());
        assert_eq!(effects(&one, late()), NONE);
        one.pods = Observed::Present(vec![pod("web-1"), pod("web-2")]);
        assert_eq!(effects(&one, late()), NONE, "no deadline makes it go");
        let status = decide(&one, &Settings::default(), start()).status;
        assert_eq!(
            status.waiting_for.as_deref(),
            Some("pod default/web-1 and 1 more to leave node node-1: drain it first")
        );
        one.pods = Observed::Present(Vec::new());
        assert_eq!(effects(&one, start()), ["DeleteMachine"]);
    }
}

#[test]
fn pods_that_live_or_end_with_their_node_do_not_keep_its_machine() {
    let daemon = PodView {
        owner: Some(("DaemonSet".to_owned(), "agent".to_owned())),
        ..pod("agent")
    };
    let mirror = PodView {
        mirror: true,
        ..pod("proxy")
    };
    let finished = PodView {
        finished: true,
        ..pod("job")
    };
    let mut one = world(PendingNodeGoal::Leave, MachineState::Ready);
    one.asker = Asker::Nobody;
    one.node = node(true, true);
    one.pods = Observed::Present(vec![daemon, mirror, finished]);
    assert_eq!(effects(&one, start()), ["DeleteMachine"]);
}

#[test]
fn a_silent_node_keeps_its_machine_until_the_grace_of_its_pods_is_over() {
    let leaving = PodView {
        terminating: true,
        gone_by: Some(start()),
        ..pod("web-1")
    };
    let mut one = world(PendingNodeGoal::Leave, MachineState::Ready);
    one.asker = Asker::Nobody;
    one.node = node(false, true);
    one.pods = Observed::Present(vec![leaving]);
    assert_eq!(effects(&one, start()), NONE);
    assert_eq!(effects(&one, late()), ["DeleteMachine"]);
    one.node = node(true, true);
    assert_eq!(effects(&one, late()), NONE, "its kubelet is still at it");
}
