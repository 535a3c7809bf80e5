//! Tables for admission: what holds a node back, one limit at a time.

use shipshape_api::names;

use super::*;
use crate::etcd::{Health, MemberId, MemberView};

fn control_plane(name: &str) -> Waiting {
    let mut node = NodeView {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        ..NodeView::default()
    };
    for key in names::CONTROL_PLANE_LABELS {
        node.labels.insert((*key).to_owned(), String::new());
    }
    Waiting {
        node,
        pods: Vec::new(),
        task: format!("ns/task-{name}"),
        group: Observed::NotAsked,
    }
}

fn admitted(waiting: &[Waiting], ledger: &Ledger, etcd: &Observed<EtcdView>) -> Admission {
    admitted_beside(&[], waiting, ledger, etcd)
}

fn admitted_beside(
    down: &[Down],
    waiting: &[Waiting],
    ledger: &Ledger,
    etcd: &Observed<EtcdView>,
) -> Admission {
    let spec = NodePatchRunSpec {
        batch_size_non_important: Some(5),
        ..NodePatchRunSpec::default()
    };
    let books = Books {
        ledger,
        down,
        begun_within_hour: 0,
        on_their_way: &BTreeMap::new(),
        etcd,
        open: &[],
    };
    admit(&spec, "run", waiting, books, Timestamp::UNIX_EPOCH).unwrap()
}

#[test]
fn control_planes_go_one_at_a_time_whatever_the_batch() {
    let pair = [control_plane("one"), control_plane("two")];
    let first = admitted(&pair, &Ledger::default(), &Observed::Absent);
    assert_eq!(first.grants.len(), 1, "{first:?}");
    let reason = first.held_by.unwrap();
    assert!(reason.contains("control plane one"), "{reason}");
    let ledger = Ledger {
        slots: first.grants.into_iter().collect(),
        ..Ledger::default()
    };
    let second = admitted(&pair[1..], &ledger, &Observed::Absent);
    assert_eq!(second.grants, []);
}

#[test]
fn no_control_plane_begins_while_another_is_down() {
    let one = [control_plane("one")];
    let beside = |node: &str, role| {
        let down = Down {
            node: node.to_owned(),
            zone: String::new(),
            role,
        };
        let (ledger, etcd) = (Ledger::default(), Observed::Absent);
        admitted_beside(&[down], &one, &ledger, &etcd).held_by
    };
    let reason = beside("two", Role::ControlPlane).unwrap();
    assert_eq!(reason, "control plane two is not ready");
    assert_eq!(beside("one", Role::ControlPlane), None);
    assert_eq!(beside("two", Role::Worker), None);
}

#[test]
fn nodes_that_are_down_hold_up_sound_ones_and_not_each_other() {
    let worker = |name: &str, ready| {
        let mut worker = control_plane(name);
        worker.node.labels.clear();
        worker.node.ready = ready;
        worker
    };
    let down = ["a", "b", "c", "d", "e", "f"].map(|node| Down {
        node: node.to_owned(),
        zone: String::new(),
        role: Role::Worker,
    });
    let (ledger, etcd) = (Ledger::default(), Observed::Absent);
    let beside = |waiting| admitted_beside(&down, &[waiting], &ledger, &etcd);
    let held = beside(worker("sound", true));
    assert!(held.grants.is_empty() && held.held_by.unwrap().contains("not ready"));
    assert_eq!(beside(worker("a", false)).grants.len(), 1);
}

fn stacked(name: &str) -> Waiting {
    let etcd = PodView {
        namespace: "kube-system".to_owned(),
        labels: [("component", "etcd")].into(),
        mirror: true,
        ..PodView::default()
    };
    Waiting {
        pods: vec![Arc::new(etcd)],
        ..control_plane(name)
    }
}

fn members(sick: Option<&str>) -> Observed<EtcdView> {
    let member = |name: &str| MemberView {
        id: MemberId(format!("id-{name}")),
        name: name.to_owned(),
        is_learner: false,
        leads: false,
        health: if sick == Some(name) {
            Health::Sick("no answer".to_owned())
        } else {
            Health::Healthy
        },
    };
    Observed::Present(EtcdView {
        members: ["one", "two", "three"].map(member).to_vec(),
        alarms: Vec::new(),
    })
}

#[test]
fn a_control_plane_with_a_member_begins_only_while_etcd_is_surely_well() {
    let refusal = |waiting: Waiting, etcd: &Observed<EtcdView>| {
        let admission = admitted(&[waiting], &Ledger::default(), etcd);
        assert_eq!(admission.grants.is_empty(), admission.held_by.is_some());
        admission.held_by
    };
    let unknown = Observed::Unknown("timeout".to_owned());
    assert_eq!(refusal(stacked("one"), &members(None)), None);
    let table = [
        (members(Some("two")), "2 of 3 members healthy, quorum is 2"),
        (unknown.clone(), "timeout"),
        (Observed::Absent, "excludeControlPlane"),
        (Observed::NotAsked, "nobody has asked"),
    ];
    for (etcd, words) in table {
        let reason = refusal(stacked("one"), &etcd).unwrap();
        assert!(reason.contains(words), "{reason}");
    }
    // Its pod may not have been seen yet: the list of members decides.
    assert!(refusal(control_plane("one"), &members(Some("two"))).is_some());
    assert!(refusal(control_plane("one"), &unknown).is_some());
    assert_eq!(refusal(control_plane("other"), &members(Some("two"))), None);
    assert_eq!(refusal(control_plane("one"), &Observed::Absent), None);
}

