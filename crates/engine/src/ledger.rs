//! The one ledger of slots: which nodes are being disrupted now, for whom, where.
//!
//! Owns the shape of the record and the arithmetic on it, and what a task at work counts for that the
//! record has lost. Only a write guarded by the version read may add a slot. Read by admission, written
//! by `cluster::ledger`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use shipshape_api::gates::ReplacementMode;
use shipshape_api::names::LEDGER_NAME;
use shipshape_api::{NodePatchTask, TaskStep};

use crate::decision::Notice;
use crate::machine::GroupId;

/// The ledger as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Version of the object that was read; `None` when it does not exist yet. A write that does not
    /// carry it is refused.
    pub resource_version: Option<String>,
    /// Slots by the UID of the node they were granted for.
    pub slots: BTreeMap<String, Slot>,
    /// Entries that are no slots that we can read, as they were read: somebody has written them, or a
    /// version to come. Each counts as one slot and stays as it is.
    pub unreadable: BTreeMap<String, String>,
}

/// The right to disrupt one node, until it is given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Slot {
    /// Name of the node.
    pub node: String,
    /// UID of the intent (a run or an update) that asked.
    pub owner: String,
    /// Task that works under this slot, as `namespace/name`.
    pub task: String,
    /// Zone of the node.
    pub zone: String,
    /// Role of the node.
    pub role: Role,
    /// Whether the node hosted important pods when it was admitted.
    pub important: bool,
    /// The group that gets one machine more for it, where the group's maximum is a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surges: Option<GroupId>,
    /// When it was granted.
    pub granted_at: Timestamp,
}

/// Role of a node, as far as budgets tell nodes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// Runs the control plane.
    ControlPlane,
    /// Everything else.
    Worker,
}

/// Tasks of whatever run that are at work and that the ledger knows nothing of: somebody has taken their
/// slots out of it, or the whole of it away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slotless {
    /// The slots that they must have, by node UID.
    pub slots: Vec<(String, Slot)>,
    /// The nodes of those that should have had one.
    pub nodes: Vec<String>,
}

impl Slotless {
    /// Of these tasks, those at work whose nodes have no slot. `role_of` says what role a task's node has.
    pub fn among<'a>(
        tasks: impl Iterator<Item = &'a NodePatchTask>,
        ledger: &Ledger,
        role_of: impl Fn(&NodePatchTask) -> Role,
        now: Timestamp,
    ) -> Self {
        let mut found = Self::default();
        for task in tasks.filter(|task| needs_slot(task)) {
            if ledger.slots.contains_key(&task.spec.node_uid) {
                continue;
            }
            found.slots.push(slot_of(task, role_of(task), now));
            // One that was set aside has given its slot back, and has none while it is put back.
            if step_of(task) != TaskStep::Undo {
                found.nodes.push(task.spec.node_name.clone());
            }
        }
        found
    }

    /// What people are told when the slots are written again.
    pub fn notice(&self) -> Option<Notice> {
        let first = self.nodes.first()?;
        let more = match self.nodes.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "the ledger has lost slots of nodes in work: {first}{more}; they count as taken and are \
             written into it again"
        );
        Some(Notice::warning("SlotLost", message))
    }
}

/// How many slots are taken, in the cuts that budgets are written in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Slots of nodes with important pods.
    pub important: usize,
    /// Slots of all other nodes.
    pub non_important: usize,
    /// Slots by zone.
    pub by_zone: BTreeMap<String, usize>,
}

impl Ledger {
    /// What is taken now, by whomever.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for slot in self.slots.values() {
            usage.take(&slot.zone, slot.important);
        }
        usage.non_important += self.unreadable.len();
        usage
    }

    /// What people are told of entries that cannot be read, and how to be rid of them.
    pub fn complaint(&self) -> Option<String> {
        let first = self.unreadable.keys().next()?;
        let more = match self.unreadable.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "key {first:?}{more} of ConfigMap {LEDGER_NAME} cannot be read and counts as one slot taken; \
             to help: remove it there, with kubectl edit configmap {LEDGER_NAME} in the operator's namespace"
        ))
    }

    /// The ledger with these slots too, each where its node has none.
    #[must_use]
    pub fn with(&self, missing: &[(String, Slot)]) -> Self {
        let mut ledger = self.clone();
        for (node_uid, slot) in missing {
            let entry = ledger.slots.entry(node_uid.clone());
            entry.or_insert_with(|| slot.clone());
            ledger.unreadable.remove(node_uid);
        }
        ledger
    }
}

/// Whether a task may disturb its node, so that it must have a slot: neither set aside nor over, and not
/// in its last step, which may give the slot back.
pub fn needs_slot(task: &NodePatchTask) -> bool {
    match step_of(task) {
        TaskStep::Parked | TaskStep::Release | TaskStep::Done | TaskStep::Failed => false,
        TaskStep::Lock
        | TaskStep::Provision
        | TaskStep::Join
        | TaskStep::Transfer
        | TaskStep::Settle
        | TaskStep::Cordon
        | TaskStep::Drain
        | TaskStep::Recover
        | TaskStep::RemoveMember
        | TaskStep::Remove
        | TaskStep::Forget
        | TaskStep::Undo
        | TaskStep::Backoff => true,
    }
}

/// The slot that a task at work must have, with its node's UID. Granted now, because when it was is lost:
/// a later time keeps it from being taken for the slot of an attempt that is over.
fn slot_of(task: &NodePatchTask, role: Role, now: Timestamp) -> (String, Slot) {
    let (meta, spec) = (&task.metadata, &task.spec);
    let status = task.status.as_ref();
    let surges = spec.replacement.unwrap_or_default() == ReplacementMode::Surge;
    let group = status.and_then(|status| status.replacement.as_ref());
    let group = group.map(|record| GroupId(record.group_id.clone()));
    let has_member = status.is_some_and(|status| status.etcd.is_some());
    let slot = Slot {
        node: spec.node_name.clone(),
        owner: spec.run_uid.clone(),
        task: format!(
            "{}/{}",
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default()
        ),
        zone: spec.zone.clone().unwrap_or_default(),
        role: if has_member { Role::ControlPlane } else { role },
        important: spec.important(),
        surges: group.filter(|_| surges),
        granted_at: now,
    };
    (spec.node_uid.clone(), slot)
}

fn step_of(task: &NodePatchTask) -> TaskStep {
    let status = task.status.as_ref();
    status.map_or(
        TaskStep::Lock,
        shipshape_api::NodePatchTaskStatus::step_name,
    )
}

impl Usage {
    /// Counts one more slot.
    pub fn take(&mut self, zone: &str, important: bool) {
        if important {
            self.important += 1;
        } else {
            self.non_important += 1;
        }
        *self.by_zone.entry(zone.to_owned()).or_default() += 1;
    }

    /// Slots taken in a zone.
    pub fn in_zone(&self, zone: &str) -> usize {
        self.by_zone.get(zone).copied().unwrap_or_default()
    }
}
