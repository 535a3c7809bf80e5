//! Forecasts by hand.

use serde_json::json;
use shipshape_api::node_patch_run::Canary;

use super::*;

fn load(node: &str, zone: &str, pods: usize) -> Load {
    Load {
        node: node.to_owned(),
        zone: zone.to_owned(),
        pods,
        ..Load::default()
    }
}

fn parts(waves: &[Vec<Load>]) -> Vec<Part> {
    let part = |loads: &Vec<Load>| Part {
        wave: None,
        loads: loads.clone(),
    };
    waves.iter().map(part).collect()
}

fn worked_out(spec: &NodePatchRunSpec, waves: &[Vec<Load>]) -> Forecast {
    forecast(spec, &parts(waves), &BTreeMap::new(), &Pace::default())
}

fn turns(forecast: &Forecast) -> Vec<(&str, i64, i64)> {
    let turns = forecast.waves.iter().flat_map(|wave| &wave.nodes);
    turns
        .map(|turn| (turn.node.as_str(), turn.begins, turn.ends))
        .collect()
}

#[test]
fn batches_and_waves_follow_each_other() {
    let waves = [
        vec![load("a", "x", 1), load("b", "x", 1), load("c", "x", 1)],
        vec![load("d", "x", 0)],
    ];
    let forecast = worked_out(&NodePatchRunSpec::default(), &waves);
    // 180 s for the machine, 30 s for the pods, 60 s for the end.
    assert_eq!(
        turns(&forecast),
        [
            ("a", 0, 270),
            ("b", 0, 270),
            ("c", 270, 540),
            ("d", 540, 780)
        ]
    );
    assert_eq!((forecast.seconds, forecast.most_at_once), (780, 2));
    assert!((forecast.extra_node_hours - 1050.0 / 3600.0).abs() < 1e-9);
}

#[test]
fn a_budget_lets_pods_of_two_nodes_go_one_after_the_other() {
    let guarded = |node: &str| Load {
        guarded: [("default/web".to_owned(), 2)].into(),
        ..load(node, "x", 2)
    };
    let waves = [vec![guarded("a"), guarded("b")]];
    let rooms = [("default/web".to_owned(), 1)].into();
    let spec = NodePatchRunSpec::default();
    let slow = forecast(&spec, &parts(&waves), &rooms, &Pace::default());
    assert_eq!(turns(&slow), [("a", 0, 300), ("b", 0, 360)]);
    let rooms = [("default/web".to_owned(), 4)].into();
    let fast = forecast(&spec, &parts(&waves), &rooms, &Pace::default());
    assert_eq!(turns(&fast), [("a", 0, 270), ("b", 0, 270)]);
}

#[test]
fn limits_by_zone_and_hour_hold_nodes_back() {
    let mut spec = NodePatchRunSpec {
        batch_size_non_important: Some(9),
        max_concurrent_per_zone: Some(1),
        ..NodePatchRunSpec::default()
    };
    let waves = [vec![
        load("a", "x", 0),
        load("b", "x", 0),
        load("c", "y", 0),
    ]];
    let zoned = worked_out(&spec, &waves);
    assert_eq!(
        turns(&zoned),
        [("a", 0, 240), ("c", 0, 240), ("b", 240, 480)]
    );
    spec.max_concurrent_per_zone = None;
    spec.max_per_hour = Some(2);
    let hourly = worked_out(&spec, &waves);
    assert_eq!(turns(&hourly)[2], ("c", 3600, 3840));
}

#[test]
fn canaries_are_watched_and_a_blocked_node_is_parked_at_its_limit() {
    let spec = NodePatchRunSpec {
        canary: Some(Canary {
            nodes: 1,
            soak: Some("10m".to_owned()),
        }),
        ..NodePatchRunSpec::default()
    };
    let stuck = Load {
        blocked: true,
        ..load("b", "x", 1)
    };
    let mut parts = parts(&[vec![load("a", "x", 0)], vec![stuck]]);
    parts[0].wave = Some(Wave::Canaries);
    let forecast = forecast(&spec, &parts, &BTreeMap::new(), &Pace::default());
    assert_eq!(
        turns(&forecast),
        [("a", 0, 240), ("b", 840, 840 + 180 + 1800)]
    );
    assert_eq!(forecast.waves[0].wave, Some(Wave::Canaries));
    assert_eq!(forecast.waves[1].nodes[0].fate, Some(Fate::Parked));
}

