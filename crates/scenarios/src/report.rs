//! What came of a scenario, for people and for machines.
//!
//! Owns the shape of the report; `docs/scenarios.md` documents it. Must not compute anything.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How a scenario ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Every intent came to its end.
    #[default]
    Converged,
    /// Time ran out before that.
    Stalled,
    /// An invariant was broken, whatever else happened.
    Violated,
}

/// The report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Name of the scenario.
    pub scenario: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What was expected and did not come about; empty when all did.
    pub unmet: Vec<String>,
    /// What others have brought into the cluster and the story is not judged by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_aside: Vec<String>,
    /// The seed it was played with.
    pub seed: u64,
    /// Seconds that passed in the world, from the intents to the end.
    pub virtual_seconds: f64,
    /// Seconds that passed outside meanwhile.
    pub wall_seconds: f64,
    /// Nodes.
    pub nodes: NodeCount,
    /// Pods.
    pub pods: PodCount,
    /// Evictions.
    pub evictions: EvictionCount,
    /// Requests of the operator to the API.
    pub requests: RequestCount,
    /// Broken invariants.
    pub violations: Vec<Violation>,
    /// Hash of everything that happened: the same for the same seed.
    pub trace_hash: String,
}

/// Nodes by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeCount {
    /// Nodes that runs set out to replace.
    pub total: usize,
    /// Replaced.
    pub replaced: usize,
    /// Gone by themselves before their replacement began.
    pub left: usize,
    /// Whose task failed.
    pub failed: usize,
    /// Set aside for later.
    pub parked: usize,
    /// Machines that were made in place of others.
    pub made: usize,
}

/// Pods by how often they had to move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodCount {
    /// Pods that were there at the end, without those of DaemonSets.
    pub total: usize,
    /// Pods that were evicted.
    pub evicted: usize,
    /// Most evictions in the life of one replica.
    pub max_moves: usize,
    /// Mean evictions in the life of a replica.
    pub mean_moves: f64,
}

/// Eviction calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EvictionCount {
    /// All.
    pub calls: usize,
    /// Refused by a budget.
    pub refused: usize,
}

/// Requests of the operator, without the renewals of its leader's lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestCount {
    /// All.
    pub total: usize,
    /// Those that change something.
    pub writes: usize,
    /// Writes by replaced nodes.
    pub writes_per_node: f64,
    /// Writes by what they are, for example `patch nodes` or `create pods/eviction`.
    pub writes_by_kind: BTreeMap<String, usize>,
}

/// One broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which, for example `I6`.
    pub invariant: &'static str,
    /// When.
    pub at: Timestamp,
    /// What happened.
    pub text: String,
}

impl Report {
    /// Whether everything came about as expected.
    pub fn is_as_expected(&self) -> bool {
        self.unmet.is_empty()
    }

    /// Everything that is wrong, a sentence each.
    pub fn complaints(&self) -> Vec<String> {
        let broken = self.violations.iter();
        let broken = broken.map(|one| format!("{}: {}", one.invariant, one.text));
        broken.chain(self.unmet.iter().cloned()).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "{}  seed {}  {:?}",
            self.scenario, self.seed, self.outcome
        )?;
        let NodeCount {
            total,
            replaced,
            left,
            failed,
            parked,
            made: _,
        } = self.nodes;
        let gone = match left {
            0 => String::new(),
            _ => format!(", {left} had left"),
        };
        writeln!(
            formatter,
            "  nodes      {replaced} of {total} replaced, {failed} failed, {parked} parked{gone}"
        )?;
        let pods = self.pods;
        writeln!(
            formatter,
            "  pods       {} at the end, {} evicted, a replica moved {:.2} times on average, {} at most",
            pods.total, pods.evicted, pods.mean_moves, pods.max_moves
        )?;
        let EvictionCount { calls, refused } = self.evictions;
        writeln!(
            formatter,
            "  evictions  {calls} calls, {refused} refused by a budget"
        )?;
        let requests = &self.requests;
        // Nothing was replaced: there is nothing to share the writes among.
        let each = match self.nodes.replaced {
            0 => String::new(),
            _ => format!(", {:.1} writes per replaced node", requests.writes_per_node),
        };
        writeln!(
            formatter,
            "  requests   {} by the operator, {} writes{each}",
            requests.total, requests.writes
        )?;
        let kinds: Vec<String> = requests
            .writes_by_kind
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        writeln!(formatter, "  writes     {}", kinds.join(", "))?;
        let speed = self.virtual_seconds / self.wall_seconds.max(f64::EPSILON);
        writeln!(
            formatter,
            "  time       {:.0} s in the cluster, {:.2} s here ({speed:.0} times faster)",
            self.virtual_seconds, self.wall_seconds
        )?;
        writeln!(formatter, "  trace      {}", self.trace_hash)?;
        for guest in &self.left_aside {
            writeln!(formatter, "  LEFT ASIDE {guest}")?;
        }
        for violation in &self.violations {
            writeln!(
                formatter,
                "  VIOLATED {} at {}: {}",
                violation.invariant, violation.at, violation.text
            )?;
        }
        for unmet in &self.unmet {
            writeln!(formatter, "  UNMET {unmet}")?;
        }
        Ok(())
    }
}
