//! What the demo's cluster holds.
//!
//! Owns one scenario: outdated nodes in three zones, a web workload under a tight budget, an agent on
//! every node, and a run that replaces them all.

use anyhow::Context;
use shipshape_scenarios::Scenario;

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
