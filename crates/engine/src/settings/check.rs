//! Which settings make sense: a pause of nothing is a loop that never ends, and no time is negative.
//!
//! Owns the bounds of every time and the sentences about those beyond. Called by whoever reads settings
//! that a person wrote.

use jiff::SignedDuration;

use super::{DrainSettings, Settings, StepDeadlines, SweepSettings};
use crate::span;

/// The longest time that a setting may name.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 3650);
/// Whoever looks again sooner than this has no time left for anything else.
const SHORTEST_PAUSE: SignedDuration = SignedDuration::from_millis(100);
/// A lock shows whole seconds, and is renewed after a third of them.
const SHORTEST_LEASE: SignedDuration = SignedDuration::from_secs(3);
/// The shortest time that is one.
const ANY: SignedDuration = SignedDuration::from_nanos(1);

/// A setting that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("settings.{field} is {}; right would be {right}", span::written(*.value))]
pub struct WrongSetting {
    /// The key, from below `settings`.
    pub field: &'static str,
    /// What it was set to.
    pub value: SignedDuration,
    /// What it may be.
    pub right: &'static str,
}

/// What a time may be at least.
#[derive(Clone, Copy)]
enum Least {
    /// Nothing may be waited for.
    Zero,
    /// A deadline that nothing can meet is none.
    Some,
    /// Something is done again after each.
    Pause,
    /// A lock's lease.
    Lease,
}

impl Least {
    fn time(self) -> SignedDuration {
        match self {
            Self::Zero => SignedDuration::ZERO,
            Self::Some => ANY,
            Self::Pause => SHORTEST_PAUSE,
            Self::Lease => SHORTEST_LEASE,
        }
    }

    fn right(self) -> &'static str {
        match self {
            Self::Zero => "a time from 0s to ten years, such as 1m",
            Self::Some => "a time above 0s, up to ten years, such as 5m",
            Self::Pause => "a time from 100ms to ten years, such as 1m",
            Self::Lease => "a time from 3s to ten years, such as 15m",
        }
    }
}

impl Settings {
    /// Says which setting makes no sense, the first of them.
    pub fn check(&self) -> Result<(), WrongSetting> {
        for (field, value, least) in self.times() {
            if value < least.time() || value > LONGEST {
                let right = least.right();
                return Err(WrongSetting {
                    field,
                    value,
                    right,
                });
            }
        }
        if self.retry_backoff_max < self.retry_backoff {
            return Err(WrongSetting {
                field: "retryBackoffMax",
                value: self.retry_backoff_max,
                right: "a time not below settings.retryBackoff",
            });
        }
        Ok(())
    }

    /// Every time by its key. Taken apart by name, so that a new setting cannot be forgotten here.
    fn times(&self) -> Vec<(&'static str, SignedDuration, Least)> {
        let Self {
            deadlines,
            drain,
            sweep,
            machine_poll,
            machine_quiet,
            cloud_lag,
            retry_backoff,
            retry_backoff_max,
            park_rest,
            reopen_after,
            resync,
            lock_lease,
        } = self;
        let mut times = vec![
            ("machinePoll", *machine_poll, Least::Pause),
            ("machineQuiet", *machine_quiet, Least::Zero),
            ("cloudLag", *cloud_lag, Least::Zero),
            ("retryBackoff", *retry_backoff, Least::Zero),
            ("retryBackoffMax", *retry_backoff_max, Least::Pause),
            ("parkRest", *park_rest, Least::Zero),
            ("reopenAfter", *reopen_after, Least::Zero),
            ("resync", *resync, Least::Pause),
            ("lockLease", *lock_lease, Least::Lease),
        ];
        times.extend(of_deadlines(deadlines));
        times.extend(of_drain(drain));
        times.extend(of_sweep(sweep));
        times
    }
}

