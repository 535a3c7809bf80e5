//! Each check is broken once, and not broken by what is right.

mod etcd;
mod hearing;
mod holds;
mod plan;
mod work;

use super::*;

fn node(name: &str) -> NodeView {
    NodeView {
        name: name.to_owned(),
        uid: name.to_owned(),
        provider_id: Some(name.into()),
        ready: true,
        ..NodeView::default()
    }
}

fn pod(name: &str, node: &str) -> PodView {
    PodView {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        node: node.to_owned(),
        owner: Some(("ReplicaSet".to_owned(), "web".to_owned())),
        ..PodView::default()
    }
}

fn eviction(uid: &str, code: u16) -> Fact {
    Fact::Request(Request {
        verb: "create".to_owned(),
        resource: "pods".to_owned(),
        subresource: "eviction".to_owned(),
        uid: uid.to_owned(),
        code,
        ..Request::default()
    })
}

fn created(machine: &str, replaces: &str) -> Fact {
    Fact::Call(Call::Created {
        machine: machine.to_owned(),
        provider_id: machine.to_owned(),
        replaces: replaces.to_owned(),
        token: machine.to_owned(),
    })
}

fn deleted(machine: &str) -> Fact {
    Fact::Call(Call::Deleted {
        machine: machine.to_owned(),
        provider_id: machine.to_owned(),
    })
}

/// A run with this spec besides its provider, by UID.
fn run(uid: &str, spec: serde_json::Value) -> Fact {
    let mut manifest = serde_json::json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchRun",
        "metadata": { "name": uid, "namespace": "default", "uid": uid },
    });
    manifest["spec"] = spec;
    manifest["spec"]["provider"] = serde_json::json!({ "type": "embedded" });
    Fact::Run(Arc::new(serde_json::from_value(manifest).unwrap()))
}

/// A task of run `run` for a node, whose UID is its name; the task's UID is `task-NODE`.
fn task(node: &str, spec: serde_json::Value, status: serde_json::Value) -> Fact {
    let mut manifest = serde_json::json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchTask",
        "metadata": { "name": node, "namespace": "default", "uid": format!("task-{node}") },
        "spec": { "runName": "run", "runUID": "run", "nodeName": node, "nodeUID": node },
    });
    manifest["status"] = status;
    let serde_json::Value::Object(spec) = spec else {
        panic!("{spec} is no object");
    };
    manifest["spec"].as_object_mut().unwrap().extend(spec);
    Fact::Task {
        task: Arc::new(serde_json::from_value(manifest).unwrap()),
        old_machine_runs: node == "running",
    }
}

fn plain_task(node: &str) -> Fact {
    task(node, serde_json::json!({}), serde_json::json!({}))
}

/// Cordoned by the task of that node.
fn cordoned(name: &str) -> NodeView {
    NodeView {
        unschedulable: true,
        cordoned_by: Some(format!("task-{name}")),
        ..node(name)
    }
}

fn seconds(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn names(witness: &Witness) -> Vec<&'static str> {
    let all = witness.violations().iter();
    all.map(|violation| violation.invariant).collect()
}

/// A witness of one run that allows one node at a time.
fn witness() -> Witness {
    let mut witness = Witness::new(true);
    let spec = serde_json::json!({ "batchSizeNonImportant": 1 });
    witness.see(Timestamp::UNIX_EPOCH, run("run", spec));
    witness
}

/// What these facts break, one a second, at rest at the end.
fn broken(facts: Vec<Fact>) -> Vec<&'static str> {
    let mut witness = witness();
    for (at, fact) in (0..).zip(facts) {
        witness.see(seconds(at), fact);
    }
    witness.rest(seconds(1_000));
    names(&witness)
}

#[test]
fn a_proper_replacement_breaks_nothing() {
    let facts = vec![
        Fact::Node(node("old")),
        plain_task("old"),
        Fact::Pod(pod("p", "old")),
        created("new", "old"),
        Fact::Node(node("new")),
        Fact::Node(NodeView {
            unschedulable: true,
            ..node("old")
        }),
        eviction("p", 201),
        Fact::PodGone("p".to_owned()),
        deleted("old"),
        Fact::NodeGone("old".to_owned()),
    ];
    assert_eq!(broken(facts), Vec::<&str>::new());
}

