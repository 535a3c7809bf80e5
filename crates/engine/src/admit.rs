//! Admission: which of the waiting nodes may be disrupted now.
//!
//! Owns the budget arithmetic. Must not count from tasks or caches: what is taken stands in the
//! ledger, and the grants returned here only become real by a write guarded by the version that was
//! read. Called by `run` with a handful of waiting nodes, so its cost does not grow with the cluster.

use std::collections::BTreeMap;

use jiff::Timestamp;
use shipshape_api::NodePatchRunSpec;
use shipshape_api::gates::ReplacementMode;
use shipshape_api::selectors::PodSelector;

use crate::labels::LabelSet as _;
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
    pub pods: Vec<PodView>,
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
    /// Machines that tasks under way will ask a group for, and that it does not count yet.
    pub on_their_way: &'a BTreeMap<GroupId, usize>,
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
            },
        ) {
            Some(reason) => {
                admission.held_by.get_or_insert(reason);
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
    if let Some(reason) = control_plane_refusal(candidate, tally) {
        return Some(reason);
    }
    let down = tally.down(node, false);
    if used + down >= limit(cap) {
        return Some(format!(
            "{used} {kind} in flight{} ({name})",
            also_down(tally, down)
        ));
    }
    zone_refusal(spec, node, tally).or_else(|| surge_refusal(candidate, tally))
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

/// Control planes go one at a time, and only where that costs etcd no member: a member whose machine
/// is gone still counts for the quorum until somebody takes it out.
fn control_plane_refusal(candidate: &Waiting, tally: &Tally<'_>) -> Option<String> {
    let node = &candidate.node;
    if node.role() != Role::ControlPlane {
        return None;
    }
    if candidate.pods.iter().any(is_etcd_member) {
        return Some(format!(
            "node {} runs a member of etcd, which would stay in the quorum without its machine: leave \
             control planes out (excludeControlPlane) or move the member first",
            node.name
        ));
    }
    tally
        .control_plane
        .map(|other| format!("control plane {other} is being worked on, and they go one at a time"))
}

/// Whether a pod is etcd as kubeadm runs it.
fn is_etcd_member(pod: &PodView) -> bool {
    pod.mirror && pod.namespace == "kube-system" && pod.labels.value("component") == Some("etcd")
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
        surges: candidate
            .group
            .present()
            .filter(|group| !group.raises_max)
            .map(|group| group.id.clone()),
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

#[cfg(test)]
mod tests {
    use shipshape_api::names;

    use super::*;

    fn control_plane(name: &str) -> Waiting {
        let mut node = NodeView {
            name: name.to_owned(),
            uid: format!("{name}-uid"),
            ..NodeView::default()
        };
        for key in names::CONTROL_PLANE_LABELS {
            node.labels.insert((*key).to_owned(), String::new());
        }
        Waiting {
            node,
            pods: Vec::new(),
            task: format!("ns/task-{name}"),
            group: Observed::NotAsked,
        }
    }

    fn admitted(waiting: &[Waiting], ledger: &Ledger) -> Admission {
        let spec = NodePatchRunSpec {
            batch_size_non_important: Some(5),
            ..NodePatchRunSpec::default()
        };
        let books = Books {
            ledger,
            down: &[],
            begun_within_hour: 0,
            on_their_way: &BTreeMap::new(),
        };
        admit(&spec, "run", waiting, books, Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn control_planes_go_one_at_a_time_whatever_the_batch() {
        let pair = [control_plane("one"), control_plane("two")];
        let first = admitted(&pair, &Ledger::default());
        assert_eq!(first.grants.len(), 1, "{first:?}");
        let reason = first.held_by.unwrap();
        assert!(reason.contains("control plane one"), "{reason}");
        let ledger = Ledger {
            slots: first.grants.into_iter().collect(),
            ..Ledger::default()
        };
        assert_eq!(admitted(&pair[1..], &ledger).grants, []);
    }

    #[test]
    fn a_control_plane_with_a_member_of_etcd_is_not_taken_away_from_it() {
        let mut one = control_plane("one");
        one.pods.push(PodView {
            namespace: "kube-system".to_owned(),
            labels: [("component", "etcd")].into(),
            mirror: true,
            ..PodView::default()
        });
        let admission = admitted(&[one], &Ledger::default());
        assert_eq!(admission.grants, []);
        assert!(admission.held_by.unwrap().contains("excludeControlPlane"));
    }

    fn group(desired: u32, max: u32) -> Observed<Group> {
        Observed::Present(Group {
            id: "workers-a".into(),
            image: "image-2".into(),
            zones: Vec::new(),
            min: 1,
            max,
            desired,
            raises_max: false,
            template: None,
        })
    }

    fn worker(name: &str, group: Observed<Group>) -> Waiting {
        Waiting {
            node: NodeView {
                labels: BTreeMap::new(),
                ..control_plane(name).node
            },
            group,
            ..control_plane(name)
        }
    }

    #[test]
    fn no_node_begins_whose_group_has_no_room_for_its_replacement() {
        let full = admitted(&[worker("a", group(10, 10))], &Ledger::default());
        assert_eq!(full.grants, []);
        let reason = full.held_by.unwrap();
        assert_eq!(reason, "group workers-a has 10 of at most 10 machines");
        let pair = [worker("a", group(9, 10)), worker("b", group(9, 10))];
        let one = admitted(&pair, &Ledger::default());
        assert_eq!(
            one.grants.len(),
            1,
            "the first takes the room of the second"
        );
        assert_eq!(one.grants[0].1.surges, Some("workers-a".into()));
        let reason = one.held_by.unwrap();
        assert!(reason.ends_with("and 1 more on their way"), "{reason}");
    }

    #[test]
    fn a_group_that_nobody_can_tell_of_has_no_room() {
        let unclear = worker("a", Observed::Unknown("throttled".to_owned()));
        let admission = admitted(&[unclear], &Ledger::default());
        assert_eq!(admission.grants, []);
        assert!(admission.held_by.unwrap().contains("throttled"));
    }

    #[test]
    fn a_maximum_that_is_raised_or_does_not_matter_holds_nobody_back() {
        let Observed::Present(full) = group(10, 10) else {
            panic!("it is there")
        };
        let raised = Observed::Present(Group {
            raises_max: true,
            ..full
        });
        for group in [raised, Observed::NotAsked, Observed::Absent] {
            let admission = admitted(&[worker("a", group)], &Ledger::default());
            assert_eq!(admission.grants.len(), 1, "{admission:?}");
            assert_eq!(admission.grants[0].1.surges, None);
        }
        let binds = |mode| {
            surges(&NodePatchRunSpec {
                replacement: mode,
                ..NodePatchRunSpec::default()
            })
        };
        assert!(binds(None) && binds(Some(ReplacementMode::Surge)));
        assert!(!binds(Some(ReplacementMode::TerminateFirst)));
        assert!(!binds(Some(ReplacementMode::SurgeElseTerminateFirst)));
    }

    #[test]
    fn machines_on_their_way_take_room_before_the_group_counts_them() {
        let books = Books {
            ledger: &Ledger::default(),
            down: &[],
            begun_within_hour: 0,
            on_their_way: &[("workers-a".into(), 2)].into(),
        };
        let waiting = [worker("a", group(8, 10))];
        let spec = NodePatchRunSpec::default();
        let admission = admit(&spec, "run", &waiting, books, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(admission.grants, []);
    }
}
