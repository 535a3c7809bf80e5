//! Two drains under one budget, and what each event settles.

use std::collections::BTreeMap;

use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn pod(name: &str) -> PodTarget {
    PodTarget {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
    }
}

fn view(allowed: i32) -> BudgetView {
    BudgetView {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        allowed,
        ..BudgetView::default()
    }
}

fn object(allowed: i32, disrupted: &[&str]) -> KeptBudget {
    let mut budget = PodDisruptionBudget::default();
    budget.metadata.namespace = Some("shop".to_owned());
    budget.metadata.name = Some("web".to_owned());
    let pods: BTreeMap<String, Time> = disrupted
        .iter()
        .map(|name| ((*name).to_owned(), Time(at(0))))
        .collect();
    budget.status = Some(PodDisruptionBudgetStatus {
        disruptions_allowed: allowed,
        disrupted_pods: Some(pods),
        ..PodDisruptionBudgetStatus::default()
    });
    KeptBudget::of(budget)
}

fn room(evictions: &Evictions, allowed: i32, now: Timestamp) -> i32 {
    evictions.seen_through(view(allowed), now).allowed
}

#[test]
fn two_drains_do_not_spend_the_same_room_twice() {
    let evictions = Evictions::default();
    assert_eq!(
        evictions.take(&pod("a"), Some(&view(1)), at(0)),
        Grant::Granted
    );
    assert_eq!(
        evictions.take(&pod("b"), Some(&view(1)), at(0)),
        Grant::NoRoom
    );
    assert_eq!(evictions.take(&pod("c"), None, at(0)), Grant::Granted);
    assert_eq!(room(&evictions, 1, at(0)), 0);
}

#[test]
fn a_charge_counts_once_whichever_event_comes_first() {
    let by_name = Evictions::default();
    by_name.take(&pod("a"), Some(&view(2)), at(0));
    by_name.saw_budget(&object(2, &[]));
    assert_eq!(room(&by_name, 2, at(0)), 1, "the charge is not in it yet");
    by_name.saw_budget(&object(1, &["a"]));
    assert_eq!(room(&by_name, 1, at(0)), 1, "now it is");
    assert!(by_name.is_asked("uid-a", at(0)), "the pod was not seen yet");
    by_name.saw_leaving("uid-a");
    assert!(!by_name.is_asked("uid-a", at(0)));

    let by_pod = Evictions::default();
    by_pod.take(&pod("a"), Some(&view(2)), at(0));
    by_pod.saw_leaving("uid-a");
    assert_eq!(room(&by_pod, 2, at(0)), 1, "the budget was not seen yet");
    by_pod.saw_budget(&object(1, &[]));
    assert_eq!(room(&by_pod, 1, at(0)), 1);
}

#[test]
fn a_call_that_came_to_nothing_frees_its_room_and_wakes_who_waits_for_it() {
    let evictions = Evictions::default();
    let queue = Queue::new(shipshape_cluster::Clock::System);
    evictions.wake_through(queue.clone());
    let (task, budget) = (Key::new("ops", "task"), Key::new("shop", "web"));
    evictions.take(&pod("a"), Some(&view(1)), at(0));
    evictions.wait(&task, [budget].into());
    evictions.saw_budget(&object(1, &[]));
    assert!(queue.is_empty(), "its room is taken");
    evictions.give_back("uid-a");
    assert_eq!(room(&evictions, 1, at(0)), 1);
    assert_eq!(queue.len(), 1);
}

#[test]
fn a_refusal_lasts_until_a_budget_of_its_namespace_changes_or_time_passes() {
    let evictions = Evictions::default();
    let why = || Refusal {
        budgets: vec!["web".to_owned()],
        message: "no".to_owned(),
    };
    evictions.refused(&pod("a"), Refusing::Budget(why()), at(0));
    evictions.refused(&pod("b"), Refusing::Other(why()), at(0));
    assert_eq!(evictions.refusal("uid-a", at(1)), Some(why()));
    evictions.saw_budget(&object(1, &[]));
    assert_eq!(evictions.refusal("uid-a", at(1)), None);
    assert_eq!(evictions.refusal("uid-b", at(1)), Some(why()));
    assert_eq!(evictions.refusal("uid-b", at(31)), None);
}

#[test]
fn a_refusal_that_a_change_of_the_budget_has_overtaken_is_not_kept() {
    let evictions = Evictions::default();
    let why = Refusal {
        budgets: vec!["web".to_owned()],
        message: "no".to_owned(),
    };
    evictions.take(&pod("a"), Some(&view(1)), at(0));
    evictions.saw_budget(&object(1, &[]));
    evictions.refused(&pod("a"), Refusing::Budget(why.clone()), at(1));
    assert_eq!(evictions.refusal("uid-a", at(1)), None, "it may be old");
    evictions.take(&pod("a"), Some(&view(1)), at(2));
    evictions.refused(&pod("a"), Refusing::Budget(why.clone()), at(3));
    assert_eq!(evictions.refusal("uid-a", at(3)), Some(why));
}

