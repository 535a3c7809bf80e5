//! What the demo's cluster holds.
//!
//! Owns one scenario: outdated nodes in three zones, a web workload under a tight budget, an agent on
//! every node, and a run that replaces them all.

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use shipshape_cluster::Clock;
use shipshape_scenarios::Scenario;

use crate::cli::{DemoOptions, Speed};

/// More than the roll of one node takes, on average.
const PER_NODE: SignedDuration = SignedDuration::from_secs(80);

/// The date on which the demo begins: so long ago that its clock has not overtaken the user's when
/// the roll ends, because kubectl counts some ages by the user's clock and has no word for the
/// future.
pub(super) fn start(options: &DemoOptions) -> Timestamp {
    let roll = PER_NODE * (i32::try_from(options.nodes).unwrap_or(i32::MAX) + 2);
    let passes_here = match options.speed {
        Speed::Times(times) if times > 1.0 => roll.mul_f64(1.0 / times),
        Speed::Times(_) => roll,
        Speed::Max => SignedDuration::ZERO,
    };
    let start = Clock::System.now() - (roll - passes_here);
    // Objects carry whole seconds; a start between two would tell another story each time.
    Timestamp::from_second(start.as_second()).unwrap_or(start)
}

/// The scenario of the demo.
pub(super) fn scenario(nodes: u32) -> anyhow::Result<Scenario> {
    let replicas = nodes * 2;
    let text = format!(
        "
name: demo
world:
  nodes: {nodes}
  workloads:
    - {{ name: web, replicas: {replicas}, budget: {{ maxUnavailable: 1 }} }}
    - {{ name: agent, kind: DaemonSet }}
intents:
  - apiVersion: shipshape.dev/v1alpha1
    kind: NodePatchRun
    metadata: {{ name: new-image, namespace: default }}
    spec:
      provider: {{ type: embedded }}
      batchSizeNonImportant: 2
expect:
  rest: 0s
  within: 48h
  replaced: {nodes}
"
    );
    Scenario::parse("demo", &text).context("the demo's own scenario")
}
