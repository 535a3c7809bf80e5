//! The way to a cluster, by the means that users of kubectl know.
//!
//! Owns the options, the client and the reads that several commands share. Every failure is a
//! sentence. Writes nothing.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Api, Client, Config, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use shipshape_cluster::Clock;
use shipshape_cluster::error::in_full;

use crate::failure::Failure;
use crate::namespace;

/// What people's commands call themselves to the API; audit logs tell them from the operator by it.
const USER_AGENT: &str = concat!("shipshape-cli/", env!("CARGO_PKG_VERSION"));
/// Objects asked for at once.
const PAGE: u32 = 500;

/// Which cluster, and where in it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ClusterOptions {
    /// How to reach the cluster [default: KUBECONFIG, then ~/.kube/config].
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Which context of the kubeconfig [default: the current one].
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub(crate) context: Option<String>,
    /// Which namespace [default: that of the context].
    #[arg(short, long, value_name = "NAME", value_parser = namespace::checked, help_heading = "Cluster")]
    pub(crate) namespace: Option<String>,
}

/// A cluster within reach.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// Where it is, for sentences.
    pub(crate) address: String,
    /// The namespace that names without one are looked for in.
    pub(crate) namespace: String,
}

impl Cluster {
    /// Finds the way; asks nothing yet.
    pub(crate) async fn connect(options: &ClusterOptions) -> Result<Self, Failure> {
        let mut config = config(options).await?;
        let agent = http::HeaderValue::from_static(USER_AGENT);
        config.headers.push((http::header::USER_AGENT, agent));
        let address = config.cluster_url.to_string();
        let address = address.trim_end_matches('/').to_owned();
        let namespace = options.namespace.clone();
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| {
            Failure::WrongInput(format!("the kubeconfig is not usable: {}", in_full(&error)))
        })?;
        Ok(Self {
            client,
            address,
            namespace,
        })
    }

    /// What an answer means.
    pub(crate) fn failure(&self, action: &str, error: &kube::Error) -> Failure {
        Failure::of(action, &self.address, error)
    }

    /// All objects of a kind, in all namespaces.
    pub(crate) async fn all<K>(&self) -> Result<Vec<K>, Failure>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        self.list(&Api::all(self.client.clone())).await
    }

    /// All objects of a kind that an API has.
    pub(crate) async fn list<K>(&self, api: &Api<K>) -> Result<Vec<K>, Failure>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let action = format!("list {}", K::plural(&()));
        let mut params = ListParams::default().limit(PAGE);
        let mut found = Vec::new();
        loop {
            let page = api.list(&params).await;
            let page = page.map_err(|error| self.failure(&action, &error))?;
            found.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(found),
            }
        }
    }

    /// What time it is in the cluster, by the clock of its API server: that is the clock by which its
    /// objects carry times.
    pub(crate) async fn now(&self) -> Result<Timestamp, Failure> {
        let request = http::Request::get("/version").body(kube::client::Body::empty());
        let request = request.map_err(|error| Failure::Other {
            action: "ask for the time".to_owned(),
            why: error.to_string(),
        })?;
        let answer = self.client.send(request).await;
        let answer = answer.map_err(|error| self.failure("ask for the time", &error))?;
        let date = answer.headers().get(http::header::DATE);
        let date = date.and_then(|date| date.to_str().ok());
        let parser = jiff::fmt::rfc2822::DateTimeParser::new();
        let date = date.and_then(|date| parser.parse_timestamp(date).ok());
        Ok(date.unwrap_or_else(|| Clock::System.now()))
    }
}

/// The names of some objects, those of other namespaces in full.
pub(crate) fn names<K: Resource>(cluster: &Cluster, objects: &[K]) -> String {
    let names: Vec<String> = objects
        .iter()
        .map(|one| match one.namespace() {
            Some(namespace) if namespace != cluster.namespace => {
                format!("{} (-n {namespace})", one.name_any())
            }
            _ => one.name_any(),
        })
        .collect();
    names.join(", ")
}

pub(crate) async fn config(options: &ClusterOptions) -> Result<Config, Failure> {
    let wanted = KubeConfigOptions {
        context: options.context.clone(),
        ..KubeConfigOptions::default()
    };
    let read = match &options.kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file).map_err(|error| {
                let why = first_line(&error);
                Failure::WrongInput(format!("--kubeconfig {}: {why}", file.display()))
            })?;
            Config::from_custom_kubeconfig(kubeconfig, &wanted).await
        }
        None => match from_environment() {
            Ok(Some(kubeconfig)) => Config::from_custom_kubeconfig(kubeconfig, &wanted).await,
            Ok(None) => Config::from_kubeconfig(&wanted).await,
            Err(error) => Err(error),
        },
    };
    match read {
        Ok(config) => Ok(config),
        Err(error) => in_pod(options).ok_or_else(|| not_usable(options, &error)),
    }
}

/// What the files of `KUBECONFIG` say together. Those that do not exist are passed over, as kubectl
/// does, unless none of them exists.
fn from_environment() -> Result<Option<Kubeconfig>, KubeconfigError> {
    let list = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let named: Vec<PathBuf> = std::env::split_paths(&list)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    if named.is_empty() {
        return Ok(None);
    }
    let there: Vec<&PathBuf> = named.iter().filter(|path| path.exists()).collect();
    let read = if there.is_empty() {
        named.iter().collect()
    } else {
        there
    };
    let merged = read
        .into_iter()
        .try_fold(Kubeconfig::default(), |sum, path| {
            sum.merge(Kubeconfig::read_from(path)?)
        });
    merged.map(Some)
}

/// In a pod there is no kubeconfig, and none is needed.
fn in_pod(options: &ClusterOptions) -> Option<Config> {
    let is_asked = options.kubeconfig.is_some() || options.context.is_some();
    if is_asked {
        return None;
    }
    Config::incluster().ok()
}

/// What is wrong with a kubeconfig, without the picture of the place.
fn first_line(error: &KubeconfigError) -> String {
    let why = in_full(error);
    why.lines().next().unwrap_or_default().to_owned()
}

fn not_usable(options: &ClusterOptions, error: &KubeconfigError) -> Failure {
    let why = first_line(error);
    match (error, &options.context) {
        (KubeconfigError::LoadContext(_), Some(context)) => Failure::WrongInput(format!(
            "--context {context}: the kubeconfig has no such context"
        )),
        (KubeconfigError::CurrentContextNotSet, _) if options.kubeconfig.is_some() => {
            let file = options.kubeconfig.as_deref().unwrap_or(Path::new(""));
            Failure::WrongInput(format!(
                "--kubeconfig {}: it names no current context; give --context NAME, or set one there",
                file.display()
            ))
        }
        (KubeconfigError::ReadConfig(..) | KubeconfigError::CurrentContextNotSet, _) => {
            Failure::NoCluster(why)
        }
        _ => Failure::WrongInput(format!("the kubeconfig is not usable: {why}")),
    }
}