fn group(desired: u32, max: u32) -> Observed<Group> {
    Observed::Present(Group {
        id: "workers-a".into(),
        image: "image-2".into(),
        zones: Vec::new(),
        min: 1,
        max,
        desired,
        raises_max: false,
        template: None,
    })
}

fn worker(name: &str, group: Observed<Group>) -> Waiting {
    Waiting {
        node: NodeView {
            labels: BTreeMap::new(),
            ..control_plane(name).node
        },
        group,
        ..control_plane(name)
    }
}

#[test]
fn no_node_begins_whose_group_has_no_room_for_its_replacement() {
    let full = admitted(
        &[worker("a", group(10, 10))],
        &Ledger::default(),
        &Observed::Absent,
    );
    assert_eq!(full.grants, []);
    let reason = full.held_by.unwrap();
    assert_eq!(reason, "group workers-a has 10 of at most 10 machines");
    let pair = [worker("a", group(9, 10)), worker("b", group(9, 10))];
    let one = admitted(&pair, &Ledger::default(), &Observed::Absent);
    assert_eq!(
        one.grants.len(),
        1,
        "the first takes the room of the second"
    );
    assert_eq!(one.grants[0].1.surges, Some("workers-a".into()));
    let reason = one.held_by.unwrap();
    assert!(reason.ends_with("and 1 more on their way"), "{reason}");
}

#[test]
fn a_group_that_nobody_can_tell_of_has_no_room() {
    let unclear = worker("a", Observed::Unknown("throttled".to_owned()));
    let admission = admitted(&[unclear], &Ledger::default(), &Observed::Absent);
    assert_eq!(admission.grants, []);
    assert!(admission.held_by.unwrap().contains("throttled"));
}

#[test]
fn a_maximum_that_is_raised_or_does_not_matter_holds_nobody_back() {
    let Observed::Present(full) = group(10, 10) else {
        panic!("it is there")
    };
    let raised = Observed::Present(Group {
        raises_max: true,
        ..full
    });
    for group in [raised, Observed::NotAsked, Observed::Absent] {
        let admission = admitted(&[worker("a", group)], &Ledger::default(), &Observed::Absent);
        assert_eq!(admission.grants.len(), 1, "{admission:?}");
        assert_eq!(admission.grants[0].1.surges, None);
    }
    let binds = |mode| {
        surges(&NodePatchRunSpec {
            replacement: mode,
            ..NodePatchRunSpec::default()
        })
    };
    assert!(binds(None) && binds(Some(ReplacementMode::Surge)));
    assert!(!binds(Some(ReplacementMode::TerminateFirst)));
    assert!(!binds(Some(ReplacementMode::SurgeElseTerminateFirst)));
}

#[test]
fn machines_on_their_way_take_room_before_the_group_counts_them() {
    let books = Books {
        ledger: &Ledger::default(),
        down: &[],
        begun_within_hour: 0,
        on_their_way: &[("workers-a".into(), 2)].into(),
        etcd: &Observed::Absent,
        open: &[],
    };
    let waiting = [worker("a", group(8, 10))];
    let spec = NodePatchRunSpec::default();
    let admission = admit(&spec, "run", &waiting, books, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(admission.grants, []);
}

#[test]
fn where_old_machines_go_first_the_last_open_node_waits_for_the_one_before() {
    let open = |name: &str| {
        let mut waiting = worker(name, Observed::NotAsked);
        waiting.node.ready = true;
        waiting
    };
    let waiting = [open("a"), open("b")];
    let uids = |names: &[&str]| -> Vec<String> {
        let nodes = names.iter();
        nodes.map(|name| open(name).node.uid).collect()
    };
    let admitted = |mode, waiting: &[Waiting], ledger: &Ledger, open: &[String]| {
        let spec = NodePatchRunSpec {
            replacement: Some(mode),
            batch_size_non_important: Some(5),
            ..NodePatchRunSpec::default()
        };
        let books = Books {
            ledger,
            down: &[],
            begun_within_hour: 0,
            on_their_way: &BTreeMap::new(),
            etcd: &Observed::Absent,
            open,
        };
        admit(&spec, "run", waiting, books, Timestamp::UNIX_EPOCH).unwrap()
    };
    let first = ReplacementMode::TerminateFirst;
    let none = Ledger::default();
    let pair = admitted(first, &waiting, &none, &uids(&["a", "b"]));
    assert_eq!(pair.grants.len(), 1);
    assert_eq!(pair.stuck, 0, "the end of another will help");
    let reason = pair.held_by.unwrap();
    assert!(
        reason.contains("node b is the last that is open to pods"),
        "{reason}"
    );
    let three = admitted(first, &waiting, &none, &uids(&["a", "b", "c"]));
    assert_eq!(three.grants.len(), 2, "c stays open");
    let surge = admitted(ReplacementMode::Surge, &waiting, &none, &[]);
    assert_eq!(surge.grants.len(), 2, "new nodes come first");
    let alone = admitted(first, &waiting[..1], &none, &uids(&["a"]));
    assert_eq!(alone.grants.len(), 1, "there is no other way");

    let ledger = Ledger {
        slots: alone.grants.into_iter().collect(),
        ..Ledger::default()
    };
    let second = admitted(first, &waiting[1..], &ledger, &uids(&["b"]));
    assert_eq!(second.grants, []);
    let served = admitted(first, &waiting[1..], &ledger, &uids(&["b", "new"]));
    assert_eq!(served.grants.len(), 1);
    let mut closed = open("b");
    closed.node.unschedulable = true;
    let closed = admitted(first, &[closed], &ledger, &[]);
    assert_eq!(closed.grants.len(), 1, "it takes no pods anyhow");
}
