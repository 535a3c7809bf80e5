//! Two candidates, one lease, and everything that can go wrong between them.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Value, json};

use super::*;
use crate::fake::{Fake, Fault, failure};

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/ops/leases/shipshape-controller";

fn clock() -> Clock {
    Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
}

fn candidate(fake: &Fake, identity: &str) -> Leader {
    Leader::new(fake.client(), clock(), Settings::new("ops", identity))
}

fn held_by(fake: &Fake) -> Value {
    fake.get(PATH)
        .map(|lease| lease["spec"]["holderIdentity"].clone())
        .unwrap_or_default()
}

fn put_foreign(fake: &Fake, renewed: &str) {
    fake.put(
        PATH,
        json!({
            "metadata": { "name": "shipshape-controller" },
            "spec": { "holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": renewed },
        }),
    );
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_leads_and_gives_the_lease_back_when_its_work_is_done() {
    let fake = Fake::new();
    let work = async {
        assert_eq!(held_by(&fake), "a");
        seconds(60).await;
        "ready"
    };
    let ended = candidate(&fake, "a").run(&Shutdown::new(), work).await;
    assert_eq!(ended, Ended::Finished("ready"));
    assert_eq!(held_by(&fake), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_the_next_look() {
    let fake = Fake::new();
    let started = Instant::now();
    let shutdown = Shutdown::new();
    let first = async { candidate(&fake, "a").run(&shutdown, seconds(20)).await };
    let second = async {
        seconds(1).await;
        candidate(&fake, "b")
            .run(&shutdown, async { started.elapsed().as_secs() })
            .await
    };
    let (_, began) = tokio::join!(first, second);
    assert_eq!(
        began,
        Ended::Finished(21),
        "b looks every two seconds, from the first second on"
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_leader_is_followed_only_after_its_record_was_seen_unchanged_for_its_duration() {
    let fake = Fake::new();
    // A record that looks years old by our clock: only our own observation counts.
    put_foreign(&fake, "2020-01-01T00:00:00.000000Z");
    let started = Instant::now();
    let work = async { started.elapsed().as_secs() };
    let ended = candidate(&fake, "a").run(&Shutdown::new(), work).await;
    assert_eq!(
        ended,
        Ended::Finished(16),
        "15 s unchanged, seen at the next look"
    );
    assert_eq!(fake.get(PATH).unwrap()["spec"]["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_clock_runs_ahead_of_ours_is_followed_all_the_same() {
    let fake = Fake::new();
    put_foreign(&fake, "2099-01-01T00:00:00.000000Z");
    let work = async { held_by(&fake) };
    let ended = candidate(&fake, "a").run(&Shutdown::new(), work).await;
    assert_eq!(ended, Ended::Finished(json!("a")));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_renews_keeps_the_lease() {
    let fake = Fake::new();
    let shutdown = Shutdown::new();
    let other = async {
        for count in 0..10 {
            put_foreign(&fake, &format!("2026-01-01T00:00:{count:02}.000000Z"));
            seconds(10).await;
        }
        assert_eq!(held_by(&fake), "other");
        shutdown.begin();
    };
    let ours = candidate(&fake, "a");
    let (ended, ()) = tokio::join!(ours.run(&shutdown, seconds(1)), other);
    assert_eq!(ended, Ended::Stopped);
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_before_anybody_else_may_begin_when_renewals_get_lost() {
    let fake = Fake::new();
    let started = Instant::now();
    let steps = Rc::new(RefCell::new(Vec::new()));
    let work = async {
        for _ in 0..100 {
            for _ in 0..10 {
                fake.fault("PUT", Fault::LoseRequest);
            }
            steps.borrow_mut().push(started.elapsed().as_secs());
            seconds(1).await;
        }
    };
    let ended = candidate(&fake, "a").run(&Shutdown::new(), work).await;
    assert_eq!(ended, Ended::Lost);
    assert_eq!(started.elapsed().as_secs(), 10);
    assert_eq!(steps.borrow().last(), Some(&9));
}

#[tokio::test(start_paused = true)]
async fn one_lost_answer_does_not_cost_the_leadership() {
    let fake = Fake::new();
    fake.fault("PUT", Fault::LoseAnswer);
    let ended = candidate(&fake, "a")
        .run(&Shutdown::new(), seconds(60))
        .await;
    assert_eq!(ended, Ended::Finished(()));
}

#[tokio::test(start_paused = true)]
async fn errors_for_less_than_the_deadline_are_survived() {
    let fake = Fake::new();
    for _ in 0..3 {
        fake.fault(
            "PUT",
            Fault::Answer(failure(503, "ServiceUnavailable", "no")),
        );
    }
    let ended = candidate(&fake, "a")
        .run(&Shutdown::new(), seconds(60))
        .await;
    assert_eq!(ended, Ended::Finished(()));
}

#[tokio::test(start_paused = true)]
async fn a_lease_in_other_hands_ends_the_work_at_the_next_renewal() {
    let fake = Fake::new();
    let started = Instant::now();
    let work = async {
        seconds(3).await;
        put_foreign(&fake, "2026-01-01T00:00:00.000000Z");
        seconds(60).await;
    };
    let ended = candidate(&fake, "a").run(&Shutdown::new(), work).await;
    assert_eq!((ended, started.elapsed().as_secs()), (Ended::Lost, 4));
    assert_eq!(held_by(&fake), "other");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_ends_the_work() {
    let fake = Fake::new();
    let work = async {
        fake.remove(PATH);
        seconds(60).await;
    };
    let ended = candidate(&fake, "a").run(&Shutdown::new(), work).await;
    assert_eq!(ended, Ended::Lost);
}

#[tokio::test(start_paused = true)]
async fn of_two_that_see_the_same_free_lease_one_wins() {
    let fake = Fake::new();
    let leading = RefCell::new(0);
    let work = async || {
        *leading.borrow_mut() += 1;
        assert_eq!(*leading.borrow(), 1, "two leaders");
        seconds(30).await;
        *leading.borrow_mut() -= 1;
    };
    let (a, b) = (candidate(&fake, "a"), candidate(&fake, "b"));
    let shutdown = Shutdown::new();
    let ended = tokio::join!(a.run(&shutdown, work()), b.run(&shutdown, work()));
    assert_eq!(ended, (Ended::Finished(()), Ended::Finished(())));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_process_of_the_same_name_leads_at_once() {
    let fake = Fake::new();
    put_foreign(&fake, "2026-01-01T00:00:00.000000Z");
    let started = Instant::now();
    let ended = candidate(&fake, "other")
        .run(&Shutdown::new(), async { 1 })
        .await;
    assert_eq!(
        (ended, started.elapsed()),
        (Ended::Finished(1), Duration::ZERO)
    );
}

#[tokio::test(start_paused = true)]
async fn a_campaign_goes_on_after_a_lost_answer() {
    let fake = Fake::new();
    fake.fault("GET", Fault::LoseRequest);
    fake.fault("GET", Fault::Answer(failure(500, "InternalError", "no")));
    let started = Instant::now();
    let ended = candidate(&fake, "a")
        .run(&Shutdown::new(), async { started.elapsed() })
        .await;
    assert_eq!(ended, Ended::Finished(Duration::from_secs(5 + 2 + 2)));
}
