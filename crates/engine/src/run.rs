//! Run: the next move of a NodePatchRun.
//!
//! Owns the way from a spec to a plan, from the plan to tasks, and the run's own status. Must not
//! touch a node: every disruption is a task's. Called on every change of the run, of one of its
//! tasks or of the ledger.

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use shipshape_api::conditions::{ACCEPTED, COMPLETED};
use shipshape_api::node_patch_run::NodePatchRunStatus;
use shipshape_api::{NodePatchTask, NodePatchTaskSpec, TaskAction, names};

use crate::admit::{self, Waiting};
use crate::condition::{self, Claim, Truth};
use crate::decision::{Decision, Effect, Notice};
use crate::ledger::{Ledger, Slot};
use crate::plan;
use crate::settings::Settings;
use crate::snapshot::RunSnapshot;
use crate::view::{NodeView, Observed};

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
    if !draft.is_completed() && draft.is_accepted() {
        draft.count();
        if draft.decision.status.plan.is_none() {
            draft.make_plan();
        } else {
            draft.proceed();
        }
    }
    draft.decision
}

struct Draft<'a> {
    snapshot: &'a RunSnapshot,
    settings: &'a Settings,
    now: Timestamp,
    decision: Decision<NodePatchRunStatus>,
}

impl Draft<'_> {
    fn is_completed(&self) -> bool {
        condition::is_true(&self.decision.status.conditions, COMPLETED)
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
        let important = self
            .snapshot
            .open
            .iter()
            .filter(|task| task.spec.important())
            .count();
        let status = &mut self.decision.status;
        status.in_flight_important = Some(number(important));
        status.in_flight_non_important = Some(number(self.snapshot.open.len() - important));
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
                let message = format!(
                    "{} node(s) in {} partition(s)",
                    plan.candidates.len(),
                    plan.partitions.len()
                );
                self.decision
                    .notices
                    .push(Notice::normal("Planned", message));
                let status = &mut self.decision.status;
                status.total = Some(number(plan.candidates.len()));
                status.current_iteration = Some(0);
                status.plan = Some(plan);
            }
            Err(error) => self.refuse("InvalidSelector", format!("spec.nodeSelector: {error}")),
        }
    }

    fn proceed(&mut self) {
        if !self.snapshot.waiting.is_empty() {
            self.admit();
        } else if let Some(open) = self.snapshot.open.first() {
            let more = self.snapshot.open.len() - 1;
            let node = &open.spec.node_name;
            let text = if more == 0 {
                node.clone()
            } else {
                format!("{node} and {more} more")
            };
            self.wait(format!("tasks in flight: {text}"));
        } else {
            self.next_partition();
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
        if run.spec.paused() {
            return self.pause();
        }
        self.resume();
        let unheard: Vec<Waiting> = unheard.into_iter().cloned().collect();
        match admit::admit(&run.spec, &owner, &unheard, &ledger, self.now) {
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

    /// First the slots, by one guarded write; then the tasks that work under them.
    fn grant(&mut self, ledger: Ledger, grants: &[(String, Slot)], waiting: &[Waiting]) {
        if grants.is_empty() {
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
        let task = task(self.snapshot, &self.decision.status, node, slot);
        self.decision
            .effects
            .push(Effect::EnsureTask(Box::new(task)));
    }

    fn next_partition(&mut self) {
        let status = &mut self.decision.status;
        let next = status.current_iteration.unwrap_or(0) + 1;
        let partitions = status.plan.as_ref().map_or(0, |plan| plan.partitions.len());
        status.waiting_for = None;
        if next < number(partitions) {
            status.current_iteration = Some(next);
            return;
        }
        let (failed, succeeded) = (self.snapshot.failed, self.snapshot.succeeded);
        let reason = if failed == 0 {
            "AllPartitionsDone"
        } else {
            "SomeNodesFailed"
        };
        let message = format!("{succeeded} node(s) replaced, {failed} failed");
        status.current_iteration = Some(number(partitions));
        self.decision.notices.push(if failed == 0 {
            Notice::normal(reason, message.clone())
        } else {
            Notice::warning(reason, message.clone())
        });
        self.claim(COMPLETED, Truth::True, reason, message);
        // The last one out puts things back; a group may be another run's too.
        if self.snapshot.others == 0 {
            self.decision.effects.push(Effect::RestoreGroups);
        }
    }

    fn pause(&mut self) {
        self.decision.status.paused = Some(true);
        self.decision.status.pause_reason = Some("spec.paused=true".to_owned());
        self.wait("spec.paused to be lifted".to_owned());
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

fn task(
    snapshot: &RunSnapshot,
    status: &NodePatchRunStatus,
    node: &NodeView,
    slot: &Slot,
) -> NodePatchTask {
    let meta = &snapshot.run.metadata;
    let run_name = meta.name.clone().unwrap_or_default();
    let run_uid = meta.uid.clone().unwrap_or_default();
    let spec = &snapshot.run.spec;
    let name = slot.task.rsplit('/').next().unwrap_or_default().to_owned();
    let mut task = NodePatchTask::new(
        &name,
        NodePatchTaskSpec {
            action: TaskAction::Replace,
            run_name: run_name.clone(),
            run_uid: run_uid.clone(),
            iteration: status.current_iteration,
            node_name: node.name.clone(),
            node_uid: node.uid.clone(),
            zone: Some(node.zone.clone()).filter(|zone| !zone.is_empty()),
            important: Some(slot.important),
            provider: Some(spec.provider.clone()),
            important_pod_selectors: spec.important_pod_selectors.clone(),
            required_node_daemon_pod_selectors: spec.required_node_daemon_pod_selectors.clone(),
            stability: spec.stability.clone(),
            label_transfer: spec.label_transfer.clone(),
            drain: spec.drain.clone(),
        },
    );
    task.metadata.namespace.clone_from(&meta.namespace);
    task.metadata.labels = Some([(names::LABEL_RUN_UID.to_owned(), run_uid.clone())].into());
    task.metadata.owner_references = Some(vec![OwnerReference {
        api_version: format!("{}/{}", names::GROUP, names::VERSION),
        kind: "NodePatchRun".to_owned(),
        name: run_name,
        uid: run_uid,
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    task
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