fn of_deadlines(deadlines: &StepDeadlines) -> [(&'static str, SignedDuration, Least); 13] {
    let StepDeadlines {
        lock,
        provision,
        join,
        transfer,
        settle,
        cordon,
        drain,
        recover,
        remove_member,
        undo,
        remove,
        forget,
        release,
    } = deadlines;
    [
        ("deadlines.lock", lock),
        ("deadlines.provision", provision),
        ("deadlines.join", join),
        ("deadlines.transfer", transfer),
        ("deadlines.settle", settle),
        ("deadlines.cordon", cordon),
        ("deadlines.drain", drain),
        ("deadlines.recover", recover),
        ("deadlines.removeMember", remove_member),
        ("deadlines.undo", undo),
        ("deadlines.remove", remove),
        ("deadlines.forget", forget),
        ("deadlines.release", release),
    ]
    .map(|(field, value)| (field, *value, Least::Some))
}

fn of_drain(drain: &DrainSettings) -> [(&'static str, SignedDuration, Least); 3] {
    let DrainSettings {
        detach_wait,
        stuck_after,
        quiet,
    } = drain;
    [
        ("drain.detachWait", *detach_wait, Least::Zero),
        ("drain.stuckAfter", *stuck_after, Least::Zero),
        ("drain.quiet", *quiet, Least::Zero),
    ]
}

/// Without a grace a machine would go before its task has spoken of it.
fn of_sweep(sweep: &SweepSettings) -> [(&'static str, SignedDuration, Least); 2] {
    let SweepSettings { every, grace } = sweep;
    [
        ("sweep.every", *every, Least::Pause),
        ("sweep.grace", *grace, Least::Some),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;

    /// The default settings with one key, given by its path, set to another time.
    fn with(field: &str, time: &str) -> Settings {
        let mut all = serde_json::to_value(Settings::default()).unwrap();
        let place = format!("/{}", field.replace('.', "/"));
        *all.pointer_mut(&place).unwrap() = time.into();
        serde_json::from_value(all).unwrap()
    }

    fn keys(all: &Map<String, Value>, before: &str) -> Vec<String> {
        let each = all.iter().flat_map(|(key, value)| match value.as_object() {
            Some(inner) => keys(inner, &format!("{before}{key}.")),
            None => vec![format!("{before}{key}")],
        });
        each.collect()
    }

    #[test]
    fn the_defaults_make_sense_and_no_time_may_be_negative_or_endless() {
        assert_eq!(Settings::default().check(), Ok(()));
        let all = serde_json::to_value(Settings::default()).unwrap();
        let keys = keys(all.as_object().unwrap(), "");
        assert_eq!(keys.len(), Settings::default().times().len(), "{keys:?}");
        for key in keys {
            for wrong in ["-1s", "-5m", "876000h"] {
                let refusal = with(&key, wrong).check().unwrap_err();
                assert_eq!(refusal.field, key);
            }
        }
    }

    #[test]
    fn nothing_is_refused_where_it_would_be_a_loop_or_a_deadline_that_nothing_can_meet() {
        let may_be_nothing = [
            "machineQuiet",
            "cloudLag",
            "retryBackoff",
            "parkRest",
            "reopenAfter",
            "drain.detachWait",
            "drain.stuckAfter",
            "drain.quiet",
        ];
        for (field, ..) in Settings::default().times() {
            let is_fine = with(field, "0s").check().is_ok();
            assert_eq!(is_fine, may_be_nothing.contains(&field), "{field}");
        }
        for (field, short) in [
            ("sweep.every", "1ms"),
            ("machinePoll", "1ns"),
            ("resync", "99ms"),
            ("lockLease", "2s"),
        ] {
            assert!(with(field, short).check().is_err(), "{field} {short}");
        }
    }

    #[test]
    fn a_refusal_names_field_value_and_what_would_be_right() {
        let told = |field, time| with(field, time).check().unwrap_err().to_string();
        assert_eq!(
            told("sweep.every", "0s"),
            "settings.sweep.every is 0s; right would be a time from 100ms to ten years, such as 1m"
        );
        assert_eq!(
            told("deadlines.join", "-5m"),
            "settings.deadlines.join is -5m; right would be a time above 0s, up to ten years, such as 5m"
        );
        assert_eq!(
            told("retryBackoffMax", "30s"),
            "settings.retryBackoffMax is 30s; right would be a time not below settings.retryBackoff"
        );
    }
}