#[test]
fn one_cordon_too_many_breaks_i1() {
    let cordoned = |name| {
        Fact::Node(NodeView {
            unschedulable: true,
            ..node(name)
        })
    };
    let facts = vec![
        cordoned("a"),
        cordoned("b"),
        Fact::NodeGone("a".to_owned()),
        Fact::NodeGone("b".to_owned()),
    ];
    assert_eq!(broken(facts), ["I1"]);
}

#[test]
fn removal_without_a_ready_replacement_breaks_i2() {
    let sick = Fact::Node(NodeView {
        ready: false,
        ..node("new")
    });
    assert_eq!(
        broken(vec![Fact::Node(node("old")), deleted("old")]),
        ["I2"]
    );
    assert_eq!(
        broken(vec![created("new", "old"), sick, deleted("old")]),
        ["I2"]
    );
}

#[test]
fn removal_under_a_pod_breaks_i2() {
    let facts = vec![
        Fact::Node(node("old")),
        Fact::Pod(pod("p", "old")),
        created("new", "old"),
        Fact::Node(node("new")),
        deleted("old"),
    ];
    assert_eq!(broken(facts), ["I2"]);
}

#[test]
fn a_second_replacement_breaks_i3_and_a_repeated_call_does_not() {
    assert_eq!(
        broken(vec![created("n1", "old"), created("n1", "old")]),
        Vec::<&str>::new()
    );
    assert_eq!(
        broken(vec![created("n1", "old"), created("n2", "old")]),
        ["I3"]
    );
}

#[test]
fn a_deleted_pod_breaks_i6() {
    let delete = Request {
        verb: "delete".to_owned(),
        resource: "pods".to_owned(),
        ..Request::default()
    };
    assert_eq!(broken(vec![Fact::Request(delete)]), ["I6"]);
}

#[test]
fn a_cordon_left_behind_breaks_i11() {
    assert_eq!(
        broken(vec![Fact::Node(NodeView {
            unschedulable: true,
            ..node("a")
        })]),
        ["I11"]
    );
}

#[test]
fn a_lifted_cordon_of_somebody_else_breaks_i11_unless_they_lift_it_themselves() {
    let cordoned = NodeView {
        unschedulable: true,
        ..node("a")
    };
    for (theirs, expected) in [(false, vec!["I11"]), (true, Vec::new())] {
        let mut witness = witness();
        witness.expect_foreign_cordon("a");
        witness.see(Timestamp::UNIX_EPOCH, Fact::Node(cordoned.clone()));
        if theirs {
            witness.expect_foreign_uncordon("a");
        }
        witness.see(Timestamp::UNIX_EPOCH, Fact::Node(node("a")));
        let broken: Vec<_> = witness
            .violations()
            .iter()
            .map(|one| one.invariant)
            .collect();
        assert_eq!(broken, expected);
    }
}

#[test]
fn a_cordon_from_before_the_first_run_takes_no_slot_and_is_not_ours_to_lift() {
    let closed = |name: &str| NodeView {
        unschedulable: true,
        ..node(name)
    };
    let mut witness = Witness::new(true);
    witness.see(Timestamp::UNIX_EPOCH, Fact::Node(closed("a")));
    let one = serde_json::json!({ "batchSizeNonImportant": 1 });
    let facts = [
        run("run", one),
        plain_task("b"),
        Fact::Lock {
            name: shipshape_api::names::lock_name("b"),
            operation: "task-b".to_owned(),
        },
        Fact::Node(cordoned("b")),
    ];
    for fact in facts {
        witness.see(Timestamp::UNIX_EPOCH, fact);
    }
    assert_eq!(names(&witness), Vec::<&str>::new());
    witness.see(Timestamp::UNIX_EPOCH, Fact::Node(node("a")));
    assert_eq!(names(&witness), ["I11"]);
}

