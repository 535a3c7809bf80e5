//! Each fault, seen by the client and by the server's request log.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams};
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
