//! Observe: everything that a run's decision needs, by reads only.
//!
//! Owns which store answers what. The ledger is read live, and only while nodes wait; everything
//! else says where to look and may be a moment old.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use shipshape_api::node_patch_run::{Partition, RunPlan};
use shipshape_api::{NodePatchRun, NodePatchTask};
use shipshape_cluster::Key;
use shipshape_cluster::error::in_full;
use shipshape_engine::admit::{Down, Waiting};
use shipshape_engine::decision::NodeTarget;
use shipshape_engine::etcd::EtcdView;
use shipshape_engine::ledger::{Ledger, Role};
use shipshape_engine::machine::GroupId;
use shipshape_engine::naming::{WorkId, task_name};
use shipshape_engine::plan::{self, Newcomer};
use shipshape_engine::run::{is_over, marks_wanted};
use shipshape_engine::snapshot::RunSnapshot;
use shipshape_engine::view::{NodeView, Observed, PodView, is_kept};

use super::line::{Part, Turn};
use super::{autoscalers, groups, newcomers};
use crate::context::{
    Context, NODES_BY_MARK, NODES_DOWN, PODS_BY_NODE, Standing, TASKS_BY_REPLACEMENT, TASKS_BY_RUN,
    run_term, standing_of,
};
use crate::error::PassError;

/// So many more waiting nodes are looked at than there is room for: the first may be held back by their
/// zone or by what runs on them.
const WINDOW_SPARE: usize = 16;

/// Nodes that are marked or unmarked in one pass.
const MARKS_AT_ONCE: usize = 50;

/// Looks at one run; `None` when it does not exist, or is being deleted and not kept by us.
pub(super) async fn observe(
    context: &Context,
    key: &Key,
) -> Result<Option<RunSnapshot>, PassError> {
    let stores = &context.stores;
    stores.runs.wait_for(key).await?;
    let Some(run) = stores.runs.get(key) else {
        return Ok(None);
    };
    if run.metadata.deletion_timestamp.is_some() && !is_kept(&run.metadata) {
        return Ok(None);
    }
    let look = Look {
        context,
        run: &run,
        uid: run.metadata.uid.clone().unwrap_or_default(),
    };
    let mut open = look.tasks(Standing::Open);
    if open.is_empty() {
        // Before the next partition may begin, every node of this one is looked at once more.
        look.forget_line();
    }
    open.extend(look.tasks(Standing::Parked));
    let is_resting = look.is_over() && open.is_empty();
    let ledger = if is_resting {
        Observed::NotAsked
    } else {
        ledger(context).await
    };
    let abandoned = look.abandoned(&ledger).await?;
    let (waiting, on_their_way) = if is_resting {
        Default::default()
    } else {
        look.line(&ledger, abandoned.len()).await
    };
    let failed = look.tasks(Standing::Failed);
    Ok(Some(RunSnapshot {
        etcd: look.etcd(&waiting, &ledger, &abandoned).await,
        known_providers: context.provider_types(),
        nodes: look.nodes_to_plan(),
        abandoned,
        autoscalers: autoscalers::look(context, &run, open.is_empty()).await,
        shared_autoscalers: autoscalers::held_by_others(context, &look.uid),
        down: look.down(&ledger),
        unmarked: look.unmarked(),
        marked: look.marked(open.is_empty()),
        newcomers: look.newcomers(&waiting, &open).await,
        waiting,
        on_their_way,
        succeeded: stores
            .tasks
            .count(TASKS_BY_RUN, &run_term(&look.uid, Standing::Succeeded)),
        failed: failed.len(),
        last_failure: last_failure(&failed),
        begun_within_hour: look.begun_within_hour(),
        others: others(context, &run),
        open,
        ledger,
        run: run.as_ref().clone(),
    }))
}

/// The ledger, read live.
async fn ledger(context: &Context) -> Observed<Ledger> {
    match context.ledger.read().await {
        Ok(ledger) => {
            context.vitals.saw_ledger(&ledger);
            Observed::Present(ledger)
        }
        Err(error) => Observed::Unknown(in_full(&error)),
    }
}

