//! Pending: the next move of one machine on its way in or out.
//!
//! Owns what a PendingNode leads to: a machine that shall join is protected and watched until its
//! Node is ready, one that shall leave is chased until the cloud says that it is gone. Must not end a
//! machine whose Node is in service or not yet emptied, and must not decide in place of a task that lives: that one
//! turns the goal itself. The object goes once its goal is reached, so a quiet cluster has none.

pub mod build;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::conditions::OVERDUE;
use shipshape_api::{CspState, PendingNode, PendingNodeGoal, PendingNodeStatus};

use crate::condition::{self, Claim, Truth};
use crate::decision::{Decision, Effect};
use crate::machine::{Machine, MachineState};
use crate::settings::Settings;
use crate::sweep::{is_completed, is_load};
use crate::view::{NodeView, Observed, PodView};

/// How many times as old as at the last telling a machine's object is when a usual state is told again.
const QUIET_GROWTH: i32 = 2;

/// What the decision about a machine sees.
#[derive(Clone, Debug)]
pub struct PendingSnapshot {
    /// The object.
    pub pending: PendingNode,
    /// The machine, as the cloud says.
    pub machine: Observed<Machine>,
    /// Its Node, matched by provider id; read live when the machine shall leave.
    pub node: Observed<NodeView>,
    /// What runs on that Node, read live when the machine shall leave and no task has emptied it.
    pub pods: Observed<Vec<PodView>>,
    /// Who waits for it.
    pub asker: Asker,
}

/// Who waits for a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asker {
    /// No task: whoever made the object left it to us.
    Nobody,
    /// A task that lives and has not done with the machine yet.
    Waiting,
    /// A task that lives and needs the object no more.
    Satisfied,
    /// A task that is surely gone.
    Gone,
    /// Nobody knows; the text says why.
    Unknown(String),
}

/// Decides what one look at a machine leads to.
pub fn decide(
    snapshot: &PendingSnapshot,
    settings: &Settings,
    now: Timestamp,
) -> Decision<PendingNodeStatus> {
    let mut status = snapshot.pending.status.clone().unwrap_or_default();
    status.observed_generation = snapshot.pending.metadata.generation;
    let mut draft = Draft {
        snapshot,
        settings,
        now,
        decision: Decision::rest(status),
    };
    draft.record_state();
    match snapshot.pending.spec.goal {
        PendingNodeGoal::Join => draft.join(),
        PendingNodeGoal::Leave => draft.leave(),
    }
    draft.keep_quiet();
    draft.decision
}

struct Draft<'a> {
    snapshot: &'a PendingSnapshot,
    settings: &'a Settings,
    now: Timestamp,
    decision: Decision<PendingNodeStatus>,
}

