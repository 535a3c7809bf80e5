//! Every file of `scenarios/` plays as it says it will, and the same seed tells the same story.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use shipshape_scenarios::story::play_on;
use shipshape_scenarios::{Report, Scenario, Stage, play};
use shipshape_simulator::world::World;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn virtual_time() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

fn played(scenario: &Scenario, seed: u64) -> Report {
    let played = virtual_time().block_on(play(scenario, seed));
    played.unwrap().report
}

/// One test a file, named as the file is.
macro_rules! stories {
    ($($name:ident: $file:literal,)*) => {
        $(
            #[test]
            fn $name() {
                let scenario = Scenario::load(&folder().join($file)).unwrap();
                let report = played(&scenario, 1);
                assert!(report.is_as_expected(), "{report}");
            }
        )*

        const FILES: &[&str] = &[$($file),*];
    };
}

stories! {
    aside_long_paused: "aside-long-paused.yaml",
    aside_next_run: "aside-next-run.yaml",
    aside_node_gone: "aside-node-gone.yaml",
    aside_run_removed: "aside-run-removed.yaml",
    autoscaler: "autoscaler.yaml",
    autoscaler_scale_down: "autoscaler-scale-down.yaml",
    autoscaler_scale_down_late: "autoscaler-scale-down-late.yaml",
    bare_pod: "bare-pod.yaml",
    brought_node_down: "brought-node-down.yaml",
    broken_image: "broken-image.yaml",
    call_off: "call-off.yaml",
    called_off_aside: "called-off-aside.yaml",
    canary_lost_place: "canary-lost-place.yaml",
    canary_set_aside: "canary-set-aside.yaml",
    closed_nodes: "closed-nodes.yaml",
    closed_undone: "closed-undone.yaml",
    cloud_read_lag: "cloud-read-lag.yaml",
    control_planes: "control-planes.yaml",
    control_planes_terminate_first: "control-planes-terminate-first.yaml",
    sick_member: "sick-member.yaml",
    created_paused: "created-paused.yaml",
    foreign_cordon: "foreign-cordon.yaml",
    full_group: "full-group.yaml",
    full_group_broken_image: "full-group-broken-image.yaml",
    full_zone: "full-zone.yaml",
    full_zone_recovers: "full-zone-recovers.yaml",
    gates: "gates.yaml",
    gate_alone: "gate-alone.yaml",
    gate_blip: "gate-blip.yaml",
    gate_dns_down: "gate-dns-down.yaml",
    gate_failed_in_service: "gate-failed-in-service.yaml",
    gate_forged: "gate-forged.yaml",
    gate_joins: "gate-joins.yaml",
    gate_label_removed: "gate-label-removed.yaml",
    gate_no_name_servers: "gate-no-name-servers.yaml",
    gate_reboot: "gate-reboot.yaml",
    gate_late_taint: "gate-late-taint.yaml",
    gate_replace: "gate-replace.yaml",
    gate_replace_dns_down: "gate-replace-dns-down.yaml",
    gate_replace_unfit: "gate-replace-unfit.yaml",
    gate_restarts: "gate-restarts.yaml",
    gate_storm: "gate-storm.yaml",
    gate_stranger: "gate-stranger.yaml",
    gate_unfit: "gate-unfit.yaml",
    gate_unfit_removed: "gate-unfit-removed.yaml",
    hopeless_budget: "hopeless-budget.yaml",
    image_never_joins: "image-never-joins.yaml",
    image_never_ready: "image-never-ready.yaml",
    important_pods: "important-pods.yaml",
    late_joiner: "late-joiner.yaml",
    lost_cloud_answers: "lost-cloud-answers.yaml",
    last_round_stops: "last-round-stops.yaml",
    node_came_back: "node-came-back.yaml",
    node_deleted: "node-deleted.yaml",
    node_opened: "node-opened.yaml",
    one_per_zone: "one-per-zone.yaml",
    operator_crash: "operator-crash.yaml",
    parked: "parked.yaml",
    retry_is_no_resume: "retry-is-no-resume.yaml",
    replace_three_zones: "replace-three-zones.yaml",
    replacement_gone: "replacement-gone.yaml",
    run_deleted: "run-deleted.yaml",
    run_removed: "run-removed.yaml",
    run_removed_while_down: "run-removed-while-down.yaml",
    stray_machine: "stray-machine.yaml",
    stuck_terminating: "stuck-terminating.yaml",
    task_removed: "task-removed.yaml",
    task_removed_closed: "task-removed-closed.yaml",
    terminate_first: "terminate-first.yaml",
    terminate_first_last_open: "terminate-first-last-open.yaml",
    terminate_first_own_end: "terminate-first-own-end.yaml",
    terminate_first_bad_image: "terminate-first-bad-image.yaml",
    terminate_first_daemon: "terminate-first-daemon.yaml",
    tight_budget: "tight-budget.yaml",
    two_budgets: "two-budgets.yaml",
    unsupported_provider: "unsupported-provider.yaml",
    volume_pods: "volume-pods.yaml",
}