#[test]
fn a_blocked_node_meets_the_fate_that_the_run_has_chosen() {
    let limit = SignedDuration::from_mins(30);
    let table = [
        (json!({}), Fate::Parked, 180 + 1800, "will be parked"),
        (
            json!({ "maxAttempts": 1 }),
            Fate::Failed,
            180 + 1800,
            "will fail unless somebody helps: each is put back 30m after its drain began, 1 attempt",
        ),
        (
            json!({ "drain": { "onDeadline": "Fail" } }),
            Fate::Failed,
            180 + 1800,
            "will fail unless somebody helps: each is put back 30m after its drain began, 3 attempt",
        ),
        (
            json!({ "drain": { "onDeadline": "Force" } }),
            Fate::Forced,
            180 + 1800 + 60,
            "will be ended with pods on them, 30m after their drains began",
        ),
    ];
    for (spec, fate, ends, words) in table {
        let mut spec = spec;
        spec["provider"] = json!({ "type": "embedded" });
        let spec: NodePatchRunSpec = serde_json::from_value(spec).unwrap();
        let stuck = Load {
            blocked: true,
            ..load("a", "x", 1)
        };
        let forecast = worked_out(&spec, &[vec![stuck]]);
        let turn = &forecast.waves[0].nodes[0];
        assert_eq!((turn.fate, turn.ends), (Some(fate), ends));
        let told = fate.sentence(1, &spec, limit);
        assert!(told.contains(words), "{told}");
        assert_eq!(fate.is_grave(), fate == Fate::Forced);
    }
}

#[test]
fn control_planes_go_one_at_a_time_whatever_the_batch() {
    let spec = NodePatchRunSpec {
        batch_size_non_important: Some(3),
        ..NodePatchRunSpec::default()
    };
    let mut parts = parts(&[vec![load("a", "x", 0), load("b", "y", 0)]]);
    parts[0].wave = Some(Wave::ControlPlanes);
    let forecast = forecast(&spec, &parts, &BTreeMap::new(), &Pace::default());
    assert_eq!(turns(&forecast), [("a", 0, 240), ("b", 240, 480)]);
}

#[test]
fn terminate_first_costs_no_extra_machine() {
    let spec = NodePatchRunSpec {
        replacement: Some(ReplacementMode::TerminateFirst),
        ..NodePatchRunSpec::default()
    };
    let forecast = worked_out(&spec, &[vec![load("a", "x", 0)]]);
    assert_eq!(turns(&forecast), [("a", 0, 240)]);
    assert!(forecast.extra_node_hours.abs() < 1e-9);
}

#[test]
fn the_middle_of_what_was_measured_here_is_taken() {
    let done = |ready: &str, gone: &str| -> NodePatchTask {
        let condition = |kind: &str, at: &str| {
            serde_json::json!({ "type": kind, "status": "True", "reason": "r", "message": "",
                                "lastTransitionTime": format!("2026-01-01T{at}Z") })
        };
        serde_json::from_value(serde_json::json!({
            "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchTask",
            "metadata": { "name": "t", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "runName": "r", "runUID": "r", "nodeName": "n", "nodeUID": "n" },
            "status": {
                "step": { "name": "Done", "since": "2026-01-01T01:00:00Z" },
                "conditions": [condition("NewNodeReady", ready), condition("Drained", "00:30:00"),
                               condition("OldDeleted", gone)],
            },
        }))
        .unwrap()
    };
    let mut pace = Pace::default();
    let tasks = [
        done("00:01:00", "00:30:20"),
        done("00:02:00", "00:30:40"),
        done("00:09:00", "00:35:00"),
    ];
    assert_eq!(pace.measured(&tasks), 3);
    assert_eq!(pace.machine_ready, SignedDuration::from_mins(2));
    assert_eq!(pace.machine_gone, SignedDuration::from_secs(40));
    assert_eq!(Pace::default().measured(&[]), 0);
}
