//! The rights of `deploy/rbac`, on a real API server: what they allow, what they do not, and that they are
//! enough for the controller to verify and replace nodes.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the steps of the tests are functions, which the lint does not take for tests"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Secret};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use shipshape_api::conditions::COMPLETED;
use shipshape_api::names::DEFAULT_NAMESPACE;
use shipshape_api::{NodePatchRun, PendingNode, VerificationVerdict};
use shipshape_engine::condition;
use shipshape_scenarios::{Scenario, story};
use shipshape_simulator::cloud::{Cloud, wire};
use shipshape_testbed::controller::{CloudAt, Controller};
use shipshape_testbed::stage::install_kinds;
use shipshape_testbed::{ControlPlane, Options, RealWorld};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const CONTROLLER: &str = "shipshape-controller";
const WORKER: &str = "shipshape-verifier";
/// In our namespace, in another, and in the whole cluster.
const OURS: &str = DEFAULT_NAMESPACE;
const OTHER: &str = "default";
const ALL: &str = "";

/// What the controller may do with `controller.yaml` alone: verbs, resource, name, namespace.
const ALWAYS: &[(&str, &str, &str, &str)] = &[
    (
        "get list watch patch",
        "nodepatchruns.shipshape.dev",
        "",
        ALL,
    ),
    (
        "get list watch create patch",
        "nodepatchtasks.shipshape.dev",
        "",
        ALL,
    ),
    (
        "get list watch create patch delete",
        "pendingnodes.shipshape.dev",
        "",
        ALL,
    ),
    ("patch", "nodepatchruns.shipshape.dev/status", "", ALL),
    ("patch", "nodepatchtasks.shipshape.dev/status", "", ALL),
    ("patch", "pendingnodes.shipshape.dev/status", "", ALL),
    ("update", "nodepatchruns.shipshape.dev/finalizers", "", ALL),
    ("get list watch patch delete", "nodes", "", ALL),
    ("list watch", "pods", "", ALL),
    ("create", "pods/eviction", "", ALL),
    ("list watch", "poddisruptionbudgets.policy", "", ALL),
    ("list watch", "persistentvolumeclaims", "", ALL),
    ("list watch", "volumeattachments.storage.k8s.io", "", ALL),
    ("list watch", "daemonsets.apps", "", ALL),
    ("list", "deployments.apps", "", ALL),
    ("create get patch", "events", "", ALL),
    ("create", "configmaps", "", OURS),
    (
        "get update list watch",
        "configmaps",
        "shipshape-ledger",
        OURS,
    ),
    (
        "get update",
        "leases.coordination.k8s.io",
        "shipshape-controller",
        OURS,
    ),
    (
        "get list create patch delete",
        "leases.coordination.k8s.io",
        "",
        OURS,
    ),
];

/// What each further file adds.
const WITH_GATE: &[(&str, &str, &str, &str)] = &[
    ("patch", "nodes/status", "", ALL),
    (
        "list",
        "nodereadinessrules.readiness.node.x-k8s.io",
        "",
        ALL,
    ),
    ("list", "nodepools.karpenter.sh", "", ALL),
    ("get create delete", "pods", "", OURS),
];
const WITH_REMOVAL: &[(&str, &str, &str, &str)] = &[
    ("list delete", "nodeclaims.karpenter.sh", "", ALL),
    ("get delete", "machines.cluster.x-k8s.io", "", ALL),
    ("get update", "configmaps", "shipshape-deletions", OURS),
];
const WITH_AUTOSCALER: &[(&str, &str, &str, &str)] = &[("get patch", "deployments.apps", "", ALL)];

