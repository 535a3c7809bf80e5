//! The end of a failed node: by whom, and when not.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use shipshape_api::{ProviderRef, names};

use super::super::removal::{
    CloudMachine, ForeignObject, RemovalView, Removals, RemovedNode, work_on,
};
use super::*;

fn failed() -> GateSnapshot {
    let mut node = node("n");
    node.network.verified = Some("False".to_owned());
    node.provider_id = Some("embedded:///n".into());
    node.labels
        .insert("karpenter.sh/nodepool".to_owned(), "pool".to_owned());
    let told = with_verdict(&node, VerificationVerdict::Failed);
    snapshot(node, Some(told))
}

fn removing() -> GateSettings {
    let mut settings = settings();
    settings.node_management.delete_failed_nodes = true;
    settings.node_management.provider = Some(ProviderRef::default());
    settings
}

fn object(kind: &str) -> ForeignObject {
    ForeignObject {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: String::new(),
        namespace: None,
        name: "n".to_owned(),
        uid: "uid".to_owned(),
        deleting: false,
    }
}

/// Nobody holds the node and nobody knows it.
fn unknown_to_all() -> RemovalView {
    RemovalView {
        claim: Observed::Absent,
        machine: Observed::Absent,
        cloud: Observed::Absent,
        claimants: Observed::Absent,
        holder: Observed::Absent,
        work: Observed::Present(Vec::new()),
        removals: Observed::Absent,
        group_size: 100,
        alike: BTreeSet::new(),
    }
}

fn removed(group: &str, cause: &str, minutes_ago: i64) -> RemovedNode {
    RemovedNode {
        node: "other".to_owned(),
        group: group.to_owned(),
        cause: cause.to_owned(),
        at: at(100) - minutes(minutes_ago),
        failures: Vec::new(),
        evidence: None,
    }
}

fn others(count: usize) -> BTreeSet<String> {
    (0..count).map(|index| format!("other-{index}")).collect()
}

fn effects_with(view: RemovalView) -> Vec<&'static str> {
    let mut seen = failed();
    seen.removal = Observed::Present(view);
    effects(&decide(&seen, &removing(), at(100)))
}

#[test]
fn whoever_brought_the_node_removes_it() {
    let all = RemovalView {
        claim: Observed::Present(object("NodeClaim")),
        machine: Observed::Present(object("Machine")),
        cloud: Observed::Present(CloudMachine {
            id: "machine".into(),
            ending: false,
        }),
        ..unknown_to_all()
    };
    let deleted = |view: &RemovalView| {
        let mut seen = failed();
        seen.removal = Observed::Present(view.clone());
        let decision = decide(&seen, &removing(), at(100));
        let kinds = decision.effects.into_iter().map(|effect| {
            if let Effect::Gate(GateEffect::DeleteForeign(object)) = effect {
                object.kind
            } else {
                effect.name().to_owned()
            }
        });
        kinds.collect::<Vec<String>>()
    };
    assert_eq!(deleted(&all), ["RecordRemovals", "NodeClaim"]);
    let no_claim = RemovalView {
        claim: Observed::Absent,
        ..all
    };
    assert_eq!(deleted(&no_claim), ["RecordRemovals", "Machine"]);
    let cloud = RemovalView {
        machine: Observed::Absent,
        ..no_claim
    };
    assert_eq!(deleted(&cloud), ["RecordRemovals", "DeleteMachine"]);
    assert_eq!(deleted(&unknown_to_all()), ["RecordRemovals", "RemoveNode"]);
}

#[test]
fn a_list_that_is_forbidden_is_no_sign_that_nobody_knows_the_node() {
    let why = || Observed::Unknown("forbidden".to_owned());
    let table = [
        RemovalView {
            claim: why(),
            ..unknown_to_all()
        },
        RemovalView {
            machine: why(),
            ..unknown_to_all()
        },
        RemovalView {
            cloud: Observed::Unknown("throttled".to_owned()),
            ..unknown_to_all()
        },
        RemovalView {
            holder: Observed::Unknown("away".to_owned()),
            ..unknown_to_all()
        },
        RemovalView {
            removals: Observed::Unknown("away".to_owned()),
            ..unknown_to_all()
        },
        RemovalView {
            work: Observed::Unknown("away".to_owned()),
            ..unknown_to_all()
        },
        RemovalView {
            claimants: Observed::Unknown("away".to_owned()),
            ..unknown_to_all()
        },
        RemovalView::default(),
    ];
    for view in table {
        assert!(effects_with(view.clone()).is_empty(), "{view:?}");
    }
}

