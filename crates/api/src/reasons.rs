//! Stable reasons of conditions and events.
//!
//! Owns the words that people write alerts against; a reason once released is never renamed.

/// The plan is made.
pub const PLANNED: &str = "Planned";
/// Every partition of the plan is done.
pub const ALL_PARTITIONS_DONE: &str = "AllPartitionsDone";
/// No node matches the selection.
pub const NO_CANDIDATES: &str = "NoCandidates";
/// Nobody could tell in time whether nodes that joined late are outdated: they are left to the next run.
pub const LATE_NODES_UNKNOWN: &str = "LateNodesUnknown";
/// Tasks are under way.
pub const TASKS_IN_FLIGHT: &str = "TasksInFlight";
/// Another run or update holds the slots that are needed.
pub const WAITING_FOR_SLOT: &str = "WaitingForSlot";
/// `spec.paused` is true.
pub const PAUSED_BY_SPEC: &str = "PausedBySpec";
/// As many tasks failed as `failurePolicy.pauseAfterFailures` allows.
pub const FAILURE_THRESHOLD: &str = "FailureThreshold";
/// Nothing keeps the work from going on.
pub const RUNNING: &str = "Running";
/// Some tasks failed and cannot be tried again.
pub const TASKS_FAILED: &str = "TasksFailed";

/// The provider is known.
pub const SUPPORTED: &str = "Supported";
/// No provider of this type is built in or configured.
pub const UNSUPPORTED_PROVIDER: &str = "UnsupportedProvider";
/// The object contradicts itself in a way that the schema cannot see.
pub const INVALID_SPEC: &str = "InvalidSpec";

/// The cluster autoscaler may not remove nodes of the run.
pub const SCALE_DOWN_FORBIDDEN: &str = "ScaleDownForbidden";

/// The node lock is ours.
pub const LOCK_HELD: &str = "LockHeld";
/// Somebody else holds the node lock.
pub const LOCK_BUSY: &str = "LockBusy";
/// The node lock was given back.
pub const LOCK_RELEASED: &str = "LockReleased";
/// The replacement is asked for and not yet running.
pub const MACHINE_CREATING: &str = "MachineCreating";
/// The machine runs and its Node has not joined yet.
pub const WAITING_FOR_JOIN: &str = "WaitingForJoin";
/// The Node joined and is not Ready yet.
pub const WAITING_FOR_READY: &str = "WaitingForReady";
/// The Node is Ready.
pub const NODE_READY: &str = "NodeReady";
/// The cloud has no capacity for the replacement now.
pub const NO_CAPACITY: &str = "NoCapacity";
/// The cloud failed to make the machine.
pub const MACHINE_FAILED: &str = "MachineFailed";
/// Pods are being evicted.
pub const EVICTING: &str = "Evicting";
/// A disruption budget refuses an eviction.
pub const BLOCKED_BY_BUDGET: &str = "BlockedByBudget";
/// Every pod that must leave has left.
pub const NO_PODS_LEFT: &str = "NoPodsLeft";
/// The old machine is on its way out.
pub const MACHINE_TERMINATING: &str = "MachineTerminating";
/// The task is done.
pub const SUCCEEDED: &str = "Succeeded";
/// Pods cannot leave a node now; the message names the first and what is in its way.
pub const PODS_BLOCKED: &str = "PodsBlocked";
/// The node went by itself before its replacement began.
pub const NODE_LEFT: &str = "NodeLeft";
/// The node went away, or is another one under the same name.
pub const NODE_GONE: &str = "NodeGone";
/// A step did not end before its deadline.
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// The live state of the node disagrees with the record; nothing was changed.
pub const LIVE_STATE_DIFFERS: &str = "LiveStateDiffers";

/// All nodes run the wanted version.
pub const NODE_VERSIONS_UP_TO_DATE: &str = "NodeVersionsUpToDate";
/// Some node runs another version than the wanted one.
pub const NODE_VERSIONS_OUT_OF_DATE: &str = "NodeVersionsOutOfDate";
/// The group launches the wanted image.
pub const SCALING_GROUP_UP_TO_DATE: &str = "ScalingGroupNodeImageUpToDate";
/// The group launches another image than the wanted one.
pub const SCALING_GROUP_OUT_OF_DATE: &str = "ScalingGroupNodeImageOutOfDate";

/// The node's network is being checked.
pub const VERIFYING: &str = "Verifying";
/// Every check passed.
pub const VERIFIED: &str = "Verified";
/// Checks failed that pass elsewhere, as often as settings allow.
pub const VERIFICATION_FAILED: &str = "VerificationFailed";
/// What failed on the node fails elsewhere too, or nobody can tell.
pub const INCONCLUSIVE: &str = "Inconclusive";
/// An attempt failed and another follows.
pub const CHECK_FAILED: &str = "CheckFailed";
/// A NodeReadinessRule manages the gate's taint, which the gate therefore leaves alone.
pub const TAINT_OWNED_ELSEWHERE: &str = "TaintOwnedElsewhere";
/// The node's NodePool does not declare the gate's taint as a startup taint.
pub const WRONG_NODE_POOL: &str = "WrongNodePool";
/// The API server refuses what the gate needs.
pub const REFUSED: &str = "Refused";
/// A failed node is removed.
pub const REMOVING_FAILED_NODE: &str = "RemovingFailedNode";
/// A failed node would be removed, but a limit or another operation forbids it.
pub const REMOVAL_HELD_BACK: &str = "RemovalHeldBack";
