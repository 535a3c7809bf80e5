//! The plan of a run: which nodes, in which partitions, in which order.
//!
//! Owns candidate selection, the split into partitions, and the wave of those who join late. Must not
//! look at progress: the same nodes and spec give the same plan. Called by `run` when a run has no plan
//! yet, and when every node of the plan has had its turn.

use std::collections::{BTreeMap, BTreeSet};

use shipshape_api::node_patch_run::{
    CANDIDATES_MAX, Candidate, NodePatchRunSpec, Partition, RunPlan, UID_DIGITS, Wave,
};

use crate::closing;
use crate::ledger::Role;
use crate::machine::ImageId;
use crate::naming::hex;
use crate::selector::{self, UnknownOperator};
use crate::view::{NodeView, Observed};

/// Digits of `planVersion`.
const VERSION_DIGITS: usize = 16;
/// Most waves of a plan, as its schema says.
const WAVES_MAX: usize = 100;

/// Most bytes of a stored plan. etcd takes objects of 1.5 MiB; the rest is for all else that a run
/// says. Twenty thousand nodes with names of 63 characters fit.
pub const BYTES_MAX: usize = 1_500_000;

/// Why there can be no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A selector that cannot be read.
    #[error("spec.nodeSelector: {0}")]
    Selector(#[from] UnknownOperator),
    /// More nodes than one object can name.
    #[error(
        "the plan of {nodes} nodes takes {bytes} bytes, and a run can store {BYTES_MAX}; \
         choose fewer nodes by spec.nodeSelector and make a run for each part"
    )]
    TooLarge {
        /// Nodes that the run takes.
        nodes: usize,
        /// What their plan would take.
        bytes: usize,
    },
}

/// Makes the plan for these nodes.
pub fn plan(spec: &NodePatchRunSpec, nodes: &[NodeView]) -> Result<RunPlan, PlanError> {
    let mut zones: BTreeMap<&str, Vec<&NodeView>> = BTreeMap::new();
    for node in nodes {
        if is_candidate(spec, node)? {
            zones.entry(&node.zone).or_default().push(node);
        }
    }
    for members in zones.values_mut() {
        members.sort_by(|left, right| left.name.cmp(&right.name));
    }
    let control_planes = control_planes(&mut zones);
    let canaries = canaries(spec, &mut zones);
    let mut waves = vec![
        (Some(Wave::ControlPlanes), control_planes.clone()),
        (Some(Wave::Canaries), canaries.clone()),
    ];
    let shares = shares(&zones, spec.partition_iterations());
    waves.extend(shares.into_iter().map(|nodes| (None, nodes)));
    waves.retain(|(_, nodes)| !nodes.is_empty());
    let all = || {
        let first = control_planes.iter().chain(&canaries);
        first.chain(zones.values().flatten()).copied()
    };
    let plan = RunPlan {
        plan_version: version(all()),
        closed: closing::closed(spec, all().count(), nodes.len()),
        partitions: (0i32..)
            .zip(waves)
            .map(|(index, (wave, nodes))| partition(index, wave, &nodes))
            .collect(),
        candidates: match all().count() {
            ..=CANDIDATES_MAX => all().map(candidate).collect(),
            _ => Vec::new(),
        },
    };
    match stored_bytes(&plan) {
        ..=BYTES_MAX => Ok(plan),
        bytes => Err(PlanError::TooLarge {
            nodes: plan.total(),
            bytes,
        }),
    }
}

/// Whether this node is the one that the plan has at a place, and not another of its name.
pub fn is_meant(partition: &Partition, place: usize, node: &NodeView) -> bool {
    partition.nodes.get(place) == Some(&node.name)
        && partition.digits(place) == Some(digits(node).as_str())
}

fn candidate(node: &NodeView) -> Candidate {
    Candidate {
        name: node.name.clone(),
        zone: node.zone.clone(),
    }
}

fn digits(node: &NodeView) -> String {
    hex(&[&node.uid], UID_DIGITS)
}

/// What the lists of a plan take as JSON. Names need no escapes.
fn stored_bytes(plan: &RunPlan) -> usize {
    const QUOTED: usize = r#""","#.len();
    const CANDIDATE: usize = r#"{"name":"","zone":""},"#.len();
    let candidates = plan.candidates.iter();
    let candidates = candidates.map(|one| one.name.len() + one.zone.len() + CANDIDATE);
    let nodes = plan.partitions.iter().flat_map(|part| &part.nodes);
    let nodes = nodes.map(|name| name.len() + QUOTED + UID_DIGITS);
    candidates.chain(nodes).sum()
}

/// The wave that a partition of the plan is, if its nodes are set apart.
pub fn wave_at(plan: &RunPlan, iteration: i32) -> Option<Wave> {
    let index = usize::try_from(iteration).ok()?;
    plan.partitions.get(index)?.wave
}

/// Whether the run takes this node.
pub fn is_candidate(spec: &NodePatchRunSpec, node: &NodeView) -> Result<bool, UnknownOperator> {
    if node.deleting || (spec.exclude_control_plane() && node.role() == Role::ControlPlane) {
        return Ok(false);
    }
    if let Some(wanted) = &spec.node_selector
        && !selector::matches(wanted, &node.labels)?
    {
        return Ok(false);
    }
    match &spec.exclude_node_selector {
        Some(unwanted) => Ok(!selector::matches(unwanted, &node.labels)?),
        None => Ok(true),
    }
}

/// Takes the control planes out of the zones.
fn control_planes<'a>(zones: &mut BTreeMap<&str, Vec<&'a NodeView>>) -> Vec<&'a NodeView> {
    let is_one = |node: &mut &NodeView| node.role() == Role::ControlPlane;
    let zones = zones.values_mut();
    zones
        .flat_map(|members| members.extract_if(.., is_one).collect::<Vec<_>>())
        .collect()
}

