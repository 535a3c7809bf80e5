//! The one ledger of slots: which nodes are being disrupted now, for whom, where.
//!
//! Owns the shape of the record and the arithmetic on it. Must not count from anything else: a slot
//! exists only in the ledger object, and only a write guarded by the version read may add one. Read
//! by admission, written by `cluster::ledger`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::machine::GroupId;

/// The ledger as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Version of the object that was read; `None` when it does not exist yet. A write that does not
    /// carry it is refused.
    pub resource_version: Option<String>,
    /// Slots by the UID of the node they were granted for.
    pub slots: BTreeMap<String, Slot>,
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
        usage
    }
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
