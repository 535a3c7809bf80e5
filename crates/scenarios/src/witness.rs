//! The witness: sees what happens from outside and checks the invariants after every event.
//!
//! Owns the checks and the counts of a report. Must not believe the operator's own status: it judges by
//! nodes, pods, requests and cloud calls, and holds what a task claims against them. Fed with facts by
//! a stage; a pure state machine, so that each check has a test that breaks it.

mod checks;
mod claims;
mod etcd;
mod fact;
mod hearing;
mod holds;
mod limits;
mod moves;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use shipshape_api::names::LEADER_LEASE;
use shipshape_api::{NodePatchRun, NodePatchTask};
use shipshape_engine::machine::ProviderId;
use shipshape_engine::view::{NodeView, PodView};

use crate::report::{EvictionCount, PodCount, RequestCount, Violation};
use checks::is_gated;
pub use fact::{Call, Fact, Hearing, Request};
use hearing::Heard;
use holds::Deployed;
use limits::{Limits, Vacancy};
use moves::Moves;

/// The witness.
#[derive(Debug, Default)]
pub struct Witness {
    /// Whether facts of different kinds come in the order in which they took place.
    is_exact: bool,
    runs: BTreeMap<String, Arc<NodePatchRun>>,
    tasks: BTreeMap<String, Arc<NodePatchTask>>,
    /// UIDs of nodes that a task is or was about.
    planned: BTreeSet<String>,
    /// Since when a run has been paused or called off, and since when called off.
    paused: BTreeMap<String, Timestamp>,
    called_off: BTreeMap<String, Timestamp>,
    /// What the runs promise now, and what was promised to work that is still under way.
    limits: Limits,
    granted: Limits,
    /// Volumes by node, with the name of each attachment.
    attached: BTreeMap<String, (String, String)>,
    nodes: BTreeMap<String, NodeView>,
    /// Every node as it was last seen, by UID.
    known: BTreeMap<String, NodeView>,
    /// Labels that new nodes came with, by UID.
    born: BTreeMap<String, BTreeMap<String, String>>,
    /// Provider ids of nodes that were ready once.
    was_ready: BTreeSet<String>,
    pods: BTreeMap<String, PodView>,
    /// Nodes that others had cordoned.
    foreign_cordons: BTreeSet<String>,
    /// Nodes whose cordon others are about to lift.
    foreign_uncordons: BTreeSet<String>,
    /// New machine and its provider id, by the machine it replaces.
    replacements: BTreeMap<String, Vec<(String, String)>>,
    /// Every machine that was ever made in place of another, and their provider ids.
    made: BTreeSet<String>,
    made_ids: BTreeSet<String>,
    /// The machine that each token made.
    tokens: BTreeMap<String, String>,
    /// Machines whose end the operator asked for.
    deleted: BTreeSet<String>,
    /// Their provider ids.
    provider_ids: BTreeMap<String, String>,
    /// Names of etcd's members.
    members: BTreeSet<String>,
    /// All that runs and tasks have said they wait for.
    said: BTreeSet<String>,
    /// Those that went before their replacement came, until it does.
    vacant: BTreeMap<String, Vacancy>,
    /// How many machines died by themselves, and how many others have made.
    killed: usize,
    joined: usize,
    /// Replacements that a task has left to their groups, by provider id.
    kept: BTreeSet<String>,
    deployments: BTreeMap<String, Deployed>,
    /// The plan for which each run, by UID, has held each Deployment.
    held_for: BTreeMap<(String, String), Option<String>>,
    lock_of: BTreeMap<String, String>,
    heard: Heard,
    /// From when on nothing is left to do.
    at_rest_since: Option<Timestamp>,
    moves: Moves,
    requests: RequestCount,
    evictions: EvictionCount,
    violations: Vec<Violation>,
}

impl Witness {
    /// A witness that has seen nothing. It is exact where watches of different kinds keep their order.
    pub fn new(is_exact: bool) -> Self {
        Self {
            is_exact,
            ..Self::default()
        }
    }

    /// Somebody else than the operator is about to cordon, or has cordoned, this node. Says whether that
    /// is news.
    pub fn expect_foreign_cordon(&mut self, node: &str) -> bool {
        self.foreign_cordons.insert(node.to_owned())
    }

    /// That cordon changed nothing: the node was under ours, and nothing shows that they want it too.
    pub fn was_cordoned_before(&mut self, node: &str) {
        self.foreign_cordons.remove(node);
    }

    /// Somebody else than the operator is about to lift the cordon of this node.
    pub fn expect_foreign_uncordon(&mut self, node: &str) {
        self.foreign_uncordons.insert(node.to_owned());
    }

    /// A machine has died that nobody asked to: its group will make another.
    pub fn expect_killed(&mut self) {
        self.killed += 1;
    }

    /// Somebody else than the operator makes a machine.
    pub fn expect_joined(&mut self) {
        self.joined += 1;
    }

