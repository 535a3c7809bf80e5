//! The gate in the logs: which pods are the operator's own, which machines it refused, and for which
//! nodes it opened the gate.
//!
//! Owns the judgement over a gate of the default taint. Must not look at any status of ours: a node has
//! passed when its kubelet was recorded saying that a worker there ended well.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use shipshape_api::names::DEFAULT_GATE_TAINT;
use shipshape_engine::machine::MachineId;
use shipshape_simulator::cloud::node_name;

use super::bindings;
use crate::audit::AuditEntry;
use crate::stage::is_operator;

/// Pods that the operator made, and may therefore delete.
pub(crate) fn own_pods(entries: &[AuditEntry]) -> BTreeSet<String> {
    let made = entries.iter().filter(|entry| {
        entry.is("create", "pods") && is_operator(entry) && entry.may_have_succeeded()
    });
    made.map(AuditEntry::object).collect()
}

/// Whether the machine's node came with the gate's taint, and no pod ever landed on it but workers.
pub(super) fn was_refused(
    entries: &[AuditEntry],
    own: &BTreeSet<String>,
    machine: &MachineId,
) -> bool {
    let node = node_name(machine);
    let mut landed = bindings(entries).filter(|(_, target)| *target == node);
    gated(entries).contains(node.as_str()) && landed.all(|(pod, _)| own.contains(&pod))
}

/// Nodes that registered with the gate's taint.
fn gated(entries: &[AuditEntry]) -> BTreeSet<&str> {
    let made = entries
        .iter()
        .filter(|entry| entry.is("create", "nodes") && entry.succeeded());
    made.filter(|entry| taints(entry).is_some_and(has_gate))
        .filter_map(|entry| Some(entry.object_ref.as_ref()?.name.as_str()))
        .collect()
}

fn taints(entry: &AuditEntry) -> Option<&Value> {
    entry.request_object.as_ref()?.pointer("/spec/taints")
}

fn has_gate(taints: &Value) -> bool {
    let (key, _, effect) = DEFAULT_GATE_TAINT;
    let mut taints = taints.as_array().into_iter().flatten();
    taints.any(|taint| {
        taint.get("key").and_then(Value::as_str) == Some(key)
            && taint.get("effect").and_then(Value::as_str) == Some(effect)
    })
}

/// The operator opens the gate for no node on which no worker has ended well before.
pub(super) fn check_openings(entries: &[AuditEntry], own: &BTreeSet<String>) -> Vec<String> {
    let gated = gated(entries);
    let workers: BTreeMap<String, &str> = bindings(entries)
        .filter(|(pod, _)| own.contains(pod))
        .collect();
    let mut passed: BTreeSet<&str> = BTreeSet::new();
    let mut faults = Vec::new();
    let mut in_order: Vec<&AuditEntry> = entries.iter().filter(|it| it.succeeded()).collect();
    in_order.sort_by_key(|entry| entry.request_received_timestamp);
    for entry in in_order {
        let name = entry.object_ref.as_ref().map(|it| it.name.as_str());
        let Some(name) = name else { continue };
        // What was known of a node says nothing of the next one under its name.
        if entry.is("create", "nodes") {
            passed.remove(name);
        }
        if says_passed(entry) {
            passed.extend(workers.get(&entry.object()));
        }
        if opens_gate(entry) && gated.contains(name) && !passed.contains(name) {
            let text = format!("the gate was opened for {name}, where no worker had ended well");
            faults.push(text);
        }
    }
    faults
}

/// Whether the operator takes the gate's taint off a node that has it, or had.
pub(crate) fn opens_gate(entry: &AuditEntry) -> bool {
    is_operator(entry)
        && entry.is("patch", "nodes")
        && taints(entry).is_some_and(|taints| !has_gate(taints))
}

/// Whether somebody else than the operator says that all containers of a pod ended with code 0.
pub(crate) fn says_passed(entry: &AuditEntry) -> bool {
    let is_status = entry.is("patch", "pods/status") || entry.is("update", "pods/status");
    if !is_status || is_operator(entry) {
        return false;
    }
    let statuses = entry
        .request_object
        .as_ref()
        .and_then(|body| body.pointer("/status/containerStatuses")?.as_array());
    let ended = |status: &Value| {
        let code = status.pointer("/state/terminated/exitCode");
        code.and_then(Value::as_i64) == Some(0)
    };
    statuses.is_some_and(|all| !all.is_empty() && all.iter().all(ended))
}
