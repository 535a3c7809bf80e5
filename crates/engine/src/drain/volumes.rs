//! Pods with volumes leave one after the other.
//!
//! Owns whose turn it is: the next such pod leaves when the volumes of the one before are detached,
//! or when that has taken too long. Must not look at budgets. A volume that a DaemonSet's or a static
//! pod still uses stays where it is and is not waited for, nor a disk without a claim while a pod that describes one is
//! there: the attachment does not say whose it is.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::node_patch_task::DetachRecord;

use super::{Scene, skip};

/// Most volumes that a status names.
const NAMED_MAX: usize = 32;

pub(super) struct Volumes {
    /// Attached without a pod, and since when.
    lingering: Vec<DetachRecord>,
    /// When the first of them is given up that is not yet.
    given_up_at: Option<Timestamp>,
    /// Until when a pod with volumes that is on its way out holds the others up.
    leaving_until: Option<Timestamp>,
}

impl Volumes {
    pub(super) fn of(scene: &Scene<'_>) -> Self {
        let used: BTreeSet<(&str, &str)> = scene
            .pods
            .iter()
            .filter(|pod| !pod.finished)
            .flat_map(|pod| {
                let namespace = pod.namespace.as_str();
                pod.claims
                    .iter()
                    .map(move |claim| (namespace, claim.as_str()))
            })
            .collect();
        let mut there = scene.pods.iter().filter(|pod| !pod.finished);
        let is_described = there.any(|pod| pod.describes_disk);
        let mut lingering: Vec<DetachRecord> = scene
            .around
            .attachments
            .iter()
            .filter(|one| {
                if one.volume.is_empty() {
                    return !is_described;
                }
                let claim = one.claim.as_ref();
                !claim.is_some_and(|(space, name)| used.contains(&(space.as_str(), name.as_str())))
            })
            .map(|one| DetachRecord {
                volume: one.known_as().to_owned(),
                since: since(scene, one.known_as()),
            })
            .collect();
        lingering.sort_by(|one, other| one.volume.cmp(&other.volume));
        lingering.truncate(NAMED_MAX);
        let wait = scene.policy.detach_wait;
        let future = |at: Timestamp| Some(at.checked_add(wait).ok()?).filter(|at| *at > scene.now);
        Self {
            given_up_at: lingering.iter().filter_map(|one| future(one.since.0)).min(),
            leaving_until: scene
                .pods
                .iter()
                .filter(|pod| pod.terminating && pod.has_volumes())
                .filter(|pod| skip(pod, scene.around).is_none())
                // A pod whose deletion was only just asked for may not say yet when it ends.
                .filter_map(|pod| future(pod.gone_by.unwrap_or(scene.now)))
                .max(),
            lingering,
        }
    }

    /// Whether the next pod with volumes has to wait.
    pub(super) fn are_busy(&self) -> bool {
        self.awaits_detach() || self.leaving_until.is_some()
    }

    /// Whether a volume is attached without a pod and still worth waiting for.
    pub(super) fn awaits_detach(&self) -> bool {
        self.given_up_at.is_some()
    }

    /// When the wait ends without an event.
    pub(super) fn look_at(&self) -> Option<Timestamp> {
        [self.given_up_at, self.leaving_until]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn into_records(self) -> Vec<DetachRecord> {
        self.lingering
    }
}

fn since(scene: &Scene<'_>, volume: &str) -> Time {
    let known = scene.detaching.iter().find(|one| one.volume == volume);
    known.map_or(Time(scene.now), |one| one.since.clone())
}
