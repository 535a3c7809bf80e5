//! Run: the next move of a NodePatchRun.
//!
//! Owns the way from a spec to a plan, from the plan to tasks, and the run's own status. Must not
//! disrupt a node: every disruption is a task's, and the mark on outdated nodes only keeps new pods
//! away from them. Called on every change of the run, of one of its tasks or of the
//! ledger.

mod autoscaler;
mod brake;
mod ending;
mod grant;
mod late;
mod state;
mod task;
#[cfg(test)]
mod tests;
mod waves;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::conditions::{ABORTED, ACCEPTED, COMPLETED};
use shipshape_api::node_patch_run::NodePatchRunStatus;
use shipshape_api::reasons::UNSUPPORTED_PROVIDER;
use shipshape_api::{NodePatchRun, NodePatchTask, RunState, TaskStep};

use crate::closing::{self, Homeless};
use crate::condition::{self, Claim, Truth};
use crate::decision::{Decision, Effect, Kept, KeptKind, Marks, NodeTarget, Notice};
use crate::plan::{self, PlanError};
use crate::settings::Settings;
use crate::snapshot::RunSnapshot;
use crate::view::{Observed, is_kept};
use brake::{Brake, Pause};
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
    draft.wake_for_homeless();
    draft.note_state();
    draft.decision
}

/// What the node with this number in the run's plan carries.
pub fn marks_wanted(run: &NodePatchRun, number: usize) -> Marks {
    Marks {
        outdated: Some(closing::effect(run, number)),
        held: run.spec.forbids_scale_down(),
    }
}

/// Whether the run has nothing more to do, unless somebody asks for another try of a node.
pub fn is_over(status: &NodePatchRunStatus) -> bool {
    condition::is_true(&status.conditions, COMPLETED)
        || condition::is_true(&status.conditions, ABORTED)
}

/// Whether the run has changed anything but its own status: marks, the autoscaler or a node.
fn has_begun(status: &NodePatchRunStatus) -> bool {
    let at_work = [status.in_flight_important, status.in_flight_non_important];
    let has_worked = [status.completed, status.failed, status.left, status.parked];
    status.marked == Some(true)
        || status.reopened.is_some()
        || status.autoscaler.is_some()
        || at_work
            .into_iter()
            .chain(has_worked)
            .flatten()
            .any(|count| count > 0)
}

/// Whether the run may have changed something in its cloud: it has a plan, is not over, and was not held back from
/// the start by `spec.paused`.
pub fn may_use_cloud(run: &NodePatchRun) -> bool {
    let Some(status) = run.status.as_ref() else {
        return false;
    };
    let is_held_back = run.spec.paused() && status.paused == Some(true) && !has_begun(status);
    status.plan.is_some() && !is_over(status) && !is_held_back
}

/// Whether failures hold the run back, and with it nodes that were set aside, unless a person asks for one of
/// them: each would meet what the others have. In the last round they are all that is left to do.
pub fn is_braked(run: &NodePatchRun) -> bool {
    let status = run.status.as_ref();
    let held = |status: &NodePatchRunStatus| {
        status.paused == Some(true) && status.last_round != Some(true)
    };
    !run.spec.paused() && status.is_some_and(held)
}

struct Draft<'a> {
    snapshot: &'a RunSnapshot,
    settings: &'a Settings,
    now: Timestamp,
    decision: Decision<NodePatchRunStatus>,
}

