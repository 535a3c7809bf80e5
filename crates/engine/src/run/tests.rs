//! Tables for the run: plan first, then slots and tasks, then the next partition, then the end.

mod autoscaler;
mod brake;
mod endings;
mod late;
mod marks;
mod slots;
mod state;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use shipshape_api::node_patch_run::{Canary, NodePatchRunSpec, Wave};
use shipshape_api::node_patch_task::ParkRecord;
use shipshape_api::{NodePatchRun, ProviderRef};

use super::*;
use crate::admit::{self, Waiting};
use crate::ledger::{Ledger, Role, Slot};
use crate::view::NodeView;
use shipshape_api::names;

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
        group: Observed::NotAsked,
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
        surges: None,
        granted_at: now(),
    };
    (format!("{name}-uid"), slot)
}

fn ledger(slots: &[(String, Slot)]) -> Observed<Ledger> {
    Observed::Present(Ledger {
        resource_version: Some("3".to_owned()),
        slots: slots.iter().cloned().collect(),
        ..Ledger::default()
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
    run.metadata.finalizers = Some(vec![names::FINALIZER.to_owned()]);
    RunSnapshot {
        run,
        known_providers: vec!["embedded".to_owned()],
        nodes: Observed::Present(vec![node("a", "z1"), node("b", "z1"), node("c", "z2")]),
        waiting: Vec::new(),
        open: Vec::new(),
        succeeded: 0,
        failed: 0,
        called_off: 0,
        failed_before: 0,
        lost: 0,
        surplus: 0,
        untried: 0,
        others: 0,
        last_failure: None,
        begun_within_hour: 0,
        abandoned: Vec::new(),
        autoscalers: Observed::NotAsked,
        shared_autoscalers: Vec::new(),
        down: Vec::new(),
        newcomers: Observed::Present(Vec::new()),
        on_their_way: [].into(),
        left_open: Vec::new(),
        unmarked: Vec::new(),
        homeless: None,
        marked: Vec::new(),
        ledger: Observed::NotAsked,
        slotless: crate::ledger::Slotless::default(),
        etcd: Observed::NotAsked,
    }
}

fn planned() -> RunSnapshot {
    let mut snapshot = snapshot();
    snapshot.run.status = Some(look(&snapshot).status);
    snapshot.nodes = Observed::NotAsked;
    snapshot.run.status = Some(look(&snapshot).status);
    snapshot
}

fn task_at(name: &str, step: TaskStep) -> NodePatchTask {
    let mut task = NodePatchTask::new(name, shipshape_api::NodePatchTaskSpec::default());
    task.spec.node_name = name.to_owned();
    task.status = Some(shipshape_api::NodePatchTaskStatus {
        step: Some(shipshape_api::node_patch_task::StepRecord {
            name: step,
            since: Time(now()),
            deadline: None,
        }),
        ..shipshape_api::NodePatchTaskStatus::default()
    });
    task
}

fn down(name: &str) -> admit::Down {
    admit::Down {
        node: name.to_owned(),
        zone: "z1".to_owned(),
        role: Role::Worker,
    }
}

fn target(name: &str) -> NodeTarget {
    NodeTarget {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        resource_version: "1".to_owned(),
        operation: "run-uid".to_owned(),
    }
}

fn names_of(decision: &Decision<NodePatchRunStatus>) -> Vec<&'static str> {
    decision.effects.iter().map(Effect::name).collect()
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

/// Said True at the start of each look and False at its end, it was news and a write every time.
#[test]
fn a_refused_selector_is_told_once_and_taken_back_once_it_is_mended() {
    let mut snapshot = snapshot();
    snapshot.run.spec.node_selector = serde_json::from_value(serde_json::json!({
        "matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}],
    }))
    .unwrap();
    let refused = look(&snapshot);
    let reasons: Vec<&str> = refused.notices.iter().map(|one| one.reason).collect();
    assert!(reasons.contains(&"InvalidSelector"), "{reasons:?}");
    snapshot.run.status = Some(refused.status.clone());
    let later = now() + SignedDuration::from_hours(1);
    let again = decide(&snapshot, &Settings::default(), later);
    assert_eq!((again.status, again.notices), (refused.status, vec![]));
    snapshot.run.spec.node_selector = None;
    let mended = decide(&snapshot, &Settings::default(), later);
    assert!(condition::is_true(&mended.status.conditions, ACCEPTED));
    assert!(mended.status.plan.is_some());
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
    // A slot that no task works under yet is given back, and no task is made for it.
    let (uid, granted) = slot("a", "z1");
    snapshot.abandoned = vec![(uid.clone(), granted.task.clone())];
    snapshot.waiting = vec![waiting("a", "z1")];
    snapshot.ledger = ledger(&[(uid, granted)]);
    let decision = look(&snapshot);
    assert_eq!(created(&decision), Vec::<String>::new());
    let freed = |effect: &Effect| matches!(effect, Effect::GrantSlots { ledger, slots } if ledger.slots.is_empty() && slots.is_empty());
    assert!(decision.effects.iter().any(freed), "{:?}", decision.effects);
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
fn nothing_is_planned_before_the_run_is_kept_and_its_status_is_not_written_with_the_finalizer() {
    let mut snapshot = snapshot();
    snapshot.run.metadata.finalizers = None;
    let first = look(&snapshot);
    assert_eq!(first.effects, []);
    assert_eq!(first.wake, Some(now()));
    snapshot.run.status = Some(first.status.clone());
    let decision = look(&snapshot);
    assert_eq!(names_of(&decision), ["EnsureFinalizer"]);
    assert_eq!(decision.status, first.status);
    assert_eq!(decision.status.plan, None);
}

#[test]
fn a_parked_node_does_not_stop_the_next_partition_and_is_named_in_the_last_round() {
    let mut snapshot = RunSnapshot {
        open: vec![task_at("a", TaskStep::Parked).into()],
        ..planned()
    };
    let decision = look(&snapshot);
    assert_eq!(decision.status.current_iteration, Some(1));
    assert_eq!(decision.status.parked, Some(1));
    snapshot.run.status = Some(decision.status);
    let decision = look(&snapshot);
    assert_eq!(decision.status.last_round, Some(true));
    assert!(!is_over(&decision.status));
    assert_eq!(
        decision.status.waiting_for.as_deref(),
        Some("parked nodes: a")
    );
}

#[test]
fn failures_pause_the_run_until_they_are_acknowledged() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("b", "z1")],
        ledger: ledger(&[]),
        failed: 1,
        succeeded: 1,
        last_failure: Some("node a: no such image".to_owned()),
        ..planned()
    };
    assert_eq!(created(&look(&snapshot)), ["b"], "without a policy");
    snapshot.run.spec.failure_policy = Some(shipshape_api::node_patch_run::FailurePolicy {
        enabled: Some(true),
        pause_after_failures: None,
    });
    let decision = look(&snapshot);
    assert_eq!(decision.effects, []);
    let reason = decision.status.pause_reason.unwrap();
    assert!(reason.contains("pauseAfterFailures") && reason.contains("no such image"));
    snapshot.run.metadata.annotations =
        Some([(names::ANNOTATION_ACKNOWLEDGED.to_owned(), "1".to_owned())].into());
    let decision = look(&snapshot);
    assert_eq!(created(&decision), ["b"]);
    assert_eq!(decision.status.paused, None);
}

