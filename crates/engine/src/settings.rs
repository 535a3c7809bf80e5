//! Every time constant and limit that a decision uses, as a setting with its unit and its reason.
//!
//! Owns the defaults. Must not be read from the environment here: the binary parses its
//! configuration file into this value once and hands it down. `check` says which values make sense.

mod check;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

pub use check::WrongSetting;

/// How long each step of a task may take before it counts as overdue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct StepDeadlines {
    /// For the node's lock to become free.
    pub lock: SignedDuration,
    /// For the cloud to accept the replacement.
    pub provision: SignedDuration,
    /// For the replacement to boot, join and become ready (Karpenter gives 15 min for registration
    /// alone, Constellation 30 min for the whole way).
    pub join: SignedDuration,
    /// For the new node to get its labels.
    pub transfer: SignedDuration,
    /// For the important pods to become stable, before the drain; for how long they must stay so comes on top.
    pub settle: SignedDuration,
    /// For the cordon to be seen.
    pub cordon: SignedDuration,
    /// For all pods to leave.
    pub drain: SignedDuration,
    /// For the important pods to become stable again, after the drain; for how long comes on top.
    pub recover: SignedDuration,
    /// For etcd to let the old node's member go; past it the node is set aside.
    pub remove_member: SignedDuration,
    /// For an attempt to be put back; past it a new machine that cannot be emptied is kept.
    pub undo: SignedDuration,
    /// For the cloud to say that the old machine is gone.
    pub remove: SignedDuration,
    /// For the old Node object to go.
    pub forget: SignedDuration,
    /// For slot and lock to be given back.
    pub release: SignedDuration,
}

impl Default for StepDeadlines {
    fn default() -> Self {
        Self {
            lock: SignedDuration::from_mins(10),
            provision: SignedDuration::from_mins(5),
            join: SignedDuration::from_mins(30),
            transfer: SignedDuration::from_mins(5),
            settle: SignedDuration::from_mins(30),
            cordon: SignedDuration::from_mins(5),
            drain: SignedDuration::from_mins(30),
            recover: SignedDuration::from_mins(30),
            remove_member: SignedDuration::from_mins(15),
            undo: SignedDuration::from_mins(30),
            remove: SignedDuration::from_mins(15),
            forget: SignedDuration::from_mins(5),
            release: SignedDuration::from_mins(5),
        }
    }
}

/// How long a drain waits for what is not a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct DrainSettings {
    /// For a volume to be detached after its pod has left, before the next pod with volumes leaves
    /// or the machine goes (Kubernetes itself detaches by force after 6 min).
    pub detach_wait: SignedDuration,
    /// For a pod to go after its grace is over, before it is called stuck.
    pub stuck_after: SignedDuration,
    /// For how long the last word about blocked pods will do when some of them have left meanwhile and
    /// nothing else is blocked.
    pub quiet: SignedDuration,
}

impl Default for DrainSettings {
    fn default() -> Self {
        Self {
            detach_wait: SignedDuration::from_mins(6),
            stuck_after: SignedDuration::from_mins(1),
            quiet: SignedDuration::from_secs(15),
        }
    }
}

/// How machines that nobody speaks of are looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct SweepSettings {
    /// Between two looks at what a cloud has of ours.
    pub every: SignedDuration,
    /// For how long nobody must have spoken of a machine before it goes.
    pub grace: SignedDuration,
}

impl Default for SweepSettings {
    fn default() -> Self {
        Self {
            every: SignedDuration::from_mins(5),
            grace: SignedDuration::from_mins(15),
        }
    }
}

/// Settings of all decisions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// Deadlines by step.
    pub deadlines: StepDeadlines,
    /// Waits of a drain.
    pub drain: DrainSettings,
    /// The search for machines that nobody speaks of.
    pub sweep: SweepSettings,
    /// How often a machine's state is asked of the cloud while a step waits for it. Clouds send no
    /// events, so this one wait must poll.
    pub machine_poll: SignedDuration,
    /// How long a machine may be in a state that is usual on its way before its PendingNode tells it.
    /// What is unusual is told at once.
    pub machine_quiet: SignedDuration,
    /// How long after a create call a cloud may still not list what it made.
    pub cloud_lag: SignedDuration,
    /// The pause before the second attempt at a node; it doubles with each further one.
    pub retry_backoff: SignedDuration,
    /// The longest pause between two attempts.
    pub retry_backoff_max: SignedDuration,
    /// How long a parked node rests at least before it is tried again in the last round.
    pub park_rest: SignedDuration,
    /// How long a pod may be without a place before nodes that a run has closed take new pods again.
    pub reopen_after: SignedDuration,
    /// How long a wait that a watch should end may go without a second look.
    pub resync: SignedDuration,
    /// Lease duration that a node's lock shows. It is renewed after a third of it; it frees nothing.
    pub lock_lease: SignedDuration,
}

impl Settings {
    /// How old the last word of a lock's holder may become.
    pub fn lock_renewal(&self) -> SignedDuration {
        self.lock_lease / 3
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deadlines: StepDeadlines::default(),
            drain: DrainSettings::default(),
            sweep: SweepSettings::default(),
            machine_poll: SignedDuration::from_secs(5),
            machine_quiet: SignedDuration::from_secs(90),
            cloud_lag: SignedDuration::from_mins(1),
            retry_backoff: SignedDuration::from_mins(1),
            retry_backoff_max: SignedDuration::from_mins(10),
            park_rest: SignedDuration::from_mins(1),
            reopen_after: SignedDuration::from_secs(30),
            resync: SignedDuration::from_mins(1),
            lock_lease: SignedDuration::from_mins(15),
        }
    }
}
