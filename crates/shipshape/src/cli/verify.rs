//! The options of `shipshape verify`, with the names and environment variables that workers of kube-node-ready have.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};
use k8s_openapi::api::core::v1::Taint;
use shipshape_api::names;
use shipshape_cluster::own_node::Gate;
use shipshape_engine::verify::settings::{LabelSettings, check_label, check_taint};
use shipshape_verifier::{Backoff, Overrides, read_seconds};

use super::{Format, LogFormat};

pub(super) const VERIFY: &str = "Exit codes: 0 all is well, 1 a check failed, 2 wrong settings, 3 the checks cannot begin or the node cannot be opened, 10 a defect.

Examples:
  shipshape verify                         in a pod: the API server and name servers that it was given
  shipshape verify --dry-run --log-format=console --log-level=debug
  shipshape verify --host                  on a node, or in a pod with hostNetwork
  shipshape verify --k8s-service-host 10.96.0.1 --ca-file ca.crt --output json";

#[derive(Args, Debug)]
pub(crate) struct VerifyOptions {
    /// Settings; docs/verify.md documents the keys.
    #[arg(long, value_name = "FILE", env = "WORKER_CONFIG_PATH")]
    pub(crate) config: Option<PathBuf>,
    /// The node that is checked, for logs.
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,
    /// The pod's namespace, for logs.
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE")]
    namespace: Option<String>,
    /// Name or address of the API server.
    #[arg(long, value_name = "HOST", env = "KUBERNETES_SERVICE_HOST")]
    k8s_service_host: Option<String>,
    /// Its port.
    #[arg(long, value_name = "PORT", env = "KUBERNETES_SERVICE_PORT")]
    k8s_service_port: Option<u16>,
    /// Certificates of the API server's authority [default: those of the pod's service account].
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Time for everything, all attempts included [default: 5m].
    #[arg(long, value_name = "TIME", env = "INITIAL_TIMEOUT", value_parser = read_seconds, allow_hyphen_values = true)]
    initial_timeout: Option<u64>,
    /// Time for each check [default: 5s].
    #[arg(long, value_name = "TIME", env = "CHECK_TIMEOUT", value_parser = read_seconds, allow_hyphen_values = true)]
    check_timeout: Option<u64>,
    /// How often the checks are run while one of them fails [default: 1].
    #[arg(long, value_name = "COUNT", env = "MAX_RETRIES", value_parser = count, allow_hyphen_values = true)]
    max_retries: Option<u32>,
    /// How waits between attempts grow: linear or exponential [default: linear].
    #[arg(long, value_name = "KIND", env = "RETRY_BACKOFF", value_parser = backoff)]
    retry_backoff: Option<Backoff>,
    /// Full names that must resolve [default: kubernetes.default.svc.cluster.local].
    #[arg(
        long,
        value_name = "NAME,...",
        env = "DNS_TEST_DOMAINS",
        value_delimiter = ','
    )]
    dns_test_domains: Option<Vec<String>>,
    /// A name server to ask besides those of the pod.
    #[arg(long, value_name = "ADDRESS", env = "CLUSTER_DNS_IP")]
    cluster_dns_ip: Option<String>,
    /// Name servers behind the service, each asked several times, besides those of the file.
    #[arg(
        long,
        value_name = "ADDRESS,...",
        env = "DNS_ENDPOINTS",
        value_delimiter = ','
    )]
    dns_endpoints: Vec<String>,
    /// Leave nothing behind, and the API server out when its address is not known.
    #[arg(long, value_name = "true|false", env = "DRY_RUN", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    dry_run: bool,
    #[command(flatten)]
    pub(crate) own_gate: OwnGate,
    /// Check the network of the host instead: connection tracking, kube-proxy, the node's name server.
    #[arg(long, conflicts_with = "patch_node")]
    host: bool,
    #[command(flatten)]
    older: Older,
    /// Form of the logs [default: json].
    #[arg(long, value_enum, env = "LOG_FORMAT")]
    log_format: Option<LogFormat>,
    /// Least important level that is logged [default: info].
    #[arg(long, value_name = "LEVEL", env = "LOG_LEVEL")]
    log_level: Option<String>,
    /// Form of the answer [default: text on a terminal, json elsewhere].
    #[arg(long, value_enum)]
    pub(crate) output: Option<Format>,
    /// Where to leave the result for the kubelet, if that file exists.
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log")]
    pub(crate) termination_log: PathBuf,
}

/// Flags that DaemonSets of kube-node-ready have.
#[derive(Args, Debug)]
struct Older {
    /// With --patch-node: serve the node_check_* metrics of this node while its pod waits for its end.
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_parser = BoolishValueParser::new())]
    enable_metrics: Option<bool>,
    /// Where --enable-metrics serves /metrics.
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    metrics_port: u16,
    /// Taken and of no effect: --log-level says what is logged.
    #[arg(long, value_name = "LEVEL", allow_hyphen_values = true)]
    klog_verbosity: Option<i32>,
}

