//! Admission: which of the waiting nodes may be disrupted now.
//!
//! Owns the budget arithmetic. Must not count from caches alone: what is taken stands in the ledger, or is
//! a task at work that the ledger has lost (`crate::ledger::Slotless`), and the grants returned here only become real by a write guarded by the version that was
//! read. Called by `run` with a handful of waiting nodes, so its cost does not grow with the cluster.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use shipshape_api::NodePatchRunSpec;
use shipshape_api::gates::ReplacementMode;
use shipshape_api::selectors::PodSelector;

use crate::etcd::{self, EtcdView};
use crate::ledger::{Ledger, Role, Slot, Usage};
use crate::machine::{Group, GroupId};
use crate::selector::{self, UnknownOperator};
use crate::view::{NodeView, Observed, PodView};

/// A node that waits for a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// The node.
    pub node: NodeView,
    /// Pods bound to it now.
    pub pods: Vec<Arc<PodView>>,
    /// The task that it will get, as `namespace/name`.
    pub task: String,
    /// The group that will launch its replacement, read live; asked for only where its maximum is a
    /// limit.
    pub group: Observed<Group>,
}

/// What admission came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// New slots by node UID, in order.
    pub grants: Vec<(String, Slot)>,
    /// Why the first node that was not admitted has to wait.
    pub held_by: Option<String>,
    /// How many were held back by what is about themselves and not about what is taken: nobody else's end
    /// will help them.
    pub stuck: usize,
}

/// A node of the run that is down for reasons of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Down {
    /// Its name.
    pub node: String,
    /// Its zone.
    pub zone: String,
    /// Its role.
    pub role: Role,
}

/// What is taken already, and what counts as if it were.
#[derive(Clone, Copy, Debug)]
pub struct Books<'a> {
    /// The ledger, read live.
    pub ledger: &'a Ledger,
    /// Nodes of the run that are down for reasons of their own.
    pub down: &'a [Down],
    /// Nodes of the run that began within the last hour.
    pub begun_within_hour: usize,
    /// Machines that tasks under way will ask a group for, and that it does not count yet.
    pub on_their_way: &'a BTreeMap<GroupId, usize>,
    /// How etcd fares; absent where there is none to ask.
    pub etcd: &'a Observed<EtcdView>,
    /// Nodes, by UID, that are open to any pod and that nobody works on: more of them than wait, where there
    /// are so many. Asked for only where old machines go first.
    pub open: &'a [String],
}

/// Whether the group's maximum binds this run: the new machine comes first, and there is no other way.
pub fn surges(spec: &NodePatchRunSpec) -> bool {
    spec.replacement.unwrap_or_default() == ReplacementMode::Surge
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
    let at_work = books.ledger.slots.values();
    let mut control_plane = at_work
        .filter(|slot| slot.role == Role::ControlPlane)
        .map(|slot| slot.node.clone())
        .next();
    let mut admission = Admission::default();
    let mut on_their_way = books.on_their_way.clone();
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
                control_plane: control_plane.as_deref(),
                on_their_way: &on_their_way,
                granted: &admission.grants,
            },
        ) {
            Some(refusal) => {
                admission.stuck += usize::from(refusal.is_own);
                admission.held_by.get_or_insert(refusal.reason);
            }
            None => {
                taken.take(&candidate.node.zone, important);
                begun += 1;
                if let Some(group) = candidate.group.present() {
                    *on_their_way.entry(group.id.clone()).or_default() += 1;
                }
                if candidate.node.role() == Role::ControlPlane {
                    control_plane = Some(candidate.node.name.clone());
                }
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
    /// A control plane that is being worked on.
    control_plane: Option<&'a str>,
    on_their_way: &'a BTreeMap<GroupId, usize>,
    granted: &'a [(String, Slot)],
}

impl Tally<'_> {
    /// Nodes other than this one that are down, all told or in its zone. For one that is down itself none
    /// counts: it takes nothing more out of service, and two that counted each other would wait for ever.
    fn down(&self, node: &NodeView, in_zone: bool) -> usize {
        let down = self.books.down;
        if down.iter().any(|one| one.node == node.name) {
            return 0;
        }
        let counts = |one: &&Down| !in_zone || one.zone == node.zone;
        down.iter().filter(counts).count()
    }
}

/// Why a node may not begin.
struct Refusal {
    reason: String,
    /// Whether it is about the node and its group, and not about what is taken.
    is_own: bool,
}

/// Why a node may not begin now, if so.
fn refusal(
    spec: &NodePatchRunSpec,
    candidate: &Waiting,
    important: bool,
    tally: &Tally<'_>,
) -> Option<Refusal> {
    let told = |is_own| move |reason| Refusal { reason, is_own };
    let by_limit = limit_refusal(spec, candidate, important, tally).map(told(false));
    by_limit.or_else(|| surge_refusal(candidate, tally).map(told(true)))
}

