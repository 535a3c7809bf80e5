//! Observe: what the current step of a task needs, by reads only.
//!
//! Owns the reads of the cluster, and which of them are live; those of the cloud are in `cloud`. Everything that a
//! disruption hangs on is: the old and the new node before the cordon and before the machine goes, the pods before
//! anybody is told that the old node is empty and before the machine goes, the ledger and the lock whenever they
//! matter. A failed read is `Unknown`, never `Absent`.

mod anew;
mod cloud;
mod undo;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};
use shipshape_api::{
    NodePatchRun, NodePatchTask, NodePatchTaskStatus, PendingNodeGoal, TaskStep, names,
};
use shipshape_cluster::Key;
use shipshape_cluster::error::in_full;
use shipshape_cluster::store::spare;
use shipshape_engine::admit;
use shipshape_engine::decision::Effect;
use shipshape_engine::drain::of_task;
use shipshape_engine::etcd::EtcdView;
use shipshape_engine::ledger::{Ledger, Role, needs_slot};
use shipshape_engine::machine::{MachineId, MachineState};
use shipshape_engine::replace::{is_lock_due, is_lock_missing, step_of};
use shipshape_engine::run::is_braked;
use shipshape_engine::snapshot::{LockView, RunView, TaskSnapshot};
use shipshape_engine::verify::passage::{Passage, passage};
use shipshape_engine::verify::record::record_name;
use shipshape_engine::view::{NodeView, Observed, PodView, is_kept};

use crate::answer::answer;
use crate::context::{
    Context, NODES_BY_PROVIDER_ID, PODS_UNREADY, TASKS_BY_NODE, TASKS_BY_REPLACEMENT, standing_of,
};
use crate::drain;
use crate::error::PassError;
use crate::run::groups;
use crate::slots;

/// Looks at one task; `None` when it does not exist or has nothing more to do.
pub(super) async fn observe(
    context: &Context,
    key: &Key,
) -> Result<Option<TaskSnapshot>, PassError> {
    let tasks = &context.stores.tasks;
    tasks.wait_for(key).await?;
    // A step that waits for budgets says so anew.
    context.evictions.wait(key, BTreeSet::new());
    let Some(task) = tasks.get(key) else {
        return Ok(None);
    };
    let is_kept = is_kept(&task.metadata);
    let is_leaving = task.metadata.deletion_timestamp.is_some();
    let mut snapshot = TaskSnapshot::of(task.as_ref().clone());
    let step = step_of(&snapshot);
    let is_asked_again = task.annotations().contains_key(names::ANNOTATION_RETRY);
    if (is_leaving && !is_kept) || (step.is_final() && !is_kept && !is_asked_again) {
        return Ok(None);
    }
    let look = Look {
        context,
        task: &task,
    };
    snapshot.run = look.run().await?;
    look_at(context, &mut snapshot, Known::default()).await;
    Ok(Some(snapshot))
}

/// Looks at what another step of the same pass needs, or at what the last effects have come to, for a status that
/// is not stored yet.
pub(super) async fn observe_on(
    context: &Context,
    before: TaskSnapshot,
    status: NodePatchTaskStatus,
    done: &[Effect],
) -> TaskSnapshot {
    let known = Known::after(&before, &status, done);
    let mut snapshot = TaskSnapshot::of(before.task);
    snapshot.task.status = Some(status);
    snapshot.run = before.run;
    look_at(context, &mut snapshot, known).await;
    snapshot
}

/// What the last look of this pass has read live, and what was done since has not touched: a second look at the
/// same step need not ask again.
#[derive(Default)]
struct Known {
    old_node: Option<NodeView>,
    new_node: Option<NodeView>,
    lock: Option<LockView>,
}

impl Known {
    fn after(before: &TaskSnapshot, status: &NodePatchTaskStatus, done: &[Effect]) -> Self {
        match done {
            _ if step_of(before) != status.step_name() => Self::default(),
            [Effect::AcquireLock(_)] => Self {
                old_node: before.old_node.present().cloned(),
                ..Self::default()
            },
            [Effect::EnsureCordoned(_)] => Self {
                new_node: before.new_node.present().cloned(),
                lock: before.lock.present().cloned(),
                ..Self::default()
            },
            _ => Self::default(),
        }
    }
}

