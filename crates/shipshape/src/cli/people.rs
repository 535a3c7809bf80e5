//! The options of the commands that people use on a cluster.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Taint;
use shipshape_api::names;
use shipshape_engine::verify::settings::check_taint;

use super::Format;
use crate::connect::ClusterOptions;
use crate::namespace::checked;
use crate::target::{self, Target};

pub(super) const PAUSE: &str = "Examples:
  shipshape pause npr/january              no further node begins, those under way are finished
  shipshape pause npr/january -n platform";
pub(super) const RESUME: &str = "Examples:
  shipshape resume npr/january             lifts a pause, by whomever, and takes note of failures";
pub(super) const ABORT: &str = "Examples:
  shipshape abort npr/january              puts nodes under way back and ends the run for good";
pub(super) const RETRY: &str = "Examples:
  shipshape retry node/ip-10-0-3-7         tries a parked or failed node again
  shipshape retry npt/january-0-ip-10-0-3-7-1f2e";
pub(super) const STATUS: &str = "Examples:
  shipshape status                         all runs, in all namespaces
  shipshape status --watch                 the same, as it changes, until Ctrl-C
  shipshape status npr/january --output json";
pub(super) const EXPLAIN: &str = "Examples:
  shipshape explain node/ip-10-0-3-7       why is this node not replaced yet?
  shipshape explain npr/january            what does this run wait for?
  shipshape explain npt/january-0-ip-10-0-3-7-1f2e --output json
  shipshape explain pn/node-ip-10-0-3-7-1f2e --config controller.yaml   how does it stand at the gate?";
pub(super) const SIMULATE: &str = "Examples:
  shipshape simulate scenarios/tight-budget.yaml --timeline roll.svg
  shipshape simulate scenarios/tight-budget.yaml --seeds 1..20
  shipshape simulate --from-cluster -f january.yaml    rehearses the run on a copy of your cluster";
pub(super) const PLAN: &str = "Examples:
  shipshape plan -f january.yaml           order, waves, blockers, time and cost; nothing is written
  shipshape plan -f january.yaml --machine-ready 6m --all
  kubectl get npr january -o yaml | shipshape plan -f - --output json";
pub(super) const RELEASE: &str = "Examples:
  shipshape release-nodes --dry-run        which nodes still carry the gate's taint?
  shipshape release-nodes --config controller.yaml --yes
  shipshape release-nodes --taint example.com/unverified:NoSchedule";
pub(super) const COMPLETIONS: &str = "Examples:
  source <(shipshape completions bash)
  shipshape completions zsh > ~/.zfunc/_shipshape
  shipshape completions fish > ~/.config/fish/completions/shipshape.fish";

#[derive(Args, Debug)]
pub(crate) struct RunOptions {
    /// Which run.
    #[arg(value_name = "npr/NAME", value_parser = target::run)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

#[derive(Args, Debug)]
pub(crate) struct RetryOptions {
    /// Which node, by its own name or by that of its task.
    #[arg(value_name = "node/NAME|npt/NAME", value_parser = target::node)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

#[derive(Args, Debug)]
pub(crate) struct StatusOptions {
    /// One run, npr/NAME [default: all].
    #[arg(value_name = "npr/NAME", value_parser = target::run)]
    pub(crate) target: Option<Target>,
    /// Runs of all namespaces, which is what is shown without -n too.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Goes on, until Ctrl-C.
    #[arg(short, long)]
    pub(crate) watch: bool,
    /// So often --watch looks whether the cluster answers while nothing changes.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "10s", allow_hyphen_values = true, requires = "watch")]
    pub(crate) every: SignedDuration,
    /// Form of the answer; with --watch one JSON object for each change.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,
    /// Where the controller keeps its lease.
    #[arg(long, value_name = "NAME", value_parser = checked, default_value = names::DEFAULT_NAMESPACE)]
    pub(crate) operator_namespace: String,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

#[derive(Args, Debug)]
pub(crate) struct ExplainOptions {
    /// What to explain.
    #[arg(value_name = "node/NAME|npr/NAME|npt/NAME|pn/NAME", value_parser = target::any)]
    pub(crate) target: Target,
    /// The controller's settings, for times and limits of the gate [default: the defaults].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

#[derive(Args, Debug)]
pub(crate) struct ReleaseOptions {
    /// The controller's settings, for the gate's taints [default: node-ready/unverified:NoSchedule].
    #[arg(long, value_name = "FILE", conflicts_with = "taints")]
    pub(crate) config: Option<PathBuf>,
    /// A taint of the gate; may be given several times.
    #[arg(long = "taint", value_name = "KEY:EFFECT", value_parser = taint)]
    pub(crate) taints: Vec<Taint>,
    /// Show what would be done, and change nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// A taint as people write it, with or without its value.
fn taint(text: &str) -> Result<Taint, String> {
    let right =
        "right would be KEY:EFFECT with the effect NoSchedule, NoExecute or PreferNoSchedule";
    let (key, effect) = text.split_once(':').ok_or(right)?;
    let (key, value) = key.split_once('=').unwrap_or((key, ""));
    let taint = Taint {
        key: key.to_owned(),
        value: Some(value.to_owned()).filter(|value| !value.is_empty()),
        effect: effect.to_owned(),
        time_added: None,
    };
    check_taint(&taint, ["its key", "its value", "its effect"])?;
    Ok(taint)
}

#[derive(Args, Debug)]
pub(crate) struct PlanOptions {
    /// The NodePatchRun; - reads standard input.
    #[arg(short, long = "file", value_name = "RUN.yaml")]
    pub(crate) file: PathBuf,
    /// Lists every node of every wave.
    #[arg(long)]
    pub(crate) all: bool,
    /// From the request of a machine to a ready node [default: as measured here, else 3m].
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    pub(crate) machine_ready: Option<SignedDuration>,
    /// From a pod's eviction until another has taken its place [default: 30s].
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    pub(crate) pod_move: Option<SignedDuration>,
    /// From the request of a machine's end to its end [default: as measured here, else 1m].
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    pub(crate) machine_gone: Option<SignedDuration>,
    /// Form of the answer.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,
    /// Where the controller keeps its ledger.
    #[arg(long, value_name = "NAME", value_parser = checked, default_value = names::DEFAULT_NAMESPACE)]
    pub(crate) operator_namespace: String,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
}

/// Beyond this a forecast means nothing.
const TIME_MAX: SignedDuration = SignedDuration::from_hours(24 * 365);

/// A span of time as people write it.
fn time(text: &str) -> Result<SignedDuration, String> {
    match text.parse::<SignedDuration>() {
        Ok(span) if !span.is_negative() && span <= TIME_MAX => Ok(span),
        Ok(span) if span.is_negative() => {
            Err("it is negative; right would be a time such as 90s, 5m or 1h30m".to_owned())
        }
        Ok(_) => Err("the longest time is a year, 8760h".to_owned()),
        Err(_) => Err("right would be a time such as 90s, 5m or 1h30m".to_owned()),
    }
}

#[derive(Args, Debug)]
pub(crate) struct CompletionsOptions {
    /// For which shell.
    pub(crate) shell: Shell,
}
