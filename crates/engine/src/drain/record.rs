//! The drain of one task: its move, and the record of it in the task's status.
//!
//! Owns the record. It changes with what is blocked and not with every pod that leaves, so that a
//! drain of a hundred pods does not cost a hundred writes.

use jiff::Timestamp;
use shipshape_api::node_patch_task::{BlockedEviction, DetachRecord, DrainRecord};

use super::{Block, BlockedPod, DrainMove, DrainPolicy, Scene, next_move};
use crate::decision::PodTarget;
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

/// What the server has said of a pod stands while it is asked again, and until it says something else: else each
/// further question would be told as the end of the block. What only a person can help with comes first, then what the
/// record names, in its order: the first is the one that people are told of, and only so many are named.
pub fn with_standing_refusals(mut next: DrainMove, record: Option<&DrainRecord>) -> DrainMove {
    let told: &[BlockedEviction] = record.map_or(&[], |record| &record.blocked);
    let standing = told.iter().filter_map(|told| {
        let block = Block::refused_as_told(told)?;
        let pod = next.evict.iter().find(|pod| is_about(told, pod))?.clone();
        Some(BlockedPod { pod, block })
    });
    let standing: Vec<BlockedPod> = standing.collect();
    next.blocked.extend(standing);
    next.blocked.sort_by_key(|one| {
        let place = told.iter().position(|told| is_about(told, &one.pod));
        (!one.block.is_lasting(), place.unwrap_or(usize::MAX))
    });
    next
}

/// Whether a record names the pod as one whose eviction was refused.
pub fn is_told_refused(record: Option<&DrainRecord>, pod: &PodTarget) -> bool {
    let mut blocked = record.into_iter().flat_map(|record| &record.blocked);
    blocked.any(|told| is_about(told, pod) && Block::refused_as_told(told).is_some())
}

fn is_about(told: &BlockedEviction, pod: &PodTarget) -> bool {
    told.namespace == pod.namespace && told.pod == pod.name
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
        Some(known) if is_same(&known.blocked, &blocked) && !has_more(&known.detaching, next) => {}
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

/// Whether two records name the same, in whatever order.
fn is_same(known: &[BlockedEviction], blocked: &[BlockedEviction]) -> bool {
    known.len() == blocked.len() && blocked.iter().all(|one| known.contains(one))
}

/// Whether a volume is waited for that was not before. One that is detached is left out at the next
/// change: the write can wait.
fn has_more(known: &[DetachRecord], next: &DrainMove) -> bool {
    next.detaching.iter().any(|one| !known.contains(one))
}

/// The blocked pods that a record names. Whatever is told of others would be news at every look.
pub fn named(next: &DrainMove) -> impl Iterator<Item = &BlockedPod> {
    next.blocked.iter().take(BLOCKED_NAMED_MAX)
}

fn blocked(next: &DrainMove) -> Vec<BlockedEviction> {
    named(next)
        .map(|one| BlockedEviction {
            namespace: one.pod.namespace.clone(),
            pod: one.pod.name.clone(),
            reason: Some(one.block.word().to_owned()),
            budget: Some(one.block.budgets()).filter(|names| !names.is_empty()),
            message: one.block.sentence(),
        })
        .collect()
}
