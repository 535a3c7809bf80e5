//! Observe: what the current step of a task needs, by reads only.
//!
//! Owns which facts are read live. Everything that a disruption hangs on is: the old and the new
//! node before the cordon and before the machine goes, the pods before the machine goes, the ledger
//! and the lock whenever they matter. A failed read is `Unknown`, never `Absent`.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use shipshape_api::{NodePatchTask, TaskStep};
use shipshape_cluster::Key;
use shipshape_cluster::error::in_full;
use shipshape_engine::machine::{Group, Machine, MachineId, MachineState, ProviderId, Token};
use shipshape_engine::replace::{is_lock_due, step_of};
use shipshape_engine::snapshot::{LockView, TaskSnapshot};
use shipshape_engine::view::{NodeView, Observed, PodView};
use shipshape_provider::{Error as CloudError, Provider};

use crate::context::{Context, NODES_BY_PROVIDER_ID};
use crate::drain;
use crate::error::PassError;

/// Pods asked for in one live list; a node runs a few hundred at most.
const POD_PAGE: u32 = 1000;

/// Looks at one task; `None` when it does not exist, is being deleted or has ended.
pub(super) async fn observe(
    context: &Context,
    key: &Key,
) -> Result<Option<TaskSnapshot>, PassError> {
    let tasks = &context.stores.tasks;
    tasks.wait_for(key).await?;
    let Some(task) = tasks.get(key) else {
        return Ok(None);
    };
    if task.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let mut snapshot = TaskSnapshot::of(task.as_ref().clone());
    let step = step_of(&snapshot);
    // A step that waits for budgets says so anew.
    context.evictions.wait(key, BTreeSet::new());
    if step.is_final() {
        return Ok(None);
    }
    let look = Look {
        context,
        task: &task,
    };
    match step {
        TaskStep::Lock => look.before_lock(&mut snapshot).await,
        TaskStep::Provision => snapshot.new_machine = look.replacement().await,
        TaskStep::Join => look.while_joining(&mut snapshot).await,
        TaskStep::Cordon => {
            snapshot.old_node = look.live_old_node().await;
            snapshot.new_node = look.live_new_node().await;
        }
        TaskStep::Drain => look.while_draining(&mut snapshot),
        TaskStep::Remove => look.before_removal(&mut snapshot).await,
        TaskStep::Forget => snapshot.old_node = look.live_old_node().await,
        TaskStep::Release => {
            snapshot.slot = look.slot().await;
            snapshot.lock = look.lock().await;
        }
        TaskStep::Done | TaskStep::Failed => {}
    }
    if is_lock_due(&snapshot, &context.settings, context.clock.now()) {
        snapshot.lock = look.lock().await;
    }
    Ok(Some(snapshot))
}

/// The reads of one pass.
struct Look<'a> {
    context: &'a Context,
    task: &'a NodePatchTask,
}

