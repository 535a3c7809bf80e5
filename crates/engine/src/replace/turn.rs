//! The turn of a task that is set aside: it asks for a slot, on the way on and on the way back.
//!
//! Owns what may keep it from one: on the way on all limits of the run, on the way back only what others hold,
//! because that ends. Must not give slots back.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::NodePatchRunSpec;
use shipshape_api::node_patch_task::TaskStep;

use super::draft::{Draft, Unclear};
use super::facts::{own_node, task_key};
use super::undo::called_off;
use super::{anew, park};
use crate::admit::{self, Admission, Books, Waiting};
use crate::decision::Effect;
use crate::etcd;
use crate::ledger::{Ledger, Slot};
use crate::machine::Group;
use crate::selector::UnknownOperator;
use crate::view::{NodeView, Observed, PodView};

/// From now on it wants a slot.
pub(super) fn come_back(draft: &mut Draft<'_>) {
    if let Some(parked) = &mut draft.status.parked {
        parked.resuming = true;
        parked.since = Time(draft.now);
    }
}

/// Whether a task that is called off waits for its turn before it is put back. One that is set aside holds no slot, and
/// its new node is in service: that one leaves service under the limits of the run, like any other.
pub(super) fn waits_for_turn(draft: &Draft<'_>, step: TaskStep) -> bool {
    step == TaskStep::Parked && draft.status.new_node_name.is_some()
}

/// Puts a task back that is set aside, as soon as it has a slot. If none comes, its new node stays in service.
pub(super) fn put_back(draft: &mut Draft<'_>, why: &str) {
    let Some(record) = &mut draft.status.parked else {
        return draft.begin_undo(called_off(why));
    };
    let Some(since) = record.turn_since.as_ref().map(|since| since.0) else {
        // However long it has waited for anything else.
        record.turn_since = Some(Time(draft.now));
        come_back(draft);
        return draft.look_again();
    };
    match turn(draft) {
        Ok(Turn::Taken) => draft.begin_undo(called_off(why)),
        Ok(Turn::Granted(admission, ledger)) => take(draft, admission, ledger),
        Ok(Turn::NodeGone) => leave_in_service(draft, why, "its old node is gone"),
        Ok(Turn::Refused(reason)) => {
            draft.wait(reason, Some(draft.settings.machine_poll));
            wait_for_turn(draft, why, since);
        }
        Err(Unclear) => wait_for_turn(draft, why, since),
    }
}

/// What comes of asking for a turn on the way back.
enum Turn {
    /// The node's slot is taken for this task, or that of either node by a run that waits for this task to let go.
    Taken,
    /// There is room.
    Granted(Admission, Ledger),
    /// Nothing is there to be put back in its place.
    NodeGone,
    /// There is none, and why.
    Refused(String),
}

fn turn(draft: &mut Draft<'_>) -> Result<Turn, Unclear> {
    let Some(node) = draft.look(&own_node(draft), "how the old node fares")? else {
        return Ok(Turn::NodeGone);
    };
    if !node.ready {
        let name = &node.name;
        return Ok(Turn::Refused(format!(
            "node {name} to be ready again, or gone: its new machine serves in its place"
        )));
    }
    let slot = draft.snapshot.slot.clone();
    if draft.look(&slot, "whether the slot is ours")?.is_some() {
        return Ok(Turn::Taken);
    }
    let ledger = draft.look(&draft.snapshot.ledger, "which slots are taken")?;
    let ledger = ledger.unwrap_or_default();
    let ledger = ledger.with(&draft.snapshot.slotless.slots);
    let new_node = draft.status.new_node_name.as_ref();
    let is_held = |(uid, slot): (&String, &Slot)| *uid == node.uid || Some(&slot.node) == new_node;
    if ledger.slots.iter().any(is_held) {
        return Ok(Turn::Taken);
    }
    let run = draft.snapshot.run.spec.clone();
    let run = run.unwrap_or_else(|| Box::new(one_by_one()));
    // What leaves service now is the new node.
    let pods = draft.snapshot.new_pods.clone();
    let waiting = waiting(draft, node, &pods, Observed::NotAsked);
    let owner = &draft.snapshot.task.spec.run_uid;
    let admission = admit_on_the_way_back(&run, owner, waiting, books(draft, &ledger), draft.now);
    Ok(match admission {
        Ok(admission) if admission.grants.is_empty() => {
            Turn::Refused(admission.held_by.unwrap_or_default())
        }
        Ok(admission) => Turn::Granted(admission, ledger),
        Err(error) => Turn::Refused(unreadable(&error)),
    })
}

/// What is known of the limits of a run that is gone.
fn one_by_one() -> NodePatchRunSpec {
    NodePatchRunSpec {
        batch_size_important: Some(1),
        batch_size_non_important: Some(1),
        ..NodePatchRunSpec::default()
    }
}

