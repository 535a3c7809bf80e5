//! The command line, as clap sees it.
//!
//! Owns names, defaults and help texts of all commands. Must not act.

mod peer;
mod people;
mod verify;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use shipshape_scenarios::crash;
use shipshape_scenarios::swarm::Seeds;

use crate::connect::ClusterOptions;
use crate::controller::serve::BindAddress;
pub(crate) use peer::PeerOptions;
pub(crate) use people::{
    CompletionsOptions, ExplainOptions, PlanOptions, ReleaseOptions, RetryOptions, RunOptions,
    StatusOptions,
};
pub(crate) use verify::VerifyOptions;

/// Keeps every node of a Kubernetes cluster shipshape.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch an embedded cluster replace its outdated nodes; nothing else is needed.
    Demo(DemoOptions),
    /// Play a scenario, or a run on a copy of your cluster, in virtual time and report what came of it.
    #[command(after_help = people::SIMULATE)]
    Simulate(SimulateOptions),
    /// Run the controllers against a cluster.
    Controller(ControllerOptions),
    #[command(flatten)]
    Node(NodeCommand),
    /// Print the CustomResourceDefinitions of all kinds as YAML.
    Crds,
    /// Show what a run would do to a cluster: order, waves, blockers, time and cost; write nothing.
    #[command(after_help = people::PLAN)]
    Plan(PlanOptions),
    /// Show how all runs stand: how far, what is in work, what it waits for.
    #[command(after_help = people::STATUS)]
    Status(StatusOptions),
    /// Say why a node, a run or a task waits, since when, until when, and what would help.
    #[command(after_help = people::EXPLAIN)]
    Explain(ExplainOptions),
    /// Stop a run from beginning with further nodes.
    #[command(after_help = people::PAUSE)]
    Pause(RunOptions),
    /// Let a paused run go on, and take note of its failures.
    #[command(after_help = people::RESUME)]
    Resume(RunOptions),
    /// End a run for good and put back what it has changed.
    #[command(after_help = people::ABORT)]
    Abort(RunOptions),
    /// Try a parked or failed node again.
    #[command(after_help = people::RETRY)]
    Retry(RetryOptions),
    /// Take the gate's taints off all nodes, and its records and pods away, when the gate is taken away.
    #[command(after_help = people::RELEASE)]
    ReleaseNodes(ReleaseOptions),
    /// Print a script that completes commands and options in a shell.
    #[command(after_help = people::COMPLETIONS)]
    Completions(CompletionsOptions),
}

/// What runs on every node, and should be small there.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Check the network of this node or machine: names, the API server, services.
    #[command(after_help = verify::VERIFY)]
    Verify(Box<VerifyOptions>),
    /// Dial back nodes that are being verified, from a node in service.
    #[command(after_help = peer::PEER)]
    Peer(PeerOptions),
}

/// The same command line with these commands alone.
#[derive(Debug, Parser)]
#[command(name = "shipshape", version, propagate_version = true)]
struct NodeCli {
    #[command(subcommand)]
    command: NodeCommand,
}

impl Command {
    /// What was asked for. On a node the options of all other commands are not even built: they would take memory.
    pub(crate) fn parse() -> Self {
        let first = std::env::args_os().nth(1);
        let is_of_node =
            first.is_some_and(|word| NodeCommand::has_subcommand(&word.to_string_lossy()));
        if is_of_node {
            Self::Node(parsed::<NodeCli>().command)
        } else {
            parsed::<Cli>().command
        }
    }
}

