//! Crash plans: a play for every effect of the operator and every moment around it.
//!
//! Owns the list of points, which is taken from a play without faults, so that a new effect is in it by
//! itself; and the plays with one fault each. Must not know any effect by name. Called by
//! `shipshape simulate --crash` and by the tests.

mod point;
mod run;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use shipshape_simulator::faults::{Fault, Plan, Rule};

use crate::report::Report;
use crate::scenario::Scenario;
use crate::story::{StoryError, Troubles, play_alone_through};

pub use point::{Choice, Moment, Point};
pub use run::CrashPlans;

/// A leader renews its lease all the time; two renewals stand for all.
const LEADERSHIP_MAX: u32 = 2;

/// The seed of the play that the list is taken from, and of all others: up to its fault each of them is
/// the same play.
const SEED: u64 = 1;

/// Every point of a scenario, in the order of its effects.
pub fn points(scenario: &Scenario) -> Result<Vec<Point>, StoryError> {
    let troubles = Troubles::none();
    play_alone_through(scenario, SEED, &troubles)?;
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut points = Vec::new();
    for effect in troubles.faults.effects() {
        let number = counts.entry(effect.clone()).or_default();
        *number += 1;
        if effect.ends_with(" leadership") && *number > LEADERSHIP_MAX {
            continue;
        }
        points.extend(Moment::ALL.map(|moment| Point {
            effect: effect.clone(),
            number: *number,
            moment,
        }));
    }
    Ok(points)
}

/// The one fault of a point.
pub fn plan(point: &Point) -> Plan {
    let fault = match point.moment {
        Moment::Before => Fault::CrashBefore,
        Moment::After => Fault::CrashAfter,
        Moment::Lost => Fault::LoseAnswer,
        Moment::Refused => Fault::Fail {
            code: 503,
            reason: "ServiceUnavailable".to_owned(),
        },
    };
    let rule = Rule::always(fault).with_effect(&point.effect);
    Plan::of([rule.only(point.number)])
}

/// Plays a scenario with the fault of one point. A fault that nothing met is itself a complaint: the
/// point does not exist.
pub fn play(scenario: &Scenario, point: &Point) -> Result<Report, StoryError> {
    let troubles = Troubles::of(plan(point));
    let mut report = play_alone_through(scenario, SEED, &troubles)?.report;
    if troubles.faults.strikes().is_empty() {
        let text = format!("there is no effect {}#{}", point.effect, point.number);
        report.unmet.push(text);
    }
    Ok(report)
}
