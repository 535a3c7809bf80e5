//! Stories on either world, and their table.
//!
//! Owns which world plays what. Must not judge: the report, the witness and the auditor do. Called
//! by the command line and by the tests of the real tier.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::Value;
use shipshape_cluster::error::in_full;
use shipshape_scenarios::repertoire::{Playbill, Row, play_all};
use shipshape_scenarios::story::play_on;
use shipshape_scenarios::{Report, Scenario, play_alone};

use crate::auditor::{self, Findings, Order};
use crate::stage::RealWorld;

/// A story in real time mostly waits, so more of them than there are cores.
const AT_A_TIME: usize = 3;

/// Where the scenarios of the repository are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Plays each in virtual time; not to be called from within a runtime.
pub fn embedded(scenarios: &[Scenario], seed: u64) -> Playbill {
    play_all(
        scenarios,
        2,
        |scenario| {
            let played = play_alone(scenario, seed).map_err(|error| in_full(&error))?;
            Ok((played.report, Vec::new()))
        },
        tell,
    )
}

/// Plays each that can be on a real control plane of its own; not to be called from within a runtime.
pub fn real(scenarios: &[Scenario], seed: u64) -> Playbill {
    let playable = scenarios.iter().filter(|scenario| !scenario.embedded_only);
    // The longest are among the last by name: begun first, none of them is played alone at the end.
    let playable: Vec<Scenario> = playable.rev().cloned().collect();
    play_all(
        &playable,
        AT_A_TIME,
        |scenario| {
            let play = || tokio::runtime::Runtime::new()?.block_on(play_real(scenario, seed));
            let (report, findings) = play().map_err(|error| in_full(error.as_ref()))?;
            let faults = compare(&report, findings);
            Ok((report, faults))
        },
        tell,
    )
}

/// A row as soon as there is one, past the capture of tests: all of them take many minutes, and a failure
/// is wanted at once.
fn tell(row: &Row) {
    // Nobody needs to hear it.
    let _unheard = writeln!(std::io::stderr(), "{row}");
}

/// What the auditor found wrong, and where the report says something else than the logs.
fn compare(report: &Report, findings: Findings) -> Vec<String> {
    let mut faults = findings.faults;
    let mut same = |what: &str, told: usize, found: usize| {
        if told != found {
            faults.push(format!("{told} {what} in the report, {found} in the logs"));
        }
    };
    // A node whose task was removed by force may have been replaced by it, and counts as left.
    let most = report.nodes.replaced + report.nodes.left;
    let replaced = report.nodes.replaced.max(findings.replaced.min(most));
    same("nodes replaced", replaced, findings.replaced);
    same("pods evicted", report.pods.evicted, findings.evicted);
    if report.nodes.replaced > 0 && report.pods.total > 0 && findings.evicted == 0 {
        faults.push("nodes were replaced and nothing was evicted".to_owned());
    }
    faults
}

/// Plays a scenario, hurried, on a real control plane, and has the logs examined.
async fn play_real(scenario: &Scenario, seed: u64) -> Result<(Report, Findings)> {
    let world = RealWorld::start(&scenario.hurried_world(seed)).await?;
    let hurried = scenario.hurried();
    let mut report = Box::pin(play_on(world.stage(), &hurried)).await?.report;
    report.seed = seed;
    let cloud = &world.stage().cloud;
    let entries = world.plane().audit()?;
    let findings = auditor::examine(&entries, &cloud.log(), &cloud.machines(), order(scenario));
    Ok((report, findings))
}

/// Whether a run of the scenario lets the old machine go first.
fn order(scenario: &Scenario) -> Order {
    let asks = |intent: &Value| {
        let order = intent.pointer("/spec/replacement").and_then(Value::as_str);
        matches!(order, Some("TerminateFirst" | "SurgeElseTerminateFirst"))
    };
    if scenario.intents.iter().any(asks) {
        Order::OldFirst
    } else {
        Order::NewFirst
    }
}