/// Waits on, unless nobody of the run has got a slot for longer than it takes to put an attempt back: those who hold
/// them are stuck, or are others.
fn wait_for_turn(draft: &mut Draft<'_>, why: &str, since: Timestamp) {
    let owner = &draft.snapshot.task.spec.run_uid;
    let ledger = draft.snapshot.ledger.present();
    let slots = ledger.into_iter().flat_map(|ledger| ledger.slots.values());
    let last_grant = slots
        .filter(|slot| slot.owner == *owner)
        .map(|slot| slot.granted_at)
        .max();
    let last_move = last_grant.map_or(since, |at| at.max(since));
    let deadlines = &draft.settings.deadlines;
    let patience = deadlines.undo + deadlines.release;
    if draft.now.duration_since(last_move) >= patience {
        let waited_for = draft.status.waiting_for.clone().unwrap_or_default();
        return leave_in_service(draft, why, &format!("after a wait for {waited_for}"));
    }
    // Slots are given back: what they tell is kept, and that seldom, because many may wait.
    if last_move.duration_since(since) >= patience / 8
        && let Some(record) = &mut draft.status.parked
    {
        record.turn_since = Some(Time(last_move));
    }
}

/// Nothing is disturbed: the new machine stays as an ordinary member of its group.
fn leave_in_service(draft: &mut Draft<'_>, why: &str, because: &str) {
    let machine = draft.status.new_machine.as_ref();
    let id = machine.map_or(String::new(), |machine| format!(" {}", machine.id));
    let mut record = called_off(why);
    record.keeps_machine = true;
    record.message = format!(
        "{}; the new machine{id} stays in its group, {because}",
        record.message
    );
    draft.begin_undo(record);
}

/// The group whose maximum binds the task. One that has its machine needs no room; and when nothing else
/// is left to do, only asking the cloud shows whether there is any: that counts as an attempt.
fn group_to_ask(draft: &Draft<'_>, run: &NodePatchRunSpec) -> Observed<Group> {
    let has_machine = draft.status.new_machine.is_some();
    if has_machine || draft.snapshot.run.last_round || !admit::surges(run) {
        return Observed::NotAsked;
    }
    draft.snapshot.group.clone()
}

/// Only what others hold can keep an attempt from being put back, because that ends: not a node that is down, perhaps for
/// good, nor an entry of the ledger that cannot be read, nor how etcd fares, which is asked when the member goes.
fn admit_on_the_way_back(
    run: &NodePatchRunSpec,
    owner: &str,
    mut waiting: Waiting,
    books: Books<'_>,
    now: Timestamp,
) -> Result<Admission, UnknownOperator> {
    let is_member = |pod: &Arc<PodView>| etcd::runs_member(std::slice::from_ref(pod));
    waiting.pods.retain(|pod| !is_member(pod));
    let ledger = Ledger {
        unreadable: [].into(),
        ..books.ledger.clone()
    };
    let books = Books {
        ledger: &ledger,
        down: &[],
        etcd: &Observed::NotAsked,
        ..books
    };
    let mut admission = admit::admit(run, owner, &[waiting], books, now)?;
    let held_by = admission.held_by.take();
    admission.held_by = held_by.map(|why| format!("its turn to be put back: {why}"));
    Ok(admission)
}

/// Asks for a slot to go on under, if the limits leave one; if not, the wait is decided on.
pub(super) fn ask_for_slot(draft: &mut Draft<'_>, ledger: Ledger) {
    let node = match draft.look(&own_node(draft), "how the old node fares") {
        Err(Unclear) => return,
        Ok(None) if anew::has_come_back(draft) => return,
        Ok(None) => return park::go_on_without(draft),
        Ok(Some(node)) => node,
    };
    let Some(run) = draft.snapshot.run.spec.clone() else {
        return draft.wait("the run, which is not there".to_owned(), None);
    };
    let pods = draft.snapshot.pods.clone();
    let waiting = waiting(draft, node, &pods, group_to_ask(draft, &run));
    let owner = &draft.snapshot.task.spec.run_uid;
    match admit::admit(&run, owner, &[waiting], books(draft, &ledger), draft.now) {
        Ok(admission) if admission.grants.is_empty() => {
            let reason = admission.held_by.unwrap_or_default();
            draft.wait(reason, Some(draft.settings.machine_poll));
        }
        Ok(admission) => take(draft, admission, ledger),
        Err(error) => draft.wait(unreadable(&error), None),
    }
}

fn waiting(
    draft: &Draft<'_>,
    node: NodeView,
    pods: &Observed<Vec<PodView>>,
    group: Observed<Group>,
) -> Waiting {
    let pods = pods.present().into_iter().flatten();
    Waiting {
        node,
        pods: pods.cloned().map(Arc::new).collect(),
        task: task_key(draft),
        group,
    }
}

fn books<'a>(draft: &Draft<'a>, ledger: &'a Ledger) -> Books<'a> {
    let snapshot = draft.snapshot;
    Books {
        ledger,
        down: &snapshot.down,
        begun_within_hour: 0,
        on_their_way: &snapshot.on_their_way,
        etcd: &snapshot.etcd,
        open: &snapshot.left_open,
    }
}

fn take(draft: &mut Draft<'_>, admission: Admission, ledger: Ledger) {
    if let Some(lost) = draft.snapshot.slotless.notice() {
        draft.notice(lost);
    }
    draft.effect(Effect::GrantSlots {
        ledger,
        slots: admission.grants,
    });
    draft.look_again();
}

fn unreadable(error: &UnknownOperator) -> String {
    format!("spec.importantPodSelectors: {error}")
}
