//! What is taken: slots that nobody works under any more, and the pace of the hour.
//!
//! Owns when a slot counts as abandoned. Must not conclude that from the store alone: a task that is
//! missing there is asked for live.

use jiff::{SignedDuration, Timestamp};
use shipshape_api::NodePatchTask;
use shipshape_cluster::Key;
use shipshape_engine::ledger::{Ledger, Slot};
use shipshape_engine::view::Observed;

use super::Look;
use crate::context::TASKS_BY_RUN;
use crate::error::PassError;
use crate::slots;

impl Look<'_> {
    /// Counted only when the run has such a limit, because it looks at every task.
    pub(super) fn begun_within_hour(&self) -> usize {
        if self.run.spec.max_per_hour().is_none() {
            return 0;
        }
        let an_hour_ago = self.context.clock.now() - SignedDuration::from_hours(1);
        let tasks = self.context.stores.tasks.by_index(TASKS_BY_RUN, &self.uid);
        tasks
            .iter()
            .filter_map(|task| task.metadata.creation_timestamp.as_ref())
            .filter(|begun| begun.0 > an_hour_ago)
            .count()
    }

    /// What is taken once the abandoned slots are given back: the groups are asked, and machines on their way
    /// counted, for the same ledger that admission works on.
    pub(super) fn in_use(
        &self,
        taken: &Observed<Ledger>,
        abandoned: &[(String, String)],
    ) -> Observed<Ledger> {
        match taken {
            Observed::Present(taken) => {
                Observed::Present(without(taken, abandoned, |slot| self.is_wanted(slot)))
            }
            Observed::Absent | Observed::NotAsked | Observed::Unknown(_) => taken.clone(),
        }
    }

    /// Whether a slot without a task is that of a node whose turn it is: its task is made again.
    fn is_wanted(&self, slot: &Slot) -> bool {
        let Some((iteration, partition)) = self.partition() else {
            return false;
        };
        let place = partition.nodes.iter().position(|name| *name == slot.node);
        let waiting = place.and_then(|place| self.waiting_node(iteration, partition, place));
        waiting.is_some_and(|one| one.task == slot.task)
    }

    /// A node whose task was removed by force has had its turn, as far as the line knows. Its slot is still
    /// there, so it is looked at again and gets another task now, which takes over what the first has left.
    fn look_back_for(&self, slot: &Slot) {
        if slot.owner == self.uid && self.is_wanted(slot) {
            self.context.lines.forget(&self.uid);
        }
    }

    /// Slots that nobody works under: their task has ended since they were granted, or is surely gone:
    /// not in the store, past the moment between grant and creation, and not there when asked live. What
    /// such a task has done to its node keeps the slot taken until it is put back.
    pub(super) async fn abandoned(
        &self,
        ledger: &Observed<Ledger>,
    ) -> Result<Vec<(String, String)>, PassError> {
        let now = self.context.clock.now();
        let mut abandoned = Vec::new();
        for (node_uid, slot) in ledger.present().into_iter().flat_map(|it| &it.slots) {
            let Some((namespace, name)) = slot.task.split_once('/') else {
                continue;
            };
            let key = Key::new(namespace, name);
            let tasks = &self.context.stores.tasks;
            let is_fresh = now.duration_since(slot.granted_at) < self.context.settings.resync;
            let is_free = match tasks.get(&key) {
                Some(task) if has_ended_since(&task, slot.granted_at) => true,
                // Times are those of two processes, whose clocks may differ. A task that is tried again
                // says so before it asks for its slot, so a look after the ledger's tells.
                Some(task) if is_final(&task) => tasks
                    .refetch(&key)
                    .await?
                    .is_none_or(|task| is_final(&task)),
                Some(_) => false,
                None if is_fresh => false,
                None if tasks.refetch(&key).await?.is_some() => false,
                None => {
                    self.look_back_for(slot);
                    !slots::is_kept(self.context, node_uid, slot).await
                }
            };
            if is_free {
                abandoned.push((node_uid.clone(), slot.task.clone()));
            }
        }
        Ok(abandoned)
    }
}

fn without(
    taken: &Ledger,
    abandoned: &[(String, String)],
    is_wanted: impl Fn(&Slot) -> bool,
) -> Ledger {
    let mut ledger = taken.clone();
    for (node_uid, _) in abandoned {
        if !ledger.slots.get(node_uid).is_some_and(&is_wanted) {
            ledger.slots.remove(node_uid);
        }
    }
    ledger
}

fn is_final(task: &NodePatchTask) -> bool {
    let status = task.status.as_ref();
    status.is_some_and(|status| status.step_name().is_final())
}

/// Whether a task has ended after the slot was granted: one that is tried again has a newer slot than
/// its last end. A status tells times in whole seconds.
fn has_ended_since(task: &NodePatchTask, granted_at: Timestamp) -> bool {
    let step = task.status.as_ref().and_then(|it| it.step.as_ref());
    step.is_some_and(|step| {
        step.name.is_final() && granted_at.as_second() <= step.since.0.as_second()
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use shipshape_api::TaskStep;
    use shipshape_api::node_patch_task::StepRecord;

    use super::*;
    use shipshape_engine::ledger::Role;

    #[test]
    fn an_abandoned_slot_is_out_of_use_unless_its_task_is_made_again() {
        let slot = |node: &str| {
            let slot = Slot {
                node: node.to_owned(),
                owner: "run".to_owned(),
                task: format!("ns/{node}"),
                zone: "z".to_owned(),
                role: Role::Worker,
                important: false,
                surges: Some("workers".into()),
                granted_at: Timestamp::UNIX_EPOCH,
            };
            (format!("{node}-uid"), slot)
        };
        let taken = Ledger {
            slots: ["busy", "over", "wanted"].map(slot).into(),
            ..Ledger::default()
        };
        let abandoned =
            ["over", "wanted"].map(|node| (format!("{node}-uid"), format!("ns/{node}")));
        let left = without(&taken, &abandoned, |slot| slot.node == "wanted");
        let left: Vec<&str> = left.slots.values().map(|slot| slot.node.as_str()).collect();
        assert_eq!(left, ["busy", "wanted"]);
    }

    #[test]
    fn a_slot_is_free_once_its_task_has_ended_and_not_when_it_is_tried_again() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut task = NodePatchTask::default();
        let step = |name| StepRecord {
            name,
            since: Time(at(100)),
            deadline: None,
        };
        assert!(!has_ended_since(&task, at(50)), "it has not begun");
        let status = task.status.get_or_insert_default();
        status.step = Some(step(TaskStep::Join));
        assert!(!has_ended_since(&task, at(50)), "it is at work");
        task.status.get_or_insert_default().step = Some(step(TaskStep::Failed));
        assert!(has_ended_since(&task, at(50)));
        assert!(!has_ended_since(&task, at(150)), "the slot is a new one");
    }
}