#[test]
fn a_node_that_claims_the_machine_of_another_gets_nobody_removed() {
    let forged = RemovalView {
        claim: Observed::Present(object("NodeClaim")),
        cloud: Observed::Present(CloudMachine {
            id: "machine".into(),
            ending: false,
        }),
        claimants: Observed::Present(vec!["victim".to_owned()]),
        ..unknown_to_all()
    };
    let mut seen = failed();
    seen.removal = Observed::Present(forged);
    let decision = decide(&seen, &removing(), at(100));
    assert!(effects(&decision).is_empty());
    let waits = decision.status.waiting_for.unwrap();
    assert!(
        waits.contains("node victim claims the same provider id"),
        "{waits}"
    );
}

#[test]
fn a_node_that_another_operation_holds_stays() {
    let held = RemovalView {
        holder: Observed::Present("task default/january-n".to_owned()),
        ..unknown_to_all()
    };
    assert!(effects_with(held).is_empty());
}

#[test]
fn a_node_with_pods_that_came_while_the_gate_was_open_stays() {
    let pod = |name: &str, tolerations: serde_json::Value, owner: &str| -> Pod {
        let pod = json!({
            "metadata": {
                "namespace": "default", "name": name,
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": true,
                }],
            },
            "spec": { "containers": [], "tolerations": tolerations },
        });
        serde_json::from_value(pod).unwrap()
    };
    let exact =
        json!([{ "key": "node-ready/unverified", "value": "true", "effect": "NoSchedule" }]);
    let pods = [
        pod("web", json!([]), "ReplicaSet"),
        pod(
            "other",
            json!([{ "key": "other", "operator": "Exists" }]),
            "ReplicaSet",
        ),
        pod("dns", json!([{ "operator": "Exists" }]), "ReplicaSet"),
        pod("exact", exact, "ReplicaSet"),
        pod("agent", json!([]), "DaemonSet"),
    ];
    let work = work_on(&pods, &settings().node_management.taints);
    assert_eq!(work, ["default/web", "default/other"]);
    let view = RemovalView {
        work: Observed::Present(work),
        ..unknown_to_all()
    };
    assert!(effects_with(view).is_empty());
}

#[test]
fn a_control_plane_is_never_removed() {
    let mut seen = failed();
    let key = names::LABEL_CONTROL_PLANE.to_owned();
    seen.node.labels.insert(key, String::new());
    seen.removal = Observed::Present(unknown_to_all());
    assert!(effects(&decide(&seen, &removing(), at(100))).is_empty());
}

#[test]
fn a_node_in_service_is_not_removed() {
    let mut seen = failed();
    seen.node.taints.clear();
    seen.removal = Observed::Present(unknown_to_all());
    let decision = decide(&seen, &removing(), at(100));
    assert!(effects(&decision).is_empty());
}

#[test]
fn only_the_gate_removes_and_only_if_told_to() {
    for (delete, mode) in [
        (false, Mode::Gate),
        (true, Mode::PublishOnly),
        (true, Mode::DryRun),
    ] {
        let mut settings = removing();
        settings.node_management.delete_failed_nodes = delete;
        settings.verification.mode = mode;
        let mut seen = failed();
        seen.removal = Observed::Present(unknown_to_all());
        let decision = decide(&seen, &settings, at(100));
        assert!(effects(&decision).is_empty(), "{delete} {mode:?}");
    }
}

#[test]
fn the_budget_counts_by_group_and_hour_and_leaves_small_groups_one() {
    let spent = |entries: &[RemovedNode]| Removals {
        resource_version: Some("1".to_owned()),
        nodes: (0..)
            .map(|index| format!("uid-{index}"))
            .zip(entries.iter().cloned())
            .collect(),
    };
    let goes = |entries: &[RemovedNode], group_size: usize| {
        let view = RemovalView {
            removals: Observed::Present(spent(entries)),
            group_size,
            ..unknown_to_all()
        };
        !effects_with(view).is_empty()
    };
    let here = || removed("pool", "other", 5);
    assert!(goes(&[here(), here()], 100));
    assert!(!goes(&[here(), here(), here()], 100), "three in an hour");
    assert!(!goes(&[here()], 19), "a tenth of nineteen is one");
    assert!(goes(&[], 1), "one of one");
    assert!(goes(
        &[removed("else", "other", 5), removed("else", "other", 5)],
        10
    ));
    assert!(goes(&[removed("pool", "other", 61)], 10), "an hour ago");
}

