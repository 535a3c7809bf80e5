//! Each fault is found once, and a proper roll has none.

use serde_json::json;
use shipshape_engine::machine::{MachineState, Token};

use super::*;
use crate::audit::ResponseStatus;

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn entry(agent: &str, verb: &str, resource: &str, name: &str, at: i64) -> AuditEntry {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let namespace = if resource == "pods" { "default" } else { "" };
    serde_json::from_value(json!({
        "verb": verb,
        "requestURI": "/",
        "userAgent": agent,
        "objectRef": { "resource": resource, "subresource": subresource,
                       "namespace": namespace, "name": name },
        "responseStatus": { "code": 200 },
        "requestReceivedTimestamp": second(at),
        "stageTimestamp": second(at),
    }))
    .unwrap()
}

fn ready(node: &str, at: i64) -> AuditEntry {
    let mut entry = entry("kubelet", "patch", "nodes/status", node, at);
    let condition = json!({ "type": "Ready", "status": "True" });
    entry.request_object = Some(json!({ "status": { "conditions": [condition] } }));
    entry
}

fn bound(pod: &str, node: &str, at: i64) -> AuditEntry {
    let mut entry = entry("kube-scheduler", "create", "pods/binding", pod, at);
    entry.request_object = Some(json!({ "target": { "name": node } }));
    entry
}

fn call(name: &'static str, machine: &str, at: i64) -> CallRecord {
    CallRecord {
        at: second(at),
        caller: OPERATOR.to_owned(),
        call: name,
        machine: Some(machine.into()),
        token: Some(Token("t".to_owned())),
        result: "ok".to_owned(),
    }
}

fn machine(id: &str, replaces: &str) -> Machine {
    let mut machine = Machine {
        id: id.into(),
        provider_id: id.into(),
        group: None,
        zone: "a".to_owned(),
        image: "image".into(),
        state: MachineState::Ready,
        protected: false,
        tags: BTreeMap::new(),
        subnet: None,
    };
    machine
        .tags
        .insert(TAG_REPLACES.to_owned(), replaces.to_owned());
    machine
}

/// Node `new` is Ready at 5, the pod leaves `old` at 6 and is gone at 7, the machine goes at 8.
fn proper() -> (Vec<AuditEntry>, Vec<CallRecord>, Vec<Machine>) {
    let entries = vec![
        bound("p", "node-old", 1),
        ready("node-new", 5),
        entry("shipshape/1", "create", "pods/eviction", "p", 6),
        entry("kubelet", "delete", "pods", "p", 7),
    ];
    let calls = vec![
        call("ensureReplacement", "new", 2),
        call("deleteMachine", "old", 8),
    ];
    (entries, calls, vec![machine("new", "old")])
}

#[test]
fn a_proper_roll_has_no_fault() {
    let (entries, calls, machines) = proper();
    let findings = examine(&entries, &calls, &machines, Order::NewFirst);
    assert_eq!(findings.faults, Vec::<String>::new());
    assert_eq!((findings.evicted, findings.replaced), (1, 1));
    assert_eq!(findings.removals["kubelet"], 1);
}

#[test]
fn a_pod_that_the_operator_deletes_is_a_fault() {
    let (mut entries, calls, machines) = proper();
    entries.push(entry("shipshape", "delete", "pods", "q", 9));
    let faults = examine(&entries, &calls, &machines, Order::NewFirst).faults;
    assert_eq!(faults, ["pod default/q was deleted, not evicted"]);
}

#[test]
fn a_machine_deleted_before_its_replacement_is_ready_is_a_fault() {
    let (mut entries, calls, machines) = proper();
    entries[1] = ready("node-new", 9);
    let faults = examine(&entries, &calls, &machines, Order::NewFirst).faults;
    assert_eq!(faults.len(), 1, "{faults:?}");
    entries.remove(1);
    let faults = examine(&entries, &calls, &machines, Order::NewFirst).faults;
    assert!(
        faults[0].ends_with("node-new was never Ready"),
        "{faults:?}"
    );
}

#[test]
fn a_machine_deleted_under_its_pod_is_a_fault() {
    let (mut entries, calls, machines) = proper();
    entries[3] = entry("kubelet", "delete", "pods", "p", 9);
    let faults = examine(&entries, &calls, &machines, Order::NewFirst).faults;
    let place = "machine old was deleted at 2023-11-14T22:13:28Z under pod default/p";
    assert_eq!(faults, [format!("{place}, gone at 2023-11-14T22:13:29Z")]);
    entries.pop();
    let faults = examine(&entries, &calls, &machines, Order::NewFirst).faults;
    assert_eq!(faults, [format!("{place}, never gone")]);
}

#[test]
fn a_second_replacement_is_a_fault() {
    let (entries, mut calls, mut machines) = proper();
    machines.push(machine("newer", "old"));
    calls.push(call("ensureReplacement", "newer", 3));
    let faults = examine(&entries, &calls, &machines, Order::NewFirst).faults;
    assert_eq!(
        faults,
        ["machine old has 2 replacements", "token t made 2 machines"]
    );
}

