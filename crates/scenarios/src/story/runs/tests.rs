//! Which runs count, when a story is over, and what becomes of an operator that ended by itself.

use std::time::Duration;

use shipshape_cluster::Shutdown;
use shipshape_engine::settings::Settings;
use shipshape_simulator::world::World;

use super::super::{OperatorProcess, StoryError};
use super::*;
use crate::report::Outcome;
use crate::stage::Stage;
use crate::story::play_alone;

const TWO_RUNS: &str = "
name: two runs
world: { nodes: 2 }
intents:
  - apiVersion: shipshape.dev/v1alpha1
    kind: NodePatchRun
    metadata: { name: first, namespace: default }
    spec: { provider: { type: embedded }, batchSizeNonImportant: 1 }
events:
  - at: 1s
    do:
      create:
        apiVersion: shipshape.dev/v1alpha1
        kind: NodePatchRun
        metadata: { name: second, namespace: default }
        spec: { provider: { type: embedded }, batchSizeImportant: 2147483647, batchSizeNonImportant: 2147483647 }
";

const DELETED: &str = "
name: deleted
world: { nodes: 3 }
intents:
  - apiVersion: shipshape.dev/v1alpha1
    kind: NodePatchRun
    metadata: { name: roll, namespace: default }
    spec: { provider: { type: unheard-of } }
  - apiVersion: shipshape.dev/v1alpha1
    kind: NodePatchRun
    metadata: { name: waits, namespace: default }
    spec: { provider: { type: embedded }, paused: true }
events:
  - at: 1m
    do:
      delete:
        apiVersion: shipshape.dev/v1alpha1
        kind: NodePatchRun
        metadata: { name: waits, namespace: default }
expect: { rest: 0s, within: 3h, outcome: Stalled }
";

#[test]
fn a_run_that_an_event_creates_is_waited_for() {
    let scenario = Scenario::parse("two", TWO_RUNS).unwrap();
    let names: Vec<_> = asked_for(&scenario)
        .filter_map(|run| run.metadata.name)
        .collect();
    assert_eq!(names, ["first", "second"]);
}

#[test]
fn a_deleted_run_does_not_keep_a_story_from_its_end() {
    let scenario = Scenario::parse("deleted", DELETED).unwrap();
    let report = play_alone(&scenario, 1).unwrap().report;
    assert_eq!(report.outcome, Outcome::Stalled, "{report}");
    assert!(report.virtual_seconds < 120.0, "{report}");
}

#[test]
fn a_refused_intent_is_named_with_its_place_and_the_words_of_the_api() {
    let text = DELETED.replace("unheard-of", "''");
    let scenario = Scenario::parse("refused", &text).unwrap();
    let error = play_alone(&scenario, 1).err().unwrap();
    let sentence = shipshape_cluster::error::in_full(&error);
    let expected = "the API refused intents[0], NodePatchRun roll: NodePatchRun.shipshape.dev \"roll\" \
                    is invalid: spec.provider.type: ";
    assert!(sentence.starts_with(expected), "{sentence}");
    assert!(!sentence.contains("Status {"), "{sentence}");
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_ended_by_itself_is_an_error() {
    let scenario = Scenario::parse("two", TWO_RUNS).unwrap();
    let world = World::start(scenario.world.spec(1)).await.unwrap();
    let mut process = OperatorProcess::new(&Stage::embedded(&world), &Settings::default());
    let broken = tokio::spawn(async { panic!("a defect") });
    process.running = Some((broken, Shutdown::new()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stopped = process.stop().await;
    assert!(matches!(stopped, Err(StoryError::Operator(_))));
}
