//! Workers are made once, and nothing else is ever deleted.

use serde_json::json;

use super::*;
use crate::fake::Fake;

const PODS: &str = "/api/v1/namespaces/ns/pods";

fn pod(name: &str) -> Pod {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "ns" },
        "spec": { "containers": [] },
    });
    serde_json::from_value(pod).unwrap()
}

fn target(name: &str, uid: &str) -> PodTarget {
    PodTarget {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_there_is_not_made_twice_and_not_changed() {
    let fake = Fake::new();
    let workers = Workers::new(fake.client());
    let made = workers.ensure(&pod("verify-n")).await.unwrap().unwrap();
    assert_eq!(workers.ensure(&pod("verify-n")).await.unwrap(), None);
    let stored = fake.get(&format!("{PODS}/verify-n")).unwrap();
    assert_eq!(stored["metadata"]["uid"], json!(made.uid()));
}

#[tokio::test(start_paused = true)]
async fn of_many_who_ask_for_the_same_worker_at_once_one_sends_a_request() {
    let fake = Fake::new();
    let workers = Workers::new(fake.client());
    let (first, second) = (pod("verify-n"), pod("verify-n"));
    let (one, other) = futures::join!(workers.ensure(&first), workers.ensure(&second));
    assert!(one.unwrap().is_some() && other.unwrap().is_none());
    assert_eq!(fake.writes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_no_worker_or_has_another_uid_is_not_deleted() {
    let fake = Fake::new();
    let workers = Workers::new(fake.client());
    let made = workers.ensure(&pod("verify-n")).await.unwrap().unwrap();
    workers.delete(&target("web-1", "any")).await.unwrap_err();
    assert_eq!(fake.writes().len(), 1, "it was not even asked for");
    workers.delete(&target("verify-n", "other")).await.unwrap();
    assert!(fake.get(&format!("{PODS}/verify-n")).is_some());
    let uid = made.uid().unwrap();
    workers.delete(&target("verify-n", &uid)).await.unwrap();
    assert_eq!(fake.get(&format!("{PODS}/verify-n")), None);
}
