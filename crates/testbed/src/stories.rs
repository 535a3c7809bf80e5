//! Stories on either world, and their table.
//!
//! Owns which world plays what. Must not judge: the report, the witness and the auditor do. Called
//! by the command line and by the tests of the real tier.

use std::path::{Path, PathBuf};

use anyhow::Result;
use shipshape_scenarios::repertoire::Playbill;
use shipshape_scenarios::story::play_on;
use shipshape_scenarios::{Report, Scenario, play_alone};
use tokio::time::Instant;

use crate::auditor::{self, Findings};
use crate::stage::RealWorld;

/// Where the scenarios of the repository are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Plays each in virtual time; not to be called from within a runtime.
pub fn embedded(scenarios: &[Scenario], seed: u64) -> Playbill {
    let mut playbill = Playbill::default();
    for scenario in scenarios {
        match play_alone(scenario, seed) {
            Ok(played) => playbill.add(played.report, Vec::new()),
            Err(error) => playbill.add_unplayed(&scenario.name, error.to_string()),
        }
    }
    playbill
}

/// Plays each on a real control plane of its own.
pub async fn real(scenarios: &[Scenario], seed: u64) -> Playbill {
    let mut playbill = Playbill::default();
    for scenario in scenarios {
        match Box::pin(play_real(scenario, seed)).await {
            Ok((report, findings)) => playbill.add(report, findings.faults),
            Err(error) => playbill.add_unplayed(&scenario.name, format!("{error:#}")),
        }
    }
    playbill
}

/// Plays a scenario, hurried, on a real control plane, and has the logs examined.
pub async fn play_real(scenario: &Scenario, seed: u64) -> Result<(Report, Findings)> {
    let began = Instant::now();
    let world = RealWorld::start(&scenario.hurried_world(seed)).await?;
    let mut report = play_on(world.stage(), &scenario.hurried()).await?.report;
    report.seed = seed;
    report.wall_seconds = began.elapsed().as_secs_f64();
    let cloud = &world.stage().cloud;
    let findings = auditor::examine(&world.plane().audit()?, &cloud.log(), &cloud.machines());
    Ok((report, findings))
}
