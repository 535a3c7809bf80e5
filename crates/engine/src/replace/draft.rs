//! A decision about a task while it is being put together.
//!
//! Owns the bookkeeping that every step shares: entering a step with its deadline, waiting with a
//! reason, ending badly. Must not know what any one step does.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::conditions::{LABELS_TRANSFERRED, NEW_NODE_READY, OLD_DELETED, OVERDUE};
use shipshape_api::node_patch_task::{
    MachineRecord, NodePatchTaskStatus, StepRecord, TaskStep, UndoNext, UndoRecord, phase_of,
};
use shipshape_api::reasons::NODE_LEFT;
use shipshape_api::{PendingNodeGoal, TaskPhase};

use super::settle;
use crate::condition::{self, Claim, Truth};
use crate::decision::{Decision, Effect, Notice};
use crate::pending::build::{self, Way};
use crate::settings::{Settings, StepDeadlines};
use crate::snapshot::TaskSnapshot;
use crate::span;
use crate::view::Observed;

/// By how much the first looks at what was asked of the cloud come sooner than the later ones.
const FIRST_LOOKS: i32 = 20;

/// A milestone that a step has reached: condition type, reason and sentence.
pub(super) struct Milestone {
    pub(super) condition: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// A question got no clear answer; the draft waits and says why.
pub(super) struct Unclear;

pub(super) struct Draft<'a> {
    pub(super) snapshot: &'a TaskSnapshot,
    pub(super) settings: &'a Settings,
    pub(super) now: Timestamp,
    pub(super) status: NodePatchTaskStatus,
    effects: Vec<Effect>,
    notices: Vec<Notice>,
    wake: Option<Timestamp>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(snapshot: &'a TaskSnapshot, settings: &'a Settings, now: Timestamp) -> Self {
        let mut status = snapshot.task.status.clone().unwrap_or_default();
        status.observed_generation = snapshot.task.metadata.generation;
        status.attempt.get_or_insert(1);
        Self {
            snapshot,
            settings,
            now,
            status,
            effects: Vec::new(),
            notices: Vec::new(),
            wake: None,
        }
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Asks for the object that follows the new machine to its goal.
    pub(super) fn follow_new(&mut self, goal: PendingNodeGoal) {
        if let Some(machine) = self.status.new_machine.clone() {
            let node_name = self.status.new_node_name.clone();
            self.follow(&machine, node_name, goal);
        }
    }

    /// Asks for the object that follows a machine to its goal, by the deadline of this step.
    pub(super) fn follow(
        &mut self,
        machine: &MachineRecord,
        node_name: Option<String>,
        goal: PendingNodeGoal,
    ) {
        let way = Way {
            machine,
            node_name,
            goal,
            deadline: self.deadline(),
        };
        let pending = build::of_task(&self.snapshot.task, &way);
        self.effect(Effect::EnsurePending(Box::new(pending)));
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Takes back what this look has asked for so far, but for the lock: the step is being given up.
    pub(super) fn drop_effects(&mut self) {
        self.effects
            .retain(|effect| matches!(effect, Effect::RenewLock { .. }));
    }

    /// Records that a milestone is reached, tells it and enters the next step.
    pub(super) fn advance(&mut self, next: TaskStep, milestone: Milestone) {
        self.notices
            .push(Notice::normal(milestone.reason, milestone.message.clone()));
        self.advance_quietly(next, milestone);
    }

    /// The same, where a milestone was reached quietly before: one event tells both.
    pub(super) fn advance_from(&mut self, before: &str, next: TaskStep, milestone: Milestone) {
        let mut conditions = self.status.conditions.iter();
        let told = conditions.find(|one| one.type_ == before && one.status == "True");
        let message = match told {
            Some(told) => format!("{}; {}", told.message, milestone.message),
            None => milestone.message.clone(),
        };
        self.notices.push(Notice::normal(milestone.reason, message));
        self.advance_quietly(next, milestone);
    }

    /// Records that a milestone is reached and enters the next step. The condition tells it; the event
    /// of the next milestone will.
    pub(super) fn advance_quietly(&mut self, next: TaskStep, milestone: Milestone) {
        self.claim(
            milestone.condition,
            Truth::True,
            milestone.reason,
            milestone.message,
        );
        self.enter(next);
    }

    /// Enters a step: the wait of the former one is over and its delay forgiven. What the new one
    /// usually waits for is said at once: one write instead of two.
    pub(super) fn enter(&mut self, next: TaskStep) {
        let deadline = self
            .limit_of(next)
            .and_then(|limit| self.now.checked_add(limit).ok());
        self.status.step = Some(StepRecord {
            name: next,
            since: Time(self.now),
            deadline: deadline.map(Time),
        });
        self.status.phase = Some(self.phase_at(next));
        self.status.waiting_for = self.usual_wait(next);
        self.status.last_error = None;
        if matches!(next, TaskStep::Settle | TaskStep::Recover) {
            self.status.stable_since = None;
        }
        if next == TaskStep::Drain {
            // What one drain was forced to is no leave for the next.
            self.status.forced = None;
        }
        self.status.conditions.retain(|one| one.type_ != OVERDUE);
    }

    /// Gives the step its whole time once more, from now on: somebody else has used it up.
    pub(super) fn grant_anew(&mut self) {
        let limit = self.limit_of(self.status.step_name());
        let deadline = limit.and_then(|limit| self.now.checked_add(limit).ok());
        if let Some(step) = &mut self.status.step {
            step.deadline = deadline.map(Time);
        }
        self.status.conditions.retain(|one| one.type_ != OVERDUE);
        self.look_again();
    }

    /// Stays in the step and says why. The wait ends by a change, at `again`, or at the deadline,
    /// whichever comes first; what follows past the deadline is `expire`'s.
    pub(super) fn wait(&mut self, reason: String, again: Option<SignedDuration>) {
        let look_again = again.unwrap_or(self.settings.resync);
        let look_again = look_again.min(self.settings.lock_renewal());
        let mut wake = self.now.checked_add(look_again).ok();
        if let Some(deadline) = self.deadline().filter(|deadline| self.now < *deadline) {
            wake = wake.map(|time| time.min(deadline));
        }
        self.status.waiting_for = Some(reason);
        self.wake = wake;
    }

    /// Stays in the step for its usual reason.
    pub(super) fn wait_as_usual(&mut self, again: Option<SignedDuration>) {
        let step = self.status.step_name();
        let reason = self.usual_wait(step).unwrap_or_default();
        self.wait(reason, again);
    }

    /// When to look at what was just asked of the cloud: soon at first, because many answer at once,
    /// and less often the longer the step lasts.
    pub(super) fn soon(&self) -> SignedDuration {
        let poll = self.settings.machine_poll;
        let since = self.status.step.as_ref().map(|step| step.since.0);
        let age = since.map_or(poll, |since| self.now.duration_since(since));
        age.max(poll / FIRST_LOOKS).min(poll)
    }

    /// What a step waits for when nothing is in its way.
    fn usual_wait(&self, step: TaskStep) -> Option<String> {
        let node = &self.snapshot.task.spec.node_name;
        let id = |record: &Option<MachineRecord>| {
            record
                .as_ref()
                .map(|machine| machine.id.clone())
                .unwrap_or_default()
        };
        match step {
            TaskStep::Provision => {
                let zone = self
                    .status
                    .replacement
                    .as_ref()
                    .map(|record| record.zone.as_str());
                Some(format!(
                    "the cloud to create a machine in zone {}",
                    zone.unwrap_or_default()
                ))
            }
            TaskStep::Join => Some(format!(
                "machine {} to join as a ready node",
                id(&self.status.new_machine)
            )),
            TaskStep::Transfer => Some("the new node to get its labels".to_owned()),
            TaskStep::Settle | TaskStep::Recover => {
                Some("the important pods to be stable".to_owned())
            }
            TaskStep::Undo => Some("this attempt to be put back".to_owned()),
            TaskStep::Backoff => Some("the next attempt".to_owned()),
            TaskStep::Cordon => Some(format!("node {node} to be cordoned")),
            TaskStep::Drain => Some("pods to leave".to_owned()),
            TaskStep::RemoveMember => Some(format!("member {node} to leave etcd")),
            TaskStep::Remove => Some(format!("machine {} to end", id(&self.status.old_machine))),
            TaskStep::Forget => Some(format!("Node {node} to go")),
            TaskStep::Lock
            | TaskStep::Parked
            | TaskStep::Release
            | TaskStep::Done
            | TaskStep::Failed => None,
        }
    }

    /// Looks again at once: what was just asked for shows without delay, so there is nothing to tell.
    pub(super) fn look_again(&mut self) {
        self.wake = Some(self.now);
    }

    /// What a question came to: the thing or its absence. Without a clear answer the wait is already
    /// decided on.
    pub(super) fn look<T: Clone>(
        &mut self,
        observed: &Observed<T>,
        about: &str,
    ) -> Result<Option<T>, Unclear> {
        let why = match observed {
            Observed::Present(thing) => return Ok(Some(thing.clone())),
            Observed::Absent => return Ok(None),
            Observed::NotAsked => "nobody has looked yet",
            Observed::Unknown(why) => why,
        };
        self.wait(
            format!("cannot tell {about}: {why}"),
            Some(self.settings.machine_poll),
        );
        Err(Unclear)
    }

    /// Gives the task up for good: no further attempt could help.
    pub(super) fn fail(&mut self, reason: &'static str, message: String) {
        self.begin_undo(UndoRecord {
            reason: reason.to_owned(),
            message,
            next: UndoNext::Fail,
            keeps_machine: false,
        });
    }

    /// Ends the attempt: what it changed is put back, then comes what the record says.
    pub(super) fn begin_undo(&mut self, mut record: UndoRecord) {
        self.drop_effects();
        let is_last = matches!(record.next, UndoNext::Fail | UndoNext::CallOff);
        if is_last && condition::is_true(&self.status.conditions, OLD_DELETED) {
            record
                .message
                .push_str("; the old machine is gone, so the place of the node is empty");
        }
        let message = record.message.clone();
        self.notices.push(match record.next {
            UndoNext::Retry => Notice::warning("AttemptFailed", message.clone()),
            UndoNext::Fail => Notice::warning("TaskFailed", message.clone()),
            UndoNext::CallOff => Notice::normal("CalledOff", message.clone()),
            UndoNext::Leave => Notice::normal(NODE_LEFT, message.clone()),
        });
        self.status.undo = Some(record);
        self.status.parked = None;
        // What held up the old node is of no account any more: the new one is emptied next.
        self.status.drain = None;
        self.enter(TaskStep::Undo);
        self.status.last_error = Some(message);
    }

    /// Forgets the machine and the marks of an attempt; what is known of the old node stays.
    pub(super) fn forget_attempt(&mut self) {
        let status = &mut self.status;
        status.replacement = None;
        status.new_machine = None;
        status.new_node_name = None;
        status.new_node_uid = None;
        status.cordon = None;
        status.drain = None;
        status.parked = None;
        status.stable_since = None;
        status.stability_note = None;
        if let Some(etcd) = &mut status.etcd {
            etcd.new = None;
        }
    }

    /// The last attempt that is allowed.
    pub(super) fn attempt_limit(&self) -> i32 {
        let limit = self.status.attempt_limit;
        let limit = limit.unwrap_or_else(|| self.snapshot.max_attempts());
        // One that was lowered ends with the attempt that is under way.
        limit.max(self.status.attempt.unwrap_or(1))
    }

    pub(super) fn claim(
        &mut self,
        kind: &'static str,
        truth: Truth,
        reason: &str,
        message: String,
    ) {
        let generation = self.snapshot.task.metadata.generation;
        let claim = Claim {
            kind,
            truth,
            reason,
            message,
        };
        condition::set(&mut self.status.conditions, claim, generation, self.now);
    }

    pub(super) fn finish(mut self) -> Decision<NodePatchTaskStatus> {
        let before = self.snapshot.task.status.clone().unwrap_or_default();
        if self.status != before {
            self.status.updated_at = Some(Time(self.now));
        }
        Decision {
            status: self.status,
            effects: self.effects,
            notices: self.notices,
            wake: self.wake,
        }
    }

    /// The phase that a step shows. Where the order of steps differs, what is surely true does too.
    fn phase_at(&self, step: TaskStep) -> TaskPhase {
        let has = |kind| condition::is_true(&self.status.conditions, kind);
        let leads_to_drain = matches!(step, TaskStep::Settle | TaskStep::Cordon);
        let brings_machine = matches!(
            step,
            TaskStep::Provision | TaskStep::Join | TaskStep::Transfer
        );
        if leads_to_drain && has(LABELS_TRANSFERRED) {
            TaskPhase::LabelsTransferred
        } else if leads_to_drain && !has(NEW_NODE_READY) {
            TaskPhase::Locked
        } else if brings_machine && has(OLD_DELETED) {
            TaskPhase::OldDeleted
        } else {
            phase_of(step)
        }
    }

    /// How long a step may take: the run may say for the drain, the settings do for the rest. A gate's own time
    /// comes on top: else one that asks for more than the deadline could never open.
    fn limit_of(&self, step: TaskStep) -> Option<SignedDuration> {
        let options = self.snapshot.drain_options();
        let timeout = options.and_then(|options| options.timeout.as_deref());
        let own = span::parse(timeout).ok().filter(|span| !span.is_zero());
        let limit = own
            .filter(|_| step == TaskStep::Drain)
            .or_else(|| deadline_of(&self.settings.deadlines, step))?;
        let is_gate = matches!(step, TaskStep::Settle | TaskStep::Recover);
        let gate = settle::gate(self).ok().flatten().filter(|_| is_gate);
        Some(limit.saturating_add(gate.unwrap_or_default()))
    }

    /// When the current step must be over. The first step has no record yet; it began with the task.
    fn deadline(&self) -> Option<Timestamp> {
        match &self.status.step {
            Some(step) => step.deadline.as_ref().map(|time| time.0),
            None => {
                let began = self.snapshot.task.metadata.creation_timestamp.as_ref()?;
                began.0.checked_add(self.settings.deadlines.lock).ok()
            }
        }
    }

    /// Whether the current step should be over by now.
    pub(super) fn is_past_deadline(&self) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= self.now)
    }