/// The command line and the environment, in which an empty variable is none: charts write it for a value that is not
/// set.
fn parsed<T: CommandFactory + FromArgMatches>() -> T {
    let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
    let heard = |arg: Arg| {
        if arg.get_env().is_some_and(is_empty) {
            arg.env(None::<&'static str>)
        } else {
            arg
        }
    };
    let command = T::command().mut_subcommands(|command| command.mut_args(heard));
    let matches = command.get_matches();
    T::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

#[derive(Args, Debug)]
pub(crate) struct DemoOptions {
    /// How many nodes the cluster has.
    #[arg(long, default_value_t = 9, value_parser = nodes, allow_hyphen_values = true)]
    pub(crate) nodes: u32,
    /// How many seconds pass in the cluster for each second here, or "max".
    #[arg(long, default_value = "20", allow_hyphen_values = true)]
    pub(crate) speed: Speed,
    /// End when the roll is done, with code 0 if it went well.
    #[arg(long)]
    pub(crate) once: bool,
    /// Where to write the kubeconfig; the file goes when the demo ends, and one that somebody else has
    /// written is not touched [default: a file in the temporary directory].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Drives every chance in the cluster; the same seed gives the same story.
    #[arg(long, default_value_t = 1, value_parser = seed, allow_hyphen_values = true)]
    pub(crate) seed: u64,
    /// Form of the summary at the end.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,
}

#[derive(Args, Debug)]
pub(crate) struct SimulateOptions {
    /// The scenario file; docs/scenarios.md documents the format. Without one the story is drawn from
    /// its seed: world, run, events and faults.
    #[arg(value_name = "SCENARIO.yaml")]
    pub(crate) scenario: Option<PathBuf>,
    /// Plays a run on a copy of a live cluster, of which it only reads.
    #[arg(long, conflicts_with = "scenario")]
    pub(crate) from_cluster: bool,
    /// The NodePatchRun to rehearse; - reads standard input [default: one that replaces all nodes].
    #[arg(
        short,
        long,
        value_name = "RUN.yaml",
        requires = "from_cluster",
        conflicts_with = "scenario"
    )]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: ClusterOptions,
    /// Drives every chance; the same seed gives the same story.
    #[arg(
        long,
        default_value_t = 1,
        value_parser = seed,
        allow_hyphen_values = true,
        conflicts_with = "seeds"
    )]
    pub(crate) seed: u64,
    /// A range of seeds, from A up to but without B; each is played once.
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    pub(crate) seeds: Option<Seeds>,
    /// Make one thing go wrong: an effect of the operator and a moment, as in
    /// 'patch nodes#3:before', "all" of them, one play each, or a part of these such as 1/3.
    #[arg(long, value_name = "EFFECT#NUMBER:MOMENT", requires = "scenario", conflicts_with_all = ["seeds", "seed", "timeline", "from_cluster"])]
    pub(crate) crash: Option<crash::Choice>,
    /// Form of the report.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,
    /// Draws one row a node and one colour a step into this file.
    #[arg(
        long,
        value_name = "FILE.svg",
        requires = "scenario",
        conflicts_with = "seeds"
    )]
    pub(crate) timeline: Option<PathBuf>,
    /// Logs what the operator does, with the seconds of the played world; off, info, debug and so on.
    #[arg(long, value_name = "LEVEL", default_value = "off")]
    pub(crate) log_level: String,
}

impl SimulateOptions {
    /// Says which option would change nothing beside the others, and what would be right.
    pub(crate) fn in_vain(&self) -> Option<String> {
        let ClusterOptions {
            kubeconfig,
            context,
            namespace,
        } = &self.cluster;
        let of_cluster = [
            ("--kubeconfig", kubeconfig.is_some()),
            ("--context", context.is_some()),
            ("--namespace", namespace.is_some()),
        ];
        let given = of_cluster.into_iter().find(|(_, is_given)| *is_given);
        if let Some((name, _)) = given.filter(|_| !self.from_cluster) {
            return Some(format!(
                "{name} has no effect without --from-cluster: no cluster is asked"
            ));
        }
        if self.output == Format::Text {
            return None;
        }
        let is_drawn = self.scenario.is_none() && !self.from_cluster;
        if is_drawn && self.seeds.is_some() {
            return Some(
                "--output json has no effect on many drawn stories, which end in one figure; right would \
                 be --seed N"
                    .to_owned(),
            );
        }
        matches!(self.crash, Some(crash::Choice::Every(_))).then(|| {
            "--output json has no effect on many plays, which end in one figure; right would be --crash \
             'EFFECT#NUMBER:MOMENT'"
                .to_owned()
        })
    }
}

#[derive(Args, Debug)]
pub(crate) struct ControllerOptions {
    /// How to reach the cluster [default: KUBECONFIG, then the pod's own service account].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Settings; docs/controller.md documents the keys.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where /metrics is served; 0 means nowhere [default: metrics of the configuration, then :8080].
    #[arg(long, value_name = "[HOST]:PORT")]
    pub(crate) metrics_bind_address: Option<BindAddress>,
    /// Where /healthz and /readyz are served; 0 means nowhere [default: health of the configuration, then :8081].
    #[arg(long, value_name = "[HOST]:PORT")]
    pub(crate) health_probe_bind_address: Option<BindAddress>,
    /// Whether a lease decides who works [default: leaderElection.enabled of the configuration].
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(crate) leader_elect: Option<bool>,
    /// Name of that lease [default: leaderElection.id of the configuration].
    #[arg(long, value_name = "NAME", value_parser = crate::config::lease_name)]
    pub(crate) leader_election_id: Option<String>,
    /// Its namespace [default: leaderElection.namespace of the configuration].
    #[arg(long, value_name = "NAME", value_parser = crate::namespace::checked)]
    pub(crate) leader_election_namespace: Option<String>,
    /// Form of the logs [default: logging.format of the configuration, then json].
    #[arg(long, value_enum)]
    pub(crate) log_format: Option<LogFormat>,
    /// Least important level that is logged [default: logging.level of the configuration, then info].
    #[arg(long, env = "SHIPSHAPE_LOG")]
    pub(crate) log_level: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For machines.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Console,
}

/// More nodes than fit a screen many times over.
const DEMO_NODES_MAX: u32 = 500;

fn nodes(text: &str) -> Result<u32, String> {
    let nodes = text.parse().ok();
    nodes
        .filter(|nodes| (1..=DEMO_NODES_MAX).contains(nodes))
        .ok_or_else(|| format!("right would be a whole number from 1 to {DEMO_NODES_MAX}"))
}

