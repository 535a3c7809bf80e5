//! Replace: the next move of one node's replacement.
//!
//! Owns the order of the steps: lock, replacement, join, cordon, drain, old machine gone, old Node
//! gone, release. Must not perform anything: each step looks at its snapshot and either waits with a
//! reason, asks for effects whose intent is already recorded, or records the next step. The task's
//! status is the only memory, so a crash between any two lines resumes here.

mod arrive;
mod draft;
mod facts;
mod keep;
mod leave;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use shipshape_api::node_patch_task::{NodePatchTaskStatus, TaskStep};

use crate::decision::Decision;
use crate::settings::Settings;
use crate::snapshot::TaskSnapshot;
use draft::Draft;
pub use keep::is_lock_due;

/// Decides what one look at a task leads to.
pub fn decide(
    snapshot: &TaskSnapshot,
    settings: &Settings,
    now: Timestamp,
) -> Decision<NodePatchTaskStatus> {
    let mut draft = Draft::new(snapshot, settings, now);
    let Ok(()) = keep::keep_lock(&mut draft) else {
        return draft.finish();
    };
    match step_of(snapshot) {
        TaskStep::Lock => arrive::lock(&mut draft),
        TaskStep::Provision => arrive::provision(&mut draft),
        TaskStep::Join => arrive::join(&mut draft),
        TaskStep::Cordon => leave::cordon(&mut draft),
        TaskStep::Drain => leave::drain(&mut draft),
        TaskStep::Remove => leave::remove(&mut draft),
        TaskStep::Forget => leave::forget(&mut draft),
        TaskStep::Release => leave::release(&mut draft),
        TaskStep::Done | TaskStep::Failed => draft.rest(),
    }
    draft.finish()
}

/// The step a task is in. A task without a record has just been made and waits for its lock; that
/// needs no record, because the lock's name follows from the node's.
pub fn step_of(snapshot: &TaskSnapshot) -> TaskStep {
    snapshot
        .task
        .status
        .as_ref()
        .and_then(|status| status.step.as_ref())
        .map_or(TaskStep::Lock, |step| step.name)
}
