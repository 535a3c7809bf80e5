//! What a node carries, as far as its drain's time depends on it.

use std::collections::BTreeMap;

use super::Load;
use crate::drain;
use crate::preflight::{Finding, Wave, Weight};
use crate::view::{BudgetView, NodeView, PodView};

/// Reads the load of one node of a wave.
pub fn load(node: &NodeView, important: bool, wave: &Wave<'_>, findings: &[Finding]) -> Load {
    let none = Vec::new();
    let found = wave.nodes.iter().find(|(name, _)| *name == node.name);
    let pods = found.map_or(&none, |(_, pods)| pods);
    let moving: Vec<&PodView> = pods
        .iter()
        .filter(|pod| drain::skip(pod, wave.around).is_none())
        .collect();
    let mut guarded = BTreeMap::new();
    for pod in &moving {
        if let Ok(Some(budget)) = drain::guard(pod, wave.budgets) {
            *guarded.entry(key(budget)).or_default() += 1;
        }
    }
    let blocks = |one: &&Finding| one.weight == Weight::Blocks && one.node == node.name;
    Load {
        node: node.name.clone(),
        zone: node.zone.clone(),
        important,
        pods: moving.len(),
        with_volumes: moving.iter().filter(|pod| pod.has_volumes()).count(),
        blocked: findings.iter().any(|one| blocks(&one)),
        guarded,
    }
}

/// How many pods a budget lets go at once when all are healthy, under the name that loads have it.
pub fn room(budget: &BudgetView) -> (String, usize) {
    let at_best = (budget.expected - budget.desired).max(budget.allowed);
    (key(budget), usize::try_from(at_best).unwrap_or(0).max(1))
}

fn key(budget: &BudgetView) -> String {
    format!("{}/{}", budget.namespace, budget.name)
}
