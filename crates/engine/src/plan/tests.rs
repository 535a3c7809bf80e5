//! Tables for candidates, partitions, waves and late joiners.

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
    assert_eq!(parts(&plan), [vec!["a1", "b1", "a2"], vec!["b2", "a3"]]);
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
    let SortedOut { late, unclear } = sort_out(&sure);
    assert_eq!(unclear, []);
    let names: Vec<&str> = late.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["old-a", "old-b"]);
    for unclear in [
        newcomer("x", unknown(), Observed::NotAsked),
        newcomer("x", image("one"), unknown()),
    ] {
        let unclear = [unclear];
        let found = sort_out(&unclear);
        assert_eq!(found.late, Vec::<&NodeView>::new());
        assert!(found.unclear[0].1.contains("throttled"), "{found:?}");
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
    assert_eq!(parts(&second), [vec!["a"], vec!["b"], vec!["c", "d"]]);
    assert_eq!(second.partitions[2].index, 2);
    assert_ne!(second.plan_version, first.plan_version);
    assert_eq!(extended(&first, &late).unwrap(), second, "deterministic");
    let mut long = first;
    long.partitions = vec![Partition::default(); WAVES_MAX];
    assert_eq!(extended(&long, &late), None);
}

fn named(length: usize, count: usize) -> Vec<NodeView> {
    let name = |number| format!("{number:0>length$}");
    (0..count).map(|number| node(&name(number), "a")).collect()
}

#[test]
fn a_plan_of_twenty_thousand_nodes_with_long_names_can_be_stored() {
    let plan = plan(&NodePatchRunSpec::default(), &named(63, 20_000)).unwrap();
    let stored = serde_json::to_vec(&plan).unwrap().len();
    let (counted, etcd) = (stored_bytes(&plan), 1_572_864);
    assert!(stored < BYTES_MAX && BYTES_MAX < etcd, "{stored}");
    assert!(stored - counted < 1000, "{stored} and {counted}");
    assert_eq!(plan.total(), 20_000);
}

#[test]
fn a_plan_that_cannot_be_stored_is_refused_with_its_size_and_a_way_out() {
    let error = plan(&NodePatchRunSpec::default(), &named(63, 21_000)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("21000 nodes takes 1554000 bytes"), "{text}");
    assert!(text.contains("spec.nodeSelector"), "{text}");
}

#[test]
fn candidates_are_named_with_their_zones_in_plans_that_people_read() {
    let small = plan(&NodePatchRunSpec::default(), &named(63, CANDIDATES_MAX)).unwrap();
    assert_eq!(small.candidates.len(), CANDIDATES_MAX);
    let stored = serde_json::to_vec(&small).unwrap().len();
    assert!(stored - stored_bytes(&small) < 1000);
    let large = plan(&NodePatchRunSpec::default(), &named(63, CANDIDATES_MAX + 1)).unwrap();
    assert_eq!(large.candidates, []);
}

#[test]
fn a_node_is_meant_by_its_name_and_uid_and_a_successor_of_its_name_is_not() {
    let nodes = [node("a1", "a"), node("a2", "a")];
    let spec = NodePatchRunSpec {
        partition_iterations: Some(1),
        ..NodePatchRunSpec::default()
    };
    let plan = plan(&spec, &nodes).unwrap();
    let wave = plan.partitions.first().unwrap();
    let [first, second] = &nodes;
    assert!(is_meant(wave, 0, first) && is_meant(wave, 1, second));
    assert!(!is_meant(wave, 1, first) && !is_meant(wave, 2, second));
    let successor = NodeView {
        uid: "another".to_owned(),
        ..first.clone()
    };
    assert!(!is_meant(wave, 0, &successor));
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

#[test]
fn as_many_partitions_are_made_as_were_asked_for_as_even_as_each_zone_allows() {
    let zones = ["a", "b", "c"];
    let nodes: Vec<NodeView> = zones
        .iter()
        .flat_map(|zone| (1..=4).map(move |number| node(&format!("{zone}{number}"), zone)))
        .collect();
    let spec = NodePatchRunSpec {
        partition_iterations: Some(3),
        ..NodePatchRunSpec::default()
    };
    let planned = plan(&spec, &nodes).unwrap();
    let sizes: Vec<usize> = planned
        .partitions
        .iter()
        .map(|part| part.nodes.len())
        .collect();
    assert_eq!(sizes, [6, 3, 3]);
}
