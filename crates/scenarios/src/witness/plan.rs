//! What is done, against what was planned: I7, I8 and I21.
//!
//! Owns the checks that hold a deed against a task's spec or a run's wishes.

use jiff::{SignedDuration, Timestamp};
use shipshape_api::gates::LabelTransfer;
use shipshape_api::{NodePatchTask, TaskStep};
use shipshape_engine::machine::ProviderId;
use shipshape_engine::naming::replacement_token;
use shipshape_engine::transfer;
use shipshape_engine::view::NodeView;

use super::checks::is_gated;
use super::{Request, Witness};

/// I21: how long after a wish the operator may still act against it: time enough for a new leader to
/// take over.
const HEARING: SignedDuration = SignedDuration::from_mins(1);

/// A real controller-manager gives every node its architecture and system under these older keys too.
const COPIED_BY_OTHERS: &str = "beta.kubernetes.io/";

impl Witness {
    /// Whether a task is about this node, or a machine made by one is behind it.
    fn is_planned(&self, node: &NodeView) -> bool {
        let id = node.provider_id.as_ref().map(ProviderId::as_str);
        let is_made = id.is_some_and(|id| self.made_ids.contains(id));
        is_made || self.planned.contains(&node.uid)
    }

    /// I7: only nodes whose UID is planned are cordoned. One of the same name is a stranger.
    pub(super) fn check_cordon(&mut self, at: Timestamp, node: &NodeView) {
        let before = self.nodes.get(&node.name);
        let was = before.is_some_and(|before| before.unschedulable && before.uid == node.uid);
        let Some(operation) = node
            .cordoned_by
            .clone()
            .filter(|_| node.unschedulable && !was)
        else {
            return;
        };
        if !self.is_planned(node) {
            let text = format!(
                "node {} ({}) was cordoned, and no task is about it",
                node.name, node.uid
            );
            self.violated("I7", at, text);
        }
        self.check_late_cordon(at, node, &operation);
        self.check_lock_of(at, node, &operation);
    }

    /// I7: only nodes whose UID is planned are deleted, or that never got through the gate, and pods evicted
    /// from no other.
    pub(super) fn check_stranger(&mut self, at: Timestamp, request: &Request) {
        if !request.took_effect() || request.uid.is_empty() {
            return;
        }
        let node = match (request.resource.as_str(), request.subresource.as_str()) {
            ("nodes", "") if request.verb == "delete" => {
                let known = self.known.get(&request.uid);
                known.filter(|node| !is_gated(node))
            }
            ("pods", "eviction") => {
                let pod = self.pods.get(&request.uid);
                pod.and_then(|pod| self.nodes.get(&pod.node))
            }
            _ => return,
        };
        if let Some(node) = node.filter(|node| !self.is_planned(node)).cloned() {
            let text = format!(
                "{} {} {}, and no task is about node {} ({})",
                request.verb, request.resource, request.object, node.name, node.uid
            );
            self.violated("I7", at, text);
        }
    }

    /// I8: a label that a new node has joined with stays as it is, unless the lists take it away.
    pub(super) fn check_labels(&mut self, at: Timestamp, node: &NodeView) {
        let id = node.provider_id.as_ref().map(ProviderId::as_str);
        if !id.is_some_and(|id| self.made_ids.contains(id)) {
            return;
        }
        let Some(born) = self.born.get(&node.uid) else {
            self.born.insert(node.uid.clone(), node.labels.clone());
            return;
        };
        let may_go = |key: &str| {
            let lists = self
                .tasks
                .values()
                .filter_map(|task| task.spec.label_transfer.as_ref());
            let mut lists = lists.filter(|lists| lists.remove_missing());
            lists.any(|lists| moves(lists, key))
        };
        let mut broken = Vec::new();
        for (key, value) in born {
            match node.labels.get(key) {
                Some(now) if now != value => {
                    broken.push(format!("label {key} of node {} was overwritten", node.name));
                }
                None if !may_go(key) => {
                    broken.push(format!("label {key} of node {} was taken away", node.name));
                }
                _ => {}
            }
        }
        for text in broken {
            self.violated("I8", at, text);
        }
    }