/// The gate of the node itself.
#[derive(Args, Debug)]
pub(crate) struct OwnGate {
    /// Open the gate of this node when every check passes: taint off, label and condition on. For a DaemonSet, where no
    /// controller keeps a gate; stays until its pod is removed.
    #[arg(long)]
    pub(crate) patch_node: bool,
    /// Key of the gate's taint.
    #[arg(long, value_name = "KEY", env = "TAINT_KEY", default_value = names::DEFAULT_GATE_TAINT.0)]
    taint_key: String,
    /// Value of the gate's taint; of no effect, since a taint is told by key and effect.
    #[arg(long, value_name = "VALUE", env = "TAINT_VALUE")]
    taint_value: Option<String>,
    /// Effect of the gate's taint.
    #[arg(long, value_name = "EFFECT", env = "TAINT_EFFECT", default_value = names::DEFAULT_GATE_TAINT.2,
          value_parser = ["NoSchedule", "NoExecute", "PreferNoSchedule"])]
    taint_effect: String,
    /// Label of a verified node.
    #[arg(long, value_name = "KEY", env = "VERIFIED_LABEL", default_value = names::DEFAULT_VERIFIED_LABEL.0)]
    verified_label: String,
    /// Its value.
    #[arg(long, value_name = "VALUE", env = "VERIFIED_LABEL_VALUE", default_value = names::DEFAULT_VERIFIED_LABEL.1)]
    verified_label_value: String,
    /// Refused where it is true: a node does not remove itself here.
    #[arg(long, value_name = "true|false", env = "DELETE_FAILED_NODE", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true", action = ArgAction::Set,
          value_parser = BoolishValueParser::new())]
    pub(crate) delete_failed_node: bool,
    /// How --patch-node reaches the cluster [default: the pod's own service account].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

fn count(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a whole number from 1 up, such as 3"))
}

fn backoff(text: &str) -> Result<Backoff, String> {
    match text {
        "linear" => Ok(Backoff::Linear),
        "exponential" => Ok(Backoff::Exponential),
        _ => Err("it is linear or exponential".to_owned()),
    }
}

impl OwnGate {
    /// What makes this node an open one.
    pub(crate) fn gate(&self) -> Gate {
        Gate {
            taint: Taint {
                key: self.taint_key.clone(),
                value: self.taint_value.clone(),
                effect: self.taint_effect.clone(),
                time_added: None,
            },
            label: (
                self.verified_label.clone(),
                self.verified_label_value.clone(),
            ),
        }
    }

    /// What is wrong with it, by the rules of the controller's settings: whatever the API server refuses would be
    /// half done, and a taint of somebody else is not ours to lift.
    pub(crate) fn check(&self) -> Result<(), String> {
        let named = [
            "--taint-key (or TAINT_KEY)",
            "--taint-value (or TAINT_VALUE)",
            "--taint-effect (or TAINT_EFFECT)",
        ];
        check_taint(&self.gate().taint, named)?;
        let label = LabelSettings {
            key: self.verified_label.clone(),
            value: self.verified_label_value.clone(),
        };
        let named = [
            "--verified-label (or VERIFIED_LABEL)",
            "--verified-label-value (or VERIFIED_LABEL_VALUE)",
        ];
        check_label(&label, named)
    }
}

impl VerifyOptions {
    /// The port of the metrics, where they are asked for.
    pub(crate) fn metrics_port(&self) -> Option<u16> {
        (self.older.enable_metrics == Some(true)).then_some(self.older.metrics_port)
    }

    /// What was said here and wins over the file.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            node_name: self.node_name.clone(),
            namespace: self.namespace.clone(),
            k8s_service_host: self.k8s_service_host.clone(),
            k8s_service_port: self.k8s_service_port,
            ca_file: self.ca_file.clone(),
            initial_timeout: self.initial_timeout,
            check_timeout: self.check_timeout,
            max_retries: self.max_retries,
            retry_backoff: self.retry_backoff,
            dns_test_domains: self.dns_test_domains.clone(),
            cluster_dns_ip: self.cluster_dns_ip.clone(),
            dns_endpoints: self.dns_endpoints.clone(),
            log_level: self.log_level.clone(),
            log_format: self.log_format.map(|format| match format {
                LogFormat::Json => shipshape_verifier::LogFormat::Json,
                LogFormat::Console => shipshape_verifier::LogFormat::Console,
            }),
            dry_run: self.dry_run,
            host: self.host,
        }
    }
}
