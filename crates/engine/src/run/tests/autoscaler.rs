//! Tables for the cluster autoscaler: held before the first node, given back at every ending.

use shipshape_api::node_patch_run::{
    AutoscalerControl, AutoscalerMode, AutoscalerRecord, AutoscalerTarget,
};

use super::*;
use crate::autoscaler::DeploymentView;

fn autoscaler(replicas: i32, saved: Option<i32>) -> Observed<Vec<DeploymentView>> {
    Observed::Present(vec![DeploymentView {
        namespace: "kube-system".to_owned(),
        name: "autoscaler".to_owned(),
        replicas,
        saved,
        held_by: saved.map(|_| "run-uid".to_owned()),
    }])
}

#[test]
fn the_autoscaler_is_recorded_then_held_and_only_then_the_first_slot_is_granted() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&[]),
        autoscalers: autoscaler(3, None),
        ..planned()
    };
    snapshot.run.spec.autoscaler_control = Some(AutoscalerControl {
        enabled: Some(true),
        ..AutoscalerControl::default()
    });
    let recorded = look(&snapshot);
    assert_eq!(recorded.effects, []);
    snapshot.run.status = Some(recorded.status);
    assert_eq!(names_of(&look(&snapshot)), ["HoldDeployment"]);
    snapshot.autoscalers = autoscaler(0, Some(3));
    let held = look(&snapshot);
    assert_eq!(created(&held), ["a"]);
    assert!(condition::is_true(&held.status.conditions, "Held"));
    snapshot.run.status = Some(held.status);
    snapshot.autoscalers = Observed::NotAsked;
    assert_eq!(created(&look(&snapshot)), ["a"], "looked for once");
}

#[test]
fn every_ending_gives_the_autoscaler_its_replicas_back() {
    for is_deleted in [true, false] {
        let mut snapshot = planned();
        snapshot.run.status.as_mut().unwrap().autoscaler = Some(AutoscalerRecord {
            scaled_down: true,
            targets: vec![AutoscalerTarget {
                namespace: "kube-system".to_owned(),
                name: "autoscaler".to_owned(),
                original_replicas: 3,
                last_scaled_at: None,
            }],
        });
        if is_deleted {
            snapshot.run.metadata.deletion_timestamp = Some(Time(now()));
        } else {
            snapshot.run.spec.abort = Some(true);
        }
        snapshot.autoscalers = autoscaler(0, Some(3));
        let decision = look(&snapshot);
        assert_eq!(names_of(&decision), ["ReleaseDeployment"]);
        snapshot.autoscalers = autoscaler(3, None);
        let decision = look(&snapshot);
        let record = decision.status.autoscaler.unwrap();
        assert!(!record.scaled_down);
    }
}

#[test]
fn scale_down_is_forbidden_by_the_marks_and_allowed_again_at_every_ending() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&[]),
        unmarked: vec![(target("a"), 0)],
        ..planned()
    };
    snapshot.run.spec.autoscaler_control = Some(AutoscalerControl {
        enabled: Some(true),
        mode: Some(AutoscalerMode::ForbidScaleDown),
        ..AutoscalerControl::default()
    });
    snapshot.run.status.as_mut().unwrap().marked = None;
    let marking = look(&snapshot);
    let [Effect::MarkNode { run, marks, .. }] = marking.effects.as_slice() else {
        panic!("{:?}", marking.effects);
    };
    assert!(marks.outdated.is_some() && marks.held, "one write for both");
    assert_eq!(run, "ns/run");
    snapshot.unmarked.clear();
    snapshot.run.status = Some(look(&snapshot).status);
    let held = look(&snapshot);
    assert_eq!(created(&held), ["a"], "no Deployment is looked for");
    assert!(condition::is_true(&held.status.conditions, "Held"));
    for is_deleted in [true, false] {
        let mut ending = snapshot.clone();
        ending.run.status = Some(held.status.clone());
        ending.marked = vec![target("a")];
        ending.run.spec.abort = Some(!is_deleted);
        ending.run.metadata.deletion_timestamp = is_deleted.then(|| Time(now()));
        let decision = look(&ending);
        let [Effect::MarkNode { marks, .. }] = decision.effects.as_slice() else {
            panic!("{:?}", decision.effects);
        };
        assert_eq!(*marks, Marks::NONE);
        assert!(condition::is_true(&decision.status.conditions, "Held"));
        ending.marked.clear();
        ending.run.status = Some(decision.status);
        let decision = look(&ending);
        assert!(!condition::is_true(&decision.status.conditions, "Held"));
    }
}

