//! Tables for the run: plan first, then slots and tasks, then the next partition, then the end.

use shipshape_api::node_patch_run::NodePatchRunSpec;
use shipshape_api::{NodePatchRun, ProviderRef};

use super::*;
use crate::ledger::Role;

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn node(name: &str, zone: &str) -> NodeView {
    NodeView {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        zone: zone.to_owned(),
        ..NodeView::default()
    }
}

fn waiting(name: &str, zone: &str) -> Waiting {
    Waiting {
        node: node(name, zone),
        pods: Vec::new(),
        task: format!("ns/task-{name}"),
    }
}

fn slot(name: &str, zone: &str) -> (String, Slot) {
    let slot = Slot {
        node: name.to_owned(),
        owner: "run-uid".to_owned(),
        task: format!("ns/task-{name}"),
        zone: zone.to_owned(),
        role: Role::Worker,
        important: false,
        granted_at: now(),
    };
    (format!("{name}-uid"), slot)
}

fn ledger(slots: &[(String, Slot)]) -> Observed<Ledger> {
    Observed::Present(Ledger {
        resource_version: Some("3".to_owned()),
        slots: slots.iter().cloned().collect(),
    })
}

fn snapshot() -> RunSnapshot {
    let spec = NodePatchRunSpec {
        provider: ProviderRef {
            r#type: "embedded".to_owned(),
            aws: None,
        },
        ..NodePatchRunSpec::default()
    };
    let mut run = NodePatchRun::new("run", spec);
    run.metadata.namespace = Some("ns".to_owned());
    run.metadata.uid = Some("run-uid".to_owned());
    RunSnapshot {
        run,
        known_providers: vec!["embedded".to_owned()],
        nodes: Observed::Present(vec![node("a", "z1"), node("b", "z1"), node("c", "z2")]),
        waiting: Vec::new(),
        open: Vec::new(),
        succeeded: 0,
        failed: 0,
        others: 0,
        ledger: Observed::NotAsked,
    }
}

fn planned() -> RunSnapshot {
    let mut snapshot = snapshot();
    snapshot.run.status = Some(look(&snapshot).status);
    snapshot.nodes = Observed::NotAsked;
    snapshot
}

fn look(snapshot: &RunSnapshot) -> Decision<NodePatchRunStatus> {
    decide(snapshot, &Settings::default(), now())
}

fn created(decision: &Decision<NodePatchRunStatus>) -> Vec<&str> {
    decision
        .effects
        .iter()
        .filter_map(|effect| {
            if let Effect::EnsureTask(task) = effect {
                Some(task)
            } else {
                None
            }
        })
        .map(|task| task.spec.node_name.as_str())
        .collect()
}

#[test]
fn the_plan_is_recorded_before_anything_else_happens() {
    let decision = look(&snapshot());
    assert_eq!(decision.effects, []);
    assert_eq!(decision.status.total, Some(3));
    assert_eq!(decision.status.plan.unwrap().partitions.len(), 2);
}

#[test]
fn an_empty_node_list_is_not_taken_for_an_empty_cluster() {
    let decision = look(&RunSnapshot {
        nodes: Observed::Present(Vec::new()),
        ..snapshot()
    });
    assert_eq!(decision.status.plan, None);
    assert!(decision.wake.is_some());
}

#[test]
fn an_unknown_provider_is_refused_with_the_known_ones_named() {
    let mut snapshot = snapshot();
    snapshot.run.spec.provider.r#type = "vmware".to_owned();
    let decision = look(&snapshot);
    let refusal = decision
        .status
        .conditions
        .iter()
        .find(|one| one.type_ == ACCEPTED)
        .unwrap();
    assert_eq!(
        (refusal.status.as_str(), refusal.reason.as_str()),
        ("False", "UnsupportedProvider")
    );
    assert!(refusal.message.contains("vmware") && refusal.message.contains("embedded"));
    assert_eq!(decision.effects, []);
    snapshot.run.status = Some(decision.status);
    assert_eq!(look(&snapshot).notices, [], "said once");
}

#[test]
fn slots_are_granted_before_their_tasks_and_within_the_batch_size() {
    let snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1"), waiting("b", "z1"), waiting("c", "z2")],
        ledger: ledger(&[]),
        ..planned()
    };
    let decision = look(&snapshot);
    assert!(
        matches!(decision.effects.first(), Some(Effect::GrantSlots { slots, .. }) if slots.len() == 2)
    );
    assert_eq!(created(&decision), ["a", "b"]);
    assert!(
        decision
            .status
            .waiting_for
            .unwrap()
            .contains("batchSizeNonImportant")
    );
}

#[test]
fn a_slot_without_its_task_is_adopted_and_not_granted_twice() {
    let snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&[slot("a", "z1")]),
        ..planned()
    };
    let decision = look(&snapshot);
    assert_eq!(created(&decision), ["a"]);
    assert!(
        !decision
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::GrantSlots { .. }))
    );
}

#[test]
fn slots_of_others_count_against_the_budget() {
    let foreign = [slot("x", "z1"), slot("y", "z2")];
    let snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&foreign),
        ..planned()
    };
    assert_eq!(look(&snapshot).effects, []);
}

#[test]
fn the_zone_cap_lets_other_zones_go_first() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1"), waiting("c", "z2")],
        ledger: ledger(&[slot("x", "z1")]),
        ..planned()
    };
    snapshot.run.spec.max_concurrent_per_zone = Some(1);
    assert_eq!(created(&look(&snapshot)), ["c"]);
}

#[test]
fn a_paused_run_grants_nothing_and_says_so() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&[]),
        ..planned()
    };
    snapshot.run.spec.paused = Some(true);
    let decision = look(&snapshot);
    assert_eq!(decision.effects, []);
    assert_eq!(decision.status.paused, Some(true));
}

#[test]
fn an_unread_ledger_grants_nothing() {
    let unread = Observed::Unknown("no answer".to_owned());
    let snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: unread,
        ..planned()
    };
    assert_eq!(look(&snapshot).effects, []);
}

#[test]
fn partitions_follow_one_another_and_the_last_completes_the_run() {
    let mut snapshot = planned();
    let decision = look(&snapshot);
    assert_eq!(decision.status.current_iteration, Some(1));
    snapshot.run.status = Some(decision.status);
    let decision = look(&snapshot);
    assert!(condition::is_true(&decision.status.conditions, COMPLETED));
    snapshot.run.status = Some(decision.status);
    assert_eq!(
        look(&snapshot),
        Decision::rest(snapshot.run.status.clone().unwrap())
    );
}