async fn look_at(context: &Context, snapshot: &mut TaskSnapshot, known: Known) {
    let task = snapshot.task.clone();
    let look = Look {
        context,
        task: &task,
    };
    let step = step_of(snapshot);
    match step {
        TaskStep::Lock => look.before_lock(snapshot, known.old_node).await,
        TaskStep::Provision => snapshot.new_machine = look.replacement().await,
        TaskStep::Join => look.while_joining(snapshot).await,
        TaskStep::Transfer => snapshot.new_node = look.live_new_node().await,
        TaskStep::Settle => snapshot.unstable = look.unstable(),
        TaskStep::Recover => {
            snapshot.unstable = look.unstable();
            look.for_own_end(snapshot).await;
        }
        TaskStep::Cordon => look.before_cordon(snapshot, known).await,
        TaskStep::Drain => {
            look.while_draining(snapshot);
            look.recall_pods(snapshot).await;
            snapshot.old_node = look.closed_old_node().await;
            snapshot.new_node = look.known_new_node().await;
            look.for_own_end(snapshot).await;
        }
        TaskStep::RemoveMember => {
            look.at_both_nodes(snapshot).await;
            snapshot.etcd = look.etcd().await;
        }
        TaskStep::Remove => look.before_removal(snapshot).await,
        TaskStep::Forget => snapshot.old_node = look.live_old_node().await,
        TaskStep::Undo => look.while_undoing(snapshot).await,
        TaskStep::Backoff => snapshot.group = look.recorded_group().await,
        TaskStep::Parked => look.while_parked(snapshot).await,
        TaskStep::Release => {
            if snapshot.run.spec.is_none() {
                snapshot.slot = look.slot().await;
            }
            snapshot.pending = look.pending(look.new_provider_id()).await;
            snapshot.new_machine = look.new_machine().await;
            if look.status().is_some_and(|status| status.undo.is_none()) {
                snapshot.new_node = look.known_new_node().await;
            }
        }
        TaskStep::Done | TaskStep::Failed => {
            snapshot.lock = look.lock().await;
            snapshot.old_node = look.known_old_node();
        }
    }
    if let Observed::Present(node) = &snapshot.new_node {
        snapshot.passage = look.passage(node);
    }
    let is_asked = snapshot.lock != Observed::NotAsked;
    if !is_asked && is_lock_due(snapshot, &context.settings, context.clock.now()) {
        snapshot.lock = look.lock().await;
        // A lock that is missing may have gone with its node.
        if !look.is_ours(&snapshot.lock) && snapshot.old_node == Observed::NotAsked {
            snapshot.old_node = look.live_old_node().await;
        }
    }
    if is_lock_missing(snapshot) {
        snapshot.at_work = look.at_work().await;
    }
}

/// The reads of one pass.
struct Look<'a> {
    context: &'a Context,
    task: &'a NodePatchTask,
}

