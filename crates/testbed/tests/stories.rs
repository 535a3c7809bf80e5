//! The stories of the embedded cluster, on a real control plane. The witnesses are the audit log and
//! the cloud's call log.

use shipshape_scenarios::repertoire;
use shipshape_testbed::stories;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_story_goes_on_a_real_control_plane_as_it_should() {
    for scenario in repertoire::load(&stories::folder()).unwrap() {
        let (report, findings) = stories::play_real(&scenario, 1).await.unwrap();
        println!("{report}");
        println!("{findings:?}");
        assert!(report.is_as_expected(), "{report}");
        assert_eq!(findings.faults, Vec::<String>::new(), "{}", scenario.name);
        assert_eq!(
            findings.replaced, report.nodes.replaced,
            "{}",
            scenario.name
        );
        assert_eq!(findings.evicted, report.pods.evicted, "{}", scenario.name);
        if !scenario.world.workloads.is_empty() {
            assert!(
                findings.evicted > 0,
                "nothing was evicted: {}",
                scenario.name
            );
        }
    }
}
