//! What others bring onto a stage is named, and judged by nobody.

use serde_json::{Value, json};
use shipshape_simulator::world::World;

use super::*;
use crate::report::{Outcome, Report};
use crate::stage::Stage;
use crate::story::{create, play_on};

const ROLL: &str = "
name: roll
world: { nodes: 2 }
intents:
  - apiVersion: shipshape.dev/v1alpha1
    kind: NodePatchRun
    metadata: { name: roll, namespace: default }
    spec: { provider: { type: embedded } }
expect: { rest: 0s, replaced: 2 }
";

/// Plays a roll in a cluster in which somebody has created these objects.
async fn beside(roll: &str, guests: &[Value]) -> Report {
    let scenario = Scenario::parse("roll", roll).unwrap();
    let world = World::start(scenario.world.spec(1)).await.unwrap();
    let stage = Stage::embedded(&world);
    for guest in guests {
        create(&stage.client("guest"), guest).await.unwrap();
    }
    play_on(&stage, &scenario).await.unwrap().report
}

fn run(name: &str, provider: &str) -> Value {
    json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchRun",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "provider": { "type": provider }, "paused": true },
    })
}

/// As in `examples/pending-node-gcp.yaml`.
fn pending(name: &str) -> Value {
    json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "PendingNode",
        "metadata": { "name": name },
        "spec": {
            "providerID": "gce://my-project/europe-west3-b/worker-x7k2", "nodeName": "worker-x7k2",
            "goal": "Join", "deadline": "2022-07-04T08:33:18+00:00",
        },
    })
}

#[tokio::test(start_paused = true)]
async fn machines_and_runs_of_others_do_not_spoil_the_verdict_and_are_named() {
    let alone = beside(ROLL, &[]).await;
    assert_eq!(alone.left_aside, [""; 0]);
    let guests = [run("refused", "vmware"), pending("pendingnode-sample-gcp")];
    let report = beside(ROLL, &guests).await;
    assert_eq!(report.outcome, Outcome::Converged, "{report}");
    assert!(report.is_as_expected(), "{report}");
    assert_eq!(report.nodes, alone.nodes);
    let expected = [
        "run default/refused, which this story did not ask for",
        "PendingNode pendingnode-sample-gcp, which is of no machine of this story",
    ];
    assert_eq!(report.left_aside, expected, "{report}");
    let text = report.to_string();
    assert!(text.contains("  LEFT ASIDE run default/refused,"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn what_a_run_of_others_may_hold_is_left_aside_in_so_many_words() {
    let zone =
        "spec: { nodeSelector: { matchLabels: { topology.kubernetes.io/zone: a } }, provider";
    let roll = ROLL
        .replace("spec: { provider", zone)
        .replace("replaced: 2", "replaced: 1");
    let report = beside(&roll, &[run("waits", "embedded")]).await;
    assert!(report.is_as_expected(), "{report}");
    let told = report.left_aside.concat();
    assert!(told.contains("default/waits, which this story did not ask for"));
    assert!(
        told.contains("locks, slots, marks and the number"),
        "{told}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_operator_may_have_made_is_judged() {
    let id = "gce://my-project/europe-west3-b/worker-x7k2";
    let report = beside(ROLL, &[pending(&pending_name(id))]).await;
    assert_eq!(report.outcome, Outcome::Violated, "{report}");
}