/// Why no slot is left for a node, if so.
fn limit_refusal(
    spec: &NodePatchRunSpec,
    candidate: &Waiting,
    important: bool,
    tally: &Tally<'_>,
) -> Option<String> {
    let node = &candidate.node;
    if let Some(slot) = tally.books.ledger.slots.get(&node.uid) {
        return Some(format!(
            "node {}, on which {} is still at work",
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
    if let Some(reason) = control_plane_refusal(spec, candidate, tally) {
        return Some(reason);
    }
    let down = tally.down(node, false);
    if used + down >= limit(cap) {
        return Some(format!(
            "{used} {kind} in flight{}{} ({name})",
            also_unreadable(tally, important),
            also_down(tally, down)
        ));
    }
    zone_refusal(spec, node, tally).or_else(|| last_open_refusal(spec, node, tally))
}

/// Why the node may not be closed yet, if so. Where the old machine goes first, nothing has come in its place by
/// then: with the last open node closed too, the pods of all would wait for each other's budgets. The only node of a
/// cluster goes all the same.
fn last_open_refusal(
    spec: &NodePatchRunSpec,
    node: &NodeView,
    tally: &Tally<'_>,
) -> Option<String> {
    if spec.replacement != Some(ReplacementMode::TerminateFirst) || !node.is_open() {
        return None;
    }
    let is_begun = |uid: &String| tally.granted.iter().any(|(granted, _)| granted == uid);
    let mut open = tally.books.open.iter();
    if open.any(|uid| *uid != node.uid && !is_begun(uid)) {
        return None;
    }
    let granted = tally.granted.iter().map(|(_, slot)| slot);
    let mut at_work = tally.books.ledger.slots.values().chain(granted);
    at_work.next().map(|slot| {
        format!(
            "node {} to be replaced first: node {} is the last that is open to pods, and old machines go first",
            slot.node, node.name
        )
    })
}

/// Why the node's zone has no slot left, if so.
fn zone_refusal(spec: &NodePatchRunSpec, node: &NodeView, tally: &Tally<'_>) -> Option<String> {
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

/// Why the node's group can launch no replacement now, if so. What is not known is not room.
fn surge_refusal(candidate: &Waiting, tally: &Tally<'_>) -> Option<String> {
    let group = match &candidate.group {
        Observed::Present(group) => group,
        // What belongs to no group is its task's to tell.
        Observed::Absent | Observed::NotAsked => return None,
        Observed::Unknown(why) => {
            let node = &candidate.node.name;
            return Some(format!(
                "cannot tell whether the group of node {node} has room: {why}"
            ));
        }
    };
    let coming = tally.on_their_way.get(&group.id).copied().unwrap_or(0);
    (group.room(coming) == Some(0)).then(|| {
        let also = match coming {
            0 => String::new(),
            count => format!(" and {count} more on their way"),
        };
        format!(
            "group {} has {} of at most {} machines{also}",
            group.id, group.desired, group.max
        )
    })
}

/// Control planes go one at a time, and one with a member of etcd only while all members are well.
fn control_plane_refusal(
    spec: &NodePatchRunSpec,
    candidate: &Waiting,
    tally: &Tally<'_>,
) -> Option<String> {
    let node = &candidate.node;
    if node.role() != Role::ControlPlane {
        return None;
    }
    let in_work = tally.control_plane.map(|other| {
        format!("control plane {other} is being worked on, and they go one at a time")
    });
    let mut down = tally.books.down.iter();
    let down = down.find(|other| other.role == Role::ControlPlane && other.node != node.name);
    let down = down.map(|other| format!("control plane {} is not ready", other.node));
    in_work
        .or(down)
        .or_else(|| etcd_refusal(spec, candidate, tally.books.etcd))
}

fn etcd_refusal(
    spec: &NodePatchRunSpec,
    candidate: &Waiting,
    etcd: &Observed<EtcdView>,
) -> Option<String> {
    let name = &candidate.node.name;
    let runs_member = etcd::runs_member(&candidate.pods);
    match etcd {
        Observed::Present(view) if runs_member || view.find(None, name).is_some() => {
            let terminate_first = spec.replacement == Some(ReplacementMode::TerminateFirst);
            view.refusal_to_begin(name, terminate_first)
        }
        Observed::Unknown(why) => Some(format!("control plane {name}: cannot ask etcd: {why}")),
        Observed::NotAsked if runs_member => {
            Some(format!("control plane {name}: nobody has asked etcd yet"))
        }
        Observed::Absent if runs_member => {
            Some(format!("control plane {name}: {}", etcd::NOT_CONFIGURED))
        }
        Observed::Present(_) | Observed::NotAsked | Observed::Absent => None,
    }
}

/// The words about entries of the ledger that cannot be read and count.
fn also_unreadable(tally: &Tally<'_>, important: bool) -> String {
    let unreadable = &tally.books.ledger.unreadable;
    match unreadable.keys().next().filter(|_| !important) {
        Some(first) => {
            let count = unreadable.len();
            format!(", of them {count} key(s) of the ledger that cannot be read (first: {first:?})")
        }
        None => String::new(),
    }
}

/// The words about nodes that are down and count.
fn also_down(tally: &Tally<'_>, count: usize) -> String {
    match tally.books.down.first() {
        Some(first) if count > 0 => format!(", {count} not ready (first: {})", first.node),
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
        surges: candidate
            .group
            .present()
            .filter(|group| !group.raises_max)
            .map(|group| group.id.clone()),
        granted_at: now,
    }
}

/// Whether any of these pods is one that the run calls important.
pub fn is_important(
    selectors: &[PodSelector],
    pods: &[impl Borrow<PodView>],
) -> Result<bool, UnknownOperator> {
    let pods = pods.iter().map(Borrow::borrow);
    for pod in pods.filter(|pod| !pod.finished) {
        for wanted in selectors {
            let in_namespace = wanted.namespace().is_none_or(|name| name == pod.namespace);
            if in_namespace && selector::matches(&wanted.label_selector, &pod.labels)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