impl Look<'_> {
    async fn before_lock(&self, snapshot: &mut TaskSnapshot) {
        snapshot.old_node = self.live_old_node().await;
        snapshot.lock = self.lock().await;
        let is_ours = snapshot
            .lock
            .present()
            .is_some_and(|lock| Some(&lock.operation) == self.task.metadata.uid.as_ref());
        let Some(node) = snapshot.old_node.present().filter(|_| is_ours) else {
            return;
        };
        snapshot.old_machine = match &node.provider_id {
            Some(id) => self.machine_behind(id).await,
            None => Observed::Unknown(format!("node {} has no provider id yet", node.name)),
        };
        if let Some(machine) = snapshot.old_machine.present() {
            snapshot.group = self.group_of(machine).await;
        }
    }

    async fn while_joining(&self, snapshot: &mut TaskSnapshot) {
        snapshot.new_machine = match self.new_machine_id() {
            Some(id) => self.machine(&id).await,
            None => Observed::Unknown("the status names no new machine".to_owned()),
        };
        snapshot.new_node = self.joined_node();
        snapshot.old_node = self.live_old_node().await;
    }

    /// Pods come from the store: each eviction names its pod's UID, and the end of the drain is
    /// confirmed live before the machine goes.
    fn while_draining(&self, snapshot: &mut TaskSnapshot) {
        let node = &self.task.spec.node_name;
        let pods = drain::pods(self.context, node);
        snapshot.budgets = drain::budgets_for(self.context, &Key::of(self.task), &pods);
        snapshot.around = drain::around(self.context, [node.as_str()], &pods);
        snapshot.pods = Observed::Present(pods);
    }

    /// The cheap question first: a machine that is on its way out needs no further look.
    async fn before_removal(&self, snapshot: &mut TaskSnapshot) {
        let old = self
            .task
            .status
            .as_ref()
            .and_then(|status| status.old_machine.as_ref());
        snapshot.old_machine = match old {
            Some(record) => self.machine(&MachineId(record.id.clone())).await,
            None => Observed::Unknown("the status names no old machine".to_owned()),
        };
        let is_leaving = snapshot.old_machine.present().is_none_or(|machine| {
            matches!(
                machine.state,
                MachineState::Terminating | MachineState::Terminated
            )
        });
        if !is_leaving {
            snapshot.new_node = self.live_new_node().await;
            snapshot.pods = self.live_pods().await;
            let pods = snapshot.pods.present().into_iter().flatten();
            let node = self.task.spec.node_name.as_str();
            snapshot.around = drain::around(self.context, [node], pods);
        }
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
        answer(
            api.get_opt(name)
                .await
                .map(|node| node.as_ref().map(NodeView::of)),
        )
    }

    async fn live_pods(&self) -> Observed<Vec<PodView>> {
        let api: Api<Pod> = Api::all(self.context.client.clone());
        let node = &self.task.spec.node_name;
        let params = ListParams::default()
            .fields(&format!("spec.nodeName={node}"))
            .limit(POD_PAGE);
        match api.list(&params).await {
            Ok(list)
                if list
                    .metadata
                    .continue_
                    .as_deref()
                    .unwrap_or_default()
                    .is_empty() =>
            {
                Observed::Present(list.items.iter().map(PodView::of).collect())
            }
            Ok(_) => Observed::Unknown(format!("node {node} has more than {POD_PAGE} pods")),
            Err(error) => Observed::Unknown(in_full(&error)),
        }
    }

    fn joined_node(&self) -> Observed<NodeView> {
        let machine = self
            .task
            .status
            .as_ref()
            .and_then(|status| status.new_machine.as_ref());
        let Some(id) = machine.and_then(|machine| machine.provider_id.as_deref()) else {
            return Observed::Unknown("the status names no provider id".to_owned());
        };
        let nodes = self.context.stores.nodes.by_index(NODES_BY_PROVIDER_ID, id);
        match nodes.as_slice() {
            [] => Observed::Absent,
            [node] => Observed::Present(NodeView::of(node)),
            many => Observed::Unknown(format!("{} nodes claim provider id {id}", many.len())),
        }
    }

    async fn lock(&self) -> Observed<LockView> {
        let holder = self.context.locks.holder(&self.task.spec.node_name).await;
        answer(holder.map(|held| {
            held.map(|holding| LockView {
                operation: holding.operation,
                holder: holding.by,
                node_uid: holding.node_uid,
                renewed: holding.renewed,
            })
        }))
    }

    async fn slot(&self) -> Observed<()> {
        let key = Key::of(self.task).to_string();
        answer(self.context.ledger.read().await.map(|ledger| {
            ledger
                .slots
                .get(&self.task.spec.node_uid)
                .filter(|slot| slot.task == key)
                .map(|_| ())
        }))
    }

    fn new_machine_id(&self) -> Option<MachineId> {
        let status = self.task.status.as_ref()?;
        status
            .new_machine
            .as_ref()
            .map(|record| MachineId(record.id.clone()))
    }

    async fn provider(&self) -> Result<Arc<dyn Provider>, PassError> {
        let block = self.task.spec.provider.as_ref();
        self.context.provider(block).await
    }

    async fn machine_behind(&self, id: &ProviderId) -> Observed<Machine> {
        match self.provider().await {
            Ok(provider) => found(provider.resolve(id).await),
            Err(error) => Observed::Unknown(in_full(&error)),
        }
    }

    async fn machine(&self, id: &MachineId) -> Observed<Machine> {
        match self.provider().await {
            Ok(provider) => found(provider.machine(id).await),
            Err(error) => Observed::Unknown(in_full(&error)),
        }
    }

    async fn replacement(&self) -> Observed<Machine> {
        let status = self.task.status.as_ref();
        let Some(record) = status.and_then(|status| status.replacement.as_ref()) else {
            return Observed::Absent;
        };
        match self.provider().await {
            Ok(provider) => answer(
                provider
                    .find_replacement(&Token(record.token.clone()))
                    .await,
            ),
            Err(error) => Observed::Unknown(in_full(&error)),
        }
    }

    async fn group_of(&self, machine: &Machine) -> Observed<Group> {
        let Some(id) = &machine.group else {
            return Observed::Absent;
        };
        match self.provider().await {
            Ok(provider) => found(provider.group(id).await),
            Err(error) => Observed::Unknown(in_full(&error)),
        }
    }
}

fn answer<T, E: Error + 'static>(result: Result<Option<T>, E>) -> Observed<T> {
    match result {
        Ok(found) => found.into(),
        Err(error) => Observed::Unknown(in_full(&error)),
    }
}

/// The cloud's "not found" is an answer; everything else that went wrong is not.
fn found<T>(result: Result<T, CloudError>) -> Observed<T> {
    match result {
        Ok(thing) => Observed::Present(thing),
        Err(CloudError::NotFound { .. }) => Observed::Absent,
        Err(error) => Observed::Unknown(in_full(&error)),
    }
}