/// Other runs in the same cloud that have not ended.
fn others(context: &Context, run: &NodePatchRun) -> usize {
    let runs = context.stores.runs.list();
    let others = runs.iter().filter(|other| {
        other.metadata.uid != run.metadata.uid
            && other.spec.provider.r#type == run.spec.provider.r#type
    });
    let at_work = others.filter(|other| {
        let status = other.status.as_ref();
        status.is_some_and(|status| status.plan.is_some() && !is_over(status))
    });
    at_work.count()
}

/// The looks that one pass takes at the stores.
struct Look<'a> {
    context: &'a Context,
    run: &'a NodePatchRun,
    uid: String,
}

impl Look<'_> {
    fn tasks(&self, standing: Standing) -> Vec<Arc<NodePatchTask>> {
        let tasks = &self.context.stores.tasks;
        tasks.by_index(TASKS_BY_RUN, &run_term(&self.uid, standing))
    }

    fn plan(&self) -> Option<&Arc<RunPlan>> {
        self.run.status.as_ref()?.plan.as_ref()
    }

    fn is_over(&self) -> bool {
        self.run.status.as_ref().is_some_and(is_over)
    }

    /// All nodes, asked for only while there is no plan.
    fn nodes_to_plan(&self) -> Observed<Vec<NodeView>> {
        match self.plan() {
            Some(_) => Observed::NotAsked,
            None => Observed::Present(all_nodes(self.context)),
        }
    }

    /// Who waits, with their groups, and the machines on their way to each group.
    async fn line(
        &self,
        ledger: &Observed<Ledger>,
        abandoned: usize,
    ) -> (Vec<Waiting>, BTreeMap<GroupId, usize>) {
        let (context, run) = (self.context, self.run);
        let Some(ledger) = ledger.present() else {
            return (self.waiting(WINDOW_SPARE, &|_| false), BTreeMap::new());
        };
        let wanted = window(run, ledger.slots.len().saturating_sub(abandoned));
        let on_their_way = groups::on_their_way(context, ledger);
        let line = |skip: &dyn Fn(&NodeView) -> bool| self.waiting(wanted, skip);
        let waiting = groups::with_groups(context, run, ledger, &on_their_way, line).await;
        (waiting, on_their_way)
    }

    /// Nodes that joined late, asked for only when everybody else has had a turn.
    async fn newcomers(
        &self,
        waiting: &[Waiting],
        open: &[Arc<NodePatchTask>],
    ) -> Observed<Vec<Newcomer>> {
        if self.is_plan_done(waiting, open) {
            newcomers::look(self.context, self.run).await
        } else {
            Observed::NotAsked
        }
    }

    /// How etcd fares, asked only while a control plane waits and none is in work.
    async fn etcd(
        &self,
        waiting: &[Waiting],
        ledger: &Observed<Ledger>,
        abandoned: &[(String, String)],
    ) -> Observed<EtcdView> {
        let is_control_plane = |one: &Waiting| one.node.role() == Role::ControlPlane;
        let is_free = |uid: &String| abandoned.iter().any(|(free, _)| free == uid);
        let slots = ledger.present().into_iter().flat_map(|it| &it.slots);
        let mut taken = slots.filter(|(uid, _)| !is_free(uid));
        let is_one_in_work = taken.any(|(_, slot)| slot.role == Role::ControlPlane);
        if is_one_in_work || !waiting.iter().any(is_control_plane) {
            return Observed::NotAsked;
        }
        self.context.etcd().await
    }

    fn forget_line(&self) {
        self.context.lines.forget(&self.uid);
        if self.run.status.as_ref().and_then(|it| it.marked) == Some(true) {
            self.context.lines.forget(&self.marks());
        }
    }

    /// The first nodes of the current partition that have no task yet, without those to skip. A node
    /// that has left, or whose name now belongs to another, is not waited for.
    fn waiting(&self, wanted: usize, skip: &dyn Fn(&NodeView) -> bool) -> Vec<Waiting> {
        let status = self.run.status.as_ref();
        let iteration = status.and_then(|status| status.current_iteration);
        let iteration = iteration.and_then(|number| usize::try_from(number).ok());
        let (Some(plan), Some(iteration)) = (self.plan(), iteration) else {
            return Vec::new();
        };
        let Some(partition) = plan.partitions.get(iteration) else {
            return Vec::new();
        };
        let part = Part {
            name: self.uid.clone(),
            plan_version: plan.plan_version.clone(),
            iteration,
            size: partition.nodes.len(),
        };
        let lines = &self.context.lines;
        lines.walk(part, wanted, |place| {
            match self.waiting_node(iteration, partition, place) {
                None => Turn::Over,
                Some(one) if skip(&one.node) => Turn::Skipped,
                Some(one) => Turn::Waits(one),
            }
        })
    }

    fn waiting_node(&self, iteration: usize, wave: &Partition, place: usize) -> Option<Waiting> {
        let (stores, meta) = (&self.context.stores, &self.run.metadata);
        let node = stores.nodes.get(&Key::cluster(wave.nodes.get(place)?))?;
        if !plan::is_meant(wave, place, &node) {
            return None;
        }
        let namespace = meta.namespace.clone().unwrap_or_default();
        let name = task_name(WorkId {
            run_name: meta.name.as_deref().unwrap_or_default(),
            run_uid: &self.uid,
            iteration,
            node_name: &node.name,
            node_uid: &node.uid,
        });
        if stores.tasks.get(&Key::new(&namespace, &name)).is_some() {
            return None;
        }
        let pods = stores.pods.by_index(PODS_BY_NODE, &node.name);
        Some(Waiting {
            pods: pods.iter().map(|pod| PodView::clone(pod)).collect(),
            task: format!("{namespace}/{name}"),
            node: NodeView::clone(&node),
            group: Observed::NotAsked,
        })
    }

    /// Whether every node of the plan has had its turn, and none but parked ones is left. While those are
    /// tried again for the last time nobody looks for others.
    fn is_plan_done(&self, waiting: &[Waiting], open: &[Arc<NodePatchTask>]) -> bool {
        let status = self.run.status.as_ref();
        let plan = status.and_then(|status| status.plan.as_ref());
        let Some((status, plan)) = status.zip(plan) else {
            return false;
        };
        let next = usize::try_from(status.current_iteration.unwrap_or(0)).unwrap_or(0) + 1;
        let is_parked = |task: &Arc<NodePatchTask>| standing_of(task) == Standing::Parked;
        let is_resting = status.last_round == Some(true) && !open.is_empty();
        let is_ending = self.run.spec.abort() || self.run.metadata.deletion_timestamp.is_some();
        next >= plan.partitions.len()
            && waiting.is_empty()
            && open.iter().all(is_parked)
            && !(is_resting || is_ending || is_over(status))
    }

    /// Counted only when the run has such a limit, because it looks at every task.
    fn begun_within_hour(&self) -> usize {
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

    /// Nodes of the run that are down and that no task works on.
    fn down(&self, ledger: &Observed<Ledger>) -> Vec<Down> {
        let Some(ledger) = ledger.present() else {
            return Vec::new();
        };
        let stores = &self.context.stores;
        stores
            .nodes
            .by_index(NODES_DOWN, "")
            .iter()
            .filter(|node| plan::is_candidate(&self.run.spec, node).unwrap_or(true))
            .filter(|node| !ledger.slots.contains_key(&node.uid) && !self.is_joining(node))
            .map(|node| Down {
                node: node.name.clone(),
                zone: node.zone.clone(),
                role: node.role(),
            })
            .collect()
    }

    /// Slots that nobody works under: their task has ended since they were granted, or is surely gone:
    /// not in the store, past the moment between grant and creation, and not there when asked live.
    async fn abandoned(
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
                None => tasks.refetch(&key).await?.is_none(),
            };
            if is_free {
                abandoned.push((node_uid.clone(), slot.task.clone()));
            }
        }
        Ok(abandoned)
    }

    /// Whether a node is the replacement of a task that is under way.
    fn is_joining(&self, node: &NodeView) -> bool {
        let tasks = &self.context.stores.tasks;
        node.provider_id
            .as_ref()
            .is_some_and(|id| !tasks.by_index(TASKS_BY_REPLACEMENT, id.as_str()).is_empty())
    }

    fn unmarked(&self) -> Vec<NodeTarget> {
        let is_marked = self.run.status.as_ref().and_then(|it| it.marked) == Some(true);
        let Some(plan) = self.plan().filter(|_| !is_marked) else {
            return Vec::new();
        };
        let part = Part {
            name: self.marks(),
            plan_version: plan.plan_version.clone(),
            iteration: usize::MAX,
            size: plan.total(),
        };
        let nodes = &self.context.stores.nodes;
        let wanted = marks_wanted(&self.run.spec);
        let is_due = |number| {
            let (wave, place) = place_of(plan, number)?;
            let node = nodes.get(&Key::cluster(wave.nodes.get(place)?))?;
            let is_due = plan::is_meant(wave, place, &node) && node.lacks(wanted);
            is_due.then(|| self.target(&node))
        };
        let lines = &self.context.lines;
        lines.walk(part, MARKS_AT_ONCE, |number| {
            is_due(number).map_or(Turn::Over, Turn::Waits)
        })
    }

    /// The line of those that are to be marked.
    fn marks(&self) -> String {
        format!("{} marks", self.uid)
    }

    /// Asked for only once nobody is in work, because marks go last.
    fn marked(&self, is_idle: bool) -> Vec<NodeTarget> {
        if !is_idle {
            return Vec::new();
        }
        let nodes = &self.context.stores.nodes;
        let marked = nodes.first_by_index(NODES_BY_MARK, &self.uid, MARKS_AT_ONCE);
        marked.iter().map(|node| self.target(node)).collect()
    }

    fn target(&self, node: &NodeView) -> NodeTarget {
        NodeTarget {
            name: node.name.clone(),
            uid: node.uid.clone(),
            resource_version: node.resource_version.clone(),
            operation: self.uid.clone(),
        }
    }
}

