//! What is left behind is found, and nothing else.

use serde_json::{Value, json};

use super::*;

fn task(status: &Value) -> Arc<NodePatchTask> {
    let manifest = json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchTask",
        "metadata": { "name": "task", "namespace": "default" },
        "spec": { "runName": "run", "runUID": "run", "nodeName": "a", "nodeUID": "a" },
        "status": status,
    });
    Arc::new(serde_json::from_value(manifest).unwrap())
}

fn at(step: &str) -> Value {
    json!({ "step": { "name": step, "since": "2026-01-01T00:00:00Z" } })
}

fn invariants(found: Vec<Leftover>) -> Vec<&'static str> {
    found.into_iter().map(|(invariant, _)| invariant).collect()
}

#[test]
fn a_task_that_is_neither_over_nor_set_aside_breaks_i5() {
    for step in ["Lock", "Join", "Drain", "Undo", "Release"] {
        assert_eq!(invariants(open_tasks(&[task(&at(step))])), ["I5"], "{step}");
    }
    assert_eq!(invariants(open_tasks(&[task(&json!({}))])), ["I5"]);
    for step in ["Done", "Failed"] {
        assert_eq!(open_tasks(&[task(&at(step))]), [], "{step}");
    }
    let mut parked = at("Parked");
    parked["parked"] = json!({
        "reason": "DrainTimedOut", "message": "a budget", "since": "2026-01-01T00:00:00Z",
    });
    assert_eq!(open_tasks(&[task(&parked)]), []);
}

fn machine(id: &str, state: MachineState) -> Machine {
    Machine {
        id: id.into(),
        provider_id: id.into(),
        group: Some("workers".into()),
        zone: "a".to_owned(),
        image: "image-1".into(),
        state,
        protected: false,
        tags: [(names::TAG_TASK.to_owned(), "default/task".to_owned())].into(),
        subnet: None,
    }
}

#[test]
fn a_machine_of_ours_that_is_no_ready_node_breaks_i4() {
    let ready = BTreeSet::from(["joined".to_owned()]);
    let lost = machine("lost", MachineState::Ready);
    assert_eq!(
        invariants(orphans(std::slice::from_ref(&lost), &ready)),
        ["I4"]
    );
    let theirs = Machine {
        tags: [].into(),
        ..lost
    };
    let fine = [
        machine("joined", MachineState::Ready),
        machine("going", MachineState::Terminating),
        machine("gone", MachineState::Terminated),
        theirs,
    ];
    assert_eq!(orphans(&fine, &ready), []);
}

#[test]
fn one_machine_too_many_and_a_protected_one_break_i4() {
    let two = ["a", "b"].map(|id| machine(id, MachineState::Ready));
    assert_eq!(invariants(of_cloud(&two, 1)), ["I4"]);
    assert_eq!(of_cloud(&two, 2), []);
    let mut kept = two;
    kept[1].protected = true;
    assert_eq!(invariants(of_cloud(&kept, 2)), ["I4"]);
}
