//! The brake: what holds a run back from beginning with further nodes.
//!
//! Owns the reasons for a pause and the way out of each. Must not stop tasks that are under way.

use shipshape_api::NodePatchTask;
use shipshape_api::names::ANNOTATION_ACKNOWLEDGED;
use shipshape_api::node_patch_run::{NodePatchRunSpec, Wave};

use super::is_parked;
use crate::snapshot::RunSnapshot;

/// Why no further node begins, and what would change that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    /// Why.
    pub(super) reason: String,
    /// What the run waits for.
    pub(super) way_out: String,
    /// Whether something went wrong, as opposed to somebody's wish.
    pub(super) is_failure: bool,
}

/// Failures that nobody has acknowledged yet.
fn failures(snapshot: &RunSnapshot) -> usize {
    let notes = snapshot.run.metadata.annotations.as_ref();
    let known = notes
        .and_then(|notes| notes.get(ANNOTATION_ACKNOWLEDGED))
        .and_then(|text| text.parse::<usize>().ok())
        .unwrap_or(0);
    snapshot.failed.saturating_sub(known)
}

fn failure(snapshot: &RunSnapshot, rule: &str) -> Pause {
    let cause = snapshot
        .last_failure
        .as_ref()
        .map(|text| format!("; the last: {text}"))
        .unwrap_or_default();
    let count = failures(snapshot);
    Pause {
        reason: format!("{rule}: {count} node(s) failed{cause}"),
        way_out: format!("somebody to look at {count} failed node(s) and to resume the run{cause}"),
        is_failure: true,
    }
}

/// Why no further node may begin, if so: by the run's own word, or, without one, after a first wave of
/// failures, or once a node is gone and has no replacement.
pub(super) fn brake(snapshot: &RunSnapshot) -> Option<Pause> {
    let is_over = working(snapshot) == 0;
    let first = "no replacement has come through yet";
    let lost = "a node is gone without a replacement";
    asked_for(snapshot)
        .or_else(|| (is_over && is_first_wave_failing(snapshot)).then(|| failure(snapshot, first)))
        .or_else(|| is_place_lost(snapshot).then(|| failure(snapshot, lost)))
}

/// Whether a place is empty that nobody has acknowledged: where old machines go first, what made this
/// replacement fail may make the next one fail too, and each costs a machine.
fn is_place_lost(snapshot: &RunSnapshot) -> bool {
    snapshot.lost > 0 && failures(snapshot) > 0
}

/// The pause that a person wishes for.
pub(super) fn wish(spec: &NodePatchRunSpec) -> Option<Pause> {
    spec.paused().then(|| Pause {
        reason: "spec.paused=true".to_owned(),
        way_out: "spec.paused to be lifted".to_owned(),
        is_failure: false,
    })
}

/// The pause that the spec asks for.
fn asked_for(snapshot: &RunSnapshot) -> Option<Pause> {
    let spec = &snapshot.run.spec;
    if let Some(wish) = wish(spec) {
        return Some(wish);
    }
    let failed = failures(snapshot);
    let limit = |count: i32| usize::try_from(count).unwrap_or(usize::MAX);
    let rule = "failurePolicy.pauseAfterFailures reached";
    spec.pause_after_failures()
        .is_some_and(|count| failed >= limit(count))
        .then(|| failure(snapshot, rule))
}

/// What the run waits for before it begins with further nodes, though nothing is wrong with it yet.
pub(super) fn hold(snapshot: &RunSnapshot) -> Option<String> {
    is_first_wave_failing(snapshot).then(|| {
        let count = failures(snapshot);
        let under_way = working(snapshot);
        format!(
            "a first replacement to be ready: {count} node(s) failed, {under_way} under way, none \
             has come through"
        )
    })
}

/// Tasks that may still come through by themselves: one that is set aside waits for the others, until it is on its
/// way back.
fn working(snapshot: &RunSnapshot) -> usize {
    let is_resuming = |task: &NodePatchTask| {
        let parked = task.status.as_ref().and_then(|it| it.parked.as_ref());
        parked.is_some_and(|record| record.resuming)
    };
    let open = snapshot.open.iter();
    open.filter(|task| !is_parked(task) || is_resuming(task))
        .count()
}

/// Nothing ever succeeded, and something has failed: the cause may be the image or the cloud, and each
/// further node would only repeat it. A replacement that is ready shows that it is neither.
fn is_first_wave_failing(snapshot: &RunSnapshot) -> bool {
    let has_new_node = |task: &NodePatchTask| {
        let status = task.status.as_ref();
        status.is_some_and(|status| status.new_node_name.is_some())
    };
    snapshot.succeeded == 0
        && failures(snapshot) > 0
        && !snapshot.open.iter().any(|task| has_new_node(task))
}

/// Why the nodes after this wave may not begin, if so: one failure in it is enough.
pub(super) fn after(wave: Wave, snapshot: &RunSnapshot) -> Option<Pause> {
    let rule = match wave {
        Wave::ControlPlanes => "a control plane has failed",
        Wave::Canaries => "a canary node has failed",
    };
    asked_for(snapshot).or_else(|| (failures(snapshot) > 0).then(|| failure(snapshot, rule)))
}
