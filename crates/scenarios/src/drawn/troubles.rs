//! What the operator goes through: answers lost, refused, late; watches that break; a second leader;
//! clocks that step.
//!
//! Owns what may be drawn, and that it ceases.

use std::time::Duration;

use jiff::SignedDuration;
use shipshape_simulator::faults::{Fault, Faults, Plan, Rule};

use super::Dice;
use crate::story::Troubles;

/// Most processes that faults may kill: each costs the wait for a lease.
const CRASHES_MAX: u32 = 4;

/// The troubles of one story.
pub(super) fn draw(dice: &mut Dice) -> Troubles {
    let faults = Faults::new(plan(dice), &dice.fork("struck").0);
    let rival = dice
        .happens(10)
        .then(|| Faults::new(plan(dice), &dice.fork("rival").0));
    let clocks = if dice.happens(20) {
        (0..3).map(|_| off(dice)).collect()
    } else {
        Vec::new()
    };
    Troubles {
        faults,
        rival,
        down: dice.seconds(0, 20),
        clocks,
        until: Some(dice.seconds(60, 400)),
        settle: Duration::from_mins(1),
    }
}

fn off(dice: &mut Dice) -> SignedDuration {
    let seconds = i64::try_from(dice.between(0, 600)).unwrap_or(0);
    SignedDuration::from_secs(seconds - 300)
}

fn plan(dice: &mut Dice) -> Plan {
    let mut rules = Vec::new();
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        if dice.happens(40) {
            let mut rule = Rule::always(fault).sometimes(percent(dice, 4));
            rule.times = Some(CRASHES_MAX / 2);
            rules.push(rule);
        }
    }
    if dice.happens(25) {
        let lag = dice.seconds(1, 15);
        rules.push(Rule::always(Fault::LagWatch(lag)).on_watches(""));
    } else if dice.happens(40) {
        let after = dice.seconds(1, 60);
        rules.push(
            Rule::always(fail(410, "Expired"))
                .on_watches("")
                .sometimes(20),
        );
        rules.push(Rule::always(Fault::BreakWatch(after)).on_watches(""));
    }
    let of_api = [
        Fault::Drop,
        Fault::LoseAnswer,
        Fault::Duplicate,
        Fault::Delay(dice.seconds(1, 8)),
        fail(409, "Conflict"),
        fail(429, "TooManyRequests"),
        fail(500, "InternalError"),
        fail(504, "Timeout"),
    ];
    for fault in of_api {
        if dice.happens(35) {
            rules.push(
                Rule::always(fault)
                    .on_path("/api")
                    .sometimes(percent(dice, 15)),
            );
        }
    }
    // Only lists of the moment: what a store was filled with by mistake would stay.
    for fault in [Fault::EmptyList, Fault::StaleList] {
        if dice.happens(15) {
            rules.push(
                Rule::always(fault)
                    .on_path("spec.nodeName")
                    .sometimes(percent(dice, 60)),
            );
        }
    }
    let of_cloud = [
        Fault::Drop,
        Fault::LoseAnswer,
        Fault::Duplicate,
        Fault::Delay(Duration::from_secs(3)),
        fail(429, "Throttling"),
    ];
    for fault in of_cloud {
        if dice.happens(40) {
            rules.push(
                Rule::always(fault)
                    .on_path("cloud ")
                    .sometimes(percent(dice, 40)),
            );
        }
    }
    Plan::of(rules)
}

fn percent(dice: &mut Dice, most: u64) -> u8 {
    u8::try_from(dice.between(1, most)).unwrap_or(1)
}

fn fail(code: u16, reason: &str) -> Fault {
    Fault::Fail {
        code,
        reason: reason.to_owned(),
    }
}
