//! Every answer to an eviction, and the precondition on the wire.

use serde_json::{Value, json};

use super::*;
use crate::error::ErrorClass;
use crate::fake::{Fake, Fault, failure, failure_with};

const PATH: &str = "/api/v1/namespaces/shop/pods/web";

fn put(fake: &Fake) -> String {
    let pod = json!({ "metadata": { "name": "web" }, "spec": { "containers": [] } });
    fake.put(PATH, pod)["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn target(uid: &str) -> Target<'_> {
    Target {
        namespace: "shop",
        name: "web",
        uid,
    }
}

fn cause(message: &str) -> Value {
    json!([{ "reason": "DisruptionBudget", "message": message }])
}

async fn refused_with(answer: crate::fake::Answer) -> Result<Eviction> {
    let fake = Fake::new();
    let uid = put(&fake);
    fake.fault("POST", Fault::Answer(answer));
    evict(&fake.client(), target(&uid), Mode::Real).await
}

#[tokio::test(start_paused = true)]
async fn an_accepted_eviction_carries_the_uid_where_the_server_reads_it() {
    let fake = Fake::new();
    let uid = put(&fake);
    let eviction = evict(&fake.client(), target(&uid), Mode::Real)
        .await
        .unwrap();
    assert_eq!(eviction, Eviction::Accepted);
    assert_eq!(fake.get(PATH), None);
    assert_eq!(
        fake.last_body()["deleteOptions"]["preconditions"],
        json!({ "uid": uid })
    );
    assert_eq!(fake.last_body()["apiVersion"], "policy/v1");
    assert_eq!(fake.writes(), [format!("POST {PATH}/eviction")]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_leaves_the_pod() {
    let fake = Fake::new();
    let uid = put(&fake);
    let eviction = evict(&fake.client(), target(&uid), Mode::DryRun)
        .await
        .unwrap();
    assert_eq!(eviction, Eviction::Accepted);
    assert!(fake.get(PATH).is_some());
    assert_eq!(
        fake.last_body()["deleteOptions"]["dryRun"],
        json!(["All"]),
        "a body that does not say so is refused"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_or_another_one_by_now_is_gone() {
    let fake = Fake::new();
    put(&fake);
    let other = evict(&fake.client(), target("earlier-uid"), Mode::Real)
        .await
        .unwrap();
    assert_eq!(other, Eviction::Gone);
    assert!(fake.get(PATH).is_some(), "the new pod is not touched");
    fake.remove(PATH);
    let none = evict(&fake.client(), target("earlier-uid"), Mode::Real)
        .await
        .unwrap();
    assert_eq!(none, Eviction::Gone);
}

#[tokio::test(start_paused = true)]
async fn both_sentences_about_another_uid_mean_gone() {
    let sentences = [
        "Precondition failed: UID in precondition: a, UID in object meta: b",
        "the UID in the precondition (a) does not match the UID in record (b)",
    ];
    for sentence in sentences {
        let eviction = refused_with(failure(409, "Conflict", sentence)).await;
        assert_eq!(eviction.unwrap(), Eviction::Gone, "{sentence}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_refuses_is_an_observation_with_its_name() {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let said = "The disruption budget web-pdb needs 3 healthy pods and has 3 currently";
    let answer = failure_with(429, "TooManyRequests", message, cause(said));
    let eviction = refused_with(answer).await.unwrap();
    let expected = Eviction::Blocked {
        budgets: vec!["web-pdb".into()],
        message: format!("{message} {said}"),
    };
    assert_eq!(eviction, expected);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_the_server_has_not_yet_looked_at_blocks_too() {
    let said = "The disruption budget web-pdb is still being processed by the server.";
    let eviction = refused_with(failure_with(429, "TooManyRequests", "", cause(said))).await;
    let Eviction::Blocked { budgets, .. } = eviction.unwrap() else {
        panic!("not blocked")
    };
    assert_eq!(budgets, ["web-pdb"]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_a_transient_failure_not_a_budget() {
    let answer = failure(429, "TooManyRequests", "please try again later");
    let error = refused_with(answer).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Transient);
}

#[tokio::test(start_paused = true)]
async fn a_pod_under_two_budgets_is_refused_for_good() {
    let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let eviction = refused_with(failure(500, "InternalError", message))
        .await
        .unwrap();
    assert_eq!(
        eviction,
        Eviction::Refused {
            message: message.into()
        }
    );
}

#[tokio::test(start_paused = true)]
async fn any_other_failure_stays_a_failure_of_its_class() {
    let table = [
        (
            failure(500, "InternalError", "etcd is away"),
            ErrorClass::Transient,
        ),
        (
            failure(409, "Conflict", "the object has been modified"),
            ErrorClass::Conflict,
        ),
        (failure(403, "Forbidden", "no right"), ErrorClass::Denied),
        (failure(404, "", "page not found"), ErrorClass::Transient),
    ];
    for (answer, class) in table {
        let error = refused_with(answer.clone()).await.unwrap_err();
        assert_eq!(error.class(), class, "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_an_ending_namespace_is_left_to_it() {
    let causes = json!([{ "reason": "NamespaceTerminating", "message": "it ends" }]);
    let eviction = refused_with(failure_with(403, "Forbidden", "no", causes))
        .await
        .unwrap();
    assert_eq!(eviction, Eviction::NamespaceTerminating);
}
