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
