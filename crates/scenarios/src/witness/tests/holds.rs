//! What is held and given back: I9, I10, I26.

use serde_json::json;
use shipshape_engine::view::ScaleDown;

use super::*;

fn deployment(replicas: i32, saved: Option<&str>) -> Fact {
    Fact::Deployment {
        name: "default/scaler".to_owned(),
        replicas,
        saved: saved.map(str::to_owned),
        held_by: saved.map(|_| "run".to_owned()),
    }
}

#[test]
fn a_second_hold_by_the_same_run_breaks_i9_unless_a_node_is_tried_again() {
    let twice = |between: Option<Fact>| {
        let mut facts = vec![
            deployment(3, None),
            deployment(0, Some("3")),
            deployment(3, None),
        ];
        facts.extend(between);
        facts.extend([deployment(0, Some("3")), deployment(3, None)]);
        facts
    };
    assert_eq!(broken(twice(None)), ["I9"]);
    let mut witness = witness();
    let step = json!({ "name": "Provision", "since": "2026-01-01T00:00:00Z" });
    let again = task("old", json!({}), json!({ "step": step }));
    for (at, fact) in (0..).zip(twice(Some(again))) {
        witness.see(seconds(at), fact);
    }
    assert_eq!(names(&witness), Vec::<&str>::new());
}

#[test]
fn a_hold_that_saves_and_restores_the_count_breaks_nothing() {
    let facts = vec![
        deployment(3, None),
        deployment(0, Some("3")),
        deployment(0, Some("3")),
        deployment(3, None),
    ];
    assert_eq!(broken(facts), Vec::<&str>::new());
}

#[test]
fn a_count_that_somebody_set_may_stay_only_where_the_run_says_so() {
    let play = |force: bool, left: i32| {
        let mut witness = witness();
        let run = json!({
            "metadata": { "name": "r", "namespace": "ns", "uid": "run" },
            "spec": {
                "provider": { "type": "embedded" },
                "autoscalerControl": { "enabled": true, "forceRestore": force },
            },
        });
        let run = serde_json::from_value(run).unwrap();
        let facts = [
            Fact::Run(Arc::new(run)),
            deployment(3, None),
            deployment(0, Some("3")),
            deployment(2, Some("3")),
            deployment(left, None),
        ];
        for (at, fact) in (0..).zip(facts) {
            witness.see(seconds(at), fact);
        }
        names(&witness).len()
    };
    assert_eq!(play(false, 2), 0);
    assert_eq!(play(false, 1), 1, "nobody set that");
    assert_eq!(play(true, 2), 1, "the run is to give back what it saved");
}

#[test]
fn a_held_deployment_that_is_deleted_is_not_held_any_more() {
    let mut witness = witness();
    let gone = Fact::DeploymentGone("default/scaler".to_owned());
    for (at, fact) in (0..).zip([deployment(3, None), deployment(0, Some("3")), gone]) {
        witness.see(seconds(at), fact);
    }
    witness.rest(seconds(9));
    assert_eq!(names(&witness), Vec::<&str>::new());
}

#[test]
fn a_saved_count_that_is_wrong_or_written_over_breaks_i10() {
    let wrong = vec![
        deployment(3, None),
        deployment(0, Some("0")),
        deployment(0, None),
    ];
    assert_eq!(broken(wrong), ["I10"]);
    let over = vec![
        deployment(3, None),
        deployment(0, Some("3")),
        deployment(0, Some("0")),
        deployment(0, None),
    ];
    assert_eq!(broken(over), ["I10"]);
}

#[test]
fn a_count_that_does_not_come_back_breaks_i9() {
    let other = vec![
        deployment(3, None),
        deployment(0, Some("3")),
        deployment(0, None),
    ];
    assert_eq!(broken(other), ["I9"]);
    assert_eq!(
        broken(vec![deployment(3, None), deployment(0, Some("3"))]),
        ["I9"]
    );
}

fn told(name: &str, scale_down: ScaleDown) -> Fact {
    Fact::Node(NodeView {
        scale_down,
        ..node(name)
    })
}

#[test]
fn a_scale_down_that_is_forbidden_for_a_while_breaks_nothing() {
    let ours = || ScaleDown::HeldBy("run".to_owned());
    let facts = vec![
        told("a", ScaleDown::Unsaid),
        told("a", ours()),
        told("a", ScaleDown::Unsaid),
        told("b", ScaleDown::Foreign),
        told("b", ScaleDown::Foreign),
    ];
    assert_eq!(broken(facts), Vec::<&str>::new());
}

#[test]
fn a_scale_down_that_stays_forbidden_breaks_i9() {
    let ours = || ScaleDown::HeldBy("run".to_owned());
    assert_eq!(broken(vec![told("a", ours())]), ["I9"]);
    let half = vec![told("a", ours()), told("a", ScaleDown::Foreign)];
    assert_eq!(broken(half), ["I9"]);
}

#[test]
fn a_word_of_somebody_else_that_is_taken_over_breaks_i10() {
    for after in [ScaleDown::Unsaid, ScaleDown::HeldBy("run".to_owned())] {
        let gone = Fact::NodeGone("a".to_owned());
        let facts = vec![told("a", ScaleDown::Foreign), told("a", after), gone];
        assert_eq!(broken(facts), ["I10"]);
    }
}

#[test]
fn a_replacement_that_the_autoscaler_may_remove_breaks_i9() {
    let forbids = json!({ "autoscalerControl": { "enabled": true, "mode": "ForbidScaleDown" } });
    let counted = || task("a", json!({}), json!({ "newNodeName": "new" }));
    let facts = |spec, scale_down| {
        let gone = Fact::NodeGone("new".to_owned());
        vec![run("run", spec), told("new", scale_down), counted(), gone]
    };
    let ours = ScaleDown::HeldBy("run".to_owned());
    assert_eq!(
        broken(facts(json!({}), ScaleDown::Unsaid)),
        Vec::<&str>::new()
    );
    assert_eq!(broken(facts(forbids.clone(), ours)), Vec::<&str>::new());
    assert_eq!(broken(facts(forbids, ScaleDown::Unsaid)), ["I9"]);
}

fn lock(operation: &str) -> Fact {
    Fact::Lock {
        name: "node-a".to_owned(),
        operation: operation.to_owned(),
    }
}

fn at(step: &str) -> Fact {
    let step = json!({ "name": step, "since": "2026-01-01T00:00:00Z" });
    task("a", json!({}), json!({ "step": step }))
}

#[test]
fn a_lock_taken_from_a_task_under_way_breaks_i26() {
    let passed = |step| {
        let freed = Fact::LockGone("node-a".to_owned());
        vec![at(step), lock("task-a"), freed, lock("task-b")]
    };
    assert_eq!(broken(passed("Drain")), ["I26"]);
    assert_eq!(broken(passed("Done")), Vec::<&str>::new());
}

#[test]
fn a_cordon_without_the_lock_breaks_i26() {
    let cordon = || [Fact::Node(cordoned("a")), Fact::NodeGone("a".to_owned())];
    let facts = [plain_task("a")].into_iter().chain(cordon()).collect();
    assert_eq!(broken(facts), ["I26"]);
    let facts = [plain_task("a"), lock("task-a")]
        .into_iter()
        .chain(cordon());
    assert_eq!(broken(facts.collect()), Vec::<&str>::new());
}