#[test]
fn nodes_that_fail_alike_stop_removals() {
    let view = RemovalView {
        alike: others(4),
        ..unknown_to_all()
    };
    assert!(effects_with(view).is_empty());
    let mut removals = Removals::default();
    for index in 0..2 {
        removals
            .nodes
            .insert(format!("uid-{index}"), removed("else", "dns-udp", 5));
    }
    let view = RemovalView {
        removals: Observed::Present(removals),
        alike: others(2),
        ..unknown_to_all()
    };
    assert!(effects_with(view).is_empty());
}

#[test]
fn a_removed_node_that_still_stands_counts_once_among_those_that_fail_alike() {
    let mut removals = Removals::default();
    for uid in others(3) {
        removals.nodes.insert(uid, removed("else", "dns-udp", 5));
    }
    let view = RemovalView {
        removals: Observed::Present(removals),
        alike: others(3),
        ..unknown_to_all()
    };
    assert_eq!(effects_with(view), ["RecordRemovals", "RemoveNode"]);
}

#[test]
fn a_removal_that_was_decided_on_before_a_crash_goes_on_whatever_the_budget() {
    let mut removals = Removals::default();
    removals
        .nodes
        .insert("n-uid".to_owned(), removed("pool", "dns-udp", 5));
    for index in 0..5 {
        removals
            .nodes
            .insert(format!("uid-{index}"), removed("pool", "dns-udp", 5));
    }
    let view = RemovalView {
        removals: Observed::Present(removals),
        ..unknown_to_all()
    };
    assert_eq!(effects_with(view), ["RemoveNode"], "it was counted before");
}

#[test]
fn a_claim_that_is_on_its_way_out_is_waited_for() {
    let view = RemovalView {
        claim: Observed::Present(ForeignObject {
            deleting: true,
            ..object("NodeClaim")
        }),
        ..unknown_to_all()
    };
    assert!(effects_with(view).is_empty());
}

#[test]
fn what_failed_is_stored_and_told_before_the_node_goes_and_outlives_it() {
    let mut seen = failed();
    seen.removal = Observed::Present(unknown_to_all());
    let mut told = with_verdict(&seen.node, VerificationVerdict::Failed);
    told.findings = vec![shipshape_api::VerificationFinding {
        check: "dns-udp".to_owned(),
        target: "kubernetes.default".to_owned(),
        phase: Some("dns".to_owned()),
        message: "no answer".repeat(100),
        ..shipshape_api::VerificationFinding::default()
    }];
    told.evidence = Some(shipshape_api::VerificationEvidence {
        resolv_conf: "nameserver 10.96.0.10".to_owned(),
        ..shipshape_api::VerificationEvidence::default()
    });
    seen.record = Observed::Present(recorded(&seen.node, told));
    let decision = decide(&seen, &removing(), at(100));
    let [Effect::Gate(GateEffect::RecordRemovals(removals)), goes] = decision.effects.as_slice()
    else {
        panic!("{:?}", decision.effects);
    };
    assert!(goes.needs_record(), "status and event come first");
    let kept = removals.nodes.get(&seen.node.uid).unwrap();
    let first = kept.failures.first().unwrap();
    assert!(first.starts_with("dns-udp of kubernetes.default at dns: no answer"));
    assert!(first.len() <= 256);
    let evidence = kept.evidence.as_ref().unwrap();
    assert_eq!(evidence.resolv_conf, "nameserver 10.96.0.10");
    let event = &decision.notices.first().unwrap().message;
    assert!(
        event.contains("dns-udp failed: kubernetes.default"),
        "{event}"
    );
}

#[test]
fn removals_are_remembered_past_the_hour_and_their_number_is_bounded() {
    let old = |minutes: i64| {
        let mut one = removed("another", "egress", minutes);
        one.failures = vec!["words".to_owned()];
        one
    };
    let nodes = (0..100_i64).map(|place| (format!("uid-{place}"), old(place)));
    let view = RemovalView {
        removals: Observed::Present(Removals {
            resource_version: Some("1".to_owned()),
            nodes: nodes.collect(),
        }),
        ..unknown_to_all()
    };
    let mut seen = failed();
    seen.removal = Observed::Present(view);
    let decision = decide(&seen, &removing(), at(100));
    let Some(Effect::Gate(GateEffect::RecordRemovals(kept))) = decision.effects.first() else {
        panic!("{:?}", decision.effects);
    };
    assert_eq!(kept.nodes.len(), 64, "the newest, and this one");
    assert!(kept.nodes.contains_key("uid-62") && !kept.nodes.contains_key("uid-63"));
    assert!(kept.nodes.contains_key(&seen.node.uid));
}