/// What the controller may not do with all of them.
const NEVER: &[(&str, &str, &str, &str)] = &[
    (
        "delete deletecollection create update patch get",
        "pods",
        "",
        OTHER,
    ),
    ("update patch deletecollection", "pods", "", OURS),
    ("create", "pods/exec", "", OURS),
    ("create", "pods/binding", "", OURS),
    ("patch update", "pods/status", "", OURS),
    (
        "get list watch create update patch delete",
        "secrets",
        "",
        OURS,
    ),
    (
        "get list watch create update patch delete",
        "secrets",
        "",
        OTHER,
    ),
    ("create update deletecollection", "nodes", "", ALL),
    ("get update", "configmaps", "somebody-elses", OURS),
    ("delete list patch", "configmaps", "", OURS),
    ("get create update", "configmaps", "shipshape-ledger", OTHER),
    (
        "get create update patch delete",
        "leases.coordination.k8s.io",
        "",
        OTHER,
    ),
    ("update", "leases.coordination.k8s.io", "node-a", OURS),
    (
        "create update delete",
        "nodepatchruns.shipshape.dev",
        "",
        ALL,
    ),
    ("update delete", "nodepatchtasks.shipshape.dev", "", ALL),
    ("delete update create", "deployments.apps", "", ALL),
    ("get patch delete", "daemonsets.apps", "", ALL),
    ("create", "serviceaccounts/token", "", OURS),
    (
        "create update bind escalate",
        "clusterroles.rbac.authorization.k8s.io",
        "",
        ALL,
    ),
    ("create", "rolebindings.rbac.authorization.k8s.io", "", OURS),
    ("impersonate", "users", "", ALL),
    ("patch", "nodeclaims.karpenter.sh", "", ALL),
    (
        "create",
        "certificatesigningrequests.certificates.k8s.io",
        "",
        ALL,
    ),
];

/// What nobody with a worker's account may do, a few of very many.
const NOT_BY_WORKERS: &[(&str, &str, &str, &str)] = &[
    (
        "get list watch create update patch delete",
        "pods",
        "",
        OURS,
    ),
    ("get list watch patch update delete", "nodes", "", ALL),
    ("patch", "nodes/status", "", ALL),
    (
        "get list watch patch",
        "pendingnodes.shipshape.dev",
        "",
        ALL,
    ),
    ("patch", "pendingnodes.shipshape.dev/status", "", ALL),
    ("get list watch create", "secrets", "", OURS),
    ("get list watch create update", "configmaps", "", OURS),
    (
        "get list create update",
        "leases.coordination.k8s.io",
        "",
        OURS,
    ),
    ("create", "events", "", OURS),
    ("create", "serviceaccounts/token", "", OURS),
    ("create", "pods/eviction", "", OTHER),
    ("list delete", "nodeclaims.karpenter.sh", "", ALL),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_file_of_rights_allows_what_the_documents_say_and_no_more() {
    let plane = ControlPlane::start(Options::default()).await.unwrap();
    let client = plane.client("test").await.unwrap();
    install_kinds(&client).await.unwrap();
    make_namespace(&client).await;
    apply(&client, "controller.yaml").await;
    let mut later = vec![
        ("gate.yaml", WITH_GATE),
        ("removal.yaml", WITH_REMOVAL),
        ("autoscaler.yaml", WITH_AUTOSCALER),
    ];
    expect(&client, CONTROLLER, ALWAYS, true).await;
    for (file, table) in later.drain(..) {
        expect(&client, CONTROLLER, table, false).await;
        apply(&client, file).await;
        expect(&client, CONTROLLER, table, true).await;
    }
    expect(&client, CONTROLLER, ALWAYS, true).await;
    expect(&client, CONTROLLER, NEVER, false).await;
    for table in [
        ALWAYS,
        WITH_GATE,
        WITH_REMOVAL,
        WITH_AUTOSCALER,
        NOT_BY_WORKERS,
    ] {
        expect(&client, WORKER, table, false).await;
    }
    call_for_real(&plane, &client).await;
}

/// A few of the answers, by the calls themselves.
async fn call_for_real(plane: &ControlPlane, admin: &Client) {
    let controller = client_of(plane, CONTROLLER).await;
    let worker = client_of(plane, WORKER).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web", "namespace": OTHER },
        "spec": { "containers": [{ "name": "web", "image": "web" }] },
    });
    story::create(admin, &pod).await.unwrap();
    let params = ListParams::default();
    let pods = |client: &Client| Api::<Pod>::namespaced(client.clone(), OTHER);
    let secrets = |client: &Client| Api::<Secret>::namespaced(client.clone(), OURS);
    let nodes = |client: &Client| Api::<Node>::all(client.clone());
    assert_eq!(
        pods(&controller).list(&params).await.unwrap().items.len(),
        1
    );
    nodes(&controller).list(&params).await.unwrap();
    let delete = DeleteParams::default();
    assert_forbidden(&pods(&controller).delete("web", &delete).await);
    assert_forbidden(&secrets(&controller).list(&params).await);
    assert_forbidden(&pods(&worker).list(&params).await);
    assert_forbidden(&nodes(&worker).list(&params).await);
    assert_forbidden(&secrets(&worker).list(&params).await);
    assert_eq!(pods(admin).list(&params).await.unwrap().items.len(), 1);
}

