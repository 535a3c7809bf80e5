//! The plan of a run: which nodes, in which partitions, in which order.
//!
//! Owns candidate selection, the split into partitions, and the wave of those who join late. Must not
//! look at progress: the same nodes and spec give the same plan. Called by `run` when a run has no plan
//! yet, and when every node of the plan has had its turn.

use std::collections::BTreeMap;

use shipshape_api::node_patch_run::{Candidate, NodePatchRunSpec, Partition, RunPlan, Wave};

use crate::ledger::Role;
use crate::machine::ImageId;
use crate::naming::hex;
use crate::selector::{self, UnknownOperator};
use crate::view::{NodeView, Observed};

/// Digits of `planVersion`.
const VERSION_DIGITS: usize = 16;
/// Most waves of a plan, as its schema says.
const WAVES_MAX: usize = 100;

/// Makes the plan for these nodes.
pub fn plan(spec: &NodePatchRunSpec, nodes: &[NodeView]) -> Result<RunPlan, UnknownOperator> {
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
    let candidates: Vec<Candidate> = control_planes
        .iter()
        .chain(&canaries)
        .chain(zones.values().flatten())
        .map(|node| candidate(node))
        .collect();
    let mut waves = vec![
        (Some(Wave::ControlPlanes), names(&control_planes)),
        (Some(Wave::Canaries), names(&canaries)),
    ];
    let shares = shares(&zones, spec.partition_iterations());
    waves.extend(shares.into_iter().map(|nodes| (None, nodes)));
    waves.retain(|(_, nodes)| !nodes.is_empty());
    Ok(RunPlan {
        plan_version: version(&candidates),
        partitions: (0i32..)
            .zip(waves)
            .map(|(index, (wave, nodes))| Partition { index, wave, nodes })
            .collect(),
        candidates,
    })
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

fn names(nodes: &[&NodeView]) -> Vec<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
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

/// Those of the newcomers that run another image than their group launches, sorted. One that is not
/// surely outdated is not taken; without a clear answer nobody can tell, and the text says why. Control
/// planes are left to the next run, where they go first.
pub fn outdated(newcomers: &[Newcomer]) -> Result<Vec<&NodeView>, String> {
    let mut late = Vec::new();
    let workers = newcomers
        .iter()
        .filter(|one| one.node.role() == Role::Worker);
    for one in workers {
        match (&one.image, &one.wanted) {
            (Observed::Present(image), Observed::Present(wanted)) => {
                if image != wanted {
                    late.push(&one.node);
                }
            }
            (Observed::Absent, _) | (_, Observed::Absent) => {}
            (Observed::Unknown(why), _) | (_, Observed::Unknown(why)) => {
                return Err(format!("node {}: {why}", one.node.name));
            }
            (Observed::NotAsked, _) | (_, Observed::NotAsked) => {
                return Err(format!("node {}: nobody has looked", one.node.name));
            }
        }
    }
    late.sort_by(|left, right| (&left.zone, &left.name).cmp(&(&right.zone, &right.name)));
    Ok(late)
}

/// The plan with one more wave, of nodes that joined late; `None` when it can have no more.
pub fn extended(plan: &RunPlan, late: &[&NodeView]) -> Option<RunPlan> {
    if plan.partitions.len() >= WAVES_MAX {
        return None;
    }
    let mut plan = plan.clone();
    plan.candidates
        .extend(late.iter().map(|node| candidate(node)));
    plan.plan_version = version(&plan.candidates);
    plan.partitions.push(Partition {
        index: i32::try_from(plan.partitions.len()).unwrap_or(i32::MAX),
        wave: None,
        nodes: names(late),
    });
    Some(plan)
}

fn candidate(node: &NodeView) -> Candidate {
    Candidate {
        name: node.name.clone(),
        zone: node.zone.clone(),
        uid: node.uid.clone(),
    }
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
/// has reached the whole of any one zone.
fn shares(zones: &BTreeMap<&str, Vec<&NodeView>>, count: i32) -> Vec<Vec<String>> {
    let count = usize::try_from(count).unwrap_or(1).max(1);
    let mut parts: Vec<Vec<String>> = vec![Vec::new(); count];
    for members in zones.values() {
        let share = members.len().div_ceil(count).max(1);
        for (position, node) in members.iter().enumerate() {
            if let Some(part) = parts.get_mut((position / share).min(count - 1)) {
                part.push(node.name.clone());
            }
        }
    }
    parts
}

fn version(candidates: &[Candidate]) -> String {
    let parts: Vec<&str> = candidates
        .iter()
        .flat_map(|one| [one.zone.as_str(), one.name.as_str(), one.uid.as_str()])
        .collect();
    hex(&parts, VERSION_DIGITS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shipshape_api::node_patch_run::Canary;

    use super::*;

    fn node(name: &str, zone: &str) -> NodeView {
        NodeView {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            zone: zone.to_owned(),
            ..NodeView::default()
        }
    }

    fn control_plane(name: &str, zone: &str) -> NodeView {
        let labels = [(
            "node-role.kubernetes.io/control-plane".to_owned(),
            String::new(),
        )];
        NodeView {
            labels: labels.into(),
            ..node(name, zone)
        }
    }

    fn parts(plan: &RunPlan) -> Vec<Vec<&str>> {
        plan.partitions
            .iter()
            .map(|part| part.nodes.iter().map(String::as_str).collect())
            .collect()
    }

    #[test]
    fn every_partition_mixes_the_zones() {
        let nodes = [
            node("a1", "a"),
            node("a2", "a"),
            node("a3", "a"),
            node("b1", "b"),
            node("b2", "b"),
        ];
        let plan = plan(&NodePatchRunSpec::default(), &nodes).unwrap();
        assert_eq!(parts(&plan), [vec!["a1", "a2", "b1"], vec!["a3", "b2"]]);
    }

    #[test]
    fn control_planes_and_leaving_nodes_are_left_out() {
        let leaving = NodeView {
            deleting: true,
            ..node("gone", "a")
        };
        let plan = plan(
            &NodePatchRunSpec::default(),
            &[control_plane("cp", "a"), leaving, node("w", "a")],
        )
        .unwrap();
        assert_eq!(parts(&plan), [vec!["w"]]);
    }

    #[test]
    fn control_planes_come_first_then_canaries_then_the_others() {
        let nodes = [
            node("a1", "a"),
            control_plane("cp-b", "b"),
            control_plane("cp-a", "a"),
            node("b1", "b"),
            node("b2", "b"),
        ];
        let spec = NodePatchRunSpec {
            exclude_control_plane: Some(false),
            canary: Some(Canary {
                nodes: 1,
                soak: None,
            }),
            partition_iterations: Some(1),
            ..NodePatchRunSpec::default()
        };
        let plan = plan(&spec, &nodes).unwrap();
        let wanted = [vec!["cp-a", "cp-b"], vec!["a1"], vec!["b1", "b2"]];
        assert_eq!(parts(&plan), wanted);
        let waves = [0, 1, 2, 3].map(|index| wave_at(&plan, index));
        let named = [Some(Wave::ControlPlanes), Some(Wave::Canaries), None, None];
        assert_eq!(waves, named);
        assert_eq!(plan.candidates[0].name, "cp-a");
    }

    fn newcomer(name: &str, image: Observed<ImageId>, wanted: Observed<ImageId>) -> Newcomer {
        Newcomer {
            node: node(name, "z"),
            image,
            wanted,
        }
    }

    #[test]
    fn only_newcomers_that_are_surely_outdated_are_taken() {
        let image = |id: &str| Observed::Present(ImageId::from(id));
        let unknown = || Observed::Unknown("throttled".to_owned());
        let sure = [
            newcomer("old-b", image("one"), image("two")),
            newcomer("old-a", image("one"), image("two")),
            newcomer("new", image("two"), image("two")),
            newcomer("no-machine", Observed::Absent, Observed::NotAsked),
            newcomer("no-group", image("one"), Observed::Absent),
        ];
        let late = outdated(&sure).unwrap();
        let names: Vec<&str> = late.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["old-a", "old-b"]);
        for unclear in [
            newcomer("x", unknown(), Observed::NotAsked),
            newcomer("x", image("one"), unknown()),
        ] {
            let why = outdated(&[unclear]).unwrap_err();
            assert!(why.contains("throttled"), "{why}");
        }
    }

    #[test]
    fn a_plan_grows_by_one_wave_and_gets_another_version() {
        let first = plan(
            &NodePatchRunSpec::default(),
            &[node("a", "z"), node("b", "z")],
        )
        .unwrap();
        let late = [node("c", "y"), node("d", "z")];
        let late: Vec<&NodeView> = late.iter().collect();
        let second = extended(&first, &late).unwrap();
        assert_eq!(names(&second), [vec!["a"], vec!["b"], vec!["c", "d"]]);
        assert_eq!(second.partitions[2].index, 2);
        assert_ne!(second.plan_version, first.plan_version);
        assert_eq!(extended(&first, &late).unwrap(), second, "deterministic");
        let mut long = first;
        long.partitions = vec![Partition::default(); WAVES_MAX];
        assert_eq!(extended(&long, &late), None);
    }

    proptest! {
        #[test]
        fn every_candidate_is_in_exactly_one_partition(
            sizes in proptest::collection::vec(0usize..9, 1..5),
            iterations in 1i32..6,
        ) {
            let nodes: Vec<NodeView> = sizes
                .iter()
                .enumerate()
                .flat_map(|(zone, size)| {
                    (0..*size).map(move |index| node(&format!("n{zone}-{index}"), &format!("z{zone}")))
                })
                .collect();
            let spec =
                NodePatchRunSpec { partition_iterations: Some(iterations), ..NodePatchRunSpec::default() };
            let plan = plan(&spec, &nodes).unwrap();
            let mut placed: Vec<String> =
                plan.partitions.iter().flat_map(|part| part.nodes.clone()).collect();
            placed.sort();
            let mut all: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
            all.sort();
            prop_assert_eq!(placed, all);
            prop_assert!(plan.partitions.len() <= usize::try_from(iterations).unwrap());
        }

        #[test]
        fn order_of_the_nodes_does_not_change_the_plan(seed in 0usize..24) {
            let mut nodes = vec![node("a", "z"), node("b", "z"), node("c", "y"), node("d", "x")];
            let first = plan(&NodePatchRunSpec::default(), &nodes).unwrap();
            nodes.rotate_left(seed % 4);
            nodes.swap(seed % 3, 3);
            prop_assert_eq!(first, plan(&NodePatchRunSpec::default(), &nodes).unwrap());
        }
    }
}
