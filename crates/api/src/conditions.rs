//! Condition types of all kinds.
//!
//! Owns the words; who sets a condition and when is the engine's business. Reasons are in
//! `reasons`.

/// The object was understood and can be worked on. False names what a person must change.
pub const ACCEPTED: &str = "Accepted";
/// Work goes on. False once it has ended or is paused.
pub const PROGRESSING: &str = "Progressing";
/// No new work is started.
pub const PAUSED: &str = "Paused";
/// All work is done and nothing is left to do.
pub const COMPLETED: &str = "Completed";
/// Something went wrong and stays wrong until somebody acts.
pub const FAILED: &str = "Failed";
/// Nodes or groups differ from what is wanted.
pub const OUTDATED: &str = "Outdated";
/// The node lock is held for this task.
pub const LOCKED: &str = "Locked";
/// The replacement exists in the cloud.
pub const REPLACEMENT_ENSURED: &str = "ReplacementEnsured";
/// The replacement joined and is Ready.
pub const NEW_NODE_READY: &str = "NewNodeReady";
/// No new pod lands on the old node.
pub const CORDONED: &str = "Cordoned";
/// No pod that must leave is on the old node any more.
pub const DRAINED: &str = "Drained";
/// The old node's member has left etcd.
pub const ETCD_MEMBER_REMOVED: &str = "EtcdMemberRemoved";
/// The old machine is gone.
pub const OLD_DELETED: &str = "OldDeleted";
/// The task has reached its end. False says why it never will.
pub const SUCCEEDED: &str = "Succeeded";
/// A step did not end before its deadline and goes on waiting.
pub const OVERDUE: &str = "Overdue";
/// The machine has reached its goal.
pub const REACHED_GOAL: &str = "ReachedGoal";
/// The cluster autoscaler is held off.
pub const HELD: &str = "Held";
/// Nothing was found that would hold up the nodes of the next wave. False names what was.
pub const PREFLIGHT: &str = "Preflight";
/// The new node has the labels of the old one.
pub const LABELS_TRANSFERRED: &str = "LabelsTransferred";
/// The important pods are stable.
pub const STABLE: &str = "Stable";
/// The run was called off.
pub const ABORTED: &str = "Aborted";
/// All that the ledger of slots holds can be read. False names what cannot.
pub const LEDGER_READABLE: &str = "LedgerReadable";
/// Nodes of the wave cannot begin for reasons of their own, and nobody else of it is left.
pub const HELD_UP: &str = "HeldUp";
/// Of every node that joined late it is known whether it is outdated. False since nobody can tell.
pub const LATE_NODES_KNOWN: &str = "LateNodesKnown";
/// The network of the node works, as checks from inside a pod on it say.
pub const NETWORK_VERIFIED: &str = "NetworkVerified";
