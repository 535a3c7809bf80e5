//! The client of etcd's JSON gateway against three real members with certificates.

use std::time::Duration;

use shipshape_engine::etcd::{EtcdView, Health, Leaving, MemberId};
use shipshape_etcd::{Error, Etcd, EtcdSettings};
use shipshape_testbed::etcd::{EtcdCluster, MEMBERS};
use tokio::time::Instant;

fn healthy(view: &EtcdView) -> Vec<&str> {
    let members = view.members.iter();
    let mut names: Vec<&str> = members
        .filter(|one| one.health == Health::Healthy)
        .map(|one| one.name.as_str())
        .collect();
    names.sort_unstable();
    names
}

fn leader(view: &EtcdView) -> Option<(MemberId, String)> {
    let leader = view.members.iter().find(|one| one.leads)?;
    Some((leader.id.clone(), leader.name.clone()))
}

#[tokio::test]
async fn members_are_listed_led_and_taken_out() {
    let cluster = EtcdCluster::start().await.unwrap();
    let (client, endpoints) = (cluster.client(), cluster.endpoints());
    let view = client.look(endpoints).await.unwrap();
    assert_eq!(healthy(&view), MEMBERS);
    assert_eq!(view.alarms, Vec::<String>::new());
    assert!(view.members.iter().all(|one| !one.is_learner));

    let (old, name) = leader(&view).unwrap();
    let heir = view.successor(&old, None).unwrap();
    client.move_leader(endpoints, &old, &heir).await.unwrap();
    // Asked again of one that leads no more, it is done.
    client.move_leader(endpoints, &old, &heir).await.unwrap();
    let view = client.look(endpoints).await.unwrap();
    assert_eq!(leader(&view).unwrap().0, heir);

    let leaving = Leaving::BeforeReplacement;
    assert_eq!(view.refusal_to_remove(&old, leaving), None);
    // Members that have only just met are not taken apart by etcd itself.
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Err(error) = client.remove_member(endpoints, &old).await {
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    client.remove_member(endpoints, &old).await.unwrap();
    let view = client.look(endpoints).await.unwrap();
    assert_eq!(view.members.len(), 2);
    assert_eq!(view.find(Some(&old.0), &name), None);
    assert!(view.refusal_to_remove(&heir, leaving).is_some());
}

#[tokio::test]
async fn a_dead_member_is_sick_and_a_lost_majority_is_no_answer() {
    let mut cluster = EtcdCluster::start().await.unwrap();
    let client = cluster.client();
    cluster.kill(2);
    let view = cluster
        .wait_until("one member is sick", |view| healthy(view).len() == 2)
        .await
        .unwrap();
    assert_eq!(healthy(&view), ["cp-1", "cp-2"]);
    assert_eq!(view.members.len(), 3, "it stays in the list");
    let why = view.refusal_to_begin("cp-1", false).unwrap();
    assert!(
        why.contains("2 of 3 members healthy, quorum is 2: member cp-3"),
        "{why}"
    );
    // Nor does etcd itself let a member go that the rest could not do without.
    let needed = view.find(None, "cp-1").unwrap().id.clone();
    let error = client.remove_member(cluster.endpoints(), &needed).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Refused { code: 14, .. }), "{error}");
    assert!(error.to_string().contains("unhealthy cluster"), "{error}");
    cluster.kill(1);
    let error = client.look(cluster.endpoints()).await.unwrap_err();
    assert!(
        matches!(error, Error::NoAnswer { .. } | Error::Refused { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_stranger_gets_no_answer_and_no_secret_is_told() {
    let cluster = EtcdCluster::start().await.unwrap();
    let stranger = cluster.client_as("stranger", Duration::from_secs(5));
    let error = stranger.look(cluster.endpoints()).await.unwrap_err();
    let text = format!("{error} {stranger:?}");
    assert!(matches!(error, Error::NoAnswer { .. }), "{text}");
    assert!(!text.contains("PRIVATE KEY"), "{text}");
}

#[tokio::test]
async fn a_silent_port_and_a_wrong_file_are_told_in_time() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", silent.local_addr().unwrap());
    let cluster = EtcdCluster::start().await.unwrap();
    let brief = cluster.client_as("client", Duration::from_millis(500));
    let began = Instant::now();
    let error = brief
        .look(std::slice::from_ref(&address))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NoAnswer { .. }), "{error}");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );

    // One that is silent does not keep the others from answering.
    let mixed = [&[address][..], cluster.endpoints()].concat();
    let view = cluster.client().look(&mixed).await.unwrap();
    assert_eq!(healthy(&view), MEMBERS);

    let nowhere = shipshape_etcd::EtcdClient::new(EtcdSettings {
        ca_file: "no-such-file".into(),
        cert_file: "no-such-file".into(),
        key_file: "no-such-file".into(),
        timeout: Duration::from_secs(1),
    });
    let error = nowhere.look(cluster.endpoints()).await.unwrap_err();
    assert!(matches!(error, Error::Unusable(_)), "{error}");
}