    /// How many machines more there may be than at first: those that groups made in place of killed ones,
    /// those that others made, and replacements that could not be emptied.
    pub fn machines_more(&self) -> usize {
        let in_service = self.kept.iter().filter(|id| self.is_in_service(id));
        self.killed + self.joined + in_service.count()
    }

    /// Takes a fact in and checks what it could have broken.
    pub fn see(&mut self, at: Timestamp, fact: Fact) {
        match fact {
            Fact::Node(node) => self.take_node(at, node),
            Fact::NodeGone(name) => {
                self.nodes.remove(&name);
                self.foreign_cordons.remove(&name);
            }
            Fact::Pod(pod) => {
                self.moves.saw(&pod);
                self.pods.insert(pod.uid.clone(), pod);
            }
            Fact::PodGone(uid) => {
                self.pods.remove(&uid);
            }
            Fact::Attached { name, node, volume } => {
                self.attached.insert(name, (node, volume));
            }
            Fact::Detached(name) => {
                self.attached.remove(&name);
            }
            Fact::Run(run) => {
                let uid = run.metadata.uid.clone().unwrap_or_default();
                let status = run.status.as_ref();
                self.said
                    .extend(status.and_then(|status| status.waiting_for.clone()));
                self.check_all_held(at, &run);
                self.runs.insert(uid, run);
                self.note_stops(at);
                self.set_limits();
                self.fill_vacancies();
            }
            Fact::RunGone(uid) => {
                self.runs.remove(&uid);
                self.set_limits();
            }
            Fact::Task {
                task,
                old_machine_runs,
            } => self.take_task(at, &task, old_machine_runs),
            Fact::TaskGone(uid) => {
                self.tasks.remove(&uid);
                self.forget_grants();
            }
            Fact::Lock { name, operation } => self.take_lock(at, &name, &operation),
            // Who held it last stays known: the next holder is held against it.
            Fact::LockGone(_) => {}
            Fact::Deployment {
                name,
                replicas,
                saved,
                held_by,
            } => {
                self.check_held_once(at, &name, held_by.as_deref());
                self.take_deployment(at, name, Deployed { replicas, saved });
            }
            Fact::DeploymentGone(name) => {
                self.deployments.remove(&name);
            }
            Fact::Request(request) => self.take_request(at, &request),
            Fact::Call(call) => self.take_call(at, call),
            Fact::Etcd(event) => self.take_etcd(at, &event),
            Fact::Hearing(operator, hearing) => self.take_hearing(at, operator, hearing),
        }
    }

    fn take_node(&mut self, at: Timestamp, node: NodeView) {
        self.note_old_cordon(&node);
        self.check_foreign_cordon(at, &node);
        self.check_cordon(at, &node);
        self.check_labels(at, &node);
        self.check_scale_down(at, &node);
        if let Some(id) = node.provider_id.as_ref().filter(|_| node.ready) {
            self.was_ready.insert(id.as_str().to_owned());
        }
        self.known.insert(node.uid.clone(), node.clone());
        self.nodes.insert(node.name.clone(), node);
        self.fill_vacancies();
        self.check_disruption(at);
    }

    fn take_task(&mut self, at: Timestamp, task: &Arc<NodePatchTask>, old_machine_runs: bool) {
        let uid = task.metadata.uid.clone().unwrap_or_default();
        let before = self.tasks.insert(uid, Arc::clone(task));
        self.planned.insert(task.spec.node_uid.clone());
        let status = task.status.as_ref();
        self.said
            .extend(status.and_then(|status| status.waiting_for.clone()));
        self.check_control_planes(at);
        if before.is_none() {
            self.check_late_task(at, task);
        }
        self.check_claims(at, before.as_deref(), task, old_machine_runs);
        if let Some(before) = before {
            self.note_kept(&before, task);
        }
        self.check_transferred(at, task);
        self.check_replacement_held(at, task);
        self.fill_vacancies();
        self.forget_grants();
    }

    fn take_request(&mut self, at: Timestamp, request: &Request) {
        // A leader renews its lease all the time, whether it works or not.
        if request.object.ends_with(LEADER_LEASE) {
            return;
        }
        self.requests.total += 1;
        if !matches!(request.verb.as_str(), "get" | "list" | "watch") && !request.dry_run {
            self.requests.writes += 1;
            let kind = kind_of(request);
            *self.requests.writes_by_kind.entry(kind).or_default() += 1;
            self.check_rest(at, request);
        }
        self.check_secrets(at, request);
        self.check_stranger(at, request);
        if request.resource != "pods" {
            return;
        }
        if request.subresource == "eviction" && !request.dry_run {
            self.evictions.calls += 1;
            match request.code {
                200..=299 => self.moves.evicted(&request.uid, &request.object),
                429 => self.evictions.refused += 1,
                _ => {}
            }
        }
        self.check_pod_removal(at, request);
    }