impl Look<'_> {
    async fn before_lock(&self, snapshot: &mut TaskSnapshot, node: Option<NodeView>) {
        snapshot.old_node = match node {
            Some(node) => Observed::Present(node),
            None => self.live_old_node().await,
        };
        if let Some(lock) = self.brought_by(snapshot.old_node.present()) {
            snapshot.lock = Observed::Present(lock);
            return;
        }
        snapshot.lock = self.lock().await;
        let is_ours = self.is_ours(&snapshot.lock);
        if let (false, Observed::Present(lock)) = (is_ours, &mut snapshot.lock) {
            lock.is_abandoned = self.is_abandoned(lock).await;
        }
        let is_abandoned = snapshot
            .lock
            .present()
            .is_some_and(|lock| lock.is_abandoned);
        let may_go_on = is_ours || is_abandoned;
        let Some(node) = snapshot.old_node.present().filter(|_| may_go_on) else {
            return;
        };
        snapshot.old_machine = match &node.provider_id {
            Some(id) => self.machine_behind(id).await,
            None => Observed::Unknown(format!("node {} has no provider id yet", node.name)),
        };
        if let Some(machine) = snapshot.old_machine.present() {
            snapshot.group = self.group_of(machine).await;
        }
        if node.role() == Role::ControlPlane {
            snapshot.pods = Observed::Present(drain::pods_as_stored(self.context, &node.name));
            snapshot.etcd = self.context.etcd().await;
        }
    }

    async fn before_cordon(&self, snapshot: &mut TaskSnapshot, known: Known) {
        snapshot.old_node = self.live_old_node().await;
        snapshot.new_node = match known.new_node {
            Some(node) => Observed::Present(node),
            None => self.live_new_node().await,
        };
        snapshot.lock = match known.lock {
            Some(lock) => Observed::Present(lock),
            None => self.lock().await,
        };
        if !self.task.spec.required_node_daemon_pod_selectors.is_empty() {
            let pods = drain::pods_as_stored(self.context, &self.task.spec.node_name);
            snapshot.pods = Observed::Present(pods);
        }
        // Where the old machine goes first, its group must be there to make the new one.
        if self.status().and_then(|status| status.terminate_first) == Some(true) {
            snapshot.group = self.recorded_group().await;
        }
        self.for_own_end(snapshot).await;
    }

    /// The hold of another task on this node, which is that task's new one: as long as it is under way,
    /// it may need the node, or have to take it back. By the machine too: that is known before its node is.
    fn brought_by(&self, node: Option<&NodeView>) -> Option<LockView> {
        let name = &self.task.spec.node_name;
        let stored = &self.context.stores.tasks;
        let mut tasks = stored.by_index(TASKS_BY_NODE, name);
        tasks.retain(|task| {
            let status = task.status.as_ref();
            status.and_then(|it| it.new_node_name.as_ref()) == Some(name)
        });
        if let Some(id) = node.and_then(|node| node.provider_id.as_ref()) {
            tasks.extend(stored.by_index(TASKS_BY_REPLACEMENT, id.as_str()));
        }
        let task = tasks.iter().find(|task| standing_of(task).is_under_way())?;
        Some(LockView {
            operation: task.uid().unwrap_or_default(),
            holder: Key::of(task.as_ref()).to_string(),
            node_uid: self.task.spec.node_uid.clone(),
            renewed: None,
            is_abandoned: false,
            goes_with_node: false,
        })
    }

    /// How etcd fares, where a member of it is involved.
    async fn etcd(&self) -> Observed<EtcdView> {
        match self.status().and_then(|status| status.etcd.as_ref()) {
            Some(_) => self.context.etcd().await,
            None => Observed::NotAsked,
        }
    }

    fn is_ours(&self, lock: &Observed<LockView>) -> bool {
        let lock = lock.present();
        lock.is_some_and(|lock| Some(&lock.operation) == self.task.metadata.uid.as_ref())
    }

    /// Whether the task that holds a lock is surely gone, or has ended with the node that it was taken
    /// for: asked live, by name and UID.
    async fn is_abandoned(&self, lock: &LockView) -> bool {
        let Some((namespace, name)) = lock.holder.split_once('/') else {
            return false;
        };
        let api: Api<NodePatchTask> = Api::namespaced(self.context.client.clone(), namespace);
        match spare::get_opt::<_, NodePatchTask>(&api, name).await {
            Ok(Some(task)) => {
                let status = task.status.as_ref();
                let has_ended = status.is_some_and(|status| status.step_name().is_final());
                let is_of_another_node = lock.node_uid != self.task.spec.node_uid;
                let is_another = task.uid().as_deref() != Some(lock.operation.as_str());
                is_another || (has_ended && is_of_another_node)
            }
            Ok(None) => true,
            Err(error) => {
                // Without an answer the holder may live; the task waits for it and asks again.
                tracing::warn!(
                    task = lock.holder,
                    error = in_full(&error),
                    "who holds the lock"
                );
                false
            }
        }
    }

    /// How the machine fares its own object knows.
    async fn while_joining(&self, snapshot: &mut TaskSnapshot) {
        snapshot.pending = match self.new_provider_id() {
            Some(id) => self.pending(Some(id)).await,
            None => Observed::Unknown("the status names no new machine".to_owned()),
        };
        snapshot.new_node = self.joined_node(self.new_provider_id());
        if let Some(node) = snapshot.new_node.present() {
            snapshot.new_pods = Observed::Present(drain::pods_as_stored(self.context, &node.name));
            // Whose the cordon of the old node is matters once the new one may count.
            if node.ready {
                snapshot.old_node = self.live_old_node().await;
                snapshot.etcd = self.etcd().await;
            }
        }
    }

    /// The way back needs the node, the slot, and whether anything is still in the way.
    async fn while_parked(&self, snapshot: &mut TaskSnapshot) {
        snapshot.old_node = self.live_old_node().await;
        self.while_draining(snapshot);
        snapshot.unstable = self.unstable();
        if let Some(name) = self.status().and_then(|it| it.new_node_name.as_ref()) {
            snapshot.new_pods = Observed::Present(drain::pods_as_stored(self.context, name));
        }
        let is_control_plane = |node: &NodeView| node.role() == Role::ControlPlane;
        if snapshot.old_node.present().is_some_and(is_control_plane) {
            snapshot.etcd = self.context.etcd().await;
        }
        (snapshot.ledger, snapshot.slotless) = slots::look(self.context).await;
        if let Observed::Present(ledger) = &snapshot.ledger {
            let taken = ledger.with(&snapshot.slotless.slots);
            snapshot.on_their_way = groups::on_their_way(self.context, &taken);
            if let Some(run) = &snapshot.run.spec {
                snapshot.down = slots::down(self.context, run, &taken);
                snapshot.left_open = slots::left_open(self.context, run, &taken, 1);
            }
            snapshot.group = self.group_of_parked().await;
        }
        snapshot.slot = match &snapshot.ledger {
            Observed::Present(ledger) => self.slot_in(ledger).into(),
            Observed::Unknown(why) => Observed::Unknown(why.clone()),
            Observed::Absent | Observed::NotAsked => Observed::NotAsked,
        };
    }

    /// The run, as far as it tells the task to stop. A run that the store does not have is asked for
    /// live before anything is put back because of it.
    async fn run(&self) -> Result<RunView, PassError> {
        let (spec, meta) = (&self.task.spec, &self.task.metadata);
        let namespace = meta.namespace.clone().unwrap_or_default();
        let key = Key::new(namespace, spec.run_name.clone());
        let is_ours =
            |run: &NodePatchRun| run.metadata.uid.as_deref() == Some(spec.run_uid.as_str());
        let runs = &self.context.stores.runs;
        let run = match runs.get(&key).filter(|run| is_ours(run)) {
            Some(run) => Some(run),
            None => runs.refetch(&key).await?.filter(|run| is_ours(run)),
        };
        let call_off = match &run {
            _ if meta.deletion_timestamp.is_some() => Some("the task is being deleted".to_owned()),
            None => Some(format!("run {} is gone", spec.run_name)),
            Some(run) if run.metadata.deletion_timestamp.is_some() => {
                Some(format!("run {} is being deleted", spec.run_name))
            }
            Some(run) if run.spec.abort() => {
                Some(format!("spec.abort of run {} is true", spec.run_name))
            }
            Some(_) => None,
        };
        let status = run.as_ref().and_then(|run| run.status.as_ref());
        Ok(RunView {
            call_off,
            paused: run.as_ref().is_some_and(|run| run.spec.paused()),
            braked: run.as_ref().is_some_and(|run| is_braked(run)),
            last_round: status.is_some_and(|status| status.last_round == Some(true)),
            spec: run.as_ref().map(|run| Box::new(run.spec.clone())),
            generation: run.as_ref().and_then(|run| run.metadata.generation),
        })
    }

    /// Important pods that are not ready, anywhere. Only pods that are not ready are looked at, so
    /// that a healthy cluster costs nothing.
    fn unstable(&self) -> Observed<Vec<String>> {
        let selectors = &self.task.spec.important_pod_selectors;
        let mut names = Vec::new();
        for pod in self.context.stores.pods.by_index(PODS_UNREADY, "") {
            match admit::is_important(selectors, std::slice::from_ref(pod.as_ref())) {
                Ok(true) => names.push(format!("{}/{}", pod.namespace, pod.name)),
                Ok(false) => {}
                Err(error) => return Observed::Unknown(error.to_string()),
            }
        }
        names.sort();
        Observed::Present(names)
    }

    fn status(&self) -> Option<&NodePatchTaskStatus> {
        self.task.status.as_ref()
    }

    /// Pods come from the store: each eviction names its pod's UID.
    fn while_draining(&self, snapshot: &mut TaskSnapshot) {
        self.look_at_drain(snapshot, &self.task.spec.node_name);
    }

    /// Nobody is told that a node is empty because the store says so: a pod may have come just before the cordon. Once
    /// more it is asked before the machine goes.
    async fn recall_pods(&self, snapshot: &mut TaskSnapshot) {
        let pods = snapshot.pods.present().map_or(&[][..], Vec::as_slice);
        if self.is_drained(snapshot, pods) {
            let node = self.task.spec.node_name.as_str();
            snapshot.pods = drain::live_pods(self.context, node).await;
            let pods = snapshot.pods.present().into_iter().flatten();
            snapshot.around = drain::around(self.context, [node], pods);
        }
    }

    /// Whether the decision would take a node with these pods for empty.
    fn is_drained(&self, snapshot: &TaskSnapshot, pods: &[PodView]) -> bool {
        let (settings, now) = (&self.context.settings, self.context.clock.now());
        of_task(snapshot, pods, settings, now).is_done()
    }

    /// The pods of a node that is being emptied, and what may hold them up; their budgets wake this
    /// task from now on.
    fn look_at_drain(&self, snapshot: &mut TaskSnapshot, node: &str) {
        let pods = drain::pods(self.context, node);
        snapshot.budgets = drain::budgets_for(self.context, &Key::of(self.task), &pods);
        snapshot.around = drain::around(self.context, [node], &pods);
        snapshot.pods = Observed::Present(pods);
    }

    /// The cheap questions first: a machine that is on its way out needs no further look.
    async fn before_removal(&self, snapshot: &mut TaskSnapshot) {
        let old = self.status().and_then(|status| status.old_machine.as_ref());
        let id = old.and_then(|machine| machine.provider_id.as_deref());
        snapshot.pending = self.pending(id).await;
        if is_leaving(snapshot) {
            return;
        }
        snapshot.old_machine = match old {
            Some(record) => self.machine(&MachineId(record.id.clone())).await,
            None => Observed::Unknown("the status names no old machine".to_owned()),
        };
        let is_ending = snapshot.old_machine.present().is_none_or(|machine| {
            matches!(
                machine.state,
                MachineState::Terminating | MachineState::Terminated
            )
        });
        if !is_ending {
            self.at_both_nodes(snapshot).await;
            snapshot.etcd = self.etcd().await;
            snapshot.lock = self.lock().await;
        }
    }

    /// Both nodes and what is left on the old one, live.
    async fn at_both_nodes(&self, snapshot: &mut TaskSnapshot) {
        snapshot.old_node = self.live_old_node().await;
        snapshot.new_node = self.live_new_node().await;
        snapshot.pods = drain::live_pods(self.context, &self.task.spec.node_name).await;
        self.look_for_anew(snapshot).await;
        let node = self.task.spec.node_name.as_str();
        if let Err(error) = drain::recall_attachments(self.context, node).await {
            snapshot.pods = Observed::Unknown(in_full(&error));
            return;
        }
        let pods = snapshot.pods.present().into_iter().flatten();
        snapshot.around = drain::around(self.context, [node], pods);
    }

    /// The old node as the store has it, if that says what a drain expects; else as it is now.
    async fn closed_old_node(&self) -> Observed<NodeView> {
        let name = &self.task.spec.node_name;
        match self.context.stores.nodes.get(&Key::cluster(name)) {
            Some(node) if node.unschedulable => Observed::Present(NodeView::clone(&node)),
            _ => self.live_old_node().await,
        }
    }

    /// The new node as the store has it, if that says what a drain expects; else as it is now.
    async fn known_new_node(&self) -> Observed<NodeView> {
        let name = self.status().and_then(|it| it.new_node_name.as_deref());
        let node = name.and_then(|name| self.context.stores.nodes.get(&Key::cluster(name)));
        match node {
            Some(node) if node.ready => Observed::Present(NodeView::clone(&node)),
            _ => self.live_new_node().await,
        }
    }

    /// The old node as the store has it. One that is gone from there never comes back.
    fn known_old_node(&self) -> Observed<NodeView> {
        let key = Key::cluster(&self.task.spec.node_name);
        let node = self.context.stores.nodes.get(&key);
        node.map(|node| NodeView::clone(&node)).into()
    }

    async fn live_old_node(&self) -> Observed<NodeView> {
        self.live_node(&self.task.spec.node_name).await
    }

    async fn live_new_node(&self) -> Observed<NodeView> {
        match self
            .task
            .status
            .as_ref()
            .and_then(|status| status.new_node_name.as_deref())
        {
            Some(name) => self.live_node(name).await,
            None => Observed::Unknown("the status names no new node".to_owned()),
        }
    }

    async fn live_node(&self, name: &str) -> Observed<NodeView> {
        let api: Api<Node> = Api::all(self.context.client.clone());
        let live = spare::get_opt::<_, NodeView>(&api, name).await;
        answer(live.map(|node| node.as_ref().map(NodeView::of)))
    }

    /// How a new node stands at the gate, by the record that the gate keeps of it.
    fn passage(&self, node: &NodeView) -> Passage {
        let gate = self.context.gate.as_deref();
        let key = Key::cluster(record_name(node));
        let record = gate.and_then(|_| self.context.stores.pending.get(&key));
        passage(node, record.as_deref(), gate)
    }

    fn new_provider_id(&self) -> Option<&str> {
        let machine = self.status()?.new_machine.as_ref()?;
        machine.provider_id.as_deref()
    }

    /// The node of this provider id, as the store has it.
    fn joined_node(&self, id: Option<&str>) -> Observed<NodeView> {
        let Some(id) = id else {
            return Observed::Unknown("nobody knows the machine's provider id".to_owned());
        };
        let nodes = self.context.stores.nodes.by_index(NODES_BY_PROVIDER_ID, id);
        match nodes.as_slice() {
            [] => Observed::Absent,
            [node] => Observed::Present(NodeView::clone(node)),
            many => Observed::Unknown(format!("{} nodes claim provider id {id}", many.len())),
        }
    }

    /// Whether this task has something to do that takes a lock, as the server has it now.
    async fn at_work(&self) -> Observed<()> {
        let now = self.context.stores.tasks.refetch(&Key::of(self.task)).await;
        answer(now.map(|now| {
            let own = now.filter(|now| now.metadata.uid == self.task.metadata.uid);
            own.filter(|now| needs_slot(now)).map(|_| ())
        }))
    }

    async fn lock(&self) -> Observed<LockView> {
        let holder = self.context.locks.holder(&self.task.spec.node_name).await;
        answer(holder.map(|held| {
            held.map(|holding| LockView {
                operation: holding.operation,
                holder: holding.by,
                node_uid: holding.node_uid,
                is_abandoned: false,
                goes_with_node: holding.goes_with_node,
                renewed: holding.renewed,
            })
        }))
    }

    async fn slot(&self) -> Observed<()> {
        let ledger = self.context.ledger.read().await;
        answer(ledger.map(|ledger| self.slot_in(&ledger)))
    }

    fn slot_in(&self, ledger: &Ledger) -> Option<()> {
        let key = Key::of(self.task).to_string();
        let slot = ledger.slots.get(&self.task.spec.node_uid);
        slot.filter(|slot| slot.task == key).map(|_| ())
    }
}

/// Whether the machine of this step is followed on its way out.
fn is_leaving(snapshot: &TaskSnapshot) -> bool {
    let pending = snapshot.pending.present();
    pending.is_some_and(|pending| pending.goal == PendingNodeGoal::Leave)
}
