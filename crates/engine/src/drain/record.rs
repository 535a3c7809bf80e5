//! The drain of one task: its move, and the record of it in the task's status.
//!
//! Owns the record. It changes with what is blocked and not with every pod that leaves, so that a
//! drain of a hundred pods does not cost a hundred writes.

use jiff::Timestamp;
use shipshape_api::node_patch_task::{BlockedEviction, DetachRecord, DrainRecord};

use super::{DrainMove, DrainPolicy, Scene, next_move};
use crate::settings::Settings;
use crate::snapshot::TaskSnapshot;
use crate::view::PodView;

/// Blocked pods that a status names; the rest are counted.
const BLOCKED_NAMED_MAX: usize = 10;

/// The next move of a task's drain, from the pods that were observed.
pub fn of_task(
    snapshot: &TaskSnapshot,
    pods: &[PodView],
    settings: &Settings,
    now: Timestamp,
) -> DrainMove {
    let status = snapshot.task.status.as_ref();
    let record = status.and_then(|status| status.drain.as_ref());
    next_move(&Scene {
        pods,
        budgets: &snapshot.budgets,
        around: &snapshot.around,
        detaching: record.map_or(&[], |record| record.detaching.as_slice()),
        policy: DrainPolicy::of(snapshot.drain_options(), &settings.drain),
        now,
    })
}

/// Keeps the record of a drain up to date with its move.
pub fn record(record: &mut Option<DrainRecord>, next: &DrainMove) {
    let remaining = i32::try_from(next.remaining).unwrap_or(i32::MAX);
    if next.is_done() {
        if let Some(record) = record {
            record.remaining = 0;
            record.blocked.clear();
            record.detaching.clone_from(&next.detaching);
        }
        return;
    }
    let blocked = blocked(next);
    match record {
        Some(known) if known.blocked == blocked && !has_more(&known.detaching, next) => {}
        Some(known) => {
            known.remaining = remaining;
            known.blocked = blocked;
            known.detaching.clone_from(&next.detaching);
        }
        None => {
            *record = Some(DrainRecord {
                total: remaining,
                remaining,
                blocked,
                detaching: next.detaching.clone(),
            });
        }
    }
}

/// Whether a record tells already of all that is blocked, and of more that has left by now: not worth a
/// write for some time. Under a tight budget pods leave one after the other, each soon after the last.
pub fn is_told(record: Option<&DrainRecord>, next: &DrainMove) -> bool {
    let Some(record) = record else {
        return false;
    };
    let blocked = blocked(next);
    !blocked.is_empty()
        && blocked.iter().all(|one| record.blocked.contains(one))
        && !has_more(&record.detaching, next)
}

/// Whether a volume is waited for that was not before. One that is detached is left out at the next
/// change: the write can wait.
fn has_more(known: &[DetachRecord], next: &DrainMove) -> bool {
    next.detaching.iter().any(|one| !known.contains(one))
}

fn blocked(next: &DrainMove) -> Vec<BlockedEviction> {
    next.blocked
        .iter()
        .take(BLOCKED_NAMED_MAX)
        .map(|one| BlockedEviction {
            namespace: one.pod.namespace.clone(),
            pod: one.pod.name.clone(),
            reason: Some(one.block.word().to_owned()),
            budget: Some(one.block.budgets()).filter(|names| !names.is_empty()),
            message: one.block.sentence(),
        })
        .collect()
}