#[test]
fn what_no_event_settles_is_forgotten_in_time() {
    let evictions = Evictions::default();
    evictions.take(&pod("a"), Some(&view(1)), at(0));
    assert_eq!(room(&evictions, 1, at(29)), 0);
    assert_eq!(room(&evictions, 1, at(30)), 1);
}

#[test]
fn a_pod_that_was_gone_already_is_not_asked_again_before_the_store_has_caught_up() {
    let evictions = Evictions::default();
    evictions.take(&pod("a"), Some(&view(1)), at(0));
    evictions.give_back("uid-a");
    assert_eq!(room(&evictions, 1, at(0)), 1, "its room is free for others");
    assert!(evictions.is_asked("uid-a", at(1)));
    evictions.saw_leaving("uid-a");
    assert!(!evictions.is_asked("uid-a", at(2)));
}

#[test]
fn drains_are_called_one_by_one_as_there_is_room_and_unused_room_is_passed_on() {
    let evictions = Evictions::default();
    let queue = Queue::new(shipshape_cluster::Clock::System);
    evictions.wake_through(queue.clone());
    let budget = Key::new("shop", "web");
    let tasks = ["one", "two", "three"].map(|name| Key::new("ops", name));
    for task in &tasks {
        evictions.wait(task, [budget.clone()].into());
    }
    evictions.saw_budget(&object(1, &[]));
    assert_eq!(queue.len(), 1, "one can use it");
    evictions.passed(&tasks[0]);
    assert_eq!(queue.len(), 2, "and has not");
    evictions.take(&pod("a"), Some(&view(1)), at(0));
    evictions.passed(&tasks[2]);
    assert_eq!(queue.len(), 2, "now it is used");
    for task in &tasks {
        evictions.passed(task);
    }
    let queue = Queue::new(shipshape_cluster::Clock::System);
    evictions.wake_through(queue.clone());
    evictions.saw_budget(&object(0, &["a"]));
    assert_eq!(queue.len(), 0, "a charge makes no room");
    evictions.lost_budget(&budget);
    assert_eq!(queue.len(), 3, "without a budget all may go");
}

#[test]
fn room_that_a_refused_call_gives_back_is_offered_to_others() {
    let why = || Refusal {
        budgets: Vec::new(),
        message: "no".to_owned(),
    };
    for (refusing, is_overtaken, called) in [
        (Refusing::Other(why()), false, 1),
        (Refusing::Budget(why()), true, 1),
        (Refusing::Budget(why()), false, 0),
    ] {
        let evictions = Evictions::default();
        let queue = Queue::new(shipshape_cluster::Clock::System);
        evictions.wake_through(queue.clone());
        evictions.saw_budget(&object(1, &[]));
        evictions.take(&pod("a"), Some(&view(1)), at(0));
        evictions.wait(&Key::new("ops", "other"), [Key::new("shop", "web")].into());
        if is_overtaken {
            evictions.saw_budget(&object(1, &[]));
        }
        assert_eq!(queue.len(), 0, "its room is taken");
        evictions.refused(&pod("a"), refusing, at(1));
        assert_eq!(queue.len(), called, "{is_overtaken}");
    }
}

#[test]
fn a_budget_gives_all_the_room_that_it_has() {
    let evictions = Evictions::default();
    let pods = ["a", "b", "c", "d"].map(pod);
    let granted = pods.iter().filter(|pod| {
        // As a drain goes about it: the decision sees the room that is left, the call the whole budget.
        let is_room = evictions.seen_through(view(3), at(0)).allowed > 0;
        is_room && evictions.take(pod, Some(&view(3)), at(0)) == Grant::Granted
    });
    assert_eq!(granted.count(), 3);
}

#[test]
fn room_of_an_eviction_without_a_sign_is_offered_to_those_who_wait() {
    let evictions = Evictions::default();
    let queue = Queue::new(shipshape_cluster::Clock::System);
    evictions.wake_through(queue.clone());
    let (task, budget) = (Key::new("ops", "task"), Key::new("shop", "web"));
    evictions.saw_budget(&object(1, &[]));
    evictions.take(&pod("a"), Some(&view(1)), at(0));
    evictions.wait(&task, [budget].into());
    assert_eq!(room(&evictions, 1, at(29)), 0);
    assert!(queue.is_empty(), "the answer may still come");
    assert_eq!(room(&evictions, 1, at(31)), 1);
    assert_eq!(queue.len(), 1);
}
