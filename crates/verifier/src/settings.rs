//! What is checked, and how patiently: a YAML file, then flags and environment variables on top of it.
//!
//! Owns the keys, their defaults and the sentence about each that is wrong; docs/verify.md documents them. Must not
//! touch the network.

mod extras;
mod file;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::SignedDuration;
use serde::Deserialize;
use thiserror::Error;

pub(crate) use self::extras::{Host, Udp};
use self::file::File;
use crate::target::{self, Target};

/// Where name servers listen.
const DNS_PORT: u16 = 53;
/// Enough for any cluster, and little enough for one pod.
const MOST_TARGETS: usize = 64;
const MOST_REPEATS: u32 = 20;
/// No check and no run may take longer than a day.
const LONGEST: u64 = 86_400;

/// A setting that is wrong.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{path}: {complaint}")]
pub struct SettingsError {
    /// Which key.
    pub path: String,
    /// What is wrong with it and what would be right.
    pub complaint: String,
}

/// Checked settings.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) names: Vec<String>,
    pub(crate) dns_servers: Vec<SocketAddr>,
    pub(crate) dns_endpoints: Vec<SocketAddr>,
    pub(crate) dns_repeats: u32,
    pub(crate) resolv_conf: PathBuf,
    pub(crate) check_timeout: Duration,
    pub(crate) run_timeout: Duration,
    pub(crate) max_retries: u32,
    pub(crate) backoff: Backoff,
    pub(crate) api: Option<Api>,
    pub(crate) network: Vec<Target>,
    pub(crate) services: Vec<Target>,
    pub(crate) egress: Vec<Target>,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) peers: Vec<Target>,
    pub(crate) udp: Option<Udp>,
    /// Checks of the host, which take the place of all others.
    pub(crate) host: Option<Host>,
    /// How to log.
    pub logging: Logging,
    /// Whether nothing may be left behind, a termination message included.
    pub dry_run: bool,
    /// The node, for logs.
    pub node_name: Option<String>,
    /// The pod's namespace, for logs.
    pub namespace: Option<String>,
}

/// How to reach the API server.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) target: Target,
    pub(crate) endpoints: Vec<SocketAddr>,
    pub(crate) ca_file: PathBuf,
    pub(crate) server_name: target::Host,
    pub(crate) max_clock_skew: SignedDuration,
    pub(crate) large_answer_path: String,
}

/// The cloud's metadata endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    pub(crate) address: SocketAddr,
    pub(crate) expect: Access,
}

/// How it should be with an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Pods can dial it.
    Reachable,
    /// Pods cannot.
    Blocked,
}

/// How waits between attempts grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backoff {
    /// Not at all: five seconds.
    #[default]
    Linear,
    /// From one second, twofold, up to thirty.
    Exponential,
}

/// How to log.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Logging {
    /// Least important level that is logged.
    pub level: String,
    /// Form of the logs.
    pub format: LogFormat,
}

/// Form of the logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object a line.
    #[default]
    Json,
    /// For people.
    Console,
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            format: LogFormat::default(),
        }
    }
}

/// What flags and environment variables say; each wins over the file.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "each is named after the flag that sets it")]
pub struct Overrides {
    pub node_name: Option<String>,
    pub namespace: Option<String>,
    pub k8s_service_host: Option<String>,
    pub k8s_service_port: Option<u16>,
    pub ca_file: Option<PathBuf>,
    pub initial_timeout: Option<u64>,
    pub check_timeout: Option<u64>,
    pub max_retries: Option<u32>,
    pub retry_backoff: Option<Backoff>,
    pub dns_test_domains: Option<Vec<String>>,
    pub cluster_dns_ip: Option<String>,
    pub dns_endpoints: Vec<String>,
    pub log_level: Option<String>,
    pub log_format: Option<LogFormat>,
    pub dry_run: bool,
    pub host: bool,
}

impl Settings {
    /// Reads the file, if there is one, and puts flags and variables on top.
    pub fn load(path: Option<&Path>, overrides: Overrides) -> Result<Self, SettingsError> {
        let text = match path {
            None => String::new(),
            Some(path) => std::fs::read_to_string(path).map_err(|error| {
                wrong(
                    &path.display().to_string(),
                    format!("cannot be read: {error}"),
                )
            })?,
        };
        Self::of(&text, overrides)
    }

    /// The same for the text of a file.
    pub fn of(text: &str, overrides: Overrides) -> Result<Self, SettingsError> {
        let (node_name, namespace) = (overrides.node_name.clone(), overrides.namespace.clone());
        let is_of_host = overrides.host;
        let mut file = File::read(text)?;
        file.put_on_top(overrides);
        // Looked at last: a file that is wrong elsewhere should hear of that first.
        let api = if is_of_host { Ok(None) } else { api(&file) };
        let host = extras::host(&file)?;
        Ok(Self {
            names: list("dnsTestDomains", &file.dns_test_domains, target::name)?,
            dns_servers: optional("clusterDnsIp", file.cluster_dns_ip.as_deref(), dns_address)?
                .into_iter()
                .collect(),
            dns_endpoints: list("dns.endpoints", &file.dns.endpoints, dns_address)?,
            dns_repeats: from_to("dns.repeats", file.dns.repeats, 1, MOST_REPEATS)?,
            resolv_conf: file.dns.resolv_conf.clone(),
            check_timeout: seconds("checkTimeoutSeconds", file.check_timeout_seconds)?,
            run_timeout: seconds(
                "initialCheckTimeoutSeconds",
                file.initial_check_timeout_seconds,
            )?,
            max_retries: from_to("maxRetries", file.max_retries, 1, u32::MAX)?,
            backoff: file.retry_backoff,
            services: targets("services", &file.services)?,
            egress: targets("egress", &file.egress)?,
            metadata: metadata(&file)?,
            peers: extras::peers(&file)?,
            udp: extras::udp(&file)?,
            host: is_of_host.then_some(host),
            network: network(&file, api.as_ref().ok())?,
            api: api?,
            logging: file.logging,
            dry_run: file.dry_run,
            node_name,
            namespace,
        })
    }
}

