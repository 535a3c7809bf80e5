//! The invariants, one function each, named by the number that the design gives them.
//!
//! Each is called after the only kinds of event that could break it.

use jiff::Timestamp;
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

impl Witness {
    /// I1: no more nodes out of service by us than was promised.
    pub(super) fn check_disruption(&mut self, at: Timestamp) {
        let out: Vec<&str> = self
            .nodes
            .values()
            .filter(|node| node.unschedulable && !self.foreign_cordons.contains(&node.name))
            .filter(|node| !self.is_surplus(node))
            .map(|node| node.name.as_str())
            .collect();
        if out.len() > self.promises.disrupted_max {
            let text = format!(
                "{} nodes out of service, {} allowed: {}",
                out.len(),
                self.promises.disrupted_max,
                out.join(", ")
            );
            self.violated("I1", at, text);
        }
    }

    /// Whether a node is a replacement whose predecessor is still there: it may be put back without
    /// anybody missing it.
    fn is_surplus(&self, node: &NodeView) -> bool {
        let id = node.provider_id.as_ref().map(ProviderId::as_str);
        self.replacements
            .values()
            .flatten()
            .any(|(_, made)| Some(made.as_str()) == id)
    }

    /// I2: the old machine goes only after its replacement is a ready node, and any machine only once
    /// its node is empty.
    pub(super) fn check_removal(&mut self, at: Timestamp, machine: &str, provider_id: &str) {
        let is_replacement = self
            .replacements
            .values()
            .flatten()
            .any(|(made, _)| made == machine);
        let replacements = self.replacements.get(machine).cloned().unwrap_or_default();
        let is_replaced = replacements
            .iter()
            .any(|(_, id)| self.node_of(id).is_some_and(|node| node.ready));
        if !is_replaced && !is_replacement && !self.promises.terminate_first {
            let text = format!("machine {machine} was deleted without a ready replacement");
            self.violated("I2", at, text);
        }
        let Some(node) = self.node_of(provider_id).map(|node| node.name.clone()) else {
            return;
        };
        let left = self
            .pods
            .values()
            .find(|pod| pod.node == node && !is_daemon(pod) && !pod.mirror && !pod.finished);
        if let Some(pod) = left {
            let text = format!(
                "machine {machine} was deleted under pod {}/{}",
                pod.namespace, pod.name
            );
            self.violated("I2", at, text);
        }
        let attached = self.attached.values().find(|(on, _)| *on == node);
        if let Some((_, volume)) = attached {
            let text = format!("machine {machine} was deleted with volume {volume} attached");
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

    /// I6: pods leave by eviction and by nothing else.
    pub(super) fn check_pod_removal(&mut self, at: Timestamp, request: &Request) {
        let is_delete = matches!(request.verb.as_str(), "delete" | "deletecollection");
        if is_delete && request.subresource.is_empty() && !request.dry_run {
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

    fn node_of(&self, provider_id: &str) -> Option<&NodeView> {
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