impl Draft<'_> {
    /// What the cloud says now; without an answer the last one stands.
    fn record_state(&mut self) {
        let state = match &self.snapshot.machine {
            Observed::Present(machine) => csp_state(machine.state),
            Observed::Absent => CspState::Terminated,
            Observed::NotAsked | Observed::Unknown(_) => return,
        };
        let status = &mut self.decision.status;
        if status.csp_state != Some(state) {
            status.csp_state = Some(state);
            status.csp_state_since = Some(Time(self.now));
        }
    }

    fn join(&mut self) {
        let has_joined = self.snapshot.node.present().is_some_and(|node| node.ready);
        match &self.snapshot.asker {
            Asker::Satisfied => return self.finish(),
            // A node that is ready may carry pods: it stays, and the sweep gives it to its group.
            Asker::Gone | Asker::Nobody if has_joined => return self.finish(),
            Asker::Gone => return self.turn(),
            Asker::Nobody if self.is_past_deadline() => return self.turn(),
            Asker::Nobody | Asker::Waiting | Asker::Unknown(_) => {}
        }
        self.protect();
        if has_joined {
            return self.finish();
        }
        self.wait_to_join();
    }

    /// Waits, for what the machine lacks to be a ready node.
    fn wait_to_join(&mut self) {
        let poll = Some(self.settings.machine_poll);
        if let Asker::Unknown(why) = &self.snapshot.asker {
            return self.wait(format!("an answer about its task: {why}"), poll);
        }
        match (&self.snapshot.machine, &self.snapshot.node) {
            (Observed::Unknown(why), _) => {
                self.wait(format!("an answer of the cloud: {why}"), poll);
            }
            (Observed::NotAsked, _) => self.wait("a look at the cloud".to_owned(), poll),
            (Observed::Absent, _) => {
                self.wait("nothing: the cloud does not know it".to_owned(), None);
            }
            (Observed::Present(_), Observed::Unknown(why)) => {
                self.wait(format!("a clear sight of its node: {why}"), None);
            }
            (Observed::Present(machine), _) => {
                let (reason, again) = match machine.state {
                    MachineState::Ready => ("its node to join and be ready", None),
                    MachineState::Creating => ("the cloud to start it", poll),
                    MachineState::Unknown => ("a clear answer of the cloud", poll),
                    MachineState::Stopped => ("somebody to start it: it is switched off", poll),
                    MachineState::Failed | MachineState::Terminating | MachineState::Terminated => {
                        ("nothing: the cloud has ended it", None)
                    }
                };
                self.wait(reason.to_owned(), again);
            }
        }
    }

    /// While it joins, its group must not pick it for a scale-in. A machine that has come to its end is
    /// left alone: whoever sees it joining looks at an old copy, and nobody would lift the protection.
    fn protect(&mut self) {
        if let Observed::Present(machine) = &self.snapshot.machine
            && !machine.protected
            && !is_completed(machine)
            && matches!(machine.state, MachineState::Creating | MachineState::Ready)
        {
            self.decision.effects.push(Effect::ProtectMachine {
                id: machine.id.clone(),
                protected: true,
            });
        }
    }

    /// It will not join any more. The turn is recorded by itself; the next look ends the machine.
    fn turn(&mut self) {
        let (name, uid) = self.object();
        self.decision
            .effects
            .push(Effect::TurnPending { name, uid });
        self.decision.wake = Some(self.now);
    }

    fn leave(&mut self) {
        let poll = Some(self.settings.machine_poll);
        let machine = match &self.snapshot.machine {
            Observed::Absent => return self.finish(),
            Observed::Present(machine) => machine,
            Observed::Unknown(why) => {
                return self.wait(format!("an answer of the cloud: {why}"), poll);
            }
            Observed::NotAsked => return self.wait("a look at the cloud".to_owned(), poll),
        };
        match machine.state {
            MachineState::Terminated => return self.finish(),
            MachineState::Terminating => {}
            MachineState::Unknown
            | MachineState::Creating
            | MachineState::Ready
            | MachineState::Stopped
            | MachineState::Failed => {
                if let Some(why) = in_service(&self.snapshot.node).or_else(|| self.occupied()) {
                    return self.wait(why, poll);
                }
                let id = machine.id.clone();
                self.decision.effects.push(Effect::DeleteMachine(id));
            }
        }
        self.wait("the cloud to end it".to_owned(), poll);
        if self.is_past_deadline() {
            self.mark_overdue();
        }
    }

    /// Which pods would be lost with a machine that nobody has emptied. A pod that is past its grace on
    /// a node that does not answer is no obstacle: its end was asked for, and only the machine's brings it.
    fn occupied(&self) -> Option<String> {
        let node = self.snapshot.node.present()?;
        if !matches!(self.snapshot.asker, Asker::Nobody | Asker::Gone) {
            return None;
        }
        let pods = match &self.snapshot.pods {
            Observed::Present(pods) => pods,
            Observed::Absent => return None,
            Observed::Unknown(why) => return Some(format!("a clear sight of its pods: {why}")),
            Observed::NotAsked => return Some("a look at its pods".to_owned()),
        };
        let is_stranded =
            |pod: &PodView| !node.ready && pod.gone_by.is_some_and(|by| by < self.now);
        let mut load = pods.iter().filter(|pod| is_load(pod) && !is_stranded(pod));
        let first = load.next()?;
        let more = match load.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "pod {}/{}{more} to leave node {}: drain it first",
            first.namespace, first.name, node.name
        ))
    }

    /// What the goal says anyway is not worth a write until it has lasted: a usual state is told when
    /// the object has come to some age, and the next one when it is several times as old.
    fn keep_quiet(&mut self) {
        let pending = &self.snapshot.pending;
        let told = pending.status.clone().unwrap_or_default();
        let Some(until) = self.quiet_until(&told) else {
            return;
        };
        if self.is_as_usual() && self.now < until {
            self.decision.status = told;
            self.decision.wake = self.decision.wake.map(|wake| wake.min(until));
        }
    }

    /// Until when a usual state need not be told, given what was told last.
    fn quiet_until(&self, told: &PendingNodeStatus) -> Option<Timestamp> {
        let made = self.snapshot.pending.metadata.creation_timestamp.as_ref()?;
        let quiet = match &told.csp_state_since {
            None if *told == PendingNodeStatus::default() => self.settings.machine_quiet,
            None => return None,
            Some(since) => since.0.duration_since(made.0) * QUIET_GROWTH,
        };
        made.0.checked_add(quiet).ok()
    }

    /// Whether everything is as it usually is on this way, so that the goal tells all there is.
    fn is_as_usual(&self) -> bool {
        let PendingSnapshot {
            pending,
            machine,
            node,
            asker,
            ..
        } = self.snapshot;
        let state = machine.present().map(|machine| machine.state);
        let is_usual = match pending.spec.goal {
            PendingNodeGoal::Join => {
                matches!(state, Some(MachineState::Creating | MachineState::Ready))
            }
            PendingNodeGoal::Leave => {
                state == Some(MachineState::Terminating) && !self.is_past_deadline()
            }
        };
        is_usual && !matches!(node, Observed::Unknown(_)) && !matches!(asker, Asker::Unknown(_))
    }

    /// The goal is reached: the object goes, and its status is not worth another write.
    fn finish(&mut self) {
        let (name, uid) = self.object();
        self.decision.status = self.snapshot.pending.status.clone().unwrap_or_default();
        self.decision
            .effects
            .push(Effect::ForgetPending { name, uid });
        self.decision.wake = None;
    }

    /// Name and UID of the object.
    fn object(&self) -> (String, String) {
        let meta = &self.snapshot.pending.metadata;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        (text(&meta.name), text(&meta.uid))
    }

    fn wait(&mut self, reason: String, again: Option<SignedDuration>) {
        self.decision.status.reached_goal = Some(false);
        self.decision.status.waiting_for = Some(reason);
        let again = again.unwrap_or(self.settings.resync);
        let mut wake = self.now.checked_add(again).ok();
        if let Some(deadline) = self.deadline().filter(|deadline| self.now < *deadline) {
            wake = wake.map(|time| time.min(deadline));
        }
        self.decision.wake = wake;
    }

    fn deadline(&self) -> Option<Timestamp> {
        let spec = &self.snapshot.pending.spec;
        spec.deadline.as_ref().map(|time| time.0)
    }

    fn is_past_deadline(&self) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= self.now)
    }

    fn mark_overdue(&mut self) {
        let claim = Claim {
            kind: OVERDUE,
            truth: Truth::True,
            reason: "DeadlinePassed",
            message: "the cloud has not ended the machine in time; it is still asked to".to_owned(),
        };
        let generation = self.snapshot.pending.metadata.generation;
        let conditions = &mut self.decision.status.conditions;
        condition::set(conditions, claim, generation, self.now);
    }
}

/// Why a machine must not be ended now: pods may run there and more may come. A node that is closed,
/// gone or never was ready is no obstacle; one that nobody could see is.
fn in_service(node: &Observed<NodeView>) -> Option<String> {
    match node {
        Observed::Present(node) if node.ready && !node.unschedulable => Some(format!(
            "node {} to be cordoned: it is in service",
            node.name
        )),
        Observed::Absent | Observed::Present(_) => None,
        Observed::Unknown(why) => Some(format!("a clear sight of its node: {why}")),
        Observed::NotAsked => Some("a look at its node".to_owned()),
    }
}

/// The cloud's state in the words of the kind.
fn csp_state(state: MachineState) -> CspState {
    match state {
        MachineState::Unknown => CspState::Unknown,
        MachineState::Creating => CspState::Creating,
        MachineState::Ready => CspState::Ready,
        MachineState::Stopped => CspState::Stopped,
        MachineState::Terminating => CspState::Terminating,
        MachineState::Terminated => CspState::Terminated,
        MachineState::Failed => CspState::Failed,
    }
}
