//! Tables for nodes that join and leave while the run is under way.

use super::*;
use crate::machine::ImageId;
use crate::plan::Newcomer;

fn newcomer(name: &str, image: &str) -> Newcomer {
    Newcomer {
        node: node(name, "z1"),
        image: Observed::Present(ImageId::from(image)),
        wanted: Observed::Present(ImageId::from("new")),
    }
}

/// A run whose nodes have all had their turn.
fn at_its_end() -> RunSnapshot {
    let mut snapshot = RunSnapshot {
        ledger: ledger(&[]),
        ..planned()
    };
    let status = snapshot.run.status.as_mut().unwrap();
    status.current_iteration = Some(1);
    snapshot
}

#[test]
fn outdated_nodes_that_joined_late_get_a_last_wave() {
    let mut snapshot = at_its_end();
    snapshot.newcomers = Observed::Present(vec![newcomer("late", "old"), newcomer("fine", "new")]);
    let before = snapshot.run.status.clone().unwrap();
    let decision = look(&snapshot);
    assert!(!is_over(&decision.status));
    let grown = decision.status.plan.clone().unwrap();
    assert_eq!(grown.partitions.last().unwrap().nodes, ["late"]);
    assert_ne!(grown.plan_version, before.plan.unwrap().plan_version);
    assert_eq!(decision.status.total, Some(4));
    assert_eq!(decision.status.marked, None, "they are marked too");
    assert!(
        decision
            .notices
            .iter()
            .any(|one| one.reason == "JoinedLate")
    );
    snapshot.run.status = Some(decision.status);
    snapshot.newcomers = Observed::NotAsked;
    snapshot.run.status = Some(look(&snapshot).status);
    let next = look(&snapshot).status;
    assert_eq!(next.current_iteration, Some(2), "their wave begins");
}

#[test]
fn a_run_does_not_end_before_somebody_has_looked_for_late_nodes() {
    let mut snapshot = at_its_end();
    for unclear in [
        Observed::NotAsked,
        Observed::Unknown("the cloud is away".to_owned()),
        Observed::Present(vec![Newcomer {
            image: Observed::Unknown("throttled".to_owned()),
            ..newcomer("late", "old")
        }]),
    ] {
        snapshot.newcomers = unclear;
        let decision = look(&snapshot);
        assert_eq!(decision.effects, []);
        assert!(!is_over(&decision.status));
        let waits = decision.status.waiting_for.unwrap();
        assert!(waits.contains("joined late"), "{waits}");
    }
}

#[test]
fn a_late_node_that_the_cloud_never_describes_does_not_hold_the_run_for_good() {
    let unclear = |name: &str| Newcomer {
        image: Observed::Unknown("throttled".to_owned()),
        ..newcomer(name, "old")
    };
    let limit = Settings::default().deadlines.lock;
    let at = |snapshot: &RunSnapshot, at| decide(snapshot, &Settings::default(), at);
    let mut snapshot = at_its_end();
    snapshot.newcomers =
        Observed::Present(vec![unclear("b"), newcomer("late", "old"), unclear("a")]);
    for at_second in [0, 1, 599] {
        let decision = at(&snapshot, Timestamp::from_second(at_second).unwrap());
        assert_eq!(decision.effects, []);
        assert!(
            decision
                .status
                .waiting_for
                .clone()
                .unwrap()
                .contains("joined late")
        );
        assert_eq!(decision.notices, []);
        // All that a new process knows.
        snapshot.run.status = Some(decision.status);
    }
    let over = at(&snapshot, now() + limit);
    let told: Vec<&str> = over.notices.iter().map(|one| one.reason).collect();
    assert_eq!(told, ["LateNodesUnknown", "JoinedLate"]);
    assert!(
        over.notices[0].message.contains("(a, b)"),
        "{:?}",
        over.notices
    );
    let plan = over.status.plan.clone().unwrap();
    assert_eq!(plan.partitions.last().unwrap().nodes, ["late"]);
    // Their wave is over, and still nobody can tell.
    snapshot.run.status = Some(over.status);
    let status = snapshot.run.status.as_mut().unwrap();
    status.current_iteration = Some(2);
    status.marked = Some(true);
    snapshot.newcomers = Observed::Present(vec![unclear("b"), unclear("a")]);
    let asked = at(&snapshot, now() + limit);
    assert!(
        asked
            .status
            .waiting_for
            .clone()
            .unwrap()
            .contains("joined late")
    );
    snapshot.run.status = Some(asked.status);
    let restored = at(&snapshot, now() + limit * 2);
    assert_eq!(names_of(&restored), ["RestoreGroups"]);
    let told = restored.notices.iter().map(|one| one.reason);
    assert!(told.clone().any(|reason| reason == "LateNodesUnknown"));
    snapshot.run.status = Some(restored.status);
    let end = at(&snapshot, now() + limit * 2);
    assert!(is_over(&end.status));
    let told = end.notices.iter().map(|one| one.reason);
    assert!(
        !told.clone().any(|reason| reason == "LateNodesUnknown"),
        "once"
    );
    let known = end.status.conditions.iter();
    let known = known.filter(|one| one.reason == "LateNodesUnknown");
    let known: Vec<_> = known.map(|one| one.message.clone()).collect();
    assert!(known[0].contains("(a, b)"), "{known:?}");
}

#[test]
fn a_cloud_that_answers_in_time_has_its_whole_time_again() {
    let mut snapshot = at_its_end();
    let limit = Settings::default().deadlines.lock;
    for (after, answer) in [
        (SignedDuration::ZERO, Observed::Unknown("away".to_owned())),
        (limit / 2, Observed::Present(vec![newcomer("late", "old")])),
    ] {
        snapshot.newcomers = answer;
        let decision = decide(&snapshot, &Settings::default(), now() + after);
        snapshot.run.status = Some(decision.status);
    }
    let status = snapshot.run.status.as_mut().unwrap();
    status.current_iteration = Some(2);
    status.marked = Some(true);
    snapshot.newcomers = Observed::Unknown("away".to_owned());
    let again = decide(&snapshot, &Settings::default(), now() + limit * 2);
    assert!(again.status.waiting_for.unwrap().contains("joined late"));
}

#[test]
fn a_candidate_that_has_left_is_counted_and_not_waited_for() {
    let mut snapshot = at_its_end();
    snapshot.succeeded = 2;
    let restored = look(&snapshot);
    assert_eq!(names_of(&restored), ["RestoreGroups"]);
    snapshot.run.status = Some(restored.status);
    let end = look(&snapshot);
    assert!(is_over(&end.status));
    assert_eq!(end.status.left, Some(1));
}
