//! Admission: which of the waiting nodes may be disrupted now.
//!
//! Owns the budget arithmetic. Must not count from tasks or caches: what is taken stands in the
//! ledger, and the grants returned here only become real by a write guarded by the version that was
//! read. Called by `run` with a handful of waiting nodes, so its cost does not grow with the cluster.

use jiff::Timestamp;
use shipshape_api::NodePatchRunSpec;
use shipshape_api::selectors::PodSelector;

use crate::ledger::{Ledger, Slot};
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

/// Grants slots to waiting nodes, in their order, as far as all limits allow.
pub fn admit(
    spec: &NodePatchRunSpec,
    owner: &str,
    waiting: &[Waiting],
    ledger: &Ledger,
    now: Timestamp,
) -> Result<Admission, UnknownOperator> {
    let mut usage = ledger.usage();
    let mut admission = Admission::default();
    for candidate in waiting {
        let node = &candidate.node;
        let important = is_important(&spec.important_pod_selectors, &candidate.pods)?;
        let refusal = if let Some(slot) = ledger.slots.get(&node.uid) {
            Some(format!(
                "node {} is already being worked on by {}",
                node.name, slot.task
            ))
        } else if important && usage.important >= limit(spec.batch_size_important()) {
            Some(format!(
                "{} important node(s) in flight (batchSizeImportant)",
                usage.important
            ))
        } else if !important && usage.non_important >= limit(spec.batch_size_non_important()) {
            Some(format!(
                "{} node(s) in flight (batchSizeNonImportant)",
                usage.non_important
            ))
        } else {
            spec.max_concurrent_per_zone()
                .filter(|cap| usage.in_zone(&node.zone) >= limit(*cap))
                .map(|cap| {
                    format!(
                        "{cap} node(s) in flight in zone {} (maxConcurrentPerZone)",
                        node.zone
                    )
                })
        };
        match refusal {
            Some(reason) => {
                admission.held_by.get_or_insert(reason);
            }
            None => {
                usage.take(&node.zone, important);
                admission
                    .grants
                    .push((node.uid.clone(), slot(candidate, owner, important, now)));
            }
        }
    }
    Ok(admission)
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
