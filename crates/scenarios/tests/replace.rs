//! The thin slice: a run is planned, its nodes are replaced one batch after the other, and the
//! witness finds nothing broken.

use std::path::Path;

use shipshape_scenarios::{Report, Scenario, play};

fn played(file: &str, seed: u64) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../scenarios")
        .join(file);
    let scenario = Scenario::load(&path).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(play(&scenario, seed)).unwrap().report
}

#[test]
fn twelve_nodes_over_three_zones_are_replaced() {
    let report = played("replace-three-zones.yaml", 1);
    assert!(report.is_as_expected(), "{report}");
    println!("{report}");
}