    fn take_call(&mut self, at: Timestamp, call: Call) {
        match call {
            Call::Created {
                machine,
                provider_id,
                replaces,
                token,
            } => {
                self.check_token(at, &token, &machine);
                self.check_late_machine(at, &replaces, &token);
                self.made.insert(machine.clone());
                self.made_ids.insert(provider_id.clone());
                let made = self.replacements.entry(replaces.clone()).or_default();
                if !made.iter().any(|(known, _)| *known == machine) {
                    made.push((machine, provider_id));
                }
                self.check_single_replacement(at, &replaces);
            }
            Call::Deleted {
                machine,
                provider_id,
            } => {
                // The end of a machine that is on its way out changes nothing.
                if self.deleted.contains(&machine) {
                    return;
                }
                self.check_removal(at, &machine, &provider_id);
                self.check_member_gone(at, &machine, &provider_id);
                self.note_vacancy(&machine, &provider_id);
                self.deleted.insert(machine.clone());
                for made in self.replacements.values_mut() {
                    made.retain(|(known, _)| *known != machine);
                }
                self.check_disruption(at);
            }
        }
    }

    /// An old machine goes before its replacement is ready.
    fn note_vacancy(&mut self, machine: &str, provider_id: &str) {
        let is_new = self.made.contains(machine) || self.has_ready_replacement(machine);
        let node = self
            .known
            .values()
            .find(|node| node.provider_id.as_ref().map(ProviderId::as_str) == Some(provider_id));
        let Some(node) = node.filter(|node| !is_new && !is_gated(node)) else {
            return;
        };
        let vacancy = Vacancy {
            node: node.name.clone(),
            zone: node.zone.clone(),
        };
        self.vacant.insert(machine.to_owned(), vacancy);
    }

    /// A task has left its replacement to its group, because it could not be emptied. Only one that is in
    /// service in the end counts as left: another is an orphan, whatever the task says.
    fn note_kept(&mut self, before: &NodePatchTask, task: &NodePatchTask) {
        let (was, is) = (before.status.as_ref(), task.status.as_ref());
        // One write may tell both that it is kept and that the task has ended.
        let mut told = [was, is].into_iter().flatten();
        let keeps = told.any(|status| status.undo.as_ref().is_some_and(|undo| undo.keeps_machine));
        let Some(machine) = was
            .and_then(|was| was.new_machine.as_ref())
            .filter(|_| keeps)
        else {
            return;
        };
        if is.is_some_and(|is| is.new_machine.is_some()) {
            return;
        }
        let id = machine.provider_id.clone().unwrap_or_default();
        if self.is_in_service(&id) {
            for made in self.replacements.values_mut() {
                made.retain(|(known, _)| *known != machine.id);
            }
        }
        self.kept.insert(id);
    }

    fn is_in_service(&self, provider_id: &str) -> bool {
        let node = self.node_of(provider_id);
        node.is_some_and(|node| node.ready && !node.unschedulable)
    }

    /// From now on nothing is left to do.
    pub fn begin_rest(&mut self, now: Timestamp) {
        self.at_rest_since = Some(now);
    }

    /// Checks what must hold once everything has come to rest.
    pub fn rest(&mut self, at: Timestamp) {
        self.check_no_cordon_left(at);
        self.check_nothing_held(at);
        self.check_members_left(at);
    }

    /// Takes in what somebody else has found to be broken.
    pub fn found(&mut self, invariant: &'static str, at: Timestamp, text: String) {
        self.violated(invariant, at, text);
    }

    /// Whether a run or a task has ever said that it waits for this.
    pub fn has_heard(&self, words: &str) -> bool {
        self.said.iter().any(|said| said.contains(words))
    }

    /// What was broken.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Pods and their moves.
    pub fn pod_count(&self) -> PodCount {
        let total = self
            .pods
            .values()
            .filter(|pod| !checks::is_daemon(pod))
            .count();
        self.moves.count(total)
    }

    /// How many machines were ever made in place of others.
    pub fn machines_made(&self) -> usize {
        self.made.len()
    }

    /// Eviction calls.
    pub fn eviction_count(&self) -> EvictionCount {
        self.evictions
    }

    /// Requests, counted per replaced node.
    pub fn request_count(&self, replaced: usize) -> RequestCount {
        let per_node = as_float(self.requests.writes) / as_float(replaced.max(1));
        RequestCount {
            writes_per_node: per_node,
            ..self.requests.clone()
        }
    }
}

/// What a request does, and to which kind of object.
fn kind_of(request: &Request) -> String {
    match request.subresource.as_str() {
        "" => format!("{} {}", request.verb, request.resource),
        part => format!("{} {}/{part}", request.verb, request.resource),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
pub(crate) fn as_float(count: usize) -> f64 {
    count as f64
}