#[test]
fn a_run_that_comes_to_forbid_scale_down_marks_its_nodes_anew_once() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&[]),
        ..planned()
    };
    snapshot.run.spec.autoscaler_control = Some(AutoscalerControl {
        enabled: Some(true),
        mode: Some(AutoscalerMode::ForbidScaleDown),
        ..AutoscalerControl::default()
    });
    let anew = look(&snapshot);
    assert_eq!(anew.status.marked, None);
    assert_eq!(created(&anew), [""; 0], "first the marks");
    assert!(!condition::is_true(&anew.status.conditions, "Held"));
    snapshot.run.status = Some(anew.status);
    snapshot.unmarked = vec![(target("a"), 0)];
    assert_eq!(names_of(&look(&snapshot)), ["MarkNode"]);
    snapshot.unmarked.clear();
    snapshot.run.status = Some(look(&snapshot).status);
    let held = look(&snapshot);
    assert_eq!(created(&held), ["a"], "once");
    assert!(condition::is_true(&held.status.conditions, "Held"));
}

fn holding(force_restore: bool) -> RunSnapshot {
    let mut snapshot = planned();
    snapshot.run.spec.autoscaler_control = Some(AutoscalerControl {
        enabled: Some(true),
        force_restore: Some(force_restore),
        ..AutoscalerControl::default()
    });
    snapshot
}

fn held(snapshot: &RunSnapshot) -> (String, String) {
    let status = snapshot.run.status.as_ref().unwrap();
    let mut conditions = status.conditions.iter();
    let held = conditions.find(|one| one.type_ == "Held").unwrap();
    (held.reason.clone(), held.message.clone())
}

#[test]
fn where_nothing_is_selected_nothing_is_said_to_be_held_and_that_once() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&[]),
        autoscalers: Observed::Present(Vec::new()),
        ..holding(true)
    };
    snapshot.run.status = Some(look(&snapshot).status);
    let decision = look(&snapshot);
    assert_eq!(created(&decision), ["a"]);
    let told: Vec<_> = decision.notices.iter().map(|one| one.reason).collect();
    assert_eq!(told, ["NothingToHold"]);
    let record = decision.status.autoscaler.clone().unwrap();
    assert!(!record.scaled_down, "{record:?}");
    snapshot.run.status = Some(decision.status);
    assert_eq!(look(&snapshot).notices, []);
}

#[test]
fn a_selector_that_is_mended_is_looked_at_again() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&[]),
        autoscalers: Observed::Present(Vec::new()),
        ..holding(true)
    };
    snapshot.run.metadata.generation = Some(1);
    for _ in 0..2 {
        snapshot.run.status = Some(look(&snapshot).status);
    }
    assert_eq!(held(&snapshot).0, "NothingToHold");
    snapshot.run.metadata.generation = Some(2);
    snapshot.autoscalers = autoscaler(3, None);
    for _ in 0..2 {
        snapshot.run.status = Some(look(&snapshot).status);
    }
    let record = snapshot.run.status.unwrap().autoscaler.unwrap();
    assert_eq!(record.targets.len(), 1);
}

#[test]
fn a_hold_that_somebody_lifts_is_told_once_not_fought_and_left_as_it_is() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&[]),
        autoscalers: autoscaler(3, None),
        ..holding(false)
    };
    snapshot.run.status = Some(look(&snapshot).status);
    snapshot.autoscalers = autoscaler(0, Some(3));
    snapshot.run.status = Some(look(&snapshot).status);
    assert_eq!(held(&snapshot).0, "ScaledToZero");
    snapshot.autoscalers = autoscaler(5, Some(3));
    let lifted = look(&snapshot);
    let told: Vec<_> = lifted.notices.iter().map(|one| one.reason).collect();
    assert_eq!(told, ["ReleasedByOthers"]);
    assert_eq!(created(&lifted), ["a"], "nobody fights");
    assert!(!names_of(&lifted).contains(&"HoldDeployment"));
    snapshot.run.status = Some(lifted.status);
    assert!(condition::is_false(
        &snapshot.run.status.as_ref().unwrap().conditions,
        "Held"
    ));
    assert_eq!(look(&snapshot).notices, [], "told once");
    snapshot.autoscalers = Observed::NotAsked;
    assert_eq!(look(&snapshot).notices, []);
    // At the end it keeps what somebody gave it, and nobody says otherwise.
    snapshot.waiting.clear();
    snapshot.run.spec.abort = Some(true);
    snapshot.autoscalers = autoscaler(5, Some(3));
    assert_eq!(names_of(&look(&snapshot)), ["ReleaseDeployment"]);
    snapshot.autoscalers = autoscaler(5, None);
    snapshot.run.status = Some(look(&snapshot).status);
    let (reason, message) = held(&snapshot);
    assert_eq!(reason, "Restored");
    assert!(message.contains("keeps the 5 replica(s)"), "{message}");
}

