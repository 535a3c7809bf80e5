//! A stage on the real control plane: our machines, kubelets and workloads on it.
//!
//! Owns how the parts are put together; the real scheduler and controller-manager take the place of
//! the simulator's. The audit log is the stage's request log. Must not start the operator: the story
//! or a test does. Called by `stories` and by the tests of the real tier.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::header::{HeaderValue, USER_AGENT};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use shipshape_cluster::Clock;
use shipshape_scenarios::stage::{Clients, OPERATOR, RequestLog, Stage};
use shipshape_scenarios::story;
use shipshape_scenarios::witness::Request;
use shipshape_simulator::actors::{Actors, Cast};
use shipshape_simulator::cloud::Cloud;
use shipshape_simulator::seed::Seed;
use shipshape_simulator::world::{WorldSpec, wait_for_nodes};
use tokio::time::{Instant, sleep};

use crate::audit::{self, AuditEntry};
use crate::{ControlPlane, Options};

/// What a watch on this machine may be late at most.
const LAG: Duration = Duration::from_millis(500);

/// Real time is dear: a crashed leader is followed in about three seconds.
const LEASE: Duration = Duration::from_secs(3);

/// A control plane with machines, kubelets and workloads; it ends when this value is dropped.
pub struct RealWorld {
    stage: Stage,
    // Dropped before the control plane that they speak to.
    _actors: Actors,
    plane: ControlPlane,
}

impl RealWorld {
    /// Starts everything and waits until nodes and workloads are up.
    pub async fn start(spec: &WorldSpec) -> Result<Self> {
        let plane = ControlPlane::start(Options::default()).await?;
        let clients = clients(Client::try_from(plane.config().await?)?);
        let client = clients("testbed");
        install_kinds(&client).await?;
        let (clock, seed) = (Clock::System, Seed::new(spec.seed));
        let cloud = Cloud::new(&spec.cloud, clock, &seed);
        let actors = Actors::for_real_cluster(&Cast {
            clients: Arc::clone(&clients),
            clock,
            cloud: cloud.clone(),
            delays: spec.delays.clone(),
            seed,
        });
        let nodes = cloud.machines().len();
        wait_for_nodes(&client, nodes, spec.patience).await?;
        for object in &spec.objects {
            story::create(&client, object).await?;
        }
        wait_for_pods(&client, pod_count(&spec.objects, nodes), spec.patience).await?;
        let stage = Stage {
            clients,
            cloud,
            // Its members are the control plane's own, which no story touches.
            etcd: None,
            kubelets: actors.kubelets(),
            clock,
            requests: request_log(plane.audit_log().to_path_buf()),
            lag: LAG,
            lease: LEASE,
        };
        Ok(Self {
            stage,
            _actors: actors,
            plane,
        })
    }

    /// Where stories can be played.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// The control plane underneath.
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }
}

/// Whether a request was the operator's, in this process or as a binary.
pub(crate) fn is_operator(entry: &AuditEntry) -> bool {
    let name = entry.user_agent.split('/').next();
    name == Some(OPERATOR)
}

/// Clients that share one way to the server and differ in the name they give.
fn clients(way: Client) -> Clients {
    Arc::new(move |name| {
        let way = way.clone();
        let agent = HeaderValue::from_str(name).ok();
        let named = tower::service_fn(move |mut request: http::Request<Body>| {
            let way = way.clone();
            if let Some(agent) = agent.clone() {
                request.headers_mut().insert(USER_AGENT, agent);
            }
            async move { way.send(request).await }
        });
        Client::new(named, "default")
    })
}

/// Our kinds, and the wait until the server serves them.
pub async fn install_kinds(client: &Client) -> Result<()> {
    install_definitions(client, shipshape_api::crds()).await
}

/// Anybody's kinds, and the wait until the server serves all that it has, watches too: it refuses them while it fills
/// its cache of a new kind, and whoever asked then would hear a second late of what others have long acted upon.
pub(crate) async fn install_definitions(
    client: &Client,
    kinds: impl IntoIterator<Item = CustomResourceDefinition>,
) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for kind in kinds {
        api.create(&PostParams::default(), &kind)
            .await
            .with_context(|| format!("definition {}", kind.name_any()))?;
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let found = api.list(&ListParams::default()).await?.items;
        let mut is_served = found.iter().all(is_established);
        for kind in &found {
            is_served = is_served && can_be_watched(client, kind).await?;
        }
        if is_served {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("the server does not serve all kinds after 30 seconds");
        }
        sleep(Duration::from_millis(100)).await;
    }
}

async fn can_be_watched(client: &Client, kind: &CustomResourceDefinition) -> Result<bool> {
    let spec = &kind.spec;
    for version in spec.versions.iter().filter(|version| version.served) {
        let (group, plural, name) = (&spec.group, &spec.names.plural, &version.name);
        let path = format!("/apis/{group}/{name}/{plural}?watch=true&resourceVersion=0");
        let request = http::Request::get(path).body(Body::empty())?;
        // The stream ends with the answer that nobody reads on.
        if !client.send(request).await?.status().is_success() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_established(kind: &CustomResourceDefinition) -> bool {
    let conditions = kind.status.as_ref().and_then(|it| it.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
}

/// How many pods the workloads want; Jobs end and are not waited for.
fn pod_count(objects: &[Value], nodes: usize) -> usize {
    let wanted = objects.iter().map(|object| {
        let replicas = object.pointer("/spec/replicas").and_then(Value::as_u64);
        match object.get("kind").and_then(Value::as_str) {
            Some("Deployment" | "StatefulSet") => replicas
                .and_then(|it| usize::try_from(it).ok())
                .unwrap_or(1),
            Some("DaemonSet") => nodes,
            _ => 0,
        }
    });
    wanted.sum()
}

async fn wait_for_pods(client: &Client, wanted: usize, patience: Duration) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(client.clone(), "default");
    let deadline = Instant::now() + patience;
    loop {
        let pods = api.list(&ListParams::default()).await?;
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        if ready >= wanted {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!("{ready} of {wanted} pods were ready after {patience:?}");
        }
        sleep(Duration::from_millis(200)).await;
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The operator's part of the audit log; positions are bytes.
fn request_log(path: PathBuf) -> RequestLog {
    Arc::new(move |from| {
        let position = u64::try_from(from).unwrap_or(u64::MAX);
        #[expect(
            clippy::expect_used,
            reason = "a witness that cannot read its log must not testify"
        )]
        let (entries, next) = audit::read_from(&path, position).expect("the audit log is readable");
        let ours = entries.iter().filter(|entry| is_operator(entry));
        let requests = ours.filter_map(request).collect();
        (requests, usize::try_from(next).unwrap_or(usize::MAX))
    })
}

fn request(entry: &AuditEntry) -> Option<(Timestamp, Request)> {
    let object = entry.object_ref.as_ref()?;
    let request = Request {
        verb: entry.verb.clone(),
        resource: object.resource.clone(),
        subresource: object.subresource.clone(),
        object: entry.object(),
        uid: String::new(),
        code: entry.code(),
        dry_run: entry.is_dry_run(),
    };
    Some((entry.request_received_timestamp, request))
}
