//! Each fault, seen by the client and by the server's request log.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Error};
use shipshape_cluster::Clock;

use super::*;
use crate::ApiServer;

struct Scene {
    server: ApiServer,
    faults: Faults,
    maps: Api<ConfigMap>,
}

fn scene(rule: Rule) -> Scene {
    let server = ApiServer::new(Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
    let faults = Faults::new(Plan::of([rule]), &Seed::new(1));
    let maps = Api::namespaced(server.client_through("test", &faults), "default");
    Scene {
        server,
        faults,
        maps,
    }
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(serde_json::json!({ "metadata": { "name": name } })).unwrap()
}

async fn create(scene: &Scene, name: &str) -> Result<ConfigMap, Error> {
    scene.maps.create(&PostParams::default(), &map(name)).await
}

fn code(error: &Error) -> u16 {
    if let Error::Api(status) = error {
        status.code
    } else {
        0
    }
}

fn creates() -> impl Fn(Fault) -> Rule {
    |fault| Rule::always(fault).on(Method::POST, "configmaps").only(1)
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_arrives_late() {
    let scene = scene(creates()(Fault::Delay(Duration::from_secs(7))));
    let start = tokio::time::Instant::now();
    create(&scene, "a").await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(7));
    assert_eq!(scene.faults.strikes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_has_no_effect() {
    let scene = scene(creates()(Fault::Drop));
    assert!(matches!(create(&scene, "a").await, Err(Error::Service(_))));
    assert_eq!(scene.server.log_len(), 0);
    create(&scene, "a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_effect() {
    let scene = scene(creates()(Fault::LoseAnswer));
    assert!(create(&scene, "a").await.is_err());
    assert!(scene.maps.get_opt("a").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_arrives_twice() {
    let scene = scene(creates()(Fault::Duplicate));
    assert_eq!(code(&create(&scene, "a").await.unwrap_err()), 409);
    let codes: Vec<u16> = scene.server.log().iter().map(|entry| entry.code).collect();
    assert_eq!(codes, [201, 409]);
}

#[tokio::test(start_paused = true)]
async fn a_planned_error_never_reaches_the_server() {
    let scene = scene(creates()(Fault::Fail {
        code: 503,
        reason: "ServiceUnavailable".to_owned(),
    }));
    assert_eq!(code(&create(&scene, "a").await.unwrap_err()), 503);
    assert_eq!(scene.server.log_len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stale_list_shows_the_list_before() {
    let rule = Rule::always(Fault::StaleList)
        .on(Method::GET, "configmaps")
        .only(2);
    let scene = scene(rule);
    let count = async || {
        scene
            .maps
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len()
    };
    let before = count().await;
    create(&scene, "a").await.unwrap();
    assert_eq!(count().await, before);
    assert_eq!(count().await, before + 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_tells_the_listener_and_never_answers() {
    for (fault, there) in [(Fault::CrashBefore, false), (Fault::CrashAfter, true)] {
        let scene = scene(creates()(fault.clone()));
        let mut crashes = scene.faults.crashes();
        tokio::select! {
            biased;
            answer = create(&scene, "a") => panic!("answered: {answer:?}"),
            crash = crashes.recv() => assert_eq!(crash.unwrap().fault, fault),
        }
        scene.faults.revive();
        assert_eq!(scene.maps.get_opt("a").await.unwrap().is_some(), there);
    }
}

#[tokio::test(start_paused = true)]
async fn chance_strikes_the_same_requests_for_the_same_seed() {
    let run = async || {
        let scene = scene(Rule::always(Fault::Drop).on(Method::POST, "").sometimes(40));
        let mut struck = Vec::new();
        for number in 0..30 {
            struck.push(create(&scene, &format!("map-{number}")).await.is_err());
        }
        struck
    };
    let first = run().await;
    assert_eq!(first, run().await);
    assert!(first.contains(&true) && first.contains(&false));
}

#[tokio::test(start_paused = true)]
async fn effects_are_told_in_order_and_reads_and_dry_runs_are_none() {
    let scene = scene(Rule::always(Fault::Drop).with_effect("delete configmaps"));
    create(&scene, "a").await.unwrap();
    scene.maps.get("a").await.unwrap();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    scene.maps.create(&dry, &map("b")).await.unwrap();
    let gone = scene.maps.delete("a", &DeleteParams::default()).await;
    assert!(gone.is_err());
    let expected = ["create configmaps", "delete configmaps"];
    assert_eq!(scene.faults.effects(), expected);
}

#[tokio::test(start_paused = true)]
async fn nothing_that_a_dead_client_asks_for_arrives_until_a_new_one_takes_its_place() {
    let scene = scene(creates()(Fault::CrashBefore));
    let soon = Duration::from_secs(1);
    for name in ["a", "b"] {
        let asked = tokio::time::timeout(soon, create(&scene, name)).await;
        assert!(asked.is_err(), "answered: {asked:?}");
    }
    assert_eq!(scene.server.log_len(), 0);
    scene.faults.revive();
    create(&scene, "c").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_emptied_list_has_nothing_in_it() {
    let rule = Rule::always(Fault::EmptyList).on(Method::GET, "configmaps");
    let scene = scene(rule.only(1));
    create(&scene, "a").await.unwrap();
    let count = async || {
        scene
            .maps
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len()
    };
    assert_eq!(count().await, 0);
    assert!(count().await > 0);
}

#[tokio::test(start_paused = true)]
async fn the_events_of_a_lagging_watch_come_late_and_in_order() {
    let lag = Duration::from_secs(5);
    let scene = scene(Rule::always(Fault::LagWatch(lag)).on_watches("configmaps"));
    let watch = scene
        .maps
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap();
    let mut events = std::pin::pin!(watch);
    let start = tokio::time::Instant::now();
    for name in ["a", "b"] {
        create(&scene, name).await.unwrap();
    }
    let mut names = Vec::new();
    while names.last().is_none_or(|last| last != "b") {
        if let Some(Ok(WatchEvent::Added(map))) = events.next().await {
            names.extend(map.metadata.name);
        }
    }
    assert!(
        names.ends_with(&["a".to_owned(), "b".to_owned()]),
        "{names:?}"
    );
    assert_eq!(start.elapsed(), lag);
}

#[tokio::test(start_paused = true)]
async fn a_watch_breaks_when_its_time_has_come() {
    let after = Duration::from_secs(5);
    let scene = scene(Rule::always(Fault::BreakWatch(after)).on_watches(""));
    let watch = scene
        .maps
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap();
    let mut events = std::pin::pin!(watch);
    let start = tokio::time::Instant::now();
    while let Some(Ok(_)) = events.next().await {}
    assert_eq!(start.elapsed(), after);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_call_meets_the_same_faults() {
    use shipshape_provider::{Error as CloudError, Provider as _};
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let spec = crate::WorldSpec::small(1, 1).cloud;
    let cloud = crate::cloud::Cloud::new(&spec, clock, &Seed::new(1));
    let id = cloud.machines().remove(0).id;
    let rule = Rule::always(Fault::LoseAnswer).with_effect("cloud protect");
    let faults = Faults::new(Plan::of([rule.only(1)]), &Seed::new(1));
    let faulty = FaultyCloud::new(Arc::new(cloud.handle("test")), &faults);
    let lost = faulty.protect(&id, true).await.unwrap_err();
    assert!(matches!(lost, CloudError::NoAnswer { .. }), "{lost}");
    assert!(faulty.machine(&id).await.unwrap().protected);
    faulty.protect(&id, false).await.unwrap();
    assert_eq!(faults.effects(), ["cloud protect", "cloud unprotect"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_client_heard_is_told_beside_what_it_did() {
    let rule = Rule::always(Fault::EmptyList).on(Method::GET, "configmaps?");
    let scene = scene(rule);
    create(&scene, "b").await.unwrap();
    scene.faults.told();
    let _absent = scene.maps.get_opt("a").await.unwrap();
    scene.maps.list(&ListParams::default()).await.unwrap();
    let _none = scene.maps.delete("a", &DeleteParams::default()).await;
    scene.faults.revive();
    let asked = |question: &str, heard| Told::Asked {
        work: None,
        question: question.to_owned(),
        heard,
    };
    let acted = Told::Acted {
        work: None,
        effect: "delete configmaps".to_owned(),
        object: "configmaps/a".to_owned(),
    };
    let expected = [
        asked("get configmaps/a", true),
        asked("list configmaps ", false),
        acted,
        Told::Restarted,
    ];
    assert_eq!(scene.faults.told(), expected);
    assert_eq!(scene.faults.told(), []);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_does_not_answer_was_not_heard() {
    use shipshape_provider::Provider as _;
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let spec = crate::WorldSpec::small(1, 1).cloud;
    let cloud = crate::cloud::Cloud::new(&spec, clock, &Seed::new(1));
    let rule = Rule::always(Fault::Drop).on_path("cloud machine").only(1);
    let faults = Faults::new(Plan::of([rule]), &Seed::new(1));
    let faulty = FaultyCloud::new(Arc::new(cloud.handle("test")), &faults);
    for _ in 0..2 {
        let _answer = faulty.machine(&"none".into()).await;
    }
    let told = |heard| Told::Asked {
        work: None,
        question: "cloud machine none".to_owned(),
        heard,
    };
    assert_eq!(faults.told(), [told(false), told(true)]);
}