fn assert_forbidden<T: std::fmt::Debug>(answer: &Result<T, kube::Error>) {
    let code = match answer {
        Err(kube::Error::Api(status)) => status.code,
        _ => 0,
    };
    assert_eq!(code, 403, "{answer:?}");
}

async fn client_of(plane: &ControlPlane, account: &str) -> Client {
    let file = plane.account(OURS, account).await.unwrap();
    ControlPlane::client_of(&file, account).await.unwrap()
}

async fn make_namespace(client: &Client) {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(OURS.to_owned());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let params = PostParams::default();
    namespaces.create(&params, &namespace).await.unwrap();
}

/// Creates every object of a file of `deploy/rbac`.
async fn apply(client: &Client, file: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/rbac");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    for document in text.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document).unwrap();
        story::create(client, &object).await.unwrap();
    }
}

/// Asks the server about every verb of every row. It hears of new rights by a watch of its own, so one that is missing may
/// come a moment later; one that must not be there would be by the time that all others are.
async fn expect(client: &Client, account: &str, table: &[(&str, &str, &str, &str)], allowed: bool) {
    for (verbs, resource, name, namespace) in table {
        for verb in verbs.split(' ') {
            let deadline = Instant::now() + Duration::from_secs(30);
            let mut is = is_allowed(client, account, verb, (resource, name, namespace)).await;
            while allowed && !is && Instant::now() < deadline {
                sleep(Duration::from_millis(100)).await;
                is = is_allowed(client, account, verb, (resource, name, namespace)).await;
            }
            let what = format!("{account}: {verb} {resource} {name:?} in {namespace:?}");
            assert_eq!(is, allowed, "{what}");
        }
    }
}

async fn is_allowed(
    client: &Client,
    account: &str,
    verb: &str,
    (resource, name, namespace): (&str, &str, &str),
) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{OURS}:{account}")),
            groups: Some(vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{OURS}"),
                "system:authenticated".to_owned(),
            ]),
            resource_attributes: Some(ResourceAttributes {
                verb: text(verb),
                group: text(group),
                resource: text(resource),
                subresource: text(subresource),
                name: text(name),
                namespace: text(namespace),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let told = reviews.create(&PostParams::default(), &review).await;
    told.unwrap().status.unwrap().allowed
}

/// Two nodes are replaced by two that must pass the gate; one more joins, fails and is removed by the cloud.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn these_rights_are_enough_to_verify_replace_and_remove_nodes() {
    let scenario = Scenario::parse(
        "rights",
        "
name: rights
world:
  hurry: 60
  nodes: 2
  zones: [a]
  newcomers: 1
  gatedImages: [image-2]
  workloads: [{ name: web, replicas: 4, budget: { maxUnavailable: 1 } }]
gate: { worker: { image: { repository: shipshape, tag: test } } }
",
    )
    .unwrap();
    let world = RealWorld::start(&scenario.hurried_world(1)).await.unwrap();
    let plane = world.plane();
    let client = world.stage().client("test");
    make_namespace(&client).await;
    for file in ["controller.yaml", "gate.yaml", "removal.yaml"] {
        apply(&client, file).await;
    }
    let cloud = world.stage().cloud.clone();
    let (controller, serving) = start(plane, &cloud).await;
    let run: NodePatchRun = serde_json::from_value(json!({
        "metadata": { "name": "january" },
        "spec": { "provider": { "type": "embedded" } },
    }))
    .unwrap();
    let runs: Api<NodePatchRun> = Api::namespaced(client.clone(), OTHER);
    runs.create(&PostParams::default(), &run).await.unwrap();
    wait("the run", &controller, async || {
        let status = runs
            .get("january")
            .await
            .unwrap()
            .status
            .unwrap_or_default();
        condition::is_true(&status.conditions, COMPLETED)
    })
    .await;
    assert_eq!(verified(&client).await, 2);

    fail_a_newcomer(&cloud, &controller).await;
    serving.abort();
    check_answers(plane);
}

