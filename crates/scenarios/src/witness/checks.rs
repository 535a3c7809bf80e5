//! The invariants about machines and pods, one function each, named by the number that the design gives
//! them.
//!
//! Each is called after the only kinds of event that could break it.

use jiff::Timestamp;
use shipshape_api::{OnDeadline, names};
use shipshape_engine::admit;
use shipshape_engine::machine::ProviderId;
use shipshape_engine::view::{NodeView, PodView};

use super::{Request, Witness};
use crate::report::Violation;

/// Whether a pod stays on its node by design.
pub(super) fn is_daemon(pod: &PodView) -> bool {
    pod.owner
        .as_ref()
        .is_some_and(|(kind, _)| kind == "DaemonSet")
}

/// Whether a node stands before the gate, so that no pod may land on it.
pub(super) fn is_gated(node: &NodeView) -> bool {
    let (key, _, effect) = names::DEFAULT_GATE_TAINT;
    let mut taints = node.taints.iter();
    taints.any(|taint| taint.key == key && taint.effect == effect)
}

impl Witness {
    /// Whether a node is a replacement whose predecessor is still there: it may be put back without
    /// anybody missing it.
    pub(super) fn is_surplus(&self, node: &NodeView) -> bool {
        let id = node.provider_id.as_ref().map(ProviderId::as_str);
        self.surplus().any(|(_, made)| Some(made) == id)
    }

    /// Machine and provider id of every replacement whose predecessor was not deleted.
    fn surplus(&self) -> impl Iterator<Item = (&str, &str)> {
        let waiting = self.replacements.iter();
        let waiting = waiting.filter(|(replaced, _)| !self.deleted.contains(*replaced));
        let made = waiting.flat_map(|(_, made)| made);
        made.map(|(machine, id)| (machine.as_str(), id.as_str()))
    }

    pub(super) fn has_ready_replacement(&self, machine: &str) -> bool {
        let made = self.replacements.get(machine).into_iter().flatten();
        let mut nodes = made.filter_map(|(_, id)| self.node_of(id));
        nodes.any(|node| node.ready && !is_gated(node))
    }

    /// I2: the old machine goes only after its replacement is a ready node, through the gate and with its
    /// daemons, and any machine only once its node is empty. One whose node never got through the gate has
    /// never been in service and needs no replacement.
    pub(super) fn check_removal(&mut self, at: Timestamp, machine: &str, provider_id: &str) {
        let is_surplus = self.surplus().any(|(made, _)| made == machine);
        let is_gated = self.node_of(provider_id).is_some_and(is_gated);
        let may_go = is_surplus || is_gated || self.granted.terminate_first;
        if !self.has_ready_replacement(machine) && !may_go {
            let text = format!("machine {machine} was deleted without a ready replacement");
            self.violated("I2", at, text);
        }
        let Some(node) = self.node_of(provider_id).cloned() else {
            return;
        };
        self.check_daemons(at, machine, &node);
        if !self.is_forced(&node) {
            self.check_empty(at, machine, &node.name);
        }
        let attached = self.attached.values().find(|(on, _)| *on == node.name);
        if let Some((_, volume)) = attached {
            let text = format!("machine {machine} was deleted with volume {volume} attached");
            self.violated("I2", at, text);
        }
    }

    fn check_empty(&mut self, at: Timestamp, machine: &str, node: &str) {
        if let Some(pod) = self.pod_left(node) {
            let text = format!("machine {machine} was deleted under pod {pod}");
            self.violated("I2", at, text);
        }
    }

    /// A pod that must leave before its node goes, as `namespace/name`.
    pub(super) fn pod_left(&self, node: &str) -> Option<String> {
        let mut pods = self.pods.values();
        let own = |pod: &PodView| {
            pod.namespace == names::DEFAULT_NAMESPACE && pod.name.starts_with(names::WORKER_PREFIX)
        };
        let left = pods.find(|pod| {
            pod.node == node && !is_daemon(pod) && !pod.mirror && !pod.finished && !own(pod)
        })?;
        Some(format!("{}/{}", left.namespace, left.name))
    }

    /// Whether the run lets the machine go with its pods past the drain's deadline, as it is now; the task's copy
    /// speaks for a run that is gone.
    fn is_forced(&self, node: &NodeView) -> bool {
        let mut tasks = self.tasks.values();
        tasks.any(|task| {
            let options = match self.runs.get(&task.spec.run_uid) {
                Some(run) => run.spec.drain.as_ref(),
                None => task.spec.drain.as_ref(),
            };
            task.spec.node_uid == node.uid
                && options.is_some_and(|options| options.on_deadline() == OnDeadline::Force)
        })
    }