fn api(file: &File) -> Result<Option<Api>, SettingsError> {
    let given = &file.api_server;
    let Some(host) = given.host.as_deref().filter(|host| !host.is_empty()) else {
        if file.dry_run {
            return Ok(None);
        }
        return Err(wrong(
            "apiServer.host",
            "is missing: set it, or KUBERNETES_SERVICE_HOST, or --k8s-service-host; --dry-run leaves the API server out",
        ));
    };
    let host = target::host(host).map_err(|complaint| wrong("apiServer.host", complaint))?;
    let port = from_to("apiServer.port", given.port, 1, u16::MAX)?;
    let server_name = optional(
        "apiServer.serverName",
        given.server_name.as_deref(),
        target::host,
    )?;
    if !given.large_answer_path.starts_with('/') || !is_path(&given.large_answer_path) {
        let complaint = "is not a path such as /livez?verbose";
        return Err(wrong("apiServer.largeAnswerPath", complaint));
    }
    let endpoint = |text: &str| target::address(text, port);
    Ok(Some(Api {
        server_name: server_name.unwrap_or_else(|| host.clone()),
        target: Target { host, port },
        endpoints: list("apiServer.endpoints", &given.endpoints, endpoint)?,
        ca_file: given.ca_file.clone(),
        max_clock_skew: SignedDuration::try_from(seconds(
            "apiServer.maxClockSkewSeconds",
            given.max_clock_skew_seconds,
        )?)
        .map_err(|error| wrong("apiServer.maxClockSkewSeconds", error.to_string()))?,
        large_answer_path: given.large_answer_path.clone(),
    }))
}

/// Without any word about it, what every pod relies on is dialled: the API server's address.
fn network(file: &File, api: Option<&Option<Api>>) -> Result<Vec<Target>, SettingsError> {
    match &file.network {
        Some(given) => targets("network", given),
        None => Ok(api
            .into_iter()
            .flatten()
            .map(|api| api.target.clone())
            .collect()),
    }
}

fn metadata(file: &File) -> Result<Option<Metadata>, SettingsError> {
    let Some(given) = &file.metadata else {
        return Ok(None);
    };
    let address = target::address(&given.address, 80)
        .map_err(|complaint| wrong("metadata.address", complaint))?;
    Ok(Some(Metadata {
        address,
        expect: given.expect,
    }))
}

fn is_path(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn dns_address(text: &str) -> Result<SocketAddr, String> {
    target::address(text, DNS_PORT)
}

fn targets(path: &str, texts: &[String]) -> Result<Vec<Target>, SettingsError> {
    list(path, texts, target::target)
}

/// Reads every entry; a complaint names the one that is wrong.
fn list<T>(
    path: &str,
    texts: &[String],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, SettingsError> {
    if texts.len() > MOST_TARGETS {
        let complaint = format!("has {} entries, {MOST_TARGETS} are allowed", texts.len());
        return Err(wrong(path, complaint));
    }
    let entry = |(number, text): (usize, &String)| {
        read(text.trim()).map_err(|complaint| wrong(&format!("{path}[{number}]"), complaint))
    };
    texts.iter().enumerate().map(entry).collect()
}

/// Reads a text that may be missing or empty, which charts do not tell apart.
fn optional<T>(
    path: &str,
    text: Option<&str>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, SettingsError> {
    text.filter(|text| !text.is_empty())
        .map(|text| read(text).map_err(|complaint| wrong(path, complaint)))
        .transpose()
}

fn seconds(path: &str, value: u64) -> Result<Duration, SettingsError> {
    from_to(path, value, 1, LONGEST).map(Duration::from_secs)
}

fn from_to<T: Copy + PartialOrd + std::fmt::Display>(
    path: &str,
    value: T,
    least: T,
    most: T,
) -> Result<T, SettingsError> {
    if value < least || value > most {
        return Err(wrong(
            path,
            format!("{value} is not from {least} to {most}"),
        ));
    }
    Ok(value)
}

fn wrong(path: &str, complaint: impl Into<String>) -> SettingsError {
    SettingsError {
        path: path.to_owned(),
        complaint: complaint.into(),
    }
}

/// Whole seconds, as `90`, `90s` or `1m30s`.
pub fn read_seconds(text: &str) -> Result<u64, String> {
    let whole = text.parse().ok().or_else(|| {
        let duration: SignedDuration = text.parse().ok()?;
        (duration.subsec_nanos() == 0)
            .then(|| u64::try_from(duration.as_secs()).ok())
            .flatten()
    });
    whole.ok_or_else(|| format!("{text:?} is not a time in whole seconds such as 90, 90s or 1m30s"))
}

#[cfg(test)]
mod tests;
