//! I15, broken in each way.

use shipshape_api::names::LABEL_CONTROL_PLANE;
use shipshape_simulator::etcd::{EtcdEvent, MemberChange};

use super::*;
use crate::stage::OPERATOR;

fn event(member: &str, change: MemberChange, counts: (usize, usize)) -> Fact {
    let caller = if change == REMOVED { OPERATOR } else { "etcd" };
    Fact::Etcd(EtcdEvent {
        at: Timestamp::UNIX_EPOCH,
        caller: caller.to_owned(),
        change,
        member: member.to_owned(),
        voters: counts.0,
        healthy: counts.1,
    })
}

fn control_plane(name: &str) -> Fact {
    Fact::Node(NodeView {
        labels: [(LABEL_CONTROL_PLANE.to_owned(), String::new())].into(),
        ..node(name)
    })
}

fn about(name: &str) -> Fact {
    let manifest = serde_json::json!({
        "apiVersion": "shipshape.dev/v1alpha1", "kind": "NodePatchTask",
        "metadata": { "name": name, "uid": format!("task-{name}") },
        "spec": { "runName": "r", "runUID": "r", "nodeName": name, "nodeUID": name },
    });
    Fact::Task {
        task: Arc::new(serde_json::from_value(manifest).unwrap()),
        old_machine_runs: true,
    }
}

fn broken(facts: impl IntoIterator<Item = Fact>) -> Vec<String> {
    let mut witness = Witness::new(true);
    for fact in facts {
        witness.see(Timestamp::UNIX_EPOCH, fact);
    }
    witness.rest(Timestamp::UNIX_EPOCH);
    let violations = witness.violations().iter();
    violations
        .filter(|one| one.invariant == "I15")
        .map(|one| one.text.clone())
        .collect()
}

const STARTED: MemberChange = MemberChange::Started;
const REMOVED: MemberChange = MemberChange::Removed;
const STOPPED: MemberChange = MemberChange::Stopped;

#[test]
fn a_removal_that_leaves_no_quorum_is_seen() {
    let told = broken([event("a", REMOVED, (3, 1))]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(broken([event("a", REMOVED, (3, 2))]), Vec::<String>::new());
    let fell_ill = event("a", MemberChange::Sickened, (3, 1));
    assert_eq!(broken([fell_ill]), Vec::<String>::new());
}

#[test]
fn a_machine_that_goes_before_its_member_is_seen() {
    let begun = [control_plane("a"), event("a", STARTED, (3, 3))];
    let told = broken(begun.clone().into_iter().chain([deleted("a")]));
    assert_eq!(told.len(), 1, "{told:?}");
    let lost = [deleted("a"), event("a", STOPPED, (3, 1))];
    let told = broken(begun.clone().into_iter().chain(lost));
    assert!(told[1].contains("1 of 3 voters"), "{told:?}");
    let right = [event("a", REMOVED, (3, 3)), deleted("a")];
    assert_eq!(broken(begun.into_iter().chain(right)), Vec::<String>::new());
}

#[test]
fn a_member_that_is_left_behind_is_seen_at_rest() {
    let told = broken([
        control_plane("a"),
        deleted("a"),
        event("a", STARTED, (3, 3)),
        Fact::NodeGone("a".to_owned()),
    ]);
    assert_eq!(told, ["member a of etcd has no node any more"]);
}

#[test]
fn two_control_planes_in_work_are_seen() {
    let nodes = [control_plane("a"), control_plane("b")];
    let told = broken(nodes.clone().into_iter().chain([about("a")]));
    assert_eq!(told, Vec::<String>::new());
    let told = broken(nodes.into_iter().chain([about("a"), about("b")]));
    assert_eq!(told, ["control planes in work at once: a, b"]);
}