    /// Each required daemon has a ready pod on the replacement.
    fn check_daemons(&mut self, at: Timestamp, machine: &str, node: &NodeView) {
        let made = self.replacements.get(machine).into_iter().flatten();
        let new: Vec<String> = made
            .filter_map(|(_, id)| self.node_of(id))
            .map(|node| node.name.clone())
            .collect();
        let Some(new) = new.first() else { return };
        let tasks = self.tasks.values();
        let wanted = tasks
            .filter(|task| task.spec.node_uid == node.uid)
            .flat_map(|task| &task.spec.required_node_daemon_pod_selectors);
        let ready: Vec<PodView> = self
            .pods
            .values()
            .filter(|pod| pod.node == *new && pod.ready)
            .cloned()
            .collect();
        let missing = wanted
            .filter(|one| {
                !matches!(
                    admit::is_important(std::slice::from_ref(one), &ready),
                    Ok(true)
                )
            })
            .count();
        if missing > 0 {
            let text = format!(
                "machine {machine} was deleted while {missing} required daemon(s) of node {new} were not ready"
            );
            self.violated("I2", at, text);
        }
    }

    /// I3: at most one replacement for a machine at a time.
    pub(super) fn check_single_replacement(&mut self, at: Timestamp, replaces: &str) {
        let made = self.replacements.get(replaces).map_or(0, Vec::len);
        if made > 1 {
            self.violated(
                "I3",
                at,
                format!("{made} machines were made to replace {replaces}"),
            );
        }
    }

    /// I12: one intent, one machine: a token never makes a second one.
    pub(super) fn check_token(&mut self, at: Timestamp, token: &str, machine: &str) {
        let first = self
            .tokens
            .entry(token.to_owned())
            .or_insert_with(|| machine.to_owned());
        if first != machine {
            let text = format!("token {token} made machine {first} and then {machine}");
            self.violated("I12", at, text);
        }
    }

    /// I6: pods leave by eviction and by nothing else, but for those that the operator has made itself to
    /// check a node.
    pub(super) fn check_pod_removal(&mut self, at: Timestamp, request: &Request) {
        let is_delete = matches!(request.verb.as_str(), "delete" | "deletecollection");
        let own = format!("{}/{}", names::DEFAULT_NAMESPACE, names::WORKER_PREFIX);
        let is_worker = request.verb == "delete" && request.object.starts_with(&own);
        if is_delete && !is_worker && request.subresource.is_empty() && !request.dry_run {
            self.violated(
                "I6",
                at,
                format!("pod {} was deleted, not evicted", request.object),
            );
        }
    }

    /// I13: at rest nothing is written but leases.
    pub(super) fn check_rest(&mut self, at: Timestamp, request: &Request) {
        let is_at_rest = self.at_rest_since.is_some_and(|since| at >= since);
        if is_at_rest && request.resource != "leases" {
            let text = format!(
                "{} {} {} at rest",
                request.verb, request.resource, request.object
            );
            self.violated("I13", at, text);
        }
    }

    /// I25: what is never read cannot be told: the operator has no business with secrets.
    pub(super) fn check_secrets(&mut self, at: Timestamp, request: &Request) {
        if request.resource == "secrets" {
            let text = format!("{} secrets {}", request.verb, request.object);
            self.violated("I25", at, text);
        }
    }

    /// I11: a cordon of somebody else is theirs to lift.
    pub(super) fn check_foreign_cordon(&mut self, at: Timestamp, node: &NodeView) {
        let was_cordoned = self
            .nodes
            .get(&node.name)
            .is_some_and(|before| before.unschedulable);
        if !was_cordoned || node.unschedulable || !self.foreign_cordons.remove(&node.name) {
            return;
        }
        if !self.foreign_uncordons.remove(&node.name) {
            let text = format!(
                "the cordon of somebody else on node {} was lifted",
                node.name
            );
            self.violated("I11", at, text);
        }
    }

    /// A cordon that was there before the first run, and bears nobody's mark, is somebody else's.
    pub(super) fn note_old_cordon(&mut self, node: &NodeView) {
        let is_old = self.runs.is_empty() && self.tasks.is_empty();
        if is_old && node.unschedulable && node.cordoned_by.is_none() {
            self.foreign_cordons.insert(node.name.clone());
        }
    }

    /// I11: at rest no cordon of ours is left.
    pub(super) fn check_no_cordon_left(&mut self, at: Timestamp) {
        let left: Vec<String> = self
            .nodes
            .values()
            .filter(|node| node.unschedulable && !self.foreign_cordons.contains(&node.name))
            .map(|node| node.name.clone())
            .collect();
        for node in left {
            self.violated("I11", at, format!("node {node} is still cordoned"));
        }
    }

    pub(super) fn node_of(&self, provider_id: &str) -> Option<&NodeView> {
        self.nodes.values().find(|node| {
            node.provider_id
                .as_ref()
                .is_some_and(|id| id.as_str() == provider_id)
        })
    }

    pub(super) fn violated(&mut self, invariant: &'static str, at: Timestamp, text: String) {
        self.violations.push(Violation {
            invariant,
            at,
            text,
        });
    }
}