/// The binary under its account, and its cloud.
async fn start(plane: &ControlPlane, cloud: &Cloud) -> (Controller, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let cloud_at = CloudAt::Embedded(listener.local_addr().unwrap());
    let remote = cloud.handle("remote");
    let serving = tokio::spawn(async move { wire::serve(remote, listener).await.unwrap() });
    let account = plane.account(OURS, CONTROLLER).await.unwrap();
    let settings = format!(
        "leaderElection: {{ leaseDuration: 2s, renewDeadline: 1500ms, retryPeriod: 300ms }}\n\
         settings: {{ machinePoll: 300ms }}\n\
         worker: {{ image: {{ repository: shipshape, tag: test }}, serviceAccountName: {WORKER} }}\n\
         reconciliation: {{ maxRetries: 1, intervalSeconds: 1 }}\n\
         nodeManagement: {{ deleteFailedNodes: true, provider: {{ type: embedded }} }}\n"
    );
    let mut controller =
        Controller::prepare_with(&account, plane.folder(), &cloud_at, &settings).unwrap();
    controller.start().unwrap();
    (controller, serving)
}

/// A node joins whose pods reach nothing, and goes by its cloud.
async fn fail_a_newcomer(cloud: &Cloud, controller: &Controller) {
    cloud.adjust(|it| it.unconnected_images = ["image-3".to_owned()].into());
    let image = shipshape_engine::machine::ImageId("image-3".to_owned());
    cloud.launch_outdated(&"newcomers".into(), "a", &image);
    wait("the removal", controller, async || {
        let log = cloud.log();
        let mut removals = log.iter().filter(|call| call.call == "deleteMachine");
        removals.any(|call| {
            call.machine
                .as_ref()
                .is_some_and(|id| id.0.starts_with("newcomers"))
        })
    })
    .await;
}

async fn verified(client: &Client) -> usize {
    let records: Api<PendingNode> = Api::all(client.clone());
    let records = records.list(&ListParams::default()).await.unwrap();
    let verdict = |record: &PendingNode| record.status.as_ref()?.verification.as_ref()?.verdict;
    let all = records.iter().filter_map(verdict);
    all.filter(|it| *it == VerificationVerdict::Verified)
        .count()
}

async fn wait(what: &str, controller: &Controller, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(4);
    while !is_so().await {
        assert!(
            Instant::now() < deadline,
            "{what}\n{}",
            controller.last_words()
        );
        sleep(Duration::from_millis(300)).await;
    }
}

/// All that the account asked for was granted, and it did ask for what the work takes.
fn check_answers(plane: &ControlPlane) {
    let user = format!("system:serviceaccount:{OURS}:{CONTROLLER}");
    let entries = plane.audit().unwrap();
    let mut granted: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.user.username == user) {
        assert_ne!(entry.code(), 403, "{} {}", entry.verb, entry.request_uri);
        let object = entry.object_ref.clone().unwrap_or_default();
        let what = format!("{} {}/{}", entry.verb, object.resource, object.subresource);
        *granted.entry(what).or_default() += usize::from(entry.succeeded());
    }
    println!("{granted:#?}");
    for needed in [
        "create pods/",
        "delete pods/",
        "create pods/eviction",
        "patch nodes/",
        "patch nodes/status",
        "delete nodes/",
        "patch pendingnodes/status",
        "patch nodepatchruns/status",
        "create leases/",
        "create events/",
        "update configmaps/",
    ] {
        assert!(
            granted.get(needed).is_some_and(|times| *times > 0),
            "{needed}"
        );
    }
}
