//! Events count, stay within bounds and never fail a pass.

use serde_json::Value;
use tokio::time::Instant;

use super::*;
use crate::fake::{Fake, Fault, failure};

fn clock() -> Clock {
    Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
}

fn events(fake: &Fake) -> Events {
    Events::new(fake.client(), clock(), Settings::new("operator-0"))
}

fn task() -> ObjectReference {
    ObjectReference {
        api_version: Some("shipshape.dev/v1alpha1".into()),
        kind: Some("NodePatchTask".into()),
        namespace: Some("ops".into()),
        name: Some("patch-n1".into()),
        uid: Some("task-uid".into()),
        ..ObjectReference::default()
    }
}

fn notice(note: &str) -> Notice {
    Notice {
        severity: Severity::Warning,
        reason: "DrainBlocked".into(),
        action: "Drain".into(),
        note: note.into(),
    }
}

fn stored(fake: &Fake, about: &ObjectReference, notice: &Notice) -> Option<Value> {
    let namespace = about.namespace.as_deref().unwrap_or("default");
    fake.get(&format!(
        "/api/v1/namespaces/{namespace}/events/{}",
        event_name(about, notice)
    ))
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_says_what_happened_to_what_and_when() {
    let fake = Fake::new();
    let said = notice("budget shop/web allows none");
    events(&fake).publish(&task(), &said).await;
    let event = stored(&fake, &task(), &said).unwrap();
    assert_eq!(event["involvedObject"]["uid"], "task-uid");
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["reason"], "DrainBlocked");
    assert_eq!(event["message"], "budget shop/web allows none");
    assert_eq!(event["count"], 1);
    assert_eq!(event["firstTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(event["source"]["component"], "shipshape");
}

#[tokio::test(start_paused = true)]
async fn repetitions_are_counted_and_written_at_most_once_a_minute() {
    let fake = Fake::new();
    let (events, said) = (events(&fake), notice("blocked"));
    for _ in 0..13 {
        events.publish(&task(), &said).await;
        seconds(10).await;
    }
    let event = stored(&fake, &task(), &said).unwrap();
    assert_eq!(event["count"], 13);
    assert_eq!(event["lastTimestamp"], "2026-01-01T00:02:00Z");
    let patches = fake
        .writes()
        .iter()
        .filter(|line| line.starts_with("PATCH"))
        .count();
    assert_eq!(patches, 2);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_operator_goes_on_counting() {
    let fake = Fake::new();
    let said = notice("blocked");
    events(&fake).publish(&task(), &said).await;
    events(&fake).publish(&task(), &said).await;
    assert_eq!(stored(&fake, &task(), &said).unwrap()["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_has_forgotten_is_made_anew() {
    let fake = Fake::new();
    let (events, said) = (events(&fake), notice("blocked"));
    events.publish(&task(), &said).await;
    fake.remove(&format!(
        "/api/v1/namespaces/ops/events/{}",
        event_name(&task(), &said)
    ));
    seconds(3600).await;
    events.publish(&task(), &said).await;
    assert_eq!(stored(&fake, &task(), &said).unwrap()["count"], 1);
}

#[tokio::test(start_paused = true)]
async fn other_words_are_another_event() {
    let fake = Fake::new();
    let events = events(&fake);
    events.publish(&task(), &notice("a")).await;
    events.publish(&task(), &notice("b")).await;
    assert!(stored(&fake, &task(), &notice("a")).is_some());
    assert!(stored(&fake, &task(), &notice("b")).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_failing_or_silent_server_holds_a_pass_only_so_long() {
    let fake = Fake::new();
    let events = events(&fake);
    fake.fault("POST", Fault::Answer(failure(403, "Forbidden", "no")));
    events.publish(&task(), &notice("a")).await;
    fake.fault("POST", Fault::LoseRequest);
    let started = Instant::now();
    events.publish(&task(), &notice("b")).await;
    assert_eq!(started.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_namespace_has_its_events_in_default() {
    let fake = Fake::new();
    let about = ObjectReference {
        namespace: None,
        ..task()
    };
    events(&fake).publish(&about, &notice("a")).await;
    let event = stored(&fake, &about, &notice("a")).unwrap();
    assert_eq!(event["metadata"]["namespace"], "default");
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_and_what_is_said_have_bounds() {
    let fake = Fake::new();
    let settings = Settings {
        remembered: 3,
        ..Settings::new("operator-0")
    };
    let events = Events::new(fake.client(), clock(), settings);
    for number in 0..10 {
        events
            .publish(&task(), &notice(&format!("note {number}")))
            .await;
        seconds(1).await;
    }
    assert_eq!(events.heard().len(), 3);
    let long = notice(&"ü".repeat(2000));
    events.publish(&task(), &long).await;
    let message = stored(&fake, &task(), &long).unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(message.len(), 1024);
}
