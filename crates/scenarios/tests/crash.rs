//! Crash plans: something goes wrong once, at every effect, and nothing comes of it.
//!
//! Here a sample of the points of every plan is played, and every plan with two leaders and with old
//! caches; `shipshape simulate FILE --crash all` plays all points.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up must fail")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use shipshape_scenarios::crash::{self, CrashPlans};
use shipshape_scenarios::pairs::in_pairs;
use shipshape_scenarios::{Scenario, Troubles, play_alone_through, repertoire};
use shipshape_simulator::faults::{Fault, Faults, Plan, Rule};
use shipshape_simulator::seed::Seed;

/// Of so many points one is played here; a prime, so that all moments and effects get their turn.
const SAMPLE: usize = 41;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/crash")
}

fn plans() -> Vec<Scenario> {
    repertoire::load(&folder()).unwrap()
}

#[test]
fn one_fault_at_any_effect_of_a_plan_breaks_nothing() {
    for scenario in plans() {
        let points = crash::points(&scenario).unwrap();
        let sample: Vec<_> = points.into_iter().step_by(SAMPLE).collect();
        let file = scenario.name.trim_start_matches("crash-");
        let file = format!("scenarios/crash/{file}.yaml");
        let plans = CrashPlans::play(&file, &scenario, &sample, |_| ()).unwrap();
        assert!(plans.is_clean(), "{plans}");
    }
}

/// What every plan goes through with these troubles, all complaints together.
fn complaints(troubles: impl Fn() -> Troubles + Sync) -> String {
    let played = in_pairs(&plans(), |scenario| {
        let report = play_alone_through(scenario, 1, &troubles()).unwrap().report;
        let told = report.complaints();
        (!told.is_empty()).then(|| format!("{}: {}\n", report.scenario, told.join("; ")))
    });
    played.into_iter().flatten().collect()
}

fn late(lag: Duration) -> Plan {
    Plan::of([Rule::always(Fault::LagWatch(lag)).on_watches("")])
}

#[test]
fn a_second_leader_at_work_all_along_breaks_nothing() {
    let complaints = complaints(|| Troubles {
        rival: Some(Faults::new(Plan::default(), &Seed::new(2))),
        // The slower of the two may still try what the other has done.
        settle: Duration::from_secs(5),
        ..Troubles::none()
    });
    assert_eq!(complaints, "");
}

#[test]
fn a_second_leader_with_old_caches_breaks_nothing() {
    let complaints = complaints(|| Troubles {
        rival: Some(Faults::new(late(Duration::from_secs(8)), &Seed::new(2))),
        settle: Duration::from_secs(20),
        ..Troubles::none()
    });
    assert_eq!(complaints, "");
}

#[test]
fn old_caches_break_nothing() {
    for seconds in [1, 20] {
        let lag = Duration::from_secs(seconds);
        let complaints = complaints(|| Troubles {
            settle: lag * 3,
            ..Troubles::of(late(lag))
        });
        assert_eq!(complaints, "", "{seconds} s");
    }
}