#[test]
fn a_node_that_is_gone_without_a_replacement_pauses_the_run_until_somebody_knows() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&[]),
        succeeded: 3,
        failed: 1,
        ..planned()
    };
    assert_eq!(created(&look(&snapshot)).len(), 1, "the old node is there");
    snapshot.lost = 1;
    let paused = look(&snapshot);
    assert_eq!(created(&paused), [""; 0]);
    let reason = paused.status.pause_reason.unwrap();
    assert!(reason.starts_with("a node is gone without a replacement"));
    snapshot.run.metadata.annotations =
        Some([(names::ANNOTATION_ACKNOWLEDGED.to_owned(), "1".to_owned())].into());
    assert_eq!(created(&look(&snapshot)).len(), 1, "somebody knows");
    snapshot.run.spec.abort = Some(true);
    snapshot.run.status.as_mut().unwrap().groups_restored = Some(true);
    let ended = look(&snapshot);
    let mut told = ended.notices.iter().map(|one| one.message.as_str());
    let words = "1 node(s) are gone without a replacement";
    assert!(told.any(|one| one.ends_with(words)), "{:?}", ended.notices);
}

#[test]
fn a_machine_that_could_not_be_emptied_is_told_of_at_every_ending() {
    let snapshot = RunSnapshot {
        ledger: ledger(&[]),
        succeeded: 2,
        failed: 1,
        surplus: 1,
        ..planned()
    };
    for abort in [Some(true), None] {
        let mut snapshot = snapshot.clone();
        snapshot.run.spec.abort = abort;
        let mut told = Vec::new();
        for _ in 0..5 {
            let decision = look(&snapshot);
            told.extend(decision.notices.into_iter().map(|one| one.message));
            snapshot.run.status = Some(decision.status);
        }
        let words = "1 new machine(s) that could not be taken away stay in their groups";
        assert!(told.iter().any(|one| one.contains(words)), "{told:?}");
    }
}

