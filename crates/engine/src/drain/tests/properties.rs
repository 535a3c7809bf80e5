//! What holds for any pods, budgets and policy.

use proptest::prelude::*;

use super::{budget, pod, usual};
use crate::drain::*;

fn any_pod(index: usize) -> impl Strategy<Value = PodView> {
    let bits = proptest::collection::vec(any::<bool>(), 8);
    (bits, 0..4_u8).prop_map(move |(bits, sort)| {
        let name = format!("pod-{index}");
        PodView {
            owner: match sort {
                0 => None,
                1 => Some(("DaemonSet".to_owned(), "daemon".to_owned())),
                _ => Some(("ReplicaSet".to_owned(), "web".to_owned())),
            },
            labels: [("app", if bits[0] { "web" } else { "other" })].into(),
            ready: bits[1],
            terminating: bits[2] && bits[3],
            finished: bits[3] && bits[4],
            critical: bits[5],
            pending: bits[6] && !bits[1],
            claims: if bits[7] {
                vec![format!("claim-{index}")]
            } else {
                Vec::new()
            },
            ..pod(&name)
        }
    })
}

fn any_pods() -> impl Strategy<Value = Vec<PodView>> {
    (0..12_usize).prop_flat_map(|count| (0..count).map(any_pod).collect::<Vec<_>>())
}

fn play(pods: &[PodView], budgets: &[BudgetView], policy: DrainPolicy) -> DrainMove {
    next_move(&Scene {
        pods,
        budgets,
        around: &Around::default(),
        detaching: &[],
        policy,
        now: Timestamp::UNIX_EPOCH,
    })
}

/// The world carries the move out: what was leaving is gone, what was evicted leaves.
fn carry_out(pods: &mut Vec<PodView>, next: &DrainMove) {
    pods.retain(|pod| !pod.terminating || skip(pod, &Around::default()).is_some());
    for pod in pods {
        pod.terminating |= next.evict.iter().any(|target| target.uid == pod.uid);
    }
}

proptest! {
    #[test]
    fn evictions_charged_to_a_budget_never_exceed_its_room(
        pods in any_pods(), allowed in 0..4_i32,
    ) {
        let next = play(&pods, &[budget("web", allowed)], usual());
        let charged = pods.iter().filter(|pod| {
            next.evict.iter().any(|target| target.uid == pod.uid)
                && !pod.pending
                && pod.labels.iter().any(|(_, value)| value == "web")
        });
        prop_assert!(charged.count() <= usize::try_from(allowed).unwrap());
    }

    #[test]
    fn only_pods_that_are_here_and_not_on_their_way_are_evicted(pods in any_pods()) {
        let next = play(&pods, &[], usual());
        for target in &next.evict {
            let found = pods.iter().find(|pod| pod.uid == target.uid).unwrap();
            prop_assert!(!found.terminating && !found.finished && found.owner.is_some());
        }
        let with_volumes = pods.iter().filter(|pod| {
            !pod.claims.is_empty() && next.evict.iter().any(|target| target.uid == pod.uid)
        });
        prop_assert!(with_volumes.count() <= 1);
    }

    #[test]
    fn with_open_budgets_and_no_objection_every_node_gets_empty(pods in any_pods()) {
        let policy = DrainPolicy { bare_pods: PodRule::Evict, ..usual() };
        let mut left = pods;
        for _ in 0..40 {
            let next = play(&left, &[budget("web", 1)], policy);
            if next.is_done() {
                return Ok(());
            }
            carry_out(&mut left, &next);
        }
        prop_assert!(false, "still there: {left:?}");
    }

    #[test]
    fn a_drain_that_does_nothing_says_why(pods in any_pods(), allowed in 0..2_i32) {
        let next = play(&pods, &[budget("web", allowed)], usual());
        let leaving = pods.iter().any(|pod| pod.terminating);
        if !next.is_done() && next.evict.is_empty() && !leaving {
            prop_assert!(next.reason().is_some());
        }
    }
}
