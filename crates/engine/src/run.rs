//! Run: the next move of a NodePatchRun.
//!
//! Owns the way from a spec to a plan, from the plan to tasks, and the run's own status. Must not
//! disrupt a node: every disruption is a task's, and the mark on outdated nodes only asks the
//! scheduler to prefer others. Called on every change of the run, of one of its tasks or of the
//! ledger.

mod autoscaler;
mod brake;
mod ending;
mod late;
mod state;
mod task;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::conditions::{ABORTED, ACCEPTED, COMPLETED};
use shipshape_api::node_patch_run::{Canary, NodePatchRunStatus, Wave};
use shipshape_api::{NodePatchRunSpec, NodePatchTask, RunState, TaskStep};

use crate::admit::{self, Books, Waiting};
use crate::condition::{self, Claim, Truth};
use crate::decision::{Decision, Effect, Kept, KeptKind, Marks, NodeTarget, Notice};
use crate::ledger::{Ledger, Slot};
use crate::plan::{self, PlanError};
use crate::settings::Settings;
use crate::snapshot::RunSnapshot;
use crate::span;
use crate::view::{NodeView, Observed, is_kept};
use ending::Ending;
pub use state::state;

/// Decides what one look at a run leads to.
pub fn decide(
    snapshot: &RunSnapshot,
    settings: &Settings,
    now: Timestamp,
) -> Decision<NodePatchRunStatus> {
    let mut status = snapshot.run.status.clone().unwrap_or_default();
    status.observed_generation = snapshot.run.metadata.generation;
    let mut draft = Draft {
        snapshot,
        settings,
        now,
        decision: Decision::rest(status),
    };
    draft.decide();
    draft.note_state();
    draft.decision
}

/// What every node of the plan of such a run carries.
pub fn marks_wanted(spec: &NodePatchRunSpec) -> Marks {
    Marks {
        outdated: true,
        held: spec.forbids_scale_down(),
    }
}

/// Whether the run has nothing more to do, unless somebody asks for another try of a node.
pub fn is_over(status: &NodePatchRunStatus) -> bool {
    condition::is_true(&status.conditions, COMPLETED)
        || condition::is_true(&status.conditions, ABORTED)
}

struct Draft<'a> {
    snapshot: &'a RunSnapshot,
    settings: &'a Settings,
    now: Timestamp,
    decision: Decision<NodePatchRunStatus>,
}

