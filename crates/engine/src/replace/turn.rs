//! The turn of a task that is set aside: it asks for a slot, on the way on and on the way back.
//!
//! Owns what may keep it from one: on the way on all limits of the run, on the way back only what others hold,
//! because that ends. Must not give slots back.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use shipshape_api::NodePatchRunSpec;
use shipshape_api::node_patch_task::{ParkRecord, TaskStep};

use super::draft::{Draft, Unclear};
use super::facts::{own_node, task_key};
use super::undo::called_off;
use super::{anew, park};
use crate::admit::{self, Admission, Books, Waiting};
use crate::decision::Effect;
use crate::etcd;
use crate::ledger::Ledger;
use crate::machine::Group;
use crate::selector::UnknownOperator;
use crate::view::{Observed, PodView};

/// From now on it wants a slot.
pub(super) fn come_back(draft: &mut Draft<'_>) {
    if let Some(parked) = &mut draft.status.parked {
        parked.resuming = true;
        parked.since = Time(draft.now);
    }
}

/// Whether a task that is called off waits for its turn before it is put back. One that is set aside holds no slot, and
/// its new node is in service: that one leaves service under the limits of the run, like any other. Limits that nobody
/// knows any more bind nobody, and a node that is gone has no slot.
pub(super) fn waits_for_turn(draft: &Draft<'_>, step: TaskStep) -> bool {
    step == TaskStep::Parked
        && draft.status.new_node_name.is_some()
        && draft.snapshot.run.spec.is_some()
        && !own_node(draft).is_absent()
}

/// Puts a task back that is set aside, as soon as it has a slot. If none comes, its new node stays in service.
pub(super) fn put_back(draft: &mut Draft<'_>, why: &str) {
    let slot = draft.look(&draft.snapshot.slot, "whether the slot is ours");
    if matches!(slot, Ok(Some(()))) {
        return draft.begin_undo(called_off(why));
    }
    let record = draft.status.parked.clone();
    let Some(record) = record.filter(|record| record.resuming) else {
        come_back(draft);
        return draft.look_again();
    };
    if is_turn_overdue(draft, &record) {
        return leave_in_service(draft, why);
    }
    if slot.is_err() {
        return;
    }
    if let Ok(ledger) = draft.look(&draft.snapshot.ledger, "which slots are taken") {
        let ledger = ledger.unwrap_or_default();
        ask_for_slot(draft, ledger.with(&draft.snapshot.slotless.slots));
    }
}

/// Whether nobody has got a slot for longer than it takes to put an attempt back: those who hold them are stuck.
fn is_turn_overdue(draft: &Draft<'_>, record: &ParkRecord) -> bool {
    let ledger = draft.snapshot.ledger.present();
    let slots = ledger.into_iter().flat_map(|ledger| ledger.slots.values());
    let last_grant = slots.map(|slot| slot.granted_at).max();
    let last_move = last_grant.map_or(record.since.0, |at| at.max(record.since.0));
    let deadlines = &draft.settings.deadlines;
    draft.now.duration_since(last_move) >= deadlines.undo + deadlines.release
}

/// Nothing is disturbed: the new machine stays as an ordinary member of its group.
fn leave_in_service(draft: &mut Draft<'_>, why: &str) {
    let machine = draft.status.new_machine.as_ref();
    let id = machine.map_or(String::new(), |machine| format!(" {}", machine.id));
    let waited_for = draft.status.waiting_for.clone().unwrap_or_default();
    let mut record = called_off(why);
    record.keeps_machine = true;
    record.message = format!(
        "{}; the new machine{id} stays in its group, after a wait for {waited_for}",
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
    waiting.group = Observed::NotAsked;
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

/// Asks for a slot, if the limits leave one; if not, the wait is decided on.
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
    let pods = draft.snapshot.pods.present();
    let waiting = Waiting {
        node,
        pods: pods.into_iter().flatten().cloned().map(Arc::new).collect(),
        task: task_key(draft),
        group: group_to_ask(draft, &run),
    };
    let owner = draft.snapshot.task.spec.run_uid.clone();
    let books = Books {
        ledger: &ledger,
        down: &draft.snapshot.down,
        begun_within_hour: 0,
        on_their_way: &draft.snapshot.on_their_way,
        etcd: &draft.snapshot.etcd,
        open: &draft.snapshot.left_open,
    };
    let admission = if draft.snapshot.run.call_off.is_some() {
        admit_on_the_way_back(&run, &owner, waiting, books, draft.now)
    } else {
        admit::admit(&run, &owner, &[waiting], books, draft.now)
    };
    match admission {
        Ok(admission) if admission.grants.is_empty() => {
            let reason = admission.held_by.unwrap_or_default();
            draft.wait(reason, Some(draft.settings.machine_poll));
        }
        Ok(admission) => {
            if let Some(lost) = draft.snapshot.slotless.notice() {
                draft.notice(lost);
            }
            draft.effect(Effect::GrantSlots {
                ledger,
                slots: admission.grants,
            });
            draft.look_again();
        }
        Err(error) => draft.wait(format!("spec.importantPodSelectors: {error}"), None),
    }
}