/// Looks until the run is over, carrying out what is asked of the Deployment. What was asked of it, and
/// which events were told.
fn play_out(mut snapshot: RunSnapshot) -> (RunSnapshot, Vec<&'static str>, Vec<&'static str>) {
    let (mut asked, mut told) = (Vec::new(), Vec::new());
    for _ in 0..12 {
        let decision = look(&snapshot);
        told.extend(decision.notices.iter().map(|one| one.reason));
        for effect in &decision.effects {
            let (count, holder) = if let Effect::HoldDeployment { original, .. } = effect {
                (Some(0), Some(*original))
            } else if let Effect::ReleaseDeployment { replicas, .. } = effect {
                (*replicas, None)
            } else {
                continue;
            };
            asked.push(effect.name());
            let live = snapshot.autoscalers.present().unwrap()[0].replicas;
            snapshot.autoscalers = autoscaler(count.unwrap_or(live), holder);
        }
        snapshot.run.status = Some(decision.status);
        if is_over(snapshot.run.status.as_ref().unwrap()) {
            return (snapshot, asked, told);
        }
    }
    panic!("it does not end: {asked:?} {told:?}");
}

#[test]
fn a_run_that_is_done_gives_the_autoscaler_back_once_and_does_not_hold_it_again() {
    // Whether a changed count is overruled, what somebody has set meanwhile, and what is left.
    let table = [
        (true, 0, 3, "has its own replica count again"),
        (true, 5, 3, "has its own replica count again"),
        (false, 0, 3, "has its own replica count again"),
        (false, 5, 5, "keeps the 5 replica(s)"),
    ];
    for (forces, meanwhile, left, words) in table {
        let mut snapshot = RunSnapshot {
            waiting: vec![waiting("a", "z1")],
            ledger: ledger(&[]),
            autoscalers: autoscaler(3, None),
            ..holding(forces)
        };
        snapshot.run.status = Some(look(&snapshot).status);
        snapshot.autoscalers = autoscaler(0, Some(3));
        snapshot.run.status = Some(look(&snapshot).status);
        assert_eq!(held(&snapshot).0, "ScaledToZero");
        snapshot.autoscalers = autoscaler(meanwhile, Some(3));
        snapshot.run.status = Some(look(&snapshot).status);
        snapshot.waiting.clear();
        snapshot.run.status.as_mut().unwrap().current_iteration = Some(1);
        let (ended, asked, told) = play_out(snapshot);
        assert_eq!(asked, ["ReleaseDeployment"], "{forces} {meanwhile}");
        assert_eq!(told, ["Restored", "AllPartitionsDone"]);
        assert_eq!(ended.autoscalers.present().unwrap()[0].replicas, left);
        let (reason, message) = held(&ended);
        assert_eq!(reason, "Restored");
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn a_run_that_is_done_allows_scale_down_once() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&[]),
        ..holding(true)
    };
    let control = snapshot.run.spec.autoscaler_control.as_mut().unwrap();
    control.mode = Some(AutoscalerMode::ForbidScaleDown);
    let status = snapshot.run.status.as_mut().unwrap();
    status.scale_down_forbidden = Some(true);
    snapshot.run.status = Some(look(&snapshot).status);
    assert_eq!(held(&snapshot).0, "ScaleDownForbidden");
    snapshot.waiting.clear();
    snapshot.run.status.as_mut().unwrap().current_iteration = Some(1);
    let (_, asked, told) = play_out(snapshot);
    assert!(asked.is_empty(), "{asked:?}");
    assert_eq!(told, ["Restored", "AllPartitionsDone"]);
}

/// The record of the first hold stood for the second: the count that somebody had set in between was lost.
#[test]
fn a_node_that_is_tried_again_holds_the_autoscaler_with_the_count_of_then() {
    let mut snapshot = holding(true);
    snapshot.ledger = ledger(&[]);
    snapshot.run.status.as_mut().unwrap().autoscaler = Some(AutoscalerRecord {
        scaled_down: true,
        targets: vec![AutoscalerTarget {
            namespace: "kube-system".to_owned(),
            name: "autoscaler".to_owned(),
            original_replicas: 3,
            last_scaled_at: None,
        }],
    });
    snapshot.run.status.as_mut().unwrap().current_iteration = Some(1);
    snapshot.autoscalers = autoscaler(0, Some(3));
    let (mut snapshot, ..) = play_out(snapshot);
    snapshot.autoscalers = autoscaler(5, None);
    snapshot.open = vec![Arc::new(task_at("a", TaskStep::Provision))];
    for _ in 0..6 {
        let decision = look(&snapshot);
        if let Some(Effect::HoldDeployment { original, .. }) = decision.effects.first() {
            assert_eq!(*original, 5);
            return;
        }
        snapshot.run.status = Some(decision.status);
    }
    panic!("it is not held: {:?}", snapshot.run.status);
}
