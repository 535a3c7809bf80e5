//! An end of the old machine that may have been asked for and does not show yet.
//!
//! Owns the note of it: a task that comes back from the removal cannot know whether its last request has
//! had effect, and a cloud may show an end late. Until the machine is seen to stand once the time for its end
//! is over, nothing takes the replacement back. Must not ask for effects.

use jiff::Timestamp;
use shipshape_api::conditions::OLD_DELETED;
use shipshape_api::node_patch_task::{NodePatchTaskStatus, TaskStep};

use super::draft::Draft;
use super::facts::is_ending;
use crate::condition::Truth;
use crate::machine::{Machine, MachineState};
use crate::view::Observed;

/// Whether the end of a task's old machine may have been asked for without having shown.
pub fn may_be_ending(status: &NodePatchTaskStatus) -> bool {
    noted_at(status).is_some()
}

/// When that was noted last.
fn noted_at(status: &NodePatchTaskStatus) -> Option<Timestamp> {
    let mut conditions = status.conditions.iter();
    let noted = conditions.find(|one| one.type_ == OLD_DELETED && one.status == "False");
    noted.map(|one| one.last_transition_time.0)
}

/// Notes it from now on, though it was noted before.
pub(super) fn note(draft: &mut Draft<'_>) {
    forget(&mut draft.status);
    let message = "the end of the old machine may have been asked for already".to_owned();
    draft.claim(OLD_DELETED, Truth::False, "MayBeEnding", message);
}

/// Drops the note. One that the machine is gone stays.
pub(super) fn forget(status: &mut NodePatchTaskStatus) {
    status
        .conditions
        .retain(|one| one.type_ != OLD_DELETED || one.status != "False");
}

/// Drops the note once the machine is seen to stand although the time for its end is over.
pub(super) fn judge(draft: &mut Draft<'_>) {
    let Some(since) = noted_at(&draft.status) else {
        return;
    };
    let is_time_over = draft.now.duration_since(since) >= draft.settings.deadlines.remove;
    let old = draft.snapshot.old_machine.present();
    let stands = |machine: &Machine| machine.state != MachineState::Unknown && !is_ending(machine);
    if is_time_over && old.is_some_and(stands) {
        forget(&mut draft.status);
    }
}

/// Whether the end that may have been asked for shows. While the machine is there its pods are moved as long as
/// that takes, whatever becomes of the replacement.
pub(super) fn is_showing(draft: &Draft<'_>) -> bool {
    let shows = match &draft.snapshot.old_machine {
        Observed::Present(machine) => is_ending(machine),
        Observed::Absent => true,
        Observed::NotAsked | Observed::Unknown(_) => false,
    };
    shows && may_be_ending(&draft.status)
}

/// Whether the machine has come to that end: the way is on then, and nothing is left to be emptied.
pub(super) fn has_ended(draft: &mut Draft<'_>) -> bool {
    let old = draft.snapshot.old_machine.present();
    let has_ended = old.is_none_or(|machine| machine.state == MachineState::Terminated);
    let goes_on = has_ended && is_showing(draft);
    if goes_on {
        draft.enter(TaskStep::Remove);
    }
    goes_on
}
