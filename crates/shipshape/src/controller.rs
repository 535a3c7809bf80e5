//! `shipshape controller`: the controllers against a cluster, until asked to stop.
//!
//! Owns the wiring of client, clouds, servers and signals.

mod own_checks;
mod reload;
mod requests;
pub(crate) mod serve;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::client::ClientBuilder;
use shipshape_api::names::LEADER_LEASE;
use shipshape_cluster::events::{self, Events};
use shipshape_cluster::{Clock, Shutdown, leader};
use shipshape_controllers::{EtcdAccess, LiveTuning, Operator, Places, Providers, Vitals};
use shipshape_etcd::{EtcdClient, EtcdSettings};
use shipshape_simulator::cloud::wire::RemoteCloud;

use crate::cli::{ControllerOptions, LogFormat};
use crate::config::{self, Config, LeaderElection};
use crate::connect::{self, ClusterOptions};
use crate::logs;
use crate::namespace;
use crate::signals::Signals;
use reload::{Ears, Watched};
use requests::Counting;
use serve::BindAddress;

/// What the operator calls itself to the API.
const USER_AGENT: &str = concat!("shipshape/", env!("CARGO_PKG_VERSION"));

/// The variable that names the namespace of the locks.
const LOCK_NAMESPACE: &str = "LOCK_NAMESPACE";

pub(crate) fn run(options: &ControllerOptions) -> anyhow::Result<ExitCode> {
    let config = Config::load(options.config.as_deref())?;
    let format = options.log_format.or(config.logging.format);
    let level = options
        .log_level
        .as_deref()
        .or(config.logging.level.as_deref());
    logs::start(
        format.unwrap_or(LogFormat::Json),
        "--log-level (or SHIPSHAPE_LOG, or logging.level)",
        level.unwrap_or("info"),
    )?;
    if config.kubernetes.qps.is_some() || config.kubernetes.burst.is_some() {
        tracing::info!(
            "kubernetes.qps and kubernetes.burst have no effect: the server's own fairness decides"
        );
    }
    let lock_namespace = lock_namespace(&config)?;
    // A pass takes a millisecond, so one thread is enough; and what it frees it uses again, where each
    // of several would keep a heap of its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    runtime.block_on(work(options, config, lock_namespace))
}

async fn work(
    options: &ControllerOptions,
    config: Config,
    lock_namespace: String,
) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let identity = identity();
    let vitals = Vitals::default();
    let _metrics = serve::metrics(&metrics_address(options, &config), &vitals).await?;
    let _health = serve::health(&health_address(options, &config), &vitals).await?;
    let client = client(options, &config, &vitals).await?;
    let (retune, tuning) = LiveTuning::live(config.tuning());
    let elects = options
        .leader_elect
        .unwrap_or(config.leader_election.enabled);
    let operator = Operator {
        client: client.clone(),
        clock: Clock::System,
        tuning,
        providers: providers(&config)?,
        etcd: config.etcd.as_ref().map(etcd),
        own_checks: own_checks::Child::in_pod().map(|child| Arc::new(child) as _),
        election: elects.then(|| election(options, &config, &identity)),
        places: Places {
            lock_namespace,
            namespace: config.namespace.clone(),
            identity: identity.clone(),
        },
        vitals: vitals.clone(),
    };
    let ears = Ears {
        retune,
        vitals,
        events: Events::new(client, Clock::System, events::Settings::new(&identity)),
        about: lease(options, &config),
    };
    let file = options.config.as_deref();
    let file = file.map(|path| Watched::new(path, config));
    let following = file.map(|file| tokio::spawn(reload::follow(file, ears)));
    let shutdown = Shutdown::new();
    let told = shutdown.clone();
    let work = tokio::spawn(async move { operator.run(&told).await });
    let mut work = Box::pin(work);
    tokio::select! {
        biased;
        ended = &mut work => {
            ended.context("the controllers ended badly")?;
            anyhow::bail!("the controllers ended, though nobody asked them to");
        }
        asked = signals.asked() => tracing::info!(?asked, "stopping"),
    }
    if let Some(following) = following {
        following.abort();
    }
    shutdown.begin();
    work.await.context("the controllers ended badly")?;
    Ok(ExitCode::SUCCESS)
}

/// Namespace and name of the lease; flags are stronger than the file.
fn lease_place(options: &ControllerOptions, config: &Config) -> (String, String) {
    let file = &config.leader_election;
    let place = options.leader_election_namespace.as_ref();
    let place = place.or(file.namespace.as_ref());
    let name = options.leader_election_id.as_deref();
    let name = name.or(file.id.as_deref()).unwrap_or(LEADER_LEASE);
    (place.unwrap_or(&config.namespace).clone(), name.to_owned())
}

/// The lease of the controllers, for events about all of them.
fn lease(options: &ControllerOptions, config: &Config) -> ObjectReference {
    let (place, name) = lease_place(options, config);
    ObjectReference {
        api_version: Some("coordination.k8s.io/v1".to_owned()),
        kind: Some("Lease".to_owned()),
        name: Some(name),
        namespace: Some(place),
        ..ObjectReference::default()
    }
}