#[test]
fn a_cordon_that_came_on_top_of_ours_is_ours_to_lift() {
    for (was_ours, expected) in [(false, vec!["I11"]), (true, Vec::new())] {
        let mut witness = witness();
        let facts = [
            plain_task("a"),
            Fact::Lock {
                name: shipshape_api::names::lock_name("a"),
                operation: "task-a".to_owned(),
            },
            Fact::Node(cordoned("a")),
        ];
        for fact in facts {
            witness.see(Timestamp::UNIX_EPOCH, fact);
        }
        assert!(witness.expect_foreign_cordon("a"));
        assert!(!witness.expect_foreign_cordon("a"), "the first is known");
        if was_ours {
            witness.was_cordoned_before("a");
        }
        witness.see(Timestamp::UNIX_EPOCH, Fact::Node(node("a")));
        assert_eq!(names(&witness), expected);
    }
}

/// A first replacement that its task says it keeps, and a second one.
fn kept_and_made_again(first: NodeView) -> Witness {
    let machine = serde_json::json!({ "provider": "embedded", "id": "new", "providerID": "new" });
    let undo = serde_json::json!({
        "reason": "DrainTimedOut", "message": "too late", "next": "Retry", "keepsMachine": true,
    });
    let at = |step: &str| serde_json::json!({ "name": step, "since": "1970-01-01T00:00:00Z" });
    let undone = serde_json::json!({ "step": at("Undo"), "undo": undo, "newMachine": machine });
    let next = serde_json::json!({ "step": at("Backoff"), "attempt": 2 });
    let spec = serde_json::json!({});
    let mut witness = witness();
    let facts = [
        Fact::Node(node("old")),
        created("new", "old"),
        Fact::Node(first),
        task("old", spec.clone(), undone),
        task("old", spec, next),
        created("newer", "old"),
    ];
    for fact in facts {
        witness.see(Timestamp::UNIX_EPOCH, fact);
    }
    witness
}

#[test]
fn a_replacement_that_is_left_to_its_group_in_service_replaces_nothing_any_more() {
    let witness = kept_and_made_again(node("new"));
    assert_eq!((names(&witness), witness.machines_more()), (Vec::new(), 1));
    let lost = NodeView {
        ready: false,
        ..node("new")
    };
    let witness = kept_and_made_again(lost);
    assert_eq!((names(&witness), witness.machines_more()), (vec!["I3"], 0));
}

#[test]
fn removal_with_a_volume_attached_breaks_i2() {
    let facts = |detached: bool| {
        let attached = Fact::Attached {
            name: "csi-1".to_owned(),
            node: "old".to_owned(),
            volume: "pv-1".to_owned(),
        };
        let nodes = [Fact::Node(node("old")), Fact::Node(node("new"))];
        let gone = detached.then(|| Fact::Detached("csi-1".to_owned()));
        let facts = nodes.into_iter().chain([created("new", "old"), attached]);
        facts.chain(gone).chain([deleted("old")]).collect()
    };
    assert_eq!(broken(facts(false)), ["I2"]);
    assert_eq!(broken(facts(true)), Vec::<&str>::new());
}

#[test]
fn moves_are_counted_along_the_line_of_a_replica() {
    let mut witness = witness();
    let facts = [
        Fact::Pod(pod("p1", "a")),
        eviction("p1", 429),
        eviction("p1", 201),
        Fact::PodGone("p1".to_owned()),
        Fact::Pod(pod("p2", "b")),
        eviction("p2", 201),
        Fact::Pod(pod("p3", "c")),
        Fact::PodGone("p2".to_owned()),
    ];
    for fact in facts {
        witness.see(Timestamp::UNIX_EPOCH, fact);
    }
    let pods = witness.pod_count();
    assert_eq!((pods.total, pods.evicted, pods.max_moves), (1, 2, 2));
    assert_eq!(
        witness.eviction_count(),
        EvictionCount {
            calls: 3,
            refused: 1
        }
    );
}
