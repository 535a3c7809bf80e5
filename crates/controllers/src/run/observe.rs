//! Observe: everything that a run's decision needs, by reads only.
//!
//! Owns which store answers what. The ledger is read live, and only while nodes wait; everything
//! else says where to look and may be a moment old.

mod budget;
mod marks;

use std::collections::BTreeMap;
use std::sync::Arc;

use shipshape_api::node_patch_run::{Partition, RunPlan};
use shipshape_api::{NodePatchRun, NodePatchTask};
use shipshape_cluster::Key;
use shipshape_engine::admit::{Down, Waiting};
use shipshape_engine::etcd::EtcdView;
use shipshape_engine::ledger::{Ledger, Role, Slotless};
use shipshape_engine::machine::GroupId;
use shipshape_engine::naming::{WorkId, task_name};
use shipshape_engine::plan::{self, Newcomer};
use shipshape_engine::replace::{has_lost_place, has_surplus, was_called_off};
use shipshape_engine::run::{is_over, may_use_cloud};
use shipshape_engine::snapshot::RunSnapshot;
use shipshape_engine::view::{NodeView, Observed, is_kept};

use super::line::{Part, Turn};
use super::{autoscalers, groups, newcomers};
use crate::context::{
    Context, PODS_BY_NODE, Standing, TASKS_BY_RUN, failed_before_term, run_term, standing_of,
};
use crate::error::PassError;
use crate::slots;

/// So many more waiting nodes are looked at than there is room for: the first may be held back by their
/// zone or by what runs on them.
const WINDOW_SPARE: usize = 16;

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
    look.recall_open().await?;
    let mut open = look.tasks(Standing::Open);
    if open.is_empty() {
        // Before the next partition may begin, every node of this one is looked at once more.
        look.forget_line();
    }
    open.extend(look.tasks(Standing::Parked));
    let is_resting = look.is_over() && open.is_empty();
    let (ledger, slotless) = if is_resting {
        (Observed::NotAsked, Slotless::default())
    } else {
        slots::look(context).await
    };
    let abandoned = look.abandoned(&ledger).await?;
    // What is taken, in the ledger or not.
    let taken = slots::taken(&ledger, &slotless);
    let in_use = look.in_use(&taken, &abandoned);
    let (waiting, on_their_way) = if is_resting {
        Default::default()
    } else {
        look.line(&in_use).await
    };
    // In this order: one that is tried again in between is counted once at the most.
    let failed_before = look.failed_before();
    let failed = look.tasks(Standing::Failed);
    Ok(Some(RunSnapshot {
        etcd: look.etcd(&waiting, &in_use).await,
        known_providers: context.provider_types(),
        nodes: look.nodes_to_plan(),
        abandoned,
        autoscalers: autoscalers::look(context, &run, open.is_empty()).await,
        shared_autoscalers: autoscalers::held_by_others(context, &look.uid),
        down: look.down(&taken),
        left_open: look.left_open(&in_use, waiting.len()),
        unmarked: look.unmarked(),
        homeless: look.homeless(&open),
        marked: look.marked(open.is_empty()),
        newcomers: look.newcomers(&waiting, &open).await,
        untried: look.untried(&waiting, &open),
        waiting,
        on_their_way,
        succeeded: stores
            .tasks
            .count(TASKS_BY_RUN, &run_term(&look.uid, Standing::Succeeded)),
        failed: failed.len(),
        called_off: failed.iter().filter(|task| was_called_off(task)).count(),
        failed_before,
        lost: failed.iter().filter(|task| has_lost_place(task)).count(),
        surplus: failed.iter().filter(|task| has_surplus(task)).count(),
        last_failure: last_failure(&failed),
        begun_within_hour: look.begun_within_hour(),
        others: others(context, &run),
        open,
        ledger,
        slotless,
        run: run.as_ref().clone(),
    }))
}