fn metrics_address(options: &ControllerOptions, config: &Config) -> BindAddress {
    let of_file = if config.metrics.enabled {
        BindAddress::Everywhere(config.metrics.port)
    } else {
        BindAddress::Off
    };
    options.metrics_bind_address.clone().unwrap_or(of_file)
}

fn health_address(options: &ControllerOptions, config: &Config) -> BindAddress {
    let of_file = BindAddress::Everywhere(config.health.port);
    options.health_probe_bind_address.clone().unwrap_or(of_file)
}

async fn client(
    options: &ControllerOptions,
    config: &Config,
    vitals: &Vitals,
) -> anyhow::Result<kube::Client> {
    let of_file = config.kubernetes.kubeconfig_path.clone();
    let of_file = of_file.filter(|path| !path.as_os_str().is_empty());
    let way = ClusterOptions {
        kubeconfig: options.kubeconfig.clone().or(of_file),
        ..ClusterOptions::default()
    };
    let mut config = connect::config(&way).await?;
    // Audit logs tell the operator by this.
    let agent = http::HeaderValue::from_static(USER_AGENT);
    config.headers.push((http::header::USER_AGENT, agent));
    let builder = ClientBuilder::try_from(config).context("cannot build a client")?;
    Ok(builder.with_layer(&Counting(vitals.clone())).build())
}

fn providers(config: &Config) -> anyhow::Result<Providers> {
    let mut providers = Providers::new();
    if let Some(embedded) = &config.providers.embedded {
        let cloud = RemoteCloud::new(embedded.endpoint, "shipshape")
            .with_context(|| format!("providers.embedded.endpoint {}", embedded.endpoint))?;
        providers.insert("embedded".to_owned(), Arc::new(cloud));
    }
    #[cfg(feature = "aws")]
    providers.insert("aws".to_owned(), Arc::new(aws(&config.providers.aws)));
    Ok(providers)
}

/// Nothing is opened yet: who the members are is asked when it matters.
fn etcd(config: &config::Etcd) -> EtcdAccess {
    let client = EtcdClient::new(EtcdSettings {
        ca_file: config.ca_file.clone(),
        cert_file: config.cert_file.clone(),
        key_file: config.key_file.clone(),
        timeout: duration(config.timeout),
    });
    EtcdAccess {
        client: Arc::new(client),
        endpoints: config.endpoints.clone(),
    }
}

/// The types of cloud that a controller of this build speaks to without further ado.
pub(crate) fn built_in() -> &'static [&'static str] {
    if cfg!(feature = "aws") { &["aws"] } else { &[] }
}

/// Regions are opened when a manifest first names them; credentials come from the environment.
#[cfg(feature = "aws")]
fn aws(config: &config::Aws) -> shipshape_provider_aws::Regions {
    use shipshape_provider_aws::{ClientSettings, FullGroups, LaunchMode, PaceSettings};
    let usual = PaceSettings::default();
    shipshape_provider_aws::Regions::new(ClientSettings {
        full_groups: if config.raise_max {
            FullGroups::Raise
        } else {
            FullGroups::Respect
        },
        launch: if config.group_launch {
            LaunchMode::GroupFirst
        } else {
            LaunchMode::RunAndAttach
        },
        pace: PaceSettings {
            reads_per_second: config.reads_per_second.unwrap_or(usual.reads_per_second),
            writes_per_second: config.writes_per_second.unwrap_or(usual.writes_per_second),
            ..usual
        },
        ..ClientSettings::default()
    })
}

fn election(options: &ControllerOptions, config: &Config, identity: &str) -> leader::Settings {
    let LeaderElection {
        enabled: _,
        lease_duration,
        renew_deadline,
        retry_period,
        id: _,
        namespace: _,
    } = config.leader_election;
    let (place, name) = lease_place(options, config);
    let usual = leader::Settings::new(place, identity);
    leader::Settings {
        name,
        lease_duration: duration(lease_duration),
        renew_deadline: duration(renew_deadline),
        retry_period: duration(retry_period),
        ..usual
    }
}

fn duration(value: SignedDuration) -> Duration {
    Duration::try_from(value).unwrap_or_default()
}

/// The pod's name where there is one; else this process on this host.
fn identity() -> String {
    std::env::var("POD_NAME").unwrap_or_else(|_| {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".to_owned());
        format!("{host}-{}", std::process::id())
    })
}

/// Where the locks are; the environment is stronger than the file.
fn lock_namespace(config: &Config) -> anyhow::Result<String> {
    match std::env::var(LOCK_NAMESPACE) {
        Ok(name) => {
            namespace::checked(&name).map_err(|wrong| anyhow::anyhow!("{LOCK_NAMESPACE}: {wrong}"))
        }
        Err(_) => Ok(config
            .lock_namespace
            .clone()
            .unwrap_or_else(|| config.namespace.clone())),
    }
}
