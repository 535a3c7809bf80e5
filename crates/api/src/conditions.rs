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
/// The replacement joined and is Ready.
pub const REPLACEMENT_READY: &str = "ReplacementReady";
/// No pod that must leave is on the old node any more.
pub const DRAINED: &str = "Drained";
/// The machine has reached its goal.
pub const REACHED_GOAL: &str = "ReachedGoal";
/// The cluster autoscaler is held off.
pub const HELD: &str = "Held";
