//! What the audit log says of a roll: writes, evictions, and how soon room in a budget was used.
//!
//! Owns the counting. Everything is taken from the API server's log; the client that rolls is known by
//! its user agent. A dry run changes nothing and is not a write.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::eyes::Closures;
use crate::audit::AuditEntry;
use crate::bench::writes::{Actor, is_work, words};

/// The counts of one roll.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Changes that were asked for, by verb and resource, refused ones included.
    pub(super) writes: BTreeMap<String, usize>,
    /// Evictions that were asked for.
    pub(super) evict_calls: usize,
    /// Evictions that were granted.
    pub(super) evicted: usize,
    /// Dry runs.
    pub(super) dry_runs: usize,
    /// From the opening of a budget that pods wait for to the next eviction under it, in seconds,
    /// sorted.
    pub(super) openings: Vec<f64>,
}

/// Counts what the actor did; the log must reach back to where the pods were bound.
pub(super) fn count(entries: &[AuditEntry], actor: Actor, closures: &Closures) -> Counts {
    let mut counts = Counts::default();
    for entry in entries.iter().filter(|entry| actor.did(entry)) {
        if !is_work(entry) {
            continue;
        }
        if entry.is_dry_run() {
            counts.dry_runs += 1;
            continue;
        }
        *counts.writes.entry(words(entry)).or_default() += 1;
        if entry.is("create", "pods/eviction") {
            counts.evict_calls += 1;
            counts.evicted += usize::from(entry.succeeded());
        }
    }
    counts.openings = openings(entries, actor, closures);
    counts
}

/// A granted eviction.
struct Moved<'a> {
    asked: Timestamp,
    granted: Timestamp,
    budget: &'a str,
    /// Since when its node was closed.
    waited_from: Option<Timestamp>,
}

/// Follows each budget's room as it is written, by the disruption controller and by the API server, which
/// charges a budget for each eviction. When it goes from none to some while a pod under it waits on a
/// closed node, time runs until the next eviction under it is asked for. One that the server is still
/// trying to charge at that moment takes the room without being asked for again.
fn openings(entries: &[AuditEntry], actor: Actor, closures: &Closures) -> Vec<f64> {
    let moved = moves(entries, actor, closures);
    let mut writes: Vec<&AuditEntry> = entries
        .iter()
        .filter(|entry| written_room(entry).is_some())
        .collect();
    writes.sort_by_key(|entry| entry.stage_timestamp);
    let mut room: BTreeMap<&str, i64> = BTreeMap::new();
    let mut found = Vec::new();
    for entry in writes {
        let Some((budget, allowed)) = written_room(entry) else {
            continue;
        };
        // Its watch tells of it before its own line is written, so the start is the last moment in which
        // nobody can have known.
        let at = entry.request_received_timestamp;
        let before = room.insert(budget, allowed).unwrap_or(allowed);
        let mut later = moved
            .iter()
            .filter(|one| one.budget == budget && one.granted > at);
        let is_awaited = later
            .clone()
            .any(|one| one.waited_from.is_some_and(|since| since < at));
        if let (true, Some(next)) = (before <= 0 && allowed > 0 && is_awaited, later.next()) {
            found.push(next.asked.duration_since(at).as_secs_f64().max(0.0));
        }
    }
    found.sort_by(f64::total_cmp);
    found
}

/// All granted evictions under budgets, in the order in which they were asked for.
fn moves<'a>(entries: &'a [AuditEntry], actor: Actor, closures: &Closures) -> Vec<Moved<'a>> {
    let mut nodes: BTreeMap<&str, &str> = BTreeMap::new();
    let mut moved = Vec::new();
    for entry in entries.iter().filter(|entry| entry.succeeded()) {
        let Some(object) = &entry.object_ref else {
            continue;
        };
        if entry.is("create", "pods/binding") {
            let body = entry.request_object.as_ref();
            let node = body.and_then(|body| body.pointer("/target/name")?.as_str());
            nodes.insert(&object.name, node.unwrap_or_default());
        } else if entry.is("create", "pods/eviction") && actor.did(entry) {
            let node = nodes.get(object.name.as_str());
            moved.push(Moved {
                asked: entry.request_received_timestamp,
                granted: entry.stage_timestamp,
                budget: workload(&object.name),
                waited_from: node.and_then(|node| closures.since.get(*node).copied()),
            });
        }
    }
    moved.sort_by_key(|one| one.asked);
    moved
}

/// The Deployment of a pod, which is also the name of its budget.
fn workload(pod: &str) -> &str {
    pod.rsplitn(3, '-').nth(2).unwrap_or(pod)
}