/// The task that failed last, in words.
fn last_failure(failed: &[Arc<NodePatchTask>]) -> Option<String> {
    let changed = |task: &NodePatchTask| {
        let status = task.status.as_ref();
        status
            .and_then(|it| it.updated_at.as_ref())
            .map(|time| time.0)
    };
    let last = failed.iter().max_by_key(|task| changed(task))?;
    let error = last.status.as_ref()?.last_error.clone()?;
    Some(format!("node {}: {error}", last.spec.node_name))
}

fn all_nodes(context: &Context) -> Vec<NodeView> {
    context
        .stores
        .nodes
        .list()
        .iter()
        .map(|node| NodeView::clone(node))
        .collect()
}

/// How many waiting nodes are looked at in one pass: as many as there is room for, and a few more.
fn window(run: &NodePatchRun, taken: usize) -> usize {
    let spec = &run.spec;
    let batches = spec
        .batch_size_important()
        .saturating_add(spec.batch_size_non_important());
    usize::try_from(batches)
        .unwrap_or_default()
        .saturating_sub(taken)
        .saturating_add(WINDOW_SPARE)
}

/// Partition and place of the node with that number in the whole plan.
fn place_of(plan: &RunPlan, number: usize) -> Option<(&Partition, usize)> {
    let mut place = number;
    for wave in &plan.partitions {
        if place < wave.nodes.len() {
            return Some((wave, place));
        }
        place -= wave.nodes.len();
    }
    None
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

    #[test]
    fn largest_batches_give_a_window_and_no_overflow() {
        let mut run = NodePatchRun::default();
        run.spec.batch_size_important = Some(i32::MAX);
        run.spec.batch_size_non_important = Some(i32::MAX);
        assert!(window(&run, 0) > WINDOW_SPARE);
        assert_eq!(window(&run, usize::MAX), WINDOW_SPARE, "all is taken");
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
