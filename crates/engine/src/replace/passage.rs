//! The gate that a new node passes before it counts.
//!
//! Owns what a replacement's standing at the gate means for its task: nothing in service is touched before
//! the new node is verified, and one that has failed is put back. Must not verify: `engine::verify` does.

use super::draft::Draft;
use super::undo::gave_up;
use crate::verify::passage::Passage;

/// Whether the new node may count; if not, the wait or the way back is already decided on.
pub(super) fn has_passed(draft: &mut Draft<'_>) -> bool {
    match draft.snapshot.passage.clone() {
        Passage::Open => return true,
        Passage::Shut { why, .. } => draft.wait(why, None),
        Passage::Failed(why) => {
            let record = gave_up(draft, "ReplacementUnfit", &why);
            draft.begin_undo(record);
        }
    }
    false
}

/// Whether the new node, which has counted, still may. One that boots again is verified again, and the old
/// node is left as it is meanwhile; when that takes too long the step's deadline has the answer.
pub(super) fn is_still_open(draft: &mut Draft<'_>) -> bool {
    match draft.snapshot.passage.clone() {
        Passage::Open => return true,
        Passage::Shut { why, .. } | Passage::Failed(why) => draft.wait(why, None),
    }
    false
}

/// Whether the gate sees to an end itself: then the join is late and not lost, because an outage elsewhere
/// would hit another machine as well.
pub(super) fn is_bounded(draft: &Draft<'_>) -> bool {
    matches!(
        draft.snapshot.passage,
        Passage::Shut {
            is_bounded: true,
            ..
        }
    )
}