/// The room that somebody writes into a budget.
fn written_room(entry: &AuditEntry) -> Option<(&str, i64)> {
    let is_status = entry.is("update", "poddisruptionbudgets/status");
    let body = entry
        .request_object
        .as_ref()
        .filter(|_| is_status && entry.succeeded())?;
    let allowed = body
        .pointer("/status/disruptionsAllowed")
        .and_then(Value::as_i64);
    Some((
        &entry.object_ref.as_ref()?.name,
        allowed.unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT: &str = "2026-01-01T00:00:10Z";

    fn entry(agent: &str, verb: &str, resource: &str, code: u16, at: &str) -> AuditEntry {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        serde_json::from_value(json!({
            "verb": verb,
            "requestURI": "/",
            "userAgent": agent,
            "objectRef": { "resource": resource, "subresource": subresource, "name": "one" },
            "responseStatus": { "code": code },
            "requestReceivedTimestamp": at,
            "stageTimestamp": at,
        }))
        .unwrap()
    }

    #[test]
    fn a_roller_is_known_by_its_agent_and_counts_from_the_start() {
        let entries = [
            entry("karpenter/1.14.0", "create", "pods/eviction", 201, AT),
            entry("karpenter/1.14.0", "create", "pods/eviction", 429, AT),
            entry("karpenter/1.14.0", "patch", "nodes", 200, AT),
            entry("karpenter/1.14.0", "list", "nodes", 200, AT),
            entry("kube-scheduler/v1", "create", "pods/binding", 201, AT),
            entry(
                "karpenter/1.14.0",
                "patch",
                "nodes",
                200,
                "2026-01-01T00:00:01Z",
            ),
        ];
        let actor = Actor {
            agent: "karpenter/",
            since: "2026-01-01T00:00:05Z".parse().unwrap(),
        };
        let counts = count(&entries, actor, &Closures::default());
        assert_eq!((counts.evict_calls, counts.evicted), (2, 1));
        let expected = [("create pods/eviction", 2), ("patch nodes", 1)];
        let expected = expected.map(|(words, count)| (words.to_owned(), count));
        assert_eq!(counts.writes, BTreeMap::from(expected));
    }

    #[test]
    fn a_node_is_made_by_its_kubelet_whoever_plays_that() {
        let entries = [entry("karpenter/1.14.0", "create", "nodes", 201, AT)];
        let actor = Actor {
            agent: "karpenter/",
            since: AT.parse().unwrap(),
        };
        let counts = count(&entries, actor, &Closures::default());
        assert_eq!(counts.writes, BTreeMap::new());
    }

    #[test]
    fn a_pods_workload_is_its_name_without_two_suffixes() {
        assert_eq!(workload("filler-1-6f7c8d9b54-x2x4z"), "filler-1");
        assert_eq!(workload("spread-6f7c8d9b54-x2x4z"), "spread");
        assert_eq!(workload("alone"), "alone");
    }

    fn at(second: f64) -> String {
        let second = jiff::SignedDuration::from_secs_f64(second);
        (AT.parse::<Timestamp>().unwrap() + second).to_string()
    }

    fn room_entry(agent: &str, allowed: i64, second: f64) -> AuditEntry {
        let begun = at(second);
        let mut entry = entry(agent, "update", "poddisruptionbudgets/status", 200, &begun);
        entry.object_ref.as_mut().unwrap().name = "web".to_owned();
        entry.request_object = Some(json!({ "status": { "disruptionsAllowed": allowed } }));
        entry
    }

    fn eviction(pod: &str, asked: f64, granted: f64) -> AuditEntry {
        let mut entry = entry("shipshape/1", "create", "pods/eviction", 201, &at(asked));
        entry.object_ref.as_mut().unwrap().name = pod.to_owned();
        entry.stage_timestamp = at(granted).parse().unwrap();
        entry
    }

    fn waits(entries: &[AuditEntry]) -> Vec<f64> {
        let mut bound: Vec<AuditEntry> = ["web-1-a", "web-1-b"]
            .iter()
            .map(|pod| {
                let mut entry = entry("kube-scheduler/1", "create", "pods/binding", 201, AT);
                entry.object_ref.as_mut().unwrap().name = (*pod).to_owned();
                entry.request_object = Some(json!({ "target": { "name": "old" } }));
                entry
            })
            .collect();
        bound.extend_from_slice(entries);
        let actor = Actor {
            agent: "shipshape/",
            since: AT.parse().unwrap(),
        };
        let mut closures = Closures::default();
        let closed = ("old".to_owned(), at(0.5).parse().unwrap());
        closures.since.extend([closed]);
        openings(&bound, actor, &closures)
    }

    #[test]
    fn time_runs_from_the_write_that_gives_room_to_the_next_call() {
        let entries = [
            room_entry("kube-controller-manager", 0, 1.0),
            room_entry("kube-controller-manager", 1, 2.0),
            eviction("web-1-a", 2.25, 2.5),
            room_entry("kube-apiserver", 0, 2.375),
            room_entry("kube-controller-manager", 1, 4.0),
            eviction("web-1-b", 7.0, 7.25),
        ];
        assert_eq!(waits(&entries), [0.25, 3.0]);
    }

    #[test]
    fn room_that_a_call_under_way_takes_was_not_waited_for() {
        let entries = [
            room_entry("kube-controller-manager", 0, 1.0),
            room_entry("kube-controller-manager", 1, 2.0),
            eviction("web-1-a", 2.25, 3.5),
            eviction("web-1-b", 2.5, 6.0),
            room_entry("kube-apiserver", 0, 3.0),
            // The second one is tried again by the server until the next room is there.
            room_entry("kube-controller-manager", 1, 5.0),
            room_entry("kube-apiserver", 0, 5.5),
        ];
        assert_eq!(waits(&entries), [0.0, 0.25]);
    }
}