/// As `proper`, but the first machine that was made did not join and was taken back.
fn second_try() -> (Vec<AuditEntry>, Vec<CallRecord>, Vec<Machine>) {
    let (entries, mut calls, mut machines) = proper();
    let mut first = call("ensureReplacement", "lame", 0);
    first.token = Some(Token("first".to_owned()));
    calls.splice(0..0, [first, call("deleteMachine", "lame", 1)]);
    machines.push(machine("lame", "old"));
    (entries, calls, machines)
}

#[test]
fn a_machine_that_was_taken_back_is_no_second_replacement() {
    let (entries, calls, machines) = second_try();
    let findings = examine(&entries, &calls, &machines, Order::NewFirst);
    assert_eq!(findings.faults, Vec::<String>::new());
    assert_eq!((findings.replaced, findings.undone), (1, 1));
}

#[test]
fn a_machine_taken_back_after_the_old_one_went_is_a_fault() {
    let (entries, mut calls, machines) = second_try();
    calls[1].at = second(9);
    let faults = examine(&entries, &calls, &machines, Order::NewFirst).faults;
    assert_eq!(faults, ["machine lame was taken back after old had gone"]);
}

#[test]
fn the_old_machine_may_go_first_where_that_is_asked_for() {
    let (mut entries, calls, machines) = proper();
    entries[1] = ready("node-new", 9);
    let faults = examine(&entries, &calls, &machines, Order::OldFirst).faults;
    assert_eq!(faults, Vec::<String>::new());
    entries.remove(1);
    let faults = examine(&entries, &calls, &machines, Order::OldFirst).faults;
    assert_eq!(faults.len(), 1, "{faults:?}");
}

/// Node `node-new` joins gated, its worker ends with this code at 3, and the gate is opened at 4.
fn passage(code: i32) -> Vec<AuditEntry> {
    let taint = json!({ "key": "node-ready/unverified", "effect": "NoSchedule" });
    let mut joins = entry("kubelet", "create", "nodes", "node-new", 1);
    joins.request_object = Some(json!({ "spec": { "taints": [taint] } }));
    let made = entry("shipshape", "create", "pods", "verify-new", 2);
    let mut ends = entry("kubelet", "patch", "pods/status", "verify-new", 3);
    let state = json!({ "terminated": { "exitCode": code } });
    let statuses = json!([{ "name": "verify", "state": state }]);
    ends.request_object = Some(json!({ "status": { "containerStatuses": statuses } }));
    let mut opens = entry("shipshape", "patch", "nodes", "node-new", 4);
    opens.request_object = Some(json!({ "spec": { "taints": null } }));
    let goes = entry("shipshape", "delete", "pods", "verify-new", 5);
    vec![
        joins,
        made,
        bound("verify-new", "node-new", 2),
        ends,
        opens,
        goes,
    ]
}

#[test]
fn the_gate_may_open_after_a_worker_there_ended_well_and_not_before() {
    let faults = |entries: &[AuditEntry]| examine(entries, &[], &[], Order::NewFirst).faults;
    assert_eq!(faults(&passage(0)), Vec::<String>::new());
    let opened = "the gate was opened for node-new, where no worker had ended well";
    assert_eq!(faults(&passage(1)), [opened]);
    let mut early = passage(0);
    early[3].request_received_timestamp = second(6);
    assert_eq!(faults(&early), [opened]);
    let mut elsewhere = passage(0);
    elsewhere[2] = bound("verify-new", "node-other", 2);
    assert_eq!(faults(&elsewhere), [opened]);
    // The operator's own word is none.
    let mut own_word = passage(0);
    own_word[3].user_agent = "shipshape".to_owned();
    assert_eq!(faults(&own_word), [opened]);
}

#[test]
fn a_pod_is_the_operators_unless_its_making_was_refused() {
    let faults = |code: u16| {
        let mut entries = passage(0);
        entries[1].response_status = Some(ResponseStatus { code });
        examine(&entries, &[], &[], Order::NewFirst).faults
    };
    // A leader that steps down does not wait for the answer.
    assert_eq!(faults(504), Vec::<String>::new());
    let refused = &faults(403)[0];
    assert!(
        refused.ends_with("(its making was answered 403)"),
        "{refused}"
    );
}

#[test]
fn a_machine_that_did_not_get_through_the_gate_needs_no_replacement() {
    let mut entries = passage(1);
    entries.remove(4);
    let calls = [call("deleteMachine", "new", 8)];
    let findings = examine(&entries, &calls, &[], Order::NewFirst);
    assert_eq!(findings.faults, Vec::<String>::new());
    assert_eq!((findings.replaced, findings.refused), (0, 1));
    // With anybody else's pod on it, it was in service.
    entries.push(bound("p", "node-new", 7));
    let findings = examine(&entries, &calls, &[], Order::NewFirst);
    assert_eq!(findings.faults, ["machine new has 0 replacements"]);
}
