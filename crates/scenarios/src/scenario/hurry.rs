//! The same scenario for a world in which time cannot be skipped.
//!
//! Owns which times are divided by `world.hurry`, and by how much at most. Must not change what
//! happens, only when. Called by whoever plays a scenario on a real control plane.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use shipshape_engine::settings::{DrainSettings, Settings, StepDeadlines};
use shipshape_engine::span;
use shipshape_simulator::actors::Delays;
use shipshape_simulator::cloud::CloudSettings;
use shipshape_simulator::world::WorldSpec;

use super::{Action, Outcome, Scenario};

/// Rest in real time is dear, and a restless operator shows itself at once.
const REST_MAX: SignedDuration = SignedDuration::from_secs(5);
/// A step on a busy machine is not overdue sooner.
const DEADLINE_MIN: SignedDuration = SignedDuration::from_mins(1);
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
        for intent in &mut hurried.intents {
            hurry_waits(intent, by);
        }
        for event in &mut hurried.events {
            event.at /= by;
            if let Action::CrashOperator { down } = &mut event.action {
                *down /= by;
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
        spec.patience = Duration::from_mins(1);
        spec
    }
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
    let deadline = |value: SignedDuration| (value / by).max(DEADLINE_MIN.min(value));
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
    } = settings.deadlines;
    Settings {
        deadlines: StepDeadlines {
            lock: deadline(lock),
            provision: deadline(provision),
            join: deadline(join),
            transfer: deadline(transfer),
            settle: deadline(settle),
            cordon: deadline(cordon),
            drain: deadline(drain),
            recover: deadline(recover),
            remove_member: deadline(remove_member),
            undo: deadline(undo),
            remove: deadline(remove),
            forget: deadline(forget),
            release: deadline(release),
        },
        drain: DrainSettings {
            detach_wait: deadline(settings.drain.detach_wait),
            stuck_after: settings.drain.stuck_after / by,
        },
        sweep: settings.sweep.clone(),
        machine_poll: (settings.machine_poll / by).max(POLL_MIN),
        machine_quiet: settings.machine_quiet / by,
        cloud_lag: settings.cloud_lag / by,
        retry_backoff: settings.retry_backoff / by,
        retry_backoff_max: settings.retry_backoff_max / by,
        park_rest: settings.park_rest / by,
        resync: settings.resync,
        lock_lease: settings.lock_lease,
    }
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
        &mut delays.detach,
    ] {
        *delay /= by;
    }
    delays.node_removal = delays.node_removal.map(|delay| delay / by);
}