    pub(super) fn mark_overdue(&mut self, reason: &str) {
        let message = format!("past its deadline, still waiting: {reason}");
        if !condition::is_true(&self.status.conditions, OVERDUE) {
            self.notices
                .push(Notice::warning("DeadlinePassed", message.clone()));
        }
        self.claim(OVERDUE, Truth::True, "DeadlinePassed", message);
    }
}

fn deadline_of(deadlines: &StepDeadlines, step: TaskStep) -> Option<SignedDuration> {
    match step {
        TaskStep::Lock => Some(deadlines.lock),
        TaskStep::Provision => Some(deadlines.provision),
        TaskStep::Join => Some(deadlines.join),
        TaskStep::Transfer => Some(deadlines.transfer),
        TaskStep::Settle => Some(deadlines.settle),
        TaskStep::Cordon => Some(deadlines.cordon),
        TaskStep::Drain => Some(deadlines.drain),
        TaskStep::Recover => Some(deadlines.recover),
        TaskStep::RemoveMember => Some(deadlines.remove_member),
        TaskStep::Undo => Some(deadlines.undo),
        TaskStep::Remove => Some(deadlines.remove),
        TaskStep::Forget => Some(deadlines.forget),
        TaskStep::Release => Some(deadlines.release),
        TaskStep::Backoff | TaskStep::Parked | TaskStep::Done | TaskStep::Failed => None,
    }
}
