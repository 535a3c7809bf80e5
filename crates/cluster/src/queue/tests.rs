//! Order, exclusiveness, retries and shutdown of the queue.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::error::ErrorClass;

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn queue() -> Queue<String> {
    Queue::new(Clock::starting_at(start()))
}

fn after(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

fn ended() -> Outcome {
    Outcome::Done { wake: None }
}

#[tokio::test(start_paused = true)]
async fn keys_come_in_the_order_in_which_they_became_due() {
    let queue = queue();
    queue.add_at("late".into(), after(20));
    queue.add_at("soon".into(), after(10));
    queue.add_at("soon-too".into(), after(10));
    queue.add("b".into());
    queue.add("a".into());
    queue.add("b".into());
    let mut got = Vec::new();
    for _ in 0..5 {
        let key = queue.next().await.unwrap();
        queue.done(&key);
        got.push((key, queue.clock().now().duration_since(start()).as_secs()));
    }
    let expected = [
        ("b", 0),
        ("a", 0),
        ("soon", 10),
        ("soon-too", 10),
        ("late", 20),
    ];
    assert_eq!(got, expected.map(|(key, at)| (key.to_owned(), at)));
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_earliest_of_several_wishes_wins() {
    let queue = queue();
    queue.add_at("k".into(), after(30));
    queue.add_at("k".into(), after(10));
    queue.add_at("k".into(), after(20));
    assert_eq!(queue.len(), 1);
    queue.next().await.unwrap();
    assert_eq!(queue.clock().now(), after(10));
    queue.done(&"k".into());
    assert!(queue.is_empty(), "the later wishes were the same wish");
}

#[tokio::test(start_paused = true)]
async fn a_key_in_hand_is_not_handed_out_again_until_done() {
    let queue = queue();
    queue.add("k".into());
    let key = queue.next().await.unwrap();
    queue.add("k".into());
    let early = tokio::time::timeout(Duration::from_hours(1), queue.next()).await;
    assert!(early.is_err(), "{early:?}");
    queue.done(&key);
    assert_eq!(queue.next().await.as_deref(), Some("k"));
}

#[tokio::test(start_paused = true)]
async fn a_key_added_in_hand_for_later_and_for_now_comes_now() {
    let queue = queue();
    queue.add("k".into());
    let key = queue.next().await.unwrap();
    queue.add_at("k".into(), after(60));
    queue.add("k".into());
    queue.done(&key);
    queue.next().await.unwrap();
    assert_eq!(queue.clock().now(), start());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_reader_is_woken_by_an_earlier_key() {
    let queue = queue();
    queue.add_at("late".into(), after(3600));
    let add = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        queue.add("now".into());
    };
    let (key, ()) = tokio::join!(queue.next(), add);
    assert_eq!(key.as_deref(), Some("now"));
    assert_eq!(queue.clock().now(), after(5));
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_an_empty_queue_is_woken_by_the_first_key_and_by_the_end() {
    let queue = queue();
    let add = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        queue.add("k".into());
    };
    let (key, ()) = tokio::join!(queue.next(), add);
    assert_eq!(key.as_deref(), Some("k"));
    let close = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        queue.close();
    };
    let (none, ()) = tokio::join!(queue.next(), close);
    assert_eq!(none, None);
}

#[tokio::test(start_paused = true)]
async fn failures_wait_longer_each_time_and_a_success_begins_anew() {
    let queue = queue();
    queue.add("k".into());
    let times = RefCell::new(Vec::new());
    let work = |_key: String| {
        times
            .borrow_mut()
            .push(queue.clock().now().duration_since(start()).as_secs());
        let count = times.borrow().len();
        let outcome = match count {
            9 => Outcome::Done {
                wake: Some(queue.clock().now() + SignedDuration::from_secs(100)),
            },
            11 => {
                queue.close();
                ended()
            }
            _ => Outcome::Retry {
                class: ErrorClass::Transient,
            },
        };
        async move { outcome }
    };
    run(&queue, Pace::default(), work).await;
    let waits: Vec<i64> = times
        .borrow()
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 100, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_asks_for_the_next_at_once_over_and_over_lets_time_pass() {
    let queue = queue();
    queue.add("key".to_owned());
    let passes = Cell::new(0);
    let work = |_| {
        passes.set(passes.get() + 1);
        let now = queue.clock().now();
        if now > after(10) {
            queue.close();
        }
        async move { Outcome::Done { wake: Some(now) } }
    };
    run(&queue, Pace::default(), work).await;
    assert!(passes.get() < 30, "{} passes", passes.get());
}

#[tokio::test(start_paused = true)]
async fn no_more_keys_are_in_hand_than_allowed_and_never_one_twice() {
    let queue = queue();
    for number in 0..20 {
        queue.add(format!("k{number:02}"));
    }
    let (now, most, order) = (Cell::new(0), Cell::new(0), RefCell::new(Vec::new()));
    let in_hand = RefCell::new(BTreeSet::new());
    let work = async |key: String| {
        assert!(
            in_hand.borrow_mut().insert(key.clone()),
            "{key} twice at once"
        );
        order.borrow_mut().push(key.clone());
        now.set(now.get() + 1);
        most.set(most.get().max(now.get()));
        if order.borrow().len() < 22 {
            queue.add("k00".into());
        } else {
            queue.close();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        now.set(now.get() - 1);
        in_hand.borrow_mut().remove(&key);
        ended()
    };
    let pace = Pace {
        concurrency: 3,
        ..Pace::default()
    };
    run(&queue, pace, work).await;
    assert_eq!(most.get(), 3);
    assert!(order.borrow().iter().filter(|key| *key == "k00").count() > 1);
}

#[tokio::test(start_paused = true)]
async fn a_closed_queue_lets_what_is_in_hand_finish_and_starts_nothing() {
    let queue = queue();
    queue.add("first".into());
    queue.add("second".into());
    let finished = Rc::new(RefCell::new(Vec::new()));
    let work = async |key: String| {
        queue.close();
        tokio::time::sleep(Duration::from_secs(30)).await;
        finished.borrow_mut().push(key);
        ended()
    };
    let pace = Pace {
        concurrency: 1,
        ..Pace::default()
    };
    run(&queue, pace, work).await;
    assert_eq!(*finished.borrow(), ["first"]);
    assert_eq!(queue.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_the_same_work_leave_the_same_trace() {
    async fn trace() -> Vec<(String, i64)> {
        let queue = queue();
        for number in [5_i64, 3, 9, 1, 7] {
            queue.add_at(format!("k{number}"), after(number % 4));
        }
        let trace = RefCell::new(Vec::new());
        let work = async |key: String| {
            let at = queue.clock().now().duration_since(start()).as_secs();
            trace.borrow_mut().push((key.clone(), at));
            tokio::time::sleep(Duration::from_millis(700)).await;
            let count = trace.borrow().len();
            if count >= 30 {
                queue.close();
            }
            if count % 3 == 0 {
                return Outcome::Retry {
                    class: ErrorClass::Conflict,
                };
            }
            Outcome::Done {
                wake: Some(queue.clock().now() + SignedDuration::from_secs(2)),
            }
        };
        run(
            &queue,
            Pace {
                concurrency: 2,
                ..Pace::default()
            },
            work,
        )
        .await;
        trace.into_inner()
    }
    let first = trace().await;
    assert!(first.len() >= 30);
    assert_eq!(first, trace().await);
}

/// Two leaders of different knowledge that write one object in turn look like this to each of them.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_woken_over_and_over_lets_time_pass_and_others_through() {
    let queue = queue();
    queue.add("restless".to_owned());
    queue.add_at("calm".to_owned(), after(2));
    let passes = Cell::new(0);
    let work = |key: String| {
        let queue = queue.clone();
        passes.set(passes.get() + 1);
        async move {
            if key == "calm" {
                queue.close();
            } else {
                queue.add(key);
            }
            ended()
        }
    };
    run(&queue, Pace::default(), work).await;
    assert_eq!(queue.clock().now(), after(2));
    assert!(passes.get() <= 301, "{} passes", passes.get());
}