/// Other runs in the same cloud that are at work.
fn others(context: &Context, run: &NodePatchRun) -> usize {
    let runs = context.stores.runs.list();
    let others = runs.iter().filter(|other| {
        other.metadata.uid != run.metadata.uid
            && other.spec.provider.r#type == run.spec.provider.r#type
    });
    others.filter(|other| may_use_cloud(other)).count()
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

    /// How often tasks had failed before a person asked for another try.
    fn failed_before(&self) -> usize {
        let tasks = &self.context.stores.tasks;
        let tried_again = tasks.by_index(TASKS_BY_RUN, &failed_before_term(&self.uid));
        let counts = tried_again.iter().map(|task| {
            let status = task.status.as_ref();
            status.and_then(|status| status.failed_before).unwrap_or(0)
        });
        usize::try_from(counts.sum::<i32>()).unwrap_or(0)
    }

    /// A run that is over begins anew where one of its nodes is tried again, and holds the autoscaler off. Whether one is
    /// must not be told by an old copy of a task, whose end the run was ended by.
    async fn recall_open(&self) -> Result<(), PassError> {
        if !self.is_over() {
            return Ok(());
        }
        for standing in [Standing::Open, Standing::Parked] {
            for task in self.tasks(standing) {
                let key = Key::of(task.as_ref());
                self.context.stores.tasks.refetch(&key).await?;
            }
        }
        Ok(())
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
    async fn line(&self, in_use: &Observed<Ledger>) -> (Vec<Waiting>, BTreeMap<GroupId, usize>) {
        let (context, run) = (self.context, self.run);
        let Some(ledger) = in_use.present() else {
            return (self.waiting(WINDOW_SPARE, &|_| false), BTreeMap::new());
        };
        let wanted = window(run, ledger.slots.len());
        let on_their_way = groups::on_their_way(context, ledger);
        let line = |skip: &dyn Fn(&NodeView) -> bool| self.waiting(wanted, skip);
        let waiting = groups::with_groups(context, run, ledger, &on_their_way, line).await;
        (waiting, on_their_way)
    }

    /// Nodes of the run that are down and that no task works on.
    fn down(&self, taken: &Observed<Ledger>) -> Vec<Down> {
        let down = |taken| slots::down(self.context, &self.run.spec, taken);
        taken.present().map(down).unwrap_or_default()
    }

    fn left_open(&self, in_use: &Observed<Ledger>, waiting: usize) -> Vec<String> {
        let none = Ledger::default();
        let taken = in_use.present().unwrap_or(&none);
        slots::left_open(self.context, &self.run.spec, taken, waiting)
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
    async fn etcd(&self, waiting: &[Waiting], in_use: &Observed<Ledger>) -> Observed<EtcdView> {
        let is_control_plane = |one: &Waiting| one.node.role() == Role::ControlPlane;
        let slots = in_use
            .present()
            .into_iter()
            .flat_map(|it| it.slots.values());
        let mut roles = slots.map(|slot| slot.role);
        let is_one_in_work = roles.any(|role| role == Role::ControlPlane);
        if is_one_in_work || !waiting.iter().any(is_control_plane) {
            return Observed::NotAsked;
        }
        self.context.etcd().await
    }

    fn forget_line(&self) {
        self.context.lines.forget(&self.uid);
        let is_marked = self.run.status.as_ref().and_then(|it| it.marked) == Some(true);
        if is_marked || self.plan().is_none() {
            self.context.lines.forget(&self.marks());
        }
    }

    /// The first nodes of the current partition that have no task yet, without those to skip. A node
    /// that has left, or whose name now belongs to another, is not waited for.
    fn waiting(&self, wanted: usize, skip: &dyn Fn(&NodeView) -> bool) -> Vec<Waiting> {
        let (Some(plan), Some((iteration, partition))) = (self.plan(), self.partition()) else {
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

    /// The partition whose turn it is, with its number.
    fn partition(&self) -> Option<(usize, &Partition)> {
        let iteration = self.run.status.as_ref()?.current_iteration?;
        let iteration = usize::try_from(iteration).ok()?;
        Some((iteration, self.plan()?.partitions.get(iteration)?))
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
        Some(Waiting {
            pods: stores.pods.by_index(PODS_BY_NODE, &node.name),
            task: format!("{namespace}/{name}"),
            node: NodeView::clone(&node),
            group: Observed::NotAsked,
        })
    }

    /// Nodes of the plan that are there and have no task, counted when the plan is done: none, unless
    /// somebody has changed the status by hand.
    fn untried(&self, waiting: &[Waiting], open: &[Arc<NodePatchTask>]) -> usize {
        let is_done = open.is_empty() && self.is_plan_done(waiting, open);
        let Some(plan) = self.plan().filter(|_| is_done) else {
            return 0;
        };
        let partitions = plan.partitions.iter().enumerate();
        let places = partitions.flat_map(|(number, wave)| {
            (0..wave.nodes.len()).map(move |place| (number, wave, place))
        });
        places
            .filter(|(number, wave, place)| self.waiting_node(*number, wave, *place).is_some())
            .count()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_batches_give_a_window_and_no_overflow() {
        let mut run = NodePatchRun::default();
        run.spec.batch_size_important = Some(i32::MAX);
        run.spec.batch_size_non_important = Some(i32::MAX);
        assert!(window(&run, 0) > WINDOW_SPARE);
        assert_eq!(window(&run, usize::MAX), WINDOW_SPARE, "all is taken");
    }
}
