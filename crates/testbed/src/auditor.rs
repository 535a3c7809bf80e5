//! The auditor: what the audit log and the cloud's call log say of a roll.
//!
//! Owns the judgement over the two logs. Must not look at any status of ours: a Node is ready when
//! its kubelet was recorded saying so, a pod is gone when its kubelet was recorded removing it.
//! Called after a story on the real control plane.

pub(crate) mod gate;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use shipshape_api::names::TAG_REPLACES;
use shipshape_engine::machine::{Machine, MachineId};
use shipshape_scenarios::stage::OPERATOR;
use shipshape_simulator::cloud::{CallRecord, node_name};

use crate::audit::AuditEntry;
use crate::stage::is_operator;

/// What the logs say.
#[derive(Debug, Default)]
pub struct Findings {
    /// Pods that the operator evicted.
    pub evicted: usize,
    /// Machines that the operator deleted for good, with another in their place.
    pub replaced: usize,
    /// Machines that the operator made and took back.
    pub undone: usize,
    /// Machines that the operator removed because they did not get through the gate.
    pub refused: usize,
    /// Who removed pods, and how many.
    pub removals: BTreeMap<String, usize>,
    /// What was not right.
    pub faults: Vec<String>,
}

/// In which order the machines of a roll come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The new one is Ready before the old one goes.
    NewFirst,
    /// The old one may go first, because somebody asked for that.
    OldFirst,
}

/// Reads both logs.
pub fn examine(
    entries: &[AuditEntry],
    calls: &[CallRecord],
    machines: &[Machine],
    order: Order,
) -> Findings {
    let deletions = deletions(calls);
    let undone = undone(calls, machines, &deletions);
    let own = gate::own_pods(entries);
    let refused: BTreeSet<&MachineId> = deletions
        .keys()
        .filter(|machine| !undone.contains(machine) && gate::was_refused(entries, &own, machine))
        .collect();
    let mut findings = Findings {
        evicted: entries
            .iter()
            .filter(|entry| is_our_eviction(entry))
            .count(),
        replaced: deletions.len() - undone.len() - refused.len(),
        undone: undone.len(),
        refused: refused.len(),
        ..Findings::default()
    };
    for entry in entries.iter().filter(|entry| removes_pods(entry)) {
        *findings
            .removals
            .entry(entry.user_agent.clone())
            .or_default() += 1;
        if is_operator(entry) && !own.contains(&entry.object()) {
            findings.faults.push(not_evicted(entries, &entry.object()));
        }
    }
    let replaced = deletions.iter().filter(|(it, _)| !refused.contains(it));
    for (machine, at) in replaced {
        findings.faults.extend(if undone.contains(machine) {
            check_undone(machines, machine, &deletions, order)
        } else {
            let kept = made_for(machines, machine).filter(|made| !undone.contains(&made.id));
            check_replacement(entries, &kept.collect::<Vec<_>>(), (machine, *at), order)
        });
        findings.faults.extend(check_pods(entries, machine, *at));
    }
    findings.faults.extend(check_calls(calls));
    findings.faults.extend(gate::check_openings(entries, &own));
    findings
}

/// When the operator first deleted each machine.
fn deletions(calls: &[CallRecord]) -> BTreeMap<MachineId, Timestamp> {
    let mut deletions = BTreeMap::new();
    for call in ours(calls, "deleteMachine") {
        if let Some(machine) = &call.machine {
            deletions.entry(machine.clone()).or_insert(call.at);
        }
    }
    deletions
}

/// Machines that the operator made and deleted, and that nothing took the place of.
fn undone(
    calls: &[CallRecord],
    machines: &[Machine],
    deletions: &BTreeMap<MachineId, Timestamp>,
) -> BTreeSet<MachineId> {
    ours(calls, "ensureReplacement")
        .filter_map(|call| call.machine.clone())
        .filter(|made| deletions.contains_key(made) && made_for(machines, made).next().is_none())
        .collect()
}

/// Machines that were made in the place of another.
fn made_for<'a>(machines: &'a [Machine], old: &'a MachineId) -> impl Iterator<Item = &'a Machine> {
    machines
        .iter()
        .filter(|machine| machine.tags.get(TAG_REPLACES) == Some(&old.0))
}

fn ours<'a>(calls: &'a [CallRecord], name: &'a str) -> impl Iterator<Item = &'a CallRecord> {
    calls
        .iter()
        .filter(move |call| call.caller == OPERATOR && call.call == name && call.took_effect())
}

fn is_our_eviction(entry: &AuditEntry) -> bool {
    is_operator(entry) && entry.is("create", "pods/eviction") && entry.succeeded()
}

fn removes_pods(entry: &AuditEntry) -> bool {
    (entry.is("delete", "pods") || entry.is("deletecollection", "pods")) && entry.succeeded()
}

