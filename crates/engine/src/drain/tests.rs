//! Tables for the drain: each skip rule, each block, the order, the room of a budget.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::*;

fn pod(name: &str) -> PodView {
    PodView {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        labels: [("app".to_owned(), "web".to_owned())].into(),
        owner: Some(("ReplicaSet".to_owned(), "web".to_owned())),
        ready: true,
        ..PodView::default()
    }
}

fn budget(name: &str, allowed: i32) -> BudgetView {
    BudgetView {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        selector: Some(LabelSelector {
            match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
            match_expressions: None,
        }),
        allowed,
    }
}

fn evicted(result: &DrainMove) -> Vec<&str> {
    result.evict.iter().map(|pod| pod.name.as_str()).collect()
}

#[test]
fn pods_that_do_not_count_leave_nothing_to_do() {
    let table = [
        PodView {
            mirror: true,
            ..pod("static")
        },
        PodView {
            finished: true,
            ..pod("job")
        },
        PodView {
            owner: Some(("DaemonSet".to_owned(), "proxy".to_owned())),
            ..pod("proxy")
        },
    ];
    for pod in table {
        let result = next_move(std::slice::from_ref(&pod), &[]);
        assert!(result.is_done(), "{} should be skipped", pod.name);
        assert_eq!(result.evict, []);
    }
}

#[test]
fn a_leaving_pod_is_waited_for_and_not_evicted_again() {
    let result = next_move(
        &[PodView {
            terminating: true,
            ..pod("a")
        }],
        &[],
    );
    assert_eq!(result.evict, []);
    assert!(!result.is_done());
}

#[test]
fn no_more_pods_are_evicted_than_the_budget_has_room_for() {
    let result = next_move(&[pod("a"), pod("b"), pod("c")], &[budget("web", 2)]);
    assert_eq!(evicted(&result), ["a", "b"]);
    assert_eq!(result.blocked.len(), 1);
    assert_eq!(result.blocked[0].block, Block::Budget("web".to_owned()));
    assert_eq!(result.remaining, 3);
}

#[test]
fn a_pod_under_two_budgets_is_blocked_and_both_are_named() {
    let result = next_move(&[pod("a")], &[budget("web", 5), budget("all", 5)]);
    assert_eq!(evicted(&result), Vec::<&str>::new());
    assert_eq!(result.blocked[0].block.budgets(), "web, all");
}

#[test]
fn a_budget_of_another_namespace_does_not_count() {
    let foreign = BudgetView {
        namespace: "other".to_owned(),
        ..budget("web", 0)
    };
    assert_eq!(evicted(&next_move(&[pod("a")], &[foreign])), ["a"]);
}

#[test]
fn critical_pods_leave_last() {
    let critical = PodView {
        critical: true,
        ..pod("dns")
    };
    assert_eq!(
        evicted(&next_move(&[critical.clone(), pod("a")], &[])),
        ["a"]
    );
    assert_eq!(evicted(&next_move(&[critical], &[])), ["dns"]);
}

#[test]
fn a_pod_that_nobody_would_bring_back_is_never_evicted() {
    let result = next_move(
        &[PodView {
            owner: None,
            ..pod("bare")
        }],
        &[],
    );
    assert_eq!(result.evict, []);
    assert_eq!(result.blocked[0].block, Block::Bare);
}
