//! What a point looks like, and what a failing one says.

use super::*;
use crate::report::Outcome;

#[test]
fn a_point_is_read_as_it_is_written() {
    for text in [
        "patch nodes#3:before",
        "create pods/eviction#1:lost",
        "cloud tag#12:after",
    ] {
        let point: Point = text.parse().unwrap();
        assert_eq!(point.to_string(), text);
    }
    for wrong in [
        "patch nodes",
        "patch nodes#3",
        "patch nodes#x:after",
        "patch nodes#3:soon",
    ] {
        let complaint = wrong.parse::<Point>().unwrap_err();
        assert!(
            complaint.contains("before, after, lost, refused"),
            "{complaint}"
        );
    }
}

#[test]
fn an_effect_before_the_first_is_refused() {
    let complaint = "patch nodes#0:before".parse::<Choice>().unwrap_err();
    assert!(complaint.contains("counted from 1"), "{complaint}");
}

#[test]
fn all_points_a_part_of_them_or_one_can_be_chosen() {
    assert_eq!("all".parse(), Ok(Choice::Every(1)));
    assert_eq!("1/3".parse(), Ok(Choice::Every(3)));
    assert!(matches!("patch nodes#1:lost".parse(), Ok(Choice::One(_))));
    for wrong in ["1/0", "1/x", "2/3", "some"] {
        assert!(wrong.parse::<Choice>().is_err(), "{wrong}");
    }
}

const SMALL: &str = "
name: small
world: { nodes: 1, boot: 2s, join: 1s, terminate: 2s }
intents:
  - apiVersion: shipshape.dev/v1alpha1
    kind: NodePatchRun
    metadata: { name: roll, namespace: default }
    spec: { provider: { type: embedded } }
expect: { rest: 0s, replaced: 1 }
";

#[test]
fn every_effect_of_a_play_has_a_point_at_every_moment() {
    let scenario = Scenario::parse("small", SMALL).unwrap();
    let points = points(&scenario).unwrap();
    assert_eq!(points.len() % Moment::ALL.len(), 0);
    for effect in [
        "cloud ensureReplacement",
        "cloud deleteMachine",
        "patch nodes",
        "delete nodes",
        "create leases",
        "patch nodepatchtasks/status",
    ] {
        let moments = points
            .iter()
            .filter(|point| point.effect == effect && point.number == 1);
        assert_eq!(moments.count(), Moment::ALL.len(), "{effect}");
    }
}

#[test]
fn a_point_that_does_not_exist_is_a_complaint_with_the_command_to_repeat_it() {
    let scenario = Scenario::parse("small", SMALL).unwrap();
    let point: Point = "patch nodes#99:before".parse().unwrap();
    let plans = CrashPlans::play("small.yaml", &scenario, &[point], |_| ()).unwrap();
    assert!(!plans.is_clean());
    let text = plans.to_string();
    assert!(
        text.starts_with("shipshape simulate small.yaml --crash 'patch nodes#99:before'\n"),
        "{text}"
    );
    assert!(text.ends_with("1 plays, 1 failed"), "{text}");
}

#[test]
fn the_operator_dies_and_is_followed_at_a_point() {
    let scenario = Scenario::parse("small", SMALL).unwrap();
    let clean = play_alone_through(&scenario, SEED, &Troubles::none()).unwrap();
    let point: Point = "cloud deleteMachine#1:before".parse().unwrap();
    let report = play(&scenario, &point).unwrap();
    assert_eq!(report.outcome, Outcome::Converged, "{report}");
    // The next leader waits until the lease of the one that died has run out.
    assert!(
        report.virtual_seconds > clean.report.virtual_seconds + 10.0,
        "{report}"
    );
}
