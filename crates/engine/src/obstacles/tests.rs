//! What is told about a run before it is created.

use serde_json::{Value, from_value, json};

use super::*;

fn run(name: &str, provider: &str, status: &Value) -> NodePatchRun {
    from_value(json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchRun",
        "metadata": { "name": name, "namespace": "ops" },
        "spec": { "provider": { "type": provider } },
        "status": status,
    }))
    .unwrap()
}

fn accepted(is: bool) -> Value {
    let (status, reason) = if is {
        ("True", "Supported")
    } else {
        ("False", "UnsupportedProvider")
    };
    json!({ "conditions": [{ "type": "Accepted", "status": status, "reason": reason,
        "message": "supported: tin", "lastTransitionTime": "2026-11-16T03:00:00Z" }] })
}

#[test]
fn a_cloud_is_judged_by_runs_of_the_cluster_and_else_by_the_build() {
    let wanted = run("new", "aws", &json!({}));
    let none: [&str; 0] = [];
    let table: [(&[NodePatchRun], &[&str], Option<&str>); 5] = [
        (&[], &["aws"], None),
        (&[], &none, Some("a controller of this build would refuse")),
        (&[run("old", "aws", &accepted(true))], &none, None),
        (
            &[run("old", "aws", &accepted(false))],
            &["aws"],
            Some("the controller here will refuse the run: supported: tin"),
        ),
        (&[run("old", "gcp", &accepted(false))], &["aws"], None),
    ];
    for (runs, built_in, expected) in table {
        let told = found(&wanted, runs, built_in);
        assert_eq!(told.len(), usize::from(expected.is_some()), "{told:?}");
        let told = told.first().map(String::as_str).unwrap_or_default();
        assert!(told.starts_with(expected.unwrap_or_default()), "{told}");
    }
    let embedded = run("new", "embedded", &json!({}));
    assert_eq!(found(&embedded, &[], &none), Vec::<String>::new());
}

#[test]
fn a_run_that_exists_is_told_with_how_far_it_is() {
    let wanted = run("new", "aws", &json!({}));
    let twin = run("new", "aws", &json!({ "completed": 2, "total": 6 }));
    let told = found(&wanted, &[twin], &["aws"]);
    assert!(
        told[0].starts_with("run ops/new exists already (Active, 2 of 6 nodes replaced)"),
        "{told:?}"
    );
}

#[test]
fn a_manifest_that_is_paused_or_called_off_is_told_so() {
    let mut wanted = run("new", "aws", &json!({}));
    wanted.spec.paused = Some(true);
    assert_eq!(
        found(&wanted, &[], &["aws"]),
        ["spec.paused is true: no node begins until somebody says shipshape resume npr/new -n ops"]
    );
    wanted.spec.abort = Some(true);
    assert_eq!(
        found(&wanted, &[], &["aws"]),
        ["spec.abort is true: the run is called off before it begins, and no node is touched"]
    );
}

#[test]
fn a_neighbour_shares_the_slots_only_while_it_can_take_some() {
    let wanted = run("new", "aws", &json!({}));
    let with = |status: Value| run("old", "aws", &status);
    let plan = json!({ "planVersion": "1", "candidates": [], "partitions": [] });
    let paused = |in_work: i32| {
        let mut one = with(json!({ "plan": plan, "inFlightNonImportant": in_work }));
        one.spec.paused = Some(true);
        one
    };
    let table = [
        (
            with(json!({ "plan": plan })),
            "run ops/old is at work and shares the slots",
        ),
        (
            paused(0),
            "run ops/old is paused with no node in work; it takes slots once it is resumed",
        ),
        (
            paused(2),
            "run ops/old is paused and finishes 2 node(s), which take slots",
        ),
    ];
    for (other, words) in table {
        assert_eq!(neighbours(&wanted, &[other]), [words]);
    }
    assert_eq!(
        neighbours(&wanted, &[with(json!({}))]),
        Vec::<String>::new()
    );
}

#[test]
fn reserved_labels_are_told_beforehand() {
    let mut wanted = run("new", "aws", &json!({}));
    assert_eq!(in_vain(&wanted), None);
    let lists = json!({ "keys": ["team"], "prefixes": ["topology.kubernetes.io/"] });
    wanted.spec.label_transfer = Some(from_value(lists).unwrap());
    assert_eq!(
        in_vain(&wanted).unwrap(),
        "spec.labelTransfer names reserved labels, which are never copied: topology.kubernetes.io/"
    );
}