/// A node that the run's selectors take and that its plan does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct Newcomer {
    /// The node.
    pub node: NodeView,
    /// The image of its machine; absent when there is no machine.
    pub image: Observed<ImageId>,
    /// The image that its group launches now; absent when there is no group.
    pub wanted: Observed<ImageId>,
}

/// What was found out about newcomers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SortedOut<'a> {
    /// Those that run another image than their group launches.
    pub late: Vec<&'a NodeView>,
    /// Those of which nobody can tell, and why.
    pub unclear: Vec<(&'a NodeView, String)>,
}

/// Looks for newcomers that run another image than their group launches, sorted. One that is not surely outdated is
/// not taken. Control planes are left to the next run, where they go first.
pub fn sort_out(newcomers: &[Newcomer]) -> SortedOut<'_> {
    let mut found = SortedOut::default();
    let workers = newcomers
        .iter()
        .filter(|one| one.node.role() == Role::Worker);
    for one in workers {
        match (&one.image, &one.wanted) {
            (Observed::Present(image), Observed::Present(wanted)) => {
                if image != wanted {
                    found.late.push(&one.node);
                }
            }
            (Observed::Absent, _) | (_, Observed::Absent) => {}
            (Observed::Unknown(why), _) | (_, Observed::Unknown(why)) => {
                found.unclear.push((&one.node, why.clone()));
            }
            (Observed::NotAsked, _) | (_, Observed::NotAsked) => {
                found
                    .unclear
                    .push((&one.node, "nobody has looked".to_owned()));
            }
        }
    }
    found
        .late
        .sort_by(|left, right| (&left.zone, &left.name).cmp(&(&right.zone, &right.name)));
    found
        .unclear
        .sort_by(|(left, _), (right, _)| left.name.cmp(&right.name));
    found
}

/// The plan with one more wave, of nodes that joined late; `None` when it can have no more.
pub fn extended(plan: &RunPlan, late: &[&NodeView]) -> Option<RunPlan> {
    if plan.partitions.len() >= WAVES_MAX {
        return None;
    }
    let mut plan = plan.clone();
    let index = i32::try_from(plan.partitions.len()).unwrap_or(i32::MAX);
    plan.partitions.push(partition(index, None, late));
    match plan.total() {
        ..=CANDIDATES_MAX => plan.candidates.extend(late.iter().copied().map(candidate)),
        _ => plan.candidates.clear(),
    }
    let late = version(late.iter().copied());
    plan.plan_version = hex(&[&plan.plan_version, &late], VERSION_DIGITS);
    (stored_bytes(&plan) <= BYTES_MAX).then_some(plan)
}

/// Names and digits of all nodes that a plan means.
pub fn meant(plan: &RunPlan) -> BTreeSet<(&str, &str)> {
    let waves = plan.partitions.iter();
    waves
        .flat_map(|wave| {
            let places = wave.nodes.iter().enumerate();
            places.filter_map(|(place, name)| Some((name.as_str(), wave.digits(place)?)))
        })
        .collect()
}

/// Whether a node is among those that [`meant`] gave.
pub fn is_among(meant: &BTreeSet<(&str, &str)>, node: &NodeView) -> bool {
    meant.contains(&(node.name.as_str(), digits(node).as_str()))
}

/// Takes the canary nodes out of the zones, from each in turn.
fn canaries<'a>(
    spec: &NodePatchRunSpec,
    zones: &mut BTreeMap<&str, Vec<&'a NodeView>>,
) -> Vec<&'a NodeView> {
    let wanted = spec.canary.as_ref().map_or(0, |canary| canary.nodes);
    let wanted = usize::try_from(wanted).unwrap_or_default();
    let mut taken = Vec::new();
    while taken.len() < wanted && zones.values().any(|members| !members.is_empty()) {
        for members in zones.values_mut() {
            if taken.len() < wanted && !members.is_empty() {
                taken.push(members.remove(0));
            }
        }
    }
    taken
}

/// Every zone split evenly, so that each share holds nodes of all zones and a bad image shows before it
/// has reached the whole of any one zone. Within a share the zones take turns, so that a limit by zone
/// holds nobody up whose zone has room.
fn shares<'a>(zones: &BTreeMap<&str, Vec<&'a NodeView>>, count: i32) -> Vec<Vec<&'a NodeView>> {
    let count = usize::try_from(count).unwrap_or(1).max(1);
    let mut parts: Vec<Vec<&'a NodeView>> = vec![Vec::new(); count];
    let longest = zones.values().map(Vec::len).max().unwrap_or_default();
    let turns = (0..longest).flat_map(|position| {
        let there = zones
            .values()
            .filter(move |members| position < members.len());
        there.map(move |members| (position, members))
    });
    for (position, members) in turns {
        let part = parts.get_mut(position * count / members.len());
        if let (Some(part), Some(node)) = (part, members.get(position)) {
            part.push(node);
        }
    }
    parts
}

/// One part of the plan.
pub fn partition(index: i32, wave: Option<Wave>, nodes: &[&NodeView]) -> Partition {
    Partition {
        index,
        wave,
        nodes: nodes.iter().map(|node| node.name.clone()).collect(),
        uids: nodes.iter().map(|node| digits(node)).collect(),
    }
}

fn version<'a>(nodes: impl Iterator<Item = &'a NodeView>) -> String {
    let parts: Vec<&str> = nodes
        .flat_map(|one| [one.zone.as_str(), one.name.as_str(), one.uid.as_str()])
        .collect();
    hex(&parts, VERSION_DIGITS)
}

#[cfg(test)]
mod tests;
