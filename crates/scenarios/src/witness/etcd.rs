//! I15: what is done to control planes must never cost etcd its quorum.
//!
//! Owns the checks that hold what happened to members of etcd against what we did. Judged by etcd's own
//! log and the cloud's, never by what a task says of them.

use jiff::Timestamp;
use shipshape_api::{NodePatchTask, NodePatchTaskStatus, TaskStep};
use shipshape_engine::etcd::quorum;
use shipshape_engine::ledger::Role;
use shipshape_engine::machine::ProviderId;
use shipshape_simulator::etcd::{EtcdEvent, MemberChange};

use super::Witness;
use crate::stage::OPERATOR;

impl Witness {
    /// I15: no fewer healthy voters than a quorum by our doing.
    pub(super) fn take_etcd(&mut self, at: Timestamp, event: &EtcdEvent) {
        let EtcdEvent { member, change, .. } = event;
        let is_ours = match change {
            MemberChange::Removed => event.caller == OPERATOR,
            MemberChange::Stopped => self.was_deleted(member),
            MemberChange::Started
            | MemberChange::Promoted
            | MemberChange::Sickened
            | MemberChange::Recovered
            | MemberChange::Led => false,
        };
        let needed = quorum(event.voters);
        if is_ours && event.healthy < needed {
            let text = format!(
                "member {member} was {change:?} by us, and {} of {} voters are left healthy, {needed} \
                 are needed",
                event.healthy, event.voters
            );
            self.violated("I15", at, text);
        }
        match change {
            MemberChange::Started => {
                self.members.insert(member.clone());
            }
            MemberChange::Removed => {
                self.members.remove(member);
            }
            MemberChange::Promoted
            | MemberChange::Stopped
            | MemberChange::Sickened
            | MemberChange::Recovered
            | MemberChange::Led => {}
        }
    }

    /// Whether we have asked for the end of the machine behind a node, by the node's name.
    fn was_deleted(&self, node: &str) -> bool {
        let mut known = self.known.values().filter(|one| one.name == node);
        let id = |machine: &String| self.provider_ids.get(machine);
        known.any(|one| {
            let behind = one.provider_id.as_ref().map(ProviderId::as_str);
            let mut deleted = self.deleted.iter();
            deleted.any(|machine| id(machine).map(String::as_str) == behind)
        })
    }

    /// I15: a member leaves etcd before its machine does.
    pub(super) fn check_member_gone(&mut self, at: Timestamp, machine: &str, provider_id: &str) {
        let id = machine.to_owned();
        self.provider_ids.insert(id, provider_id.to_owned());
        let mut known = self.known.values();
        let node = known.find(|one| {
            one.provider_id.as_ref().map(ProviderId::as_str) == Some(provider_id)
                && self.members.contains(&one.name)
        });
        if let Some(node) = node {
            let text = format!(
                "machine {machine} was deleted while {} was a member of etcd",
                node.name
            );
            self.violated("I15", at, text);
        }
    }

    /// I15: one control plane in work at a time.
    pub(super) fn check_control_planes(&mut self, at: Timestamp) {
        let is_at_work = |task: &&std::sync::Arc<NodePatchTask>| {
            let step = task.status.as_ref().map(NodePatchTaskStatus::step_name);
            !step.is_some_and(|step| step.is_final() || step == TaskStep::Parked)
        };
        let is_control_plane = |task: &&std::sync::Arc<NodePatchTask>| {
            let node = self.known.get(&task.spec.node_uid);
            node.is_some_and(|node| node.role() == Role::ControlPlane)
        };
        let at_work = self.tasks.values().filter(is_at_work);
        let names: Vec<&str> = at_work
            .filter(is_control_plane)
            .map(|task| task.spec.node_name.as_str())
            .collect();
        if names.len() > 1 {
            let text = format!("control planes in work at once: {}", names.join(", "));
            self.violated("I15", at, text);
        }
    }

    /// I15: at rest every member has its node, unless its machine died by itself.
    pub(super) fn check_members_left(&mut self, at: Timestamp) {
        let left: Vec<String> = self
            .members
            .iter()
            .filter(|name| !self.nodes.contains_key(*name) && self.was_deleted(name))
            .cloned()
            .collect();
        for name in left {
            self.violated(
                "I15",
                at,
                format!("member {name} of etcd has no node any more"),
            );
        }
    }
}
