//! The settings file as it is written.
//!
//! Owns names and defaults of its keys: those of kube-node-ready's worker at the top, ours in groups below. What the
//! values mean is checked by `settings`.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::{Access, Backoff, Logging, Overrides, SettingsError, wrong};

/// Two spellings of one setting.
const RUN_TIMEOUT: &str = "initialCheckTimeoutSeconds";
const RUN_TIMEOUT_ALIAS: &str = "timeoutSeconds";

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) dns_test_domains: Vec<String>,
    pub(super) check_timeout_seconds: u64,
    #[serde(alias = "timeoutSeconds")]
    pub(super) initial_check_timeout_seconds: u64,
    pub(super) max_retries: u32,
    pub(super) retry_backoff: Backoff,
    pub(super) logging: Logging,
    pub(super) dry_run: bool,
    pub(super) cluster_dns_ip: Option<String>,
    pub(super) dns: Dns,
    pub(super) api_server: ApiServer,
    pub(super) network: Option<Vec<String>>,
    pub(super) services: Vec<String>,
    pub(super) egress: Vec<String>,
    pub(super) metadata: Option<Metadata>,
    pub(super) peers: Vec<String>,
    pub(super) udp: Option<Udp>,
    pub(super) host: Host,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Dns {
    pub(super) endpoints: Vec<String>,
    pub(super) repeats: u32,
    pub(super) resolv_conf: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ApiServer {
    pub(super) host: Option<String>,
    pub(super) port: u16,
    pub(super) endpoints: Vec<String>,
    pub(super) ca_file: PathBuf,
    pub(super) server_name: Option<String>,
    pub(super) max_clock_skew_seconds: u64,
    pub(super) large_answer_path: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Metadata {
    #[serde(default = "usual_metadata_address")]
    pub(super) address: String,
    pub(super) expect: Access,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Udp {
    pub(super) packets: u32,
    pub(super) bytes: u32,
    pub(super) max_loss_percent: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Host {
    pub(super) max_conntrack_percent: u32,
    pub(super) kube_proxy: Option<String>,
    pub(super) node_local_dns: Option<String>,
}

fn usual_metadata_address() -> String {
    "169.254.169.254:80".to_owned()
}

impl Default for File {
    fn default() -> Self {
        Self {
            dns_test_domains: vec!["kubernetes.default.svc.cluster.local".to_owned()],
            check_timeout_seconds: 5,
            initial_check_timeout_seconds: 300,
            max_retries: 1,
            retry_backoff: Backoff::default(),
            logging: Logging::default(),
            dry_run: false,
            cluster_dns_ip: None,
            dns: Dns::default(),
            api_server: ApiServer::default(),
            network: None,
            services: vec!["kubernetes.default.svc.cluster.local:443".to_owned()],
            egress: Vec::new(),
            metadata: None,
            peers: Vec::new(),
            udp: None,
            host: Host::default(),
        }
    }
}

impl Default for Udp {
    fn default() -> Self {
        Self {
            packets: 100,
            bytes: 1200,
            max_loss_percent: 5,
        }
    }
}

impl Default for Host {
    fn default() -> Self {
        Self {
            max_conntrack_percent: 90,
            kube_proxy: Some("127.0.0.1:10256".to_owned()),
            node_local_dns: None,
        }
    }
}

impl Default for Dns {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            repeats: 5,
            resolv_conf: "/etc/resolv.conf".into(),
        }
    }
}

impl Default for ApiServer {
    fn default() -> Self {
        Self {
            host: None,
            port: 443,
            endpoints: Vec::new(),
            ca_file: "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt".into(),
            server_name: None,
            max_clock_skew_seconds: 10,
            large_answer_path: "/livez?verbose".to_owned(),
        }
    }
}

impl File {
    pub(super) fn read(text: &str) -> Result<Self, SettingsError> {
        // By way of a plain value: its reader says which keys would be right.
        let value: Value = if text.trim().is_empty() {
            Value::Null
        } else {
            serde_saphyr::from_str(text).map_err(|error| {
                wrong("settings", format!("not YAML: {}", error.without_snippet()))
            })?
        };
        if value.is_null() {
            return Ok(Self::default());
        }
        if !value.is_object() {
            let complaint = "not a map of settings such as checkTimeoutSeconds: 5";
            return Err(wrong("settings", complaint));
        }
        if let (Some(_), Some(_)) = (value.get(RUN_TIMEOUT), value.get(RUN_TIMEOUT_ALIAS)) {
            let complaint =
                format!("is given beside {RUN_TIMEOUT}, which means the same; give one of the two");
            return Err(wrong(RUN_TIMEOUT_ALIAS, complaint));
        }
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = match error.path().to_string() {
                path if path == "." => "settings".to_owned(),
                path => path,
            };
            wrong(&path, plain(&error.into_inner().to_string()))
        })
    }

    pub(super) fn put_on_top(&mut self, overrides: Overrides) {
        fn put<T>(value: Option<T>, place: &mut T) {
            if let Some(value) = value {
                *place = value;
            }
        }
        let api = &mut self.api_server;
        api.host = overrides.k8s_service_host.or_else(|| api.host.take());
        put(overrides.k8s_service_port, &mut api.port);
        put(overrides.ca_file, &mut api.ca_file);
        let run = &mut self.initial_check_timeout_seconds;
        put(overrides.initial_timeout, run);
        put(overrides.check_timeout, &mut self.check_timeout_seconds);
        put(overrides.max_retries, &mut self.max_retries);
        put(overrides.retry_backoff, &mut self.retry_backoff);
        put(overrides.dns_test_domains, &mut self.dns_test_domains);
        let server = self.cluster_dns_ip.take();
        self.cluster_dns_ip = overrides.cluster_dns_ip.or(server);
        // Those of the file stay: whoever wrote them may know servers that no pod is.
        let more = overrides.dns_endpoints.into_iter();
        let more: Vec<String> = more
            .filter(|one| !self.dns.endpoints.contains(one))
            .collect();
        self.dns.endpoints.extend(more);
        put(overrides.log_level, &mut self.logging.level);
        put(overrides.log_format, &mut self.logging.format);
        self.dry_run |= overrides.dry_run;
    }
}

/// The library's words, without its names of types.
fn plain(message: &str) -> String {
    let mut text = message.to_owned();
    for (theirs, ours) in [
        ("a sequence", "a list"),
        ("struct Dns", "a map"),
        ("struct ApiServer", "a map"),
        ("struct Metadata", "a map"),
        ("struct Udp", "a map"),
        ("struct Host", "a map"),
        ("struct Logging", "a map"),
        ("u64", "a whole number from 0 up"),
        ("u32", "a whole number from 0 up"),
        ("u16", "a whole number from 0 to 65535"),
    ] {
        text = text.replace(theirs, ours);
    }
    text
}