/// A pod that the operator deleted though it is not its own, and how it was answered when it asked for it.
fn not_evicted(entries: &[AuditEntry], pod: &str) -> String {
    let made = entries
        .iter()
        .filter(|entry| entry.is("create", "pods") && is_operator(entry) && entry.object() == pod);
    let answers = made.map(|entry| format!(" (its making was answered {})", entry.code()));
    let answers: String = answers.collect();
    format!("pod {pod} was deleted, not evicted{answers}")
}

/// A machine that was taken back leaves the one behind that it was made for.
fn check_undone(
    machines: &[Machine],
    undone: &MachineId,
    deletions: &BTreeMap<MachineId, Timestamp>,
    order: Order,
) -> Option<String> {
    let record = machines.iter().find(|machine| machine.id == *undone)?;
    let old = MachineId(record.tags.get(TAG_REPLACES)?.clone());
    let was_first = deletions.get(&old)? < deletions.get(undone)?;
    (was_first && order == Order::NewFirst)
        .then(|| format!("machine {undone} was taken back after {old} had gone"))
}

/// An old machine has exactly one replacement, whose Node was Ready before the old one went.
fn check_replacement(
    entries: &[AuditEntry],
    kept: &[&Machine],
    (old, at): (&MachineId, Timestamp),
    order: Order,
) -> Option<String> {
    let [replacement] = kept else {
        return Some(format!("machine {old} has {} replacements", kept.len()));
    };
    let node = node_name(&replacement.id);
    match ready_since(entries, &node) {
        Some(since) if since <= at || order == Order::OldFirst => None,
        Some(since) => Some(format!(
            "machine {old} was deleted at {at}, {node} Ready at {since}"
        )),
        None => Some(format!(
            "machine {old} was deleted, and {node} was never Ready"
        )),
    }
}

/// When the server first had taken in that a node is Ready.
fn ready_since(entries: &[AuditEntry], node: &str) -> Option<Timestamp> {
    let said = entries.iter().find(|entry| {
        (entry.is("patch", "nodes/status") || entry.is("update", "nodes/status"))
            && entry.succeeded()
            && entry.object_ref.as_ref().is_some_and(|it| it.name == node)
            && entry.request_object.as_ref().is_some_and(says_ready)
    });
    said.map(|entry| entry.stage_timestamp)
}

pub(crate) fn says_ready(body: &Value) -> bool {
    let conditions = body.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition.get("type").is_some_and(|it| it == "Ready")
            && condition.get("status").is_some_and(|it| it == "True")
    })
}

/// Every pod evicted from a machine's node was gone before the machine.
fn check_pods(entries: &[AuditEntry], machine: &MachineId, at: Timestamp) -> Vec<String> {
    let node = node_name(machine);
    let mut faults = Vec::new();
    for (place, eviction) in entries.iter().enumerate() {
        let pod = eviction.object();
        let before = entries.get(..place).unwrap_or_default();
        if !is_our_eviction(eviction) || bound_to(before, &pod) != Some(node.as_str()) {
            continue;
        }
        let after = entries.get(place..).unwrap_or_default();
        let removal = after
            .iter()
            .find(|entry| removes_pods(entry) && entry.object() == pod);
        let since = removal.map(|removal| removal.request_received_timestamp);
        if since.is_none_or(|since| since > at) {
            let gone = since.map_or("never gone".to_owned(), |since| format!("gone at {since}"));
            faults.push(format!(
                "machine {machine} was deleted at {at} under pod {pod}, {gone}"
            ));
        }
    }
    faults
}

/// Every pod that was put on a node, and that node.
pub(crate) fn bindings(entries: &[AuditEntry]) -> impl Iterator<Item = (String, &str)> {
    entries.iter().filter_map(|entry| {
        let is_binding = entry.is("create", "pods/binding") && entry.succeeded();
        let body = entry.request_object.as_ref().filter(|_| is_binding)?;
        Some((entry.object(), body.pointer("/target/name")?.as_str()?))
    })
}

/// The node that a pod was bound to last.
fn bound_to<'a>(entries: &'a [AuditEntry], pod: &str) -> Option<&'a str> {
    let binding = entries.iter().rev().find(|entry| {
        entry.is("create", "pods/binding") && entry.succeeded() && entry.object() == pod
    });
    let target = binding?.request_object.as_ref()?.pointer("/target/name");
    target?.as_str()
}

/// The calls that made machines made one for each token.
fn check_calls(calls: &[CallRecord]) -> Vec<String> {
    let mut made: BTreeMap<String, BTreeSet<MachineId>> = BTreeMap::new();
    for call in ours(calls, "ensureReplacement") {
        let token = call.token.as_ref().map(|token| token.0.clone());
        let machines = made.entry(token.unwrap_or_default()).or_default();
        machines.extend(call.machine.clone());
    }
    let twice = made.into_iter().filter(|(_, machines)| machines.len() > 1);
    twice
        .map(|(token, machines)| format!("token {token} made {} machines", machines.len()))
        .collect()
}
