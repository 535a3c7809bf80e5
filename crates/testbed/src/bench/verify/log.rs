//! What the audit log says of a wave: when each node was ready, checked and let in, and what was written.
//!
//! Owns the times of a node. Each is when the server's answer was complete.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::audit::AuditEntry;
use crate::auditor::gate::{opens_gate, own_pods, says_passed};
use crate::auditor::{bindings, says_ready};
use crate::bench::writes::{Actor, is_work, words};

/// One node on its way through the gate, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Passage {
    /// From Ready to the worker: the controller, and the taint that the node controller takes off.
    pub(super) to_worker: f64,
    /// From the worker to its binding: the scheduler.
    pub(super) to_binding: f64,
    /// From the binding to the worker's end: kubelet and checks.
    pub(super) check: f64,
    /// From the worker's end to the node without its taint: the controller.
    pub(super) to_open: f64,
}

impl Passage {
    /// From Ready to the node without its taint.
    pub(super) fn whole(&self) -> f64 {
        self.to_worker + self.to_binding + self.check + self.to_open
    }

    /// The same without what kubelet and checks took.
    pub(super) fn gate(&self) -> f64 {
        self.whole() - self.check
    }
}

/// Changes that the actor asked for, by verb and resource, refused ones included.
pub(super) fn writes(entries: &[AuditEntry], actor: Actor) -> BTreeMap<String, usize> {
    let work = entries
        .iter()
        .filter(|entry| actor.did(entry) && is_work(entry) && !entry.is_dry_run());
    let mut writes = BTreeMap::new();
    for entry in work {
        *writes.entry(words(entry)).or_default() += 1;
    }
    writes
}

#[derive(Default)]
struct Times {
    ready: Option<Timestamp>,
    made: Option<Timestamp>,
    bound: Option<Timestamp>,
    ended: Option<Timestamp>,
    opened: Option<Timestamp>,
}

type Field = fn(&mut Times) -> &mut Option<Timestamp>;

/// All nodes that were let in after they got ready here.
pub(super) fn passages(entries: &[AuditEntry]) -> Vec<Passage> {
    let own = own_pods(entries);
    let workers: BTreeMap<String, &str> = bindings(entries)
        .filter(|(pod, _)| own.contains(pod))
        .collect();
    let mut nodes: BTreeMap<&str, Times> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.succeeded()) {
        let Some(object) = &entry.object_ref else {
            continue;
        };
        let body = entry.request_object.as_ref();
        let itself = Some(object.name.as_str());
        let worker = || workers.get(&entry.object()).copied();
        let (node, field): (Option<&str>, Field) =
            if entry.is("patch", "nodes/status") && body.is_some_and(says_ready) {
                (itself, |it| &mut it.ready)
            } else if opens_gate(entry) {
                (itself, |it| &mut it.opened)
            } else if entry.is("create", "pods") {
                (worker(), |it| &mut it.made)
            } else if entry.is("create", "pods/binding") {
                (worker(), |it| &mut it.bound)
            } else if says_passed(entry) {
                (worker(), |it| &mut it.ended)
            } else {
                continue;
            };
        // The first of each kind counts.
        if let Some(node) = node {
            let field = field(nodes.entry(node).or_default());
            *field = field.or(Some(entry.stage_timestamp));
        }
    }
    nodes.values().filter_map(passage).collect()
}

fn passage(times: &Times) -> Option<Passage> {
    // Watches tell of a write before its own line is written.
    let gap = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64().max(0.0);
    let (made, bound, ended) = (times.made?, times.bound?, times.ended?);
    Some(Passage {
        to_worker: gap(times.ready?, made),
        to_binding: gap(made, bound),
        check: gap(bound, ended),
        to_open: gap(ended, times.opened?),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(agent: &str, what: (&str, &str, &str), at: f64, body: &Value) -> AuditEntry {
        let (verb, resource, name) = what;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let at = start + jiff::SignedDuration::from_secs_f64(at);
        serde_json::from_value(json!({
            "verb": verb,
            "requestURI": "/",
            "userAgent": agent,
            "objectRef": { "resource": resource, "subresource": subresource, "name": name },
            "requestObject": body,
            "responseStatus": { "code": 200 },
            "requestReceivedTimestamp": at,
            "stageTimestamp": at,
        }))
        .unwrap()
    }

    #[test]
    fn a_nodes_way_is_told_from_the_log_and_a_node_that_is_not_through_has_none() {
        let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        let state = json!({ "terminated": { "exitCode": 0 } });
        let over = json!({ "status": { "containerStatuses": [{ "state": state }] } });
        let open = json!({ "spec": { "taints": null } });
        let bound = json!({ "target": { "name": "n" } });
        let mut entries = vec![
            entry("kwok", ("patch", "nodes/status", "n"), 1.0, &ready),
            entry("shipshape/1", ("create", "pods", "w"), 1.5, &Value::Null),
            entry("scheduler", ("create", "pods/binding", "w"), 1.75, &bound),
            entry("kwok", ("patch", "pods/status", "w"), 3.0, &over),
            // A later word about the same changes nothing.
            entry("kwok", ("patch", "nodes/status", "n"), 3.0, &ready),
        ];
        assert_eq!(passages(&entries), []);
        entries.push(entry("shipshape/1", ("patch", "nodes", "n"), 3.25, &open));
        let [seen] = passages(&entries)[..] else {
            panic!("one node came through");
        };
        let expected = Passage {
            to_worker: 0.5,
            to_binding: 0.25,
            check: 1.25,
            to_open: 0.25,
        };
        assert_eq!(seen, expected);
        assert!((seen.whole() - 2.25).abs() < 1e-9 && (seen.gate() - 1.0).abs() < 1e-9);
    }
}