    /// I8: when a task is done, the new node has what the lists select, and nothing else of the old one.
    pub(super) fn check_transferred(&mut self, at: Timestamp, task: &NodePatchTask) {
        let status = task.status.as_ref();
        let is_done = status.is_some_and(|status| status.step_name() == TaskStep::Done);
        let new = status.and_then(|status| status.new_node_uid.as_ref());
        let (Some(old), Some(new)) = (
            self.known.get(&task.spec.node_uid),
            new.and_then(|uid| self.known.get(uid)),
        ) else {
            return;
        };
        let Some(born) = self.born.get(&new.uid).filter(|_| is_done) else {
            return;
        };
        let lists = task.spec.label_transfer.clone().unwrap_or_default();
        let mut broken = Vec::new();
        for (key, value) in &old.labels {
            let is_selected = moves(&lists, key);
            if is_selected && !new.labels.contains_key(key) {
                broken.push(format!("label {key} did not come to node {}", new.name));
            }
            let came = new.labels.get(key) == Some(value) && !born.contains_key(key);
            if came && !is_selected && !key.starts_with(COPIED_BY_OTHERS) {
                broken.push(format!("label {key} came to node {} unasked", new.name));
            }
        }
        for text in broken {
            self.violated("I8", at, text);
        }
    }

    /// Since when a run has been told to stop; `for_good` leaves pauses out.
    pub(super) fn note_stops(&mut self, at: Timestamp) {
        for (uid, run) in &self.runs {
            let is_over = run.spec.abort() || run.metadata.deletion_timestamp.is_some();
            note(&mut self.called_off, uid, is_over, at);
            note(&mut self.paused, uid, is_over || run.spec.paused(), at);
        }
    }

    /// I21: no new task some time after a run was paused or called off.
    pub(super) fn check_late_task(&mut self, at: Timestamp, task: &NodePatchTask) {
        if is_late(&self.paused, &task.spec.run_uid, at) {
            let node = &task.spec.node_name;
            let text = format!(
                "a task for node {node} began although run {} was stopped",
                task.spec.run_name
            );
            self.violated("I21", at, text);
        }
    }

    /// I21: no cordon of an old node some time after its run was called off.
    fn check_late_cordon(&mut self, at: Timestamp, node: &NodeView, operation: &str) {
        let Some(task) = self.tasks.get(operation) else {
            return;
        };
        let is_old = task.spec.node_uid == node.uid;
        if is_old && is_late(&self.called_off, &task.spec.run_uid, at) {
            let text = format!(
                "node {} was cordoned although its run was called off",
                node.name
            );
            self.violated("I21", at, text);
        }
    }

    /// I21: no new machine some time after a run was called off, unless the old one is gone already.
    pub(super) fn check_late_machine(&mut self, at: Timestamp, replaces: &str, token: &str) {
        let about: Vec<&NodePatchTask> = self
            .tasks
            .values()
            .map(AsRef::as_ref)
            .filter(|task| is_about(task, replaces))
            .collect();
        // Two runs may want the same node: the token tells whose machine it is.
        let makers: Vec<&NodePatchTask> = about
            .iter()
            .copied()
            .filter(|task| has_made(task, token))
            .collect();
        let suspects = if makers.is_empty() { about } else { makers };
        let is_late = !suspects.is_empty()
            && suspects
                .iter()
                .all(|task| is_late(&self.called_off, &task.spec.run_uid, at));
        if is_late && !self.deleted.contains(replaces) {
            let text =
                format!("a machine was made to replace {replaces} although the run was called off");
            self.violated("I21", at, text);
        }
    }
}

/// Whether the task says that this is the machine behind its node.
fn is_about(task: &NodePatchTask, machine: &str) -> bool {
    let status = task.status.as_ref();
    let record = status.and_then(|status| status.old_machine.as_ref());
    record.is_some_and(|record| record.id == machine)
}

/// Whether the token is that of one of the task's attempts. What is seen of a task may be one attempt old.
fn has_made(task: &NodePatchTask, token: &str) -> bool {
    let uid = task.metadata.uid.as_deref().unwrap_or_default();
    let status = task.status.as_ref();
    let last = status.and_then(|status| status.attempt).unwrap_or(1) + 1;
    (1..=last).any(|attempt| replacement_token(uid, &task.spec.node_uid, attempt).0 == token)
}

fn note(
    since: &mut std::collections::BTreeMap<String, Timestamp>,
    run: &str,
    is_so: bool,
    at: Timestamp,
) {
    if is_so {
        since.entry(run.to_owned()).or_insert(at);
    } else {
        since.remove(run);
    }
}

fn is_late(
    since: &std::collections::BTreeMap<String, Timestamp>,
    run: &str,
    at: Timestamp,
) -> bool {
    since
        .get(run)
        .is_some_and(|since| at.duration_since(*since) > HEARING)
}

/// Whether the lists let a label move.
fn moves(lists: &LabelTransfer, key: &str) -> bool {
    let is_listed = lists.keys.iter().any(|one| one == key)
        || lists
            .prefixes
            .iter()
            .any(|one| !one.is_empty() && key.starts_with(one.as_str()));
    is_listed && !lists.exclude_keys.iter().any(|one| one == key) && !transfer::is_reserved(key)
}
