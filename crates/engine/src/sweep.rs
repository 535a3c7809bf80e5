//! Sweep: what becomes of a machine that carries our tags and that nobody speaks of.
//!
//! Owns the judgement of one machine. Must not end anything: a machine that is condemned gets a
//! PendingNode like any other that leaves. The cloud is listed before the intents are read, so that an
//! intent made in between protects its machine. Called by the leader on a slow timer.

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use shipshape_api::{NodePatchTask, PendingNode, names};

use crate::drain::{self, Around};
use crate::machine::{Machine, MachineState};
use crate::settings::SweepSettings;
use crate::view::{NodeView, Observed, PodView};

/// Value of the state tag of a machine that an ordinary member of its group has become.
pub const COMPLETED: &str = "completed";

/// What is known of one machine of the cloud's list.
#[derive(Clone, Debug)]
pub struct Stray {
    /// The machine, as listed.
    pub machine: Machine,
    /// The task that its tags name, read live after the list.
    pub task: Observed<NodePatchTask>,
    /// The object that follows it, read live after the list.
    pub pending: Observed<PendingNode>,
    /// Its Node.
    pub node: Observed<NodeView>,
    /// Pods on that Node.
    pub pods: Vec<PodView>,
    /// Since when this process has known nobody who speaks of it.
    pub since: Timestamp,
}

/// What becomes of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody's business of ours.
    Leave(Reason),
    /// Nobody speaks of it; it is looked at again until the grace period is over.
    Watch,
    /// It is in service: it is given to its group as an ordinary member.
    Adopt,
    /// It is an orphan: it goes.
    Remove,
}

/// Why a machine is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// We have not made it.
    NotOurs,
    /// It is an ordinary member of its group by now.
    Completed,
    /// It is on its way out.
    Leaving,
    /// A task or a PendingNode speaks of it.
    Referred,
    /// Pods are on it, though its Node is not ready.
    Occupied,
    /// A read failed; the text says which.
    Unclear(String),
}

/// Whether the replacement that the machine was made for is over.
pub fn is_completed(machine: &Machine) -> bool {
    let state = machine.tags.get(names::TAG_STATE);
    state.is_some_and(|state| state == COMPLETED)
}

/// Whether the tags alone make a machine one to look into.
pub fn is_suspect(machine: &Machine) -> bool {
    reason_in_tags(machine).is_none()
}

/// Judges one machine.
pub fn judge(stray: &Stray, settings: &SweepSettings, now: Timestamp) -> Verdict {
    if let Some(reason) = reason_in_tags(&stray.machine) {
        return Verdict::Leave(reason);
    }
    match is_referred(stray) {
        Ok(false) => {}
        Ok(true) => return Verdict::Leave(Reason::Referred),
        Err(why) => return Verdict::Leave(Reason::Unclear(why)),
    }
    if now.duration_since(stray.since) < settings.grace {
        return Verdict::Watch;
    }
    match &stray.node {
        Observed::Present(node) if node.ready => Verdict::Adopt,
        Observed::Present(_) if stray.pods.iter().any(is_load) => Verdict::Leave(Reason::Occupied),
        Observed::Absent | Observed::Present(_) => Verdict::Remove,
        Observed::Unknown(why) => Verdict::Leave(Reason::Unclear(why.clone())),
        Observed::NotAsked => Verdict::Leave(Reason::Unclear("its node".to_owned())),
    }
}

fn reason_in_tags(machine: &Machine) -> Option<Reason> {
    let tag = |key: &str| machine.tags.get(key).map(String::as_str);
    if tag(names::TAG_TOKEN).is_none() || tag(names::TAG_TASK).is_none() {
        return Some(Reason::NotOurs);
    }
    if is_completed(machine) {
        return Some(Reason::Completed);
    }
    let is_leaving = matches!(
        machine.state,
        MachineState::Terminating | MachineState::Terminated
    );
    is_leaving.then_some(Reason::Leaving)
}

/// Whether an intent speaks of the machine: a PendingNode, or the task that its tags name, by its
/// token or by its id.
fn is_referred(stray: &Stray) -> Result<bool, String> {
    match &stray.pending {
        Observed::Present(_) => return Ok(true),
        Observed::Absent => {}
        Observed::Unknown(why) => return Err(why.clone()),
        Observed::NotAsked => return Err("its PendingNode".to_owned()),
    }
    match &stray.task {
        Observed::Present(task) => Ok(speaks_of(task, &stray.machine)),
        Observed::Absent => Ok(false),
        Observed::Unknown(why) => Err(why.clone()),
        Observed::NotAsked => Err("its task".to_owned()),
    }
}

fn speaks_of(task: &NodePatchTask, machine: &Machine) -> bool {
    let Some(status) = &task.status else {
        return false;
    };
    let token = machine.tags.get(names::TAG_TOKEN);
    let intended = status.replacement.as_ref().map(|record| &record.token);
    let records = [&status.new_machine, &status.old_machine];
    let is_named = records
        .into_iter()
        .flatten()
        .any(|record| record.id == machine.id.0);
    is_named || intended.is_some_and(|intended| Some(intended) == token)
}

/// Whether a pod would be lost with its node: one that a drain would move. A pod whose DaemonSet is gone
/// counts as that one's here.
pub fn is_load(pod: &PodView) -> bool {
    drain::skip(pod, &Around::default()).is_none()
}
