//! Admission: which of the waiting nodes may be disrupted now.
//!
//! Owns the budget arithmetic. Must not count from tasks or caches: what is taken stands in the
//! ledger, and the grants returned here only become real by a write guarded by the version that was
//! read. Called by `run` with a handful of waiting nodes, so its cost does not grow with the cluster.

use jiff::Timestamp;
use shipshape_api::NodePatchRunSpec;
use shipshape_api::selectors::PodSelector;

use crate::ledger::{Ledger, Slot, Usage};
use crate::selector::{self, UnknownOperator};
use crate::view::{NodeView, PodView};

/// A node that waits for a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// The node.
    pub node: NodeView,
    /// Pods bound to it now.
    pub pods: Vec<PodView>,
    /// The task that it will get, as `namespace/name`.
    pub task: String,
}

/// What admission came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// New slots by node UID, in order.
    pub grants: Vec<(String, Slot)>,
    /// Why the first node that was not admitted has to wait.
    pub held_by: Option<String>,
}

/// What is taken already, and what counts as if it were.
#[derive(Clone, Copy, Debug)]
pub struct Books<'a> {
    /// The ledger, read live.
    pub ledger: &'a Ledger,
    /// Nodes of the run that are down for reasons of their own, by name and zone.
    pub down: &'a [(String, String)],
    /// Nodes of the run that began within the last hour.
    pub begun_within_hour: usize,
}

/// Grants slots to waiting nodes, in their order, as far as all limits allow.
pub fn admit(
    spec: &NodePatchRunSpec,
    owner: &str,
    waiting: &[Waiting],
    books: Books<'_>,
    now: Timestamp,
) -> Result<Admission, UnknownOperator> {
    let mut taken = books.ledger.usage();
    let mut begun = books.begun_within_hour;
    let mut admission = Admission::default();
    for candidate in waiting {
        let important = is_important(&spec.important_pod_selectors, &candidate.pods)?;
        match refusal(
            spec,
            candidate,
            important,
            &Tally {
                books,
                taken: &taken,
                begun,
            },
        ) {
            Some(reason) => {
                admission.held_by.get_or_insert(reason);
            }
            None => {
                taken.take(&candidate.node.zone, important);
                begun += 1;
                admission.grants.push((
                    candidate.node.uid.clone(),
                    slot(candidate, owner, important, now),
                ));
            }
        }
    }
    Ok(admission)
}

/// The books as they stand after the grants made so far.
struct Tally<'a> {
    books: Books<'a>,
    taken: &'a Usage,
    begun: usize,
}

impl Tally<'_> {
    /// Nodes other than this one that are down, all told or in its zone.
    fn down(&self, node: &NodeView, in_zone: bool) -> usize {
        let others = self
            .books
            .down
            .iter()
            .filter(|(name, _)| *name != node.name);
        others
            .filter(|(_, zone)| !in_zone || *zone == node.zone)
            .count()
    }
}

/// Why a node may not begin now, if so.
fn refusal(
    spec: &NodePatchRunSpec,
    candidate: &Waiting,
    important: bool,
    tally: &Tally<'_>,
) -> Option<String> {
    let node = &candidate.node;
    if let Some(slot) = tally.books.ledger.slots.get(&node.uid) {
        return Some(format!(
            "node {} is already being worked on by {}",
            node.name, slot.task
        ));
    }
    if let Some(cap) = spec.max_per_hour().filter(|cap| tally.begun >= limit(*cap)) {
        return Some(format!(
            "{cap} node(s) begun within the last hour (maxPerHour)"
        ));
    }
    let (used, cap, kind, name) = if important {
        (
            tally.taken.important,
            spec.batch_size_important(),
            "important node(s)",
            "batchSizeImportant",
        )
    } else {
        (
            tally.taken.non_important,
            spec.batch_size_non_important(),
            "node(s)",
            "batchSizeNonImportant",
        )
    };
    let down = tally.down(node, false);
    if used + down >= limit(cap) {
        return Some(format!(
            "{used} {kind} in flight{} ({name})",
            also_down(tally, down)
        ));
    }
    let cap = spec.max_concurrent_per_zone()?;
    let down = tally.down(node, true);
    (tally.taken.in_zone(&node.zone) + down >= limit(cap)).then(|| {
        format!(
            "{} node(s) in flight{} in zone {} (maxConcurrentPerZone)",
            tally.taken.in_zone(&node.zone),
            also_down(tally, down),
            node.zone
        )
    })
}

/// The words about nodes that are down and count.
fn also_down(tally: &Tally<'_>, count: usize) -> String {
    match tally.books.down.first() {
        Some((name, _)) if count > 0 => format!(", {count} not ready (first: {name})"),
        _ => String::new(),
    }
}

fn limit(count: i32) -> usize {
    usize::try_from(count).unwrap_or_default()
}

fn slot(candidate: &Waiting, owner: &str, important: bool, now: Timestamp) -> Slot {
    Slot {
        node: candidate.node.name.clone(),
        owner: owner.to_owned(),
        task: candidate.task.clone(),
        zone: candidate.node.zone.clone(),
        role: candidate.node.role(),
        important,
        granted_at: now,
    }
}

/// Whether any of these pods is one that the run calls important.
pub fn is_important(selectors: &[PodSelector], pods: &[PodView]) -> Result<bool, UnknownOperator> {
    for pod in pods.iter().filter(|pod| !pod.finished) {
        for wanted in selectors {
            let in_namespace = wanted.namespace().is_none_or(|name| name == pod.namespace);
            if in_namespace && selector::matches(&wanted.label_selector, &pod.labels)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
