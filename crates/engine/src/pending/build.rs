//! The PendingNode of a machine: its name and its words.
//!
//! Owns the making of the object. Must not decide when one is needed.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::node_patch_task::MachineRecord;
use shipshape_api::pending_node::TaskRef;
use shipshape_api::{NodePatchTask, PendingNode, PendingNodeGoal, PendingNodeSpec};

use crate::naming;

/// A machine on its way, as its task sees it.
#[derive(Clone, Debug)]
pub struct Way<'a> {
    /// The machine.
    pub machine: &'a MachineRecord,
    /// Name of its node, if it is known.
    pub node_name: Option<String>,
    /// Where it shall go.
    pub goal: PendingNodeGoal,
    /// By when.
    pub deadline: Option<Timestamp>,
}

/// The object for a machine of a task. It is named after the machine, so the one that joined under a
/// name leaves under it, and a repeat after a crash finds it. It has no owner that the collector knows:
/// a task that is removed by force must leave it behind.
pub fn of_task(task: &NodePatchTask, way: &Way<'_>) -> PendingNode {
    let machine = way.machine;
    let id = machine.provider_id.clone().unwrap_or_default();
    PendingNode::new(
        &naming::pending_name(&id),
        PendingNodeSpec {
            group_id: machine.location.get("group").cloned(),
            provider_id: Some(id),
            node_name: way.node_name.clone(),
            node_uid: None,
            goal: way.goal,
            deadline: way.deadline.map(Time),
            provider: task.spec.provider.clone(),
            task_ref: Some(TaskRef {
                namespace: task.metadata.namespace.clone().unwrap_or_default(),
                name: task.metadata.name.clone().unwrap_or_default(),
                uid: task.metadata.uid.clone().unwrap_or_default(),
            }),
        },
    )
}