#[test]
fn every_file_of_the_folder_has_its_test() {
    let found: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    let tested: BTreeSet<String> = FILES.iter().map(|&file| file.to_owned()).collect();
    assert_eq!(found, tested);
}

/// Short, so that a hundred plays stay cheap: three nodes at once, and a quick cloud.
const SMALL: &str = "
name: small
world:
  nodes: 3
  boot: 5s
  join: 2s
  terminate: 3s
  lostCloudAnswers: 20
  workloads:
    - { name: web, replicas: 3, budget: { maxUnavailable: 1 } }
intents:
  - apiVersion: shipshape.dev/v1alpha1
    kind: NodePatchRun
    metadata: { name: roll, namespace: default }
    spec:
      provider: { type: embedded }
      batchSizeNonImportant: 3
      partitionIterations: 1
events:
  - at: 6s
    do: { crashOperator: { down: 1s } }
expect: { rest: 0s, replaced: 3 }
";

/// The traces of these seeds, each seed played twice.
fn traces(scenario: &Scenario, seeds: std::ops::Range<u64>) -> Vec<String> {
    let mut traces = Vec::new();
    for seed in seeds {
        let (first, second) = (played(scenario, seed), played(scenario, seed));
        assert!(first.is_as_expected(), "{first}");
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
        traces.push(first.trace_hash);
    }
    traces
}

#[test]
fn fifty_seeds_played_twice_give_fifty_pairs_of_equal_traces() {
    let scenario = Scenario::parse("small", SMALL).unwrap();
    let traces: BTreeSet<String> = std::thread::scope(|scope| {
        let halves = [0..25, 25..50].map(|seeds| scope.spawn(|| traces(&scenario, seeds)));
        halves
            .into_iter()
            .flat_map(|half| half.join().unwrap())
            .collect()
    });
    assert_eq!(
        traces.len(),
        50,
        "a hash that ignores its trace is no proof"
    );
}

/// One node, whose replacement takes long to boot.
const SLOW: &str = "
name: slow
world: { nodes: 1, boot: 19m }
intents:
  - apiVersion: shipshape.dev/v1alpha1
    kind: NodePatchRun
    metadata: { name: roll, namespace: default }
    spec: { provider: { type: embedded } }
expect: { rest: 20m, replaced: 1 }
";

#[test]
fn lock_of_a_long_task_is_renewed_every_third_of_its_lease_and_not_after_its_end() {
    let scenario = Scenario::parse("slow", SLOW).unwrap();
    let (report, writes) = virtual_time().block_on(async {
        let world = World::start(scenario.world.spec(1)).await.unwrap();
        let stage = Stage::embedded(&world);
        let report = play_on(&stage, &scenario).await.unwrap().report;
        let mut requests = (stage.requests)(0).0;
        requests.retain(|(_, request)| {
            request.resource == "leases" && request.object.starts_with("shipshape-system/node-")
        });
        (report, requests)
    });
    assert!(report.is_as_expected(), "{report}");
    let of = |verb| {
        writes
            .iter()
            .filter(move |(_, request)| request.verb == verb)
    };
    let taken = of("create").next().unwrap().0;
    let minutes: Vec<i64> = of("patch")
        .map(|(at, _)| at.duration_since(taken).as_mins())
        .collect();
    assert_eq!(minutes, [5, 10, 15]);
    assert_eq!(of("create").count(), 1);
    assert_eq!(of("delete").count(), 0, "it goes with its node");
}