fn seed(text: &str) -> Result<u64, String> {
    let wrong = |_| format!("right would be a whole number from 0 to {}", u64::MAX);
    text.parse().map_err(wrong)
}

/// A demo slower than this would look like one that hangs.
const SLOWEST: f64 = 0.1;
/// Beyond this one nap is longer than most steps take.
const FASTEST: f64 = 10_000.0;

/// How fast time passes in the demo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// So many times faster than here.
    Times(f64),
    /// As fast as the machine can.
    Max,
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.trim_end_matches('x').parse::<f64>() {
            Ok(times) if (SLOWEST..=FASTEST).contains(&times) => Ok(Self::Times(times)),
            _ => Err(format!(
                "{text:?} is neither \"max\" nor a number from {SLOWEST} to {FASTEST}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_beside_a_scenario_and_a_crash_on_a_copy_are_refused() {
        for words in [
            "simulate roll.yaml -f run.yaml",
            "simulate --from-cluster --crash all",
        ] {
            let complaint = complaint(words);
            assert!(complaint.contains("cannot be used with"), "{complaint}");
        }
        let fine = "shipshape simulate --from-cluster --timeline x.svg -f run.yaml";
        assert!(Cli::try_parse_from(fine.split(' ')).is_ok());
    }

    #[test]
    fn options_without_effect_are_refused() {
        let table = [
            (
                "simulate roll.yaml --kubeconfig x",
                "--kubeconfig has no effect without --from-cluster",
            ),
            (
                "simulate --seed 3 --context x",
                "--context has no effect without --from-cluster",
            ),
            (
                "simulate --seed 3 -n x",
                "--namespace has no effect without --from-cluster",
            ),
            (
                "simulate --seeds 1..3 -o json",
                "--output json has no effect on many drawn stories",
            ),
            (
                "simulate roll.yaml --crash 1/3 -o json",
                "--output json has no effect on many plays",
            ),
            (
                "simulate --from-cluster --kubeconfig x -n y -o json --seeds 1..3",
                "",
            ),
            ("simulate roll.yaml --seeds 1..3 -o json", ""),
            ("simulate roll.yaml --crash a#1:before -o json", ""),
        ];
        for (words, expected) in table {
            let words = std::iter::once("shipshape").chain(words.split(' '));
            let Command::Simulate(options) = Cli::try_parse_from(words).unwrap().command else {
                panic!("another command");
            };
            let complaint = options.in_vain().unwrap_or_default();
            assert!(complaint.starts_with(expected), "{complaint}");
            assert_eq!(complaint.is_empty(), expected.is_empty(), "{complaint}");
        }
    }

    fn complaint(words: &str) -> String {
        let words = std::iter::once("shipshape").chain(words.split(' '));
        match Cli::try_parse_from(words) {
            Ok(cli) => panic!("taken: {cli:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_number_below_zero_is_told_what_would_be_right() {
        let table = [
            (
                "plan -f x --machine-ready -5m",
                "it is negative; right would be a time such as 90s",
            ),
            (
                "plan -f x --pod-move -1s",
                "it is negative; right would be a time such as 90s",
            ),
            (
                "plan -f x --machine-gone -1",
                "right would be a time such as 90s",
            ),
            (
                "plan -f x --machine-ready 1000000h",
                "the longest time is a year",
            ),
            (
                "status --watch --every -1s",
                "it is negative; right would be a time such as 90s",
            ),
            (
                "demo --nodes -3",
                "right would be a whole number from 1 to 500",
            ),
            (
                "demo --nodes many",
                "right would be a whole number from 1 to 500",
            ),
            (
                "demo --speed -2",
                "is neither \"max\" nor a number from 0.1 to 10000",
            ),
            (
                "demo --seed -1",
                "right would be a whole number from 0 to 18446744073709551615",
            ),
            (
                "simulate --seed -1",
                "right would be a whole number from 0 to 18446744073709551615",
            ),
            ("simulate --seeds -1..5", "is not of the form A..B"),
        ];
        for (words, expected) in table {
            let complaint = complaint(words);
            let value = words.rsplit(' ').next().unwrap();
            let named = format!("invalid value '{value}' for '--");
            assert!(complaint.contains(&named), "{words}\n{complaint}");
            assert!(complaint.contains(expected), "{words}\n{complaint}");
        }
    }

    #[test]
    fn speed_has_bounds_and_a_sentence_for_the_rest() {
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert_eq!("20x".parse(), Ok(Speed::Times(20.0)));
        assert_eq!("0.1".parse(), Ok(Speed::Times(0.1)));
        for wrong in [
            "0", "-1", "1e-300", "0.09", "10001", "inf", "NaN", "", "fast",
        ] {
            let complaint = wrong.parse::<Speed>().unwrap_err();
            assert!(complaint.ends_with("from 0.1 to 10000"), "{complaint}");
        }
    }
}