#[test]
fn no_failed_node_is_followed_by_another_before_a_first_replacement_is_ready() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("c", "z1")],
        ledger: ledger(&[]),
        failed: 1,
        open: vec![task_at("b", TaskStep::Join).into()],
        last_failure: Some("node a: it has not joined".to_owned()),
        ..planned()
    };
    let decision = look(&snapshot);
    assert_eq!(decision.effects, [], "one is still under way");
    assert_eq!(decision.status.paused, None);
    let reason = decision.status.waiting_for.unwrap();
    assert!(reason.contains("1 node(s) failed, 1 under way"), "{reason}");

    let mut aside = snapshot.clone();
    aside.open = vec![task_at("b", TaskStep::Parked).into()];
    let paused = look(&aside).status.pause_reason;
    assert!(
        paused.is_some(),
        "nobody is under way, and all would wait for ever"
    );
    let status = Arc::make_mut(&mut aside.open[0]).status.as_mut().unwrap();
    status.parked = Some(ParkRecord {
        reason: "NoCapacity".to_owned(),
        message: "full".to_owned(),
        since: Time(now()),
        resuming: true,
        turn_since: None,
    });
    assert_eq!(look(&aside).status.pause_reason, None, "it is on its way");

    let status = Arc::make_mut(&mut snapshot.open[0])
        .status
        .as_mut()
        .unwrap();
    status.new_node_name = Some("new".to_owned());
    assert_eq!(created(&look(&snapshot)), ["c"], "the image works");

    snapshot.open.clear();
    let decision = look(&snapshot);
    assert_eq!(decision.effects, [], "the whole first wave has failed");
    let reason = decision.status.pause_reason.unwrap();
    assert!(reason.contains("it has not joined"), "{reason}");
    snapshot.run.metadata.annotations =
        Some([(names::ANNOTATION_ACKNOWLEDGED.to_owned(), "1".to_owned())].into());
    assert_eq!(created(&look(&snapshot)), ["c"]);
}

#[test]
fn nodes_that_are_down_count_unless_they_are_the_ones_to_go() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1")],
        ledger: ledger(&[slot("x", "z1")]),
        down: vec![down("dead")],
        ..planned()
    };
    let decision = look(&snapshot);
    assert_eq!(decision.effects, []);
    assert!(decision.status.waiting_for.unwrap().contains("dead"));
    snapshot.down = vec![down("a")];
    assert_eq!(created(&look(&snapshot)), ["a"]);
}

#[test]
fn the_rate_per_hour_holds_the_next_node_back() {
    let mut snapshot = RunSnapshot {
        waiting: vec![waiting("a", "z1"), waiting("b", "z1")],
        ledger: ledger(&[]),
        begun_within_hour: 4,
        ..planned()
    };
    snapshot.run.spec.max_per_hour = Some(5);
    let decision = look(&snapshot);
    assert_eq!(created(&decision), ["a"]);
    assert!(decision.status.waiting_for.unwrap().contains("maxPerHour"));
}

#[test]
fn the_others_follow_the_canaries_after_the_soak_and_only_if_none_failed() {
    let mut fresh = snapshot();
    fresh.run.spec.canary = Some(Canary {
        nodes: 1,
        soak: Some("10m".to_owned()),
    });
    fresh.run.status = Some(look(&fresh).status);
    let plan = fresh.run.status.as_ref().unwrap().plan.clone().unwrap();
    assert_eq!(plan.partitions[0].nodes, ["a"]);
    assert_eq!(plan.partitions.len(), 2);
    fresh.run.status = Some(look(&fresh).status);
    let soaking = look(&fresh);
    assert_eq!(soaking.status.current_iteration, Some(0));
    let until = now() + SignedDuration::from_mins(10);
    assert_eq!(soaking.wake, Some(until));
    fresh.run.status = Some(soaking.status);
    let after = decide(&fresh, &Settings::default(), until);
    assert_eq!(after.status.current_iteration, Some(1));
    fresh.failed = 1;
    let failed = decide(&fresh, &Settings::default(), until);
    assert_eq!(failed.status.current_iteration, Some(0));
    assert!(failed.status.pause_reason.unwrap().contains("canary"));
}

#[test]
fn the_others_follow_the_control_planes_only_if_none_failed() {
    let mut snapshot = planned();
    let status = snapshot.run.status.as_mut().unwrap();
    let plan = Arc::make_mut(status.plan.as_mut().unwrap());
    plan.partitions[0].wave = Some(Wave::ControlPlanes);
    assert_eq!(look(&snapshot).status.current_iteration, Some(1));
    snapshot.failed = 1;
    let failed = look(&snapshot);
    assert_eq!(failed.status.current_iteration, Some(0));
    let why = failed.status.pause_reason.unwrap();
    assert!(why.contains("control plane"), "{why}");
}