impl Draft<'_> {
    fn decide(&mut self) {
        self.tell_of_ledger();
        if let Some(ending) = ending::of(&self.snapshot.run) {
            self.count();
            if !self.makes_room_on_the_way_back() {
                self.wind_down(ending);
            }
            return;
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
            self.ask_anew_for_late();
            self.forget_past_hold();
        }
        if !self.is_accepted() || !self.is_kept() {
            return;
        }
        self.count();
        if self.decision.status.plan.is_none() {
            self.make_plan();
        } else if self.is_plan_stale() {
            self.decision.status.plan = None;
            self.decision.wake = Some(self.now);
        } else if !self.snapshot.marked.is_empty() && self.is_reopening() {
            self.decision.wake = Some(self.now);
        } else if let Some(why) = self.pause_before_begin() {
            self.pause(why);
        } else if !self.is_iteration_planned() {
            // The nodes that wait there are looked for first.
            self.decision.wake = Some(self.now);
        } else if self.is_reopening() || self.is_hold_new() {
            self.decision.wake = Some(self.now);
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

    /// Whether the spec was changed since the plan was made, and no node was touched by it yet: the run is planned anew,
    /// so that a selector that was narrowed in a pause counts, and so do nodes that have come and gone in it.
    fn is_plan_stale(&self) -> bool {
        let is_untouched = self.snapshot.open.is_empty() && self.snapshot.marked.is_empty();
        self.is_spec_new() && is_untouched && !has_begun(&self.decision.status)
    }

    /// Whether the spec was changed since the last look.
    fn is_spec_new(&self) -> bool {
        let before = self.snapshot.run.status.as_ref();
        let seen = before.and_then(|status| status.observed_generation);
        seen.is_some() && seen != self.snapshot.run.metadata.generation
    }

    /// The pause of a run that has only been planned, or whose nodes are being marked: it stays that way. One that
    /// waited so goes on as one that was never paused.
    fn pause_before_begin(&mut self) -> Option<Pause> {
        if has_begun(&self.decision.status) || !self.snapshot.open.is_empty() {
            return None;
        }
        let why = brake::wish(&self.snapshot.run.spec);
        if why.is_none() && self.decision.status.paused == Some(true) {
            self.resume();
        }
        why
    }

    /// Puts the mark on all nodes of the plan, a handful at a time.
    fn mark(&mut self) {
        if self.snapshot.unmarked.is_empty() {
            let forbids = self.snapshot.run.spec.forbids_scale_down();
            self.decision.status.marked = Some(true);
            self.decision.status.scale_down_forbidden = forbids.then_some(true);
            self.decision.wake = Some(self.now);
            return;
        }
        for (node, number) in &self.snapshot.unmarked {
            let marks = marks_wanted(&self.snapshot.run, *number);
            self.put_marks(node.clone(), marks);
        }
        self.wait("all nodes of the plan to be marked as outdated".to_owned());
        self.decision.wake = Some(self.now);
    }

    /// Whether the run has come to forbid scale-down after its nodes were marked: they are marked anew.
    fn is_hold_new(&mut self) -> bool {
        let status = &self.decision.status;
        let is_new = self.snapshot.run.spec.forbids_scale_down()
            && status.marked == Some(true)
            && status.scale_down_forbidden != Some(true)
            && !self.is_every_turn_over();
        if is_new {
            self.decision.status.marked = None;
        }
        is_new
    }

    /// Tasks that are put back move pods to nodes that the run may have closed, and the marks go only when
    /// the last task has: so closed nodes are opened on the way back too.
    fn makes_room_on_the_way_back(&mut self) -> bool {
        if self.snapshot.open.is_empty() {
            return false;
        }
        if self.is_reopening() {
            self.decision.wake = Some(self.now);
            return true;
        }
        let status = &self.decision.status;
        let is_due = status.reopened.is_some() && !self.snapshot.unmarked.is_empty();
        if is_due {
            self.mark();
        }
        is_due
    }

    /// Whether nodes that are closed to new pods must take them again: a pod has had no place for too long,
    /// or the run has come to ask for less. Their marks are put on anew then.
    fn is_reopening(&mut self) -> bool {
        let homeless = self.snapshot.homeless.as_ref();
        let message = if closing::is_overruled(&self.snapshot.run) {
            "spec.outdatedTaintEffect is PreferNoSchedule now: outdated nodes take new pods again"
                .to_owned()
        } else if let Some(one) = homeless.filter(|one| self.reopens_at(one) <= self.now) {
            format!(
                "no node had room for pod {} since {:.0}: outdated nodes take new pods again",
                one.pod, one.since
            )
        } else {
            return false;
        };
        let notice = Notice::warning("Reopened", message.clone());
        self.decision.notices.push(notice);
        self.decision.status.reopened = Some(message);
        self.decision.status.marked = None;
        true
    }

    fn reopens_at(&self, homeless: &Homeless) -> Timestamp {
        let at = homeless.since.checked_add(self.settings.reopen_after);
        at.unwrap_or(homeless.since)
    }

    /// A pod without a place is looked at again when its time is over; one whose time was over has been
    /// acted upon, or cannot be.
    fn wake_for_homeless(&mut self) {
        let homeless = self.snapshot.homeless.as_ref();
        let at = homeless.map(|homeless| self.reopens_at(homeless));
        if let Some(at) = at.filter(|at| *at > self.now) {
            let wake = self.decision.wake.map_or(at, |wake| wake.min(at));
            self.decision.wake = Some(wake);
        }
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
            if !self.is_refused_otherwise() {
                self.accept();
            }
            return true;
        }
        let known = match self.snapshot.known_providers.join(", ") {
            none if none.is_empty() => "none".to_owned(),
            known => known,
        };
        self.refuse(
            UNSUPPORTED_PROVIDER,
            format!("spec.provider.type {wanted:?} is not supported here; supported: {known}"),
        );
        false
    }

    /// Whether the last look refused the run for something that only comes to light further on. It stands
    /// until that place is passed: said True here and False there, it would be news at every look.
    fn is_refused_otherwise(&self) -> bool {
        let conditions = &self.decision.status.conditions;
        let mut accepted = conditions.iter().filter(|one| one.type_ == ACCEPTED);
        accepted.any(|one| one.status == "False" && one.reason != UNSUPPORTED_PROVIDER)
    }

    /// Takes a refusal back.
    fn accept(&mut self) {
        let wanted = &self.snapshot.run.spec.provider.r#type;
        let message = format!("provider {wanted} is supported");
        self.claim(ACCEPTED, Truth::True, "Supported", message);
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
        let failures = brake::all_failures(self.snapshot);
        status.failures = Some(number(failures)).filter(|count| *count > 0);
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
                self.accept();
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
        self.end_of_hold_up();
        // Nobody waits to begin; still nodes that are set aside do, and a wish is heard, and seen to be.
        let after_wave = || self.wave().and_then(|wave| self.brake().after(wave));
        match self.brake().pause().or_else(after_wave) {
            Some(why) => self.pause(why),
            None => self.resume(),
        }
        self.free_slots();
        let working: Vec<String> = self
            .working()
            .iter()
            .map(|task| task.spec.node_name.clone())
            .collect();
        match some_of(&working) {
            Some(text) => {
                self.forget_soak();
                self.wait(format!("tasks in flight: {text}"));
            }
            None => self.next_partition(),
        }
    }

    fn brake(&self) -> Brake<'_> {
        Brake {
            snapshot: self.snapshot,
            now: self.now,
            patience: self.settings.deadlines.lock,
        }
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