impl Draft<'_> {
    fn decide(&mut self) {
        if let Some(ending) = ending::of(&self.snapshot.run) {
            self.count();
            return self.wind_down(ending);
        }
        if is_over(&self.decision.status) {
            if self.snapshot.open.is_empty() {
                return self.let_go();
            }
            // Else what the new work changes would never be put back.
            let message = "a node is tried again".to_owned();
            self.claim(COMPLETED, Truth::False, "TriedAgain", message);
            self.decision.status.groups_restored = None;
            self.decision.status.marked = None;
        }
        if !self.is_accepted() || !self.is_kept() {
            return;
        }
        self.count();
        if self.decision.status.plan.is_none() {
            self.make_plan();
        } else if self.decision.status.marked != Some(true) {
            self.mark();
        } else if self.is_autoscaler_held() {
            self.proceed();
        }
    }

    /// Says in one word how the run stands, since when, and tells people when it begins to stand
    /// otherwise. A pause is told where its reason is known, an ending by what was put back.
    fn note_state(&mut self) {
        let before = self.snapshot.run.status.as_ref();
        let before = before.and_then(|status| status.state);
        let now = state::with(&self.snapshot.run, &self.decision.status);
        if before == Some(now) {
            return;
        }
        match (before, now) {
            (Some(RunState::Paused), RunState::Active) => {
                let message = "further nodes may begin".to_owned();
                let notice = Notice::normal("Resumed", message);
                self.decision.notices.push(notice);
            }
            (_, RunState::Ending) => {
                let cause = if self.snapshot.run.metadata.deletion_timestamp.is_some() {
                    "the run is being deleted"
                } else {
                    "the run is called off"
                };
                let message = format!("{cause}: what it has changed is put back");
                let notice = Notice::normal("Ending", message);
                self.decision.notices.push(notice);
            }
            _ => {}
        }
        self.decision.status.state = Some(now);
        self.decision.status.state_since = Some(Time(self.now));
    }

    /// Whether the run stays until what it changed is put back; asks for that if not.
    fn is_kept(&mut self) -> bool {
        if is_kept(&self.snapshot.run.metadata) {
            return true;
        }
        // First the words of this look: written after the finalizer they would be about an old version
        // and be refused.
        if self.snapshot.run.status.as_ref() == Some(&self.decision.status) {
            let effect = Effect::EnsureFinalizer(kept(self.snapshot));
            self.decision.effects.push(effect);
        }
        self.decision.wake = Some(self.now);
        false
    }

    /// Puts the mark on all nodes of the plan, a handful at a time.
    fn mark(&mut self) {
        if self.snapshot.unmarked.is_empty() {
            self.decision.status.marked = Some(true);
            self.decision.wake = Some(self.now);
            return;
        }
        let marks = marks_wanted(&self.snapshot.run.spec);
        for node in self.snapshot.unmarked.clone() {
            self.put_marks(node, marks);
        }
        self.wait("all nodes of the plan to be marked as outdated".to_owned());
        self.decision.wake = Some(self.now);
    }

    fn put_marks(&mut self, node: NodeTarget, marks: Marks) {
        let kept = kept(self.snapshot);
        let run = format!("{}/{}", kept.namespace, kept.name);
        self.decision
            .effects
            .push(Effect::MarkNode { node, run, marks });
    }

    /// Tasks that are under way and not set aside.
    fn working(&self) -> Vec<&NodePatchTask> {
        let open = self.snapshot.open.iter().map(Arc::as_ref);
        open.filter(|task| !is_parked(task)).collect()
    }

    /// Whether this operator can do what the run asks for; says so in a condition either way.
    fn is_accepted(&mut self) -> bool {
        let wanted = &self.snapshot.run.spec.provider.r#type;
        if self.snapshot.known_providers.contains(wanted) {
            self.claim(
                ACCEPTED,
                Truth::True,
                "Supported",
                format!("provider {wanted} is supported"),
            );
            return true;
        }
        let known = match self.snapshot.known_providers.join(", ") {
            none if none.is_empty() => "none".to_owned(),
            known => known,
        };
        self.refuse(
            "UnsupportedProvider",
            format!("spec.provider.type {wanted:?} is not supported here; supported: {known}"),
        );
        false
    }

    fn count(&mut self) {
        let working = self.working();
        let important = working.iter().filter(|task| task.spec.important()).count();
        let working = working.len();
        let status = &mut self.decision.status;
        status.in_flight_important = Some(number(important));
        status.in_flight_non_important = Some(number(working - important));
        status.parked = Some(number(self.snapshot.open.len() - working)).filter(|count| *count > 0);
        status.completed = Some(number(self.snapshot.succeeded));
        status.failed = Some(number(self.snapshot.failed));
    }

    fn make_plan(&mut self) {
        let nodes = match &self.snapshot.nodes {
            Observed::Present(nodes) if !nodes.is_empty() => nodes,
            // A cluster without nodes is far less likely than a list that has not arrived.
            Observed::Present(_) | Observed::Absent | Observed::NotAsked => {
                return self.wait("the list of nodes".to_owned());
            }
            Observed::Unknown(why) => return self.wait(format!("the list of nodes: {why}")),
        };
        match plan::plan(&self.snapshot.run.spec, nodes) {
            Ok(plan) => {
                let total = plan.total();
                let message = format!("{total} node(s) in {} partition(s)", plan.partitions.len());
                self.decision
                    .notices
                    .push(Notice::normal("Planned", message));
                let status = &mut self.decision.status;
                status.total = Some(number(total));
                status.current_iteration = Some(0);
                status.plan = Some(Arc::new(plan));
            }
            Err(error @ PlanError::Selector(_)) => {
                self.refuse("InvalidSelector", error.to_string());
            }
            Err(error @ PlanError::TooLarge { .. }) => {
                self.refuse("PlanTooLarge", error.to_string());
            }
        }
    }

    fn proceed(&mut self) {
        if !self.snapshot.waiting.is_empty() {
            return self.admit();
        }
        match brake::brake(self.snapshot) {
            // Nobody waits to begin; still the wish is heard, and seen to be.
            Some(why) if !why.is_failure => self.pause(why),
            Some(_) => {}
            None => self.resume(),
        }
        self.free_slots();
        let working: Vec<String> = self
            .working()
            .iter()
            .map(|task| task.spec.node_name.clone())
            .collect();
        match some_of(&working) {
            Some(text) => self.wait(format!("tasks in flight: {text}")),
            None => self.next_partition(),
        }
    }

    fn admit(&mut self) {
        let ledger = match &self.snapshot.ledger {
            Observed::Present(ledger) => ledger.clone(),
            Observed::Absent => Ledger::default(),
            Observed::NotAsked => {
                return self.wait("the ledger, which nobody has read yet".to_owned());
            }
            Observed::Unknown(why) => return self.wait(format!("the ledger: {why}")),
        };
        let run = &self.snapshot.run;
        let owner = run.metadata.uid.clone().unwrap_or_default();
        let (granted, unheard): (Vec<&Waiting>, Vec<&Waiting>) = self
            .snapshot
            .waiting
            .iter()
            .partition(|one| holds_slot(&ledger, one));
        // A slot of ours without a task: the process ended between the two writes.
        for waiting in granted {
            if let Some(slot) = ledger.slots.get(&waiting.node.uid) {
                self.ensure_task(&waiting.node, slot);
            }
        }
        let ledger = self.without_spare(&ledger);
        if let Some(why) = brake::brake(self.snapshot) {
            self.grant(ledger, &[], &[]);
            return self.pause(why);
        }
        self.resume();
        if let Some(reason) = brake::hold(self.snapshot) {
            self.grant(ledger, &[], &[]);
            return self.wait(reason);
        }
        let unheard: Vec<Waiting> = unheard.into_iter().cloned().collect();
        let books = Books {
            ledger: &ledger,
            down: &self.snapshot.down,
            begun_within_hour: self.snapshot.begun_within_hour,
            on_their_way: &self.snapshot.on_their_way,
            etcd: &self.snapshot.etcd,
        };
        match admit::admit(&run.spec, &owner, &unheard, books, self.now) {
            Ok(admission) => {
                if let Some(reason) = admission.held_by {
                    self.wait(reason);
                }
                self.grant(ledger, &admission.grants, &unheard);
            }
            Err(error) => self.refuse(
                "InvalidSelector",
                format!("spec.importantPodSelectors: {error}"),
            ),
        }
    }

    /// The ledger without the slots that nobody works under any more.
    fn without_spare(&self, ledger: &Ledger) -> Ledger {
        let mut ledger = ledger.clone();
        // A run that ends makes no more tasks, so nobody will ever work under a slot that has none.
        let is_ending = ending::of(&self.snapshot.run).is_some();
        for (node_uid, task) in &self.snapshot.abandoned {
            let is_wanted = self.snapshot.waiting.iter().any(|one| one.task == *task);
            if is_ending || !is_wanted {
                ledger.slots.remove(node_uid);
            }
        }
        ledger
    }

    /// Whether slots of tasks that are over were given back, where nobody waits for them.
    fn free_slots(&mut self) -> bool {
        let Observed::Present(ledger) = &self.snapshot.ledger else {
            return false;
        };
        let free = self.without_spare(ledger);
        let is_due = free != *ledger;
        let is_asked = |effect: &Effect| matches!(effect, Effect::GrantSlots { .. });
        if !self.decision.effects.iter().any(is_asked) {
            self.grant(free, &[], &[]);
        }
        is_due
    }

    /// First the slots, those given back and those granted by one guarded write; then the tasks that
    /// work under them.
    fn grant(&mut self, ledger: Ledger, grants: &[(String, Slot)], waiting: &[Waiting]) {
        if grants.is_empty()
            && self
                .snapshot
                .ledger
                .present()
                .is_none_or(|read| *read == ledger)
        {
            return;
        }
        self.decision.effects.push(Effect::GrantSlots {
            ledger,
            slots: grants.to_vec(),
        });
        for (uid, slot) in grants {
            if let Some(one) = waiting.iter().find(|one| one.node.uid == *uid) {
                self.ensure_task(&one.node, slot);
            }
        }
    }

    fn ensure_task(&mut self, node: &NodeView, slot: &Slot) {
        let task = task::task(self.snapshot, &self.decision.status, node, slot);
        // Counted now, so that the sight of the task is no news.
        let status = &mut self.decision.status;
        let count = if slot.important {
            &mut status.in_flight_important
        } else {
            &mut status.in_flight_non_important
        };
        *count = Some(count.unwrap_or(0) + 1);
        self.decision
            .effects
            .push(Effect::EnsureTask(Box::new(task)));
    }

    fn next_partition(&mut self) {
        let current = self.decision.status.current_iteration.unwrap_or(0);
        let next = current + 1;
        let plan = self.decision.status.plan.as_ref();
        let wave = plan.and_then(|plan| plan::wave_at(plan, current));
        let partitions = number(plan.map_or(0, |plan| plan.partitions.len()));
        if next < partitions {
            if self.may_others_follow(wave) {
                self.decision.status.waiting_for = None;
                self.decision.status.current_iteration = Some(next);
                self.decision.wake = Some(self.now);
            }
            return;
        }
        // While parked nodes are tried again nobody looks; when none is left there is one more look.
        let is_last_round = self.decision.status.last_round == Some(true);
        if (!is_last_round || self.snapshot.open.is_empty()) && !self.is_plan_whole() {
            return;
        }
        let parked: Vec<String> = self
            .snapshot
            .open
            .iter()
            .map(|task| task.spec.node_name.clone())
            .collect();
        self.decision.status.current_iteration = Some(partitions);
        match some_of(&parked) {
            Some(text) => {
                self.decision.status.last_round = Some(true);
                self.wait(format!("parked nodes: {text}"));
            }
            None => self.wind_down(Ending::Completed),
        }
    }

    /// Whether the nodes of a wave that is over have shown that the others may follow.
    fn may_others_follow(&mut self, wave: Option<Wave>) -> bool {
        let Some(wave) = wave else { return true };
        if let Some(why) = brake::after(wave, self.snapshot) {
            self.pause(why);
            return false;
        }
        match (wave, &self.snapshot.run.spec.canary) {
            (Wave::Canaries, Some(canary)) => self.is_soak_over(canary),
            (Wave::Canaries, None) | (Wave::ControlPlanes, _) => true,
        }
    }

    fn is_soak_over(&mut self, canary: &Canary) -> bool {
        let soak = match span::parse(canary.soak.as_deref()) {
            Ok(soak) => soak,
            Err(error) => {
                self.refuse("InvalidSoak", format!("spec.canary.soak: {error}"));
                return false;
            }
        };
        let until = match &self.decision.status.soak_until {
            Some(until) => until.0,
            None => self.now.checked_add(soak).unwrap_or(self.now),
        };
        self.decision.status.soak_until = Some(Time(until));
        if self.now < until {
            self.wait(format!("the canary nodes to be watched until {until:.0}"));
            self.decision.wake = Some(until);
            return false;
        }
        true
    }

    fn pause(&mut self, why: brake::Pause) {
        let before = self.snapshot.run.status.as_ref();
        let before = before.and_then(|status| status.pause_reason.as_ref());
        if before != Some(&why.reason) {
            self.decision.notices.push(Notice {
                warning: why.is_failure,
                reason: "Paused",
                message: why.reason.clone(),
            });
        }
        self.decision.status.paused = Some(true);
        self.decision.status.pause_reason = Some(why.reason);
        self.wait(why.way_out);
    }

    fn resume(&mut self) {
        self.decision.status.paused = None;
        self.decision.status.pause_reason = None;
        self.decision.status.waiting_for = None;
    }

    fn wait(&mut self, reason: String) {
        self.decision.status.waiting_for = Some(reason);
        self.decision.wake = self.now.checked_add(self.settings.resync).ok();
    }

    fn refuse(&mut self, reason: &'static str, message: String) {
        let is_news =
            !self.decision.status.conditions.iter().any(|one| {
                one.type_ == ACCEPTED && one.status == "False" && one.message == message
            });
        if is_news {
            self.decision
                .notices
                .push(Notice::warning(reason, message.clone()));
        }
        self.decision.status.waiting_for = Some(message.clone());
        self.claim(ACCEPTED, Truth::False, reason, message);
    }

    fn claim(&mut self, kind: &'static str, truth: Truth, reason: &'static str, message: String) {
        let generation = self.snapshot.run.metadata.generation;
        let claim = Claim {
            kind,
            truth,
            reason,
            message,
        };
        condition::set(
            &mut self.decision.status.conditions,
            claim,
            generation,
            self.now,
        );
    }
}

fn holds_slot(ledger: &Ledger, waiting: &Waiting) -> bool {
    ledger
        .slots
        .get(&waiting.node.uid)
        .is_some_and(|slot| slot.task == waiting.task)
}

fn is_parked(task: &NodePatchTask) -> bool {
    task.status
        .as_ref()
        .is_some_and(|status| status.step_name() == TaskStep::Parked)
}

/// The first of some names and how many more there are.
fn some_of(names: &[String]) -> Option<String> {
    let first = names.first()?;
    Some(match names.len() - 1 {
        0 => first.clone(),
        more => format!("{first} and {more} more"),
    })
}

fn kept(snapshot: &RunSnapshot) -> Kept {
    let meta = &snapshot.run.metadata;
    Kept {
        kind: KeptKind::Run,
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
