//! A node lock has one holder, and time never frees it.

use serde_json::json;

use super::*;
use crate::fake::{Fake, Fault, failure};

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/ops/leases/node-n1";

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn locks(fake: &Fake) -> Locks {
    Locks::new(
        fake.client(),
        Clock::starting_at(start()),
        "ops",
        Duration::from_mins(15),
    )
}

fn claim(operation: &str) -> Claim<'_> {
    Claim {
        node: "n1",
        node_uid: "node-uid",
        operation,
        holder: "operator-0",
    }
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_taken_and_says_for_what() {
    let fake = Fake::new();
    assert_eq!(
        locks(&fake).acquire(claim("task-1")).await.unwrap(),
        Lock::Held
    );
    let annotations = &fake.get(PATH).unwrap()["metadata"]["annotations"];
    let expected =
        json!({ "shipshape.dev/node-uid": "node-uid", "shipshape.dev/operation": "task-1" });
    assert_eq!(annotations, &expected);
}

#[tokio::test(start_paused = true)]
async fn a_lock_belongs_to_its_node_by_uid_and_goes_with_it() {
    let fake = Fake::new();
    locks(&fake).acquire(claim("task-1")).await.unwrap();
    let owners = &fake.get(PATH).unwrap()["metadata"]["ownerReferences"];
    let node = json!([{ "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid" }]);
    assert_eq!(owners, &node);
    let holding = locks(&fake).holder("n1").await.unwrap().unwrap();
    assert!(holding.goes_with_node);
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_the_same_operation_is_adopted_after_a_restart_and_stays_as_it_is() {
    let fake = Fake::new();
    locks(&fake).acquire(claim("task-1")).await.unwrap();
    let version = fake.get(PATH).unwrap()["metadata"]["resourceVersion"].clone();
    let again = Claim {
        holder: "operator-1",
        ..claim("task-1")
    };
    assert_eq!(locks(&fake).acquire(again).await.unwrap(), Lock::Held);
    assert_eq!(
        fake.get(PATH).unwrap()["metadata"]["resourceVersion"],
        version
    );
}

#[tokio::test(start_paused = true)]
async fn of_two_operations_that_see_a_free_lock_one_gets_it() {
    let fake = Fake::new();
    let locks = locks(&fake);
    let (one, other) = tokio::join!(
        locks.acquire(claim("task-1")),
        locks.acquire(claim("task-2"))
    );
    let (one, other) = (one.unwrap(), other.unwrap());
    let taken_by =
        |lock: &Lock, task: &str| matches!(lock, Lock::Taken(by) if by.operation == task);
    let first = one == Lock::Held && taken_by(&other, "task-1");
    let second = other == Lock::Held && taken_by(&one, "task-2");
    assert!(first || second, "{one:?} {other:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_answer_was_lost_is_adopted_on_the_next_try() {
    let fake = Fake::new();
    fake.fault("POST", Fault::LoseAnswer);
    let error = locks(&fake).acquire(claim("task-1")).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Transient);
    assert_eq!(
        locks(&fake).acquire(claim("task-1")).await.unwrap(),
        Lock::Held
    );
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_another_operation_is_never_taken_however_old() {
    let fake = Fake::new();
    locks(&fake).acquire(claim("task-1")).await.unwrap();
    tokio::time::sleep(Duration::from_hours(24 * 365)).await;
    let Lock::Taken(holding) = locks(&fake).acquire(claim("task-2")).await.unwrap() else {
        panic!("stolen");
    };
    assert_eq!(holding.operation, "task-1");
    assert_eq!(holding.by, "operator-0");
    assert_eq!(holding.since, Some(start()));
}

#[tokio::test(start_paused = true)]
async fn a_lock_for_an_earlier_node_of_the_name_is_not_ours() {
    let fake = Fake::new();
    locks(&fake).acquire(claim("task-1")).await.unwrap();
    let reborn = Claim {
        node_uid: "new-uid",
        ..claim("task-1")
    };
    let Lock::Taken(holding) = locks(&fake).acquire(reborn).await.unwrap() else {
        panic!("the old node's lock was taken for the new node's");
    };
    assert_eq!(holding.node_uid, "node-uid");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_lease_of_the_name_is_taken_by_somebody() {
    let fake = Fake::new();
    fake.put(
        PATH,
        json!({ "metadata": { "name": "node-n1" }, "spec": {} }),
    );
    let lock = locks(&fake).acquire(claim("task-1")).await.unwrap();
    assert!(matches!(lock, Lock::Taken(_)), "{lock:?}");
    let release = locks(&fake).release("n1", "task-1").await.unwrap();
    assert!(matches!(release, Release::NotOurs(_)), "{release:?}");
    assert!(fake.get(PATH).is_some());
}

#[tokio::test(start_paused = true)]
async fn only_its_operation_frees_a_lock() {
    let fake = Fake::new();
    let locks = locks(&fake);
    locks.acquire(claim("task-1")).await.unwrap();
    let refused = locks.release("n1", "task-2").await.unwrap();
    assert!(matches!(refused, Release::NotOurs(_)), "{refused:?}");
    assert!(locks.holder("n1").await.unwrap().is_some());
    assert_eq!(locks.release("n1", "task-1").await.unwrap(), Release::Freed);
    assert_eq!(locks.holder("n1").await.unwrap(), None);
    assert_eq!(
        locks.release("n1", "task-1").await.unwrap(),
        Release::Absent
    );
}

#[tokio::test(start_paused = true)]
async fn a_release_names_the_lease_that_was_read() {
    let fake = Fake::new();
    let locks = locks(&fake);
    locks.acquire(claim("task-1")).await.unwrap();
    let metadata = fake.get(PATH).unwrap()["metadata"].clone();
    locks.release("n1", "task-1").await.unwrap();
    let wanted = json!({ "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"] });
    assert_eq!(fake.last_body()["preconditions"], wanted);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_changed_hands_between_read_and_release_stays() {
    let fake = Fake::new();
    let locks = locks(&fake);
    locks.acquire(claim("task-1")).await.unwrap();
    fake.fault(
        "DELETE",
        Fault::Answer(failure(409, "Conflict", "Precondition failed")),
    );
    let error = locks.release("n1", "task-1").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Conflict);
    assert!(fake.get(PATH).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_touch_writes_at_most_once_per_interval() {
    let fake = Fake::new();
    let locks = locks(&fake);
    locks.acquire(claim("task-1")).await.unwrap();
    for _ in 0..30 {
        locks.touch("n1", "task-1").await.unwrap();
        tokio::time::sleep(Duration::from_secs(20)).await;
    }
    let patches = fake
        .writes()
        .iter()
        .filter(|line| line.starts_with("PATCH"))
        .count();
    assert_eq!(patches, 1, "ten minutes, one touch at the fifth");
}

#[tokio::test(start_paused = true)]
async fn a_touch_of_a_lock_that_is_gone_or_not_ours_is_a_conflict() {
    let fake = Fake::new();
    let locks = locks(&fake);
    let gone = locks.touch("n1", "task-1").await.unwrap_err();
    assert_eq!(gone.class(), ErrorClass::Conflict);
    locks.acquire(claim("task-1")).await.unwrap();
    let foreign = locks.touch("n1", "task-2").await.unwrap_err();
    assert_eq!(foreign.class(), ErrorClass::Conflict);
}
