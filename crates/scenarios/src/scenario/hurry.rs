//! The same scenario for a world in which time cannot be skipped.
//!
//! Owns which times are divided by `world.hurry`, and by how much at most. Must not change what
//! happens, only when. Called by whoever plays a scenario on a real control plane.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use shipshape_engine::settings::{DrainSettings, Settings, StepDeadlines, SweepSettings};
use shipshape_engine::span;
use shipshape_engine::verify::settings::GateSettings;
use shipshape_simulator::actors::Delays;
use shipshape_simulator::cloud::CloudSettings;
use shipshape_simulator::world::WorldSpec;

use super::{Action, Outcome, Scenario};

/// Rest in real time is dear, and a restless operator shows itself at once.
const REST_MAX: SignedDuration = SignedDuration::from_secs(5);
/// A step on a busy machine is not overdue sooner.
const DEADLINE_MIN: SignedDuration = SignedDuration::from_mins(1);
/// A step whose deadline the scenario sets is not either: what shall meet it does so in seconds.
const SET_DEADLINE_MIN: SignedDuration = SignedDuration::from_secs(15);
/// A story on a busy machine has not stalled sooner.
const WITHIN_MIN: SignedDuration = SignedDuration::from_mins(4);
/// Asking the cloud more often would find nothing new.
const POLL_MIN: SignedDuration = SignedDuration::from_millis(250);

impl Scenario {
    /// This scenario with every time divided by `world.hurry`.
    pub fn hurried(&self) -> Self {
        let by = i32::try_from(self.world.hurry.max(1)).unwrap_or(i32::MAX);
        let mut hurried = self.clone();
        hurried.settings = settings(&self.settings, by);
        hurried.gate = self.gate.as_ref().map(|gate| hurry_gate(gate, by));
        for intent in &mut hurried.intents {
            hurry_waits(intent, by);
        }
        for event in &mut hurried.events {
            event.at /= by;
            if let Action::CrashOperator { down: span } | Action::Reboot { outage: span, .. } =
                &mut event.action
            {
                *span /= by;
            }
        }
        // A story that is meant to stall takes all the time it is given.
        hurried.expect.within = match self.expect.outcome {
            Outcome::Stalled => self.expect.within / by,
            Outcome::Converged | Outcome::Violated => {
                (self.expect.within / by).max(WITHIN_MIN.min(self.expect.within))
            }
        };
        hurried.expect.rest = (self.expect.rest / by).min(REST_MAX);
        hurried
    }

    /// Its world, in which every delay is divided by `world.hurry`.
    pub fn hurried_world(&self, seed: u64) -> WorldSpec {
        let by = self.world.hurry.max(1);
        let mut spec = self.world.spec(seed);
        hurry_cloud(&mut spec.cloud.settings, by);
        hurry_delays(&mut spec.delays, by);
        spec.patience = Duration::from_mins(3);
        spec
    }
}

/// Only what nodes wait for without trouble: pauses between attempts are seconds already, and no deadline
/// is there to be missed.
fn hurry_gate(gate: &GateSettings, by: i32) -> GateSettings {
    let mut hurried = gate.clone();
    let interval = &mut hurried.reconciliation.interval_seconds;
    let by = by.unsigned_abs().max(1);
    *interval = (*interval / by).max(1);
    hurried
}

/// The waits that a manifest itself asks for.
fn hurry_waits(intent: &mut Value, by: i32) {
    for place in ["/spec/canary/soak", "/spec/stability/stableFor"] {
        let Some(wait) = intent.pointer_mut(place) else {
            continue;
        };
        // Text that is no length of time is left for the server to refuse, and zero means no wait.
        let span = wait.as_str().and_then(|text| span::parse(Some(text)).ok());
        if let Some(span) = span.filter(SignedDuration::is_positive) {
            *wait = format!("{}s", (span / by).as_secs().max(1)).into();
        }
    }
}

fn settings(settings: &Settings, by: i32) -> Settings {
    let usual = Settings::default();
    let (ours, usuals) = (&settings.deadlines, &usual.deadlines);
    let deadline =
        |of: fn(&StepDeadlines) -> SignedDuration| hurry_deadline(of(ours), of(usuals), by);
    Settings {
        deadlines: StepDeadlines {
            lock: deadline(|all| all.lock),
            provision: deadline(|all| all.provision),
            join: deadline(|all| all.join),
            transfer: deadline(|all| all.transfer),
            settle: deadline(|all| all.settle),
            cordon: deadline(|all| all.cordon),
            drain: deadline(|all| all.drain),
            recover: deadline(|all| all.recover),
            remove_member: deadline(|all| all.remove_member),
            undo: deadline(|all| all.undo),
            remove: deadline(|all| all.remove),
            forget: deadline(|all| all.forget),
            release: deadline(|all| all.release),
        },
        drain: DrainSettings {
            detach_wait: hurry_deadline(settings.drain.detach_wait, usual.drain.detach_wait, by),
            stuck_after: settings.drain.stuck_after / by,
            quiet: settings.drain.quiet / by,
        },
        sweep: SweepSettings {
            every: settings.sweep.every / by,
            grace: settings.sweep.grace / by,
        },
        machine_poll: (settings.machine_poll / by).max(POLL_MIN),
        machine_quiet: settings.machine_quiet / by,
        cloud_lag: settings.cloud_lag / by,
        retry_backoff: settings.retry_backoff / by,
        retry_backoff_max: settings.retry_backoff_max / by,
        park_rest: settings.park_rest / by,
        reopen_after: settings.reopen_after / by,
        resync: settings.resync,
        lock_lease: settings.lock_lease,
    }
}

/// A deadline that a scenario sets is there to be missed, so it is hurried further than one that should
/// never be.
fn hurry_deadline(value: SignedDuration, usual: SignedDuration, by: i32) -> SignedDuration {
    let least = if value == usual {
        DEADLINE_MIN
    } else {
        SET_DEADLINE_MIN
    };
    (value / by).max(least.min(value))
}

fn hurry_cloud(settings: &mut CloudSettings, by: u32) {
    for delay in [
        &mut settings.boot,
        &mut settings.terminate,
        &mut settings.heal,
        &mut settings.read_lag,
    ] {
        *delay /= by;
    }
}

fn hurry_delays(delays: &mut Delays, by: u32) {
    for delay in [
        &mut delays.join,
        &mut delays.node_ready,
        &mut delays.pod_start,
        &mut delays.pod_ready,
        &mut delays.pod_stop,
        &mut delays.task_run,
        &mut delays.checks_run,
        &mut delays.detach,
    ] {
        *delay /= by;
    }
    delays.node_removal = delays.node_removal.map(|delay| delay / by);
}
