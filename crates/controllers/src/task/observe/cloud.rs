//! What a task asks of its cloud.
//!
//! Owns the reads of machines and groups. "Not found" is an answer, any other failure is `Unknown`.

use std::sync::Arc;

use shipshape_cluster::Key;
use shipshape_cluster::error::in_full;
use shipshape_engine::machine::{Group, GroupId, Machine, MachineId, ProviderId, Token};
use shipshape_engine::naming::pending_name;
use shipshape_engine::replace::may_be_ending;
use shipshape_engine::snapshot::{PendingView, TaskSnapshot};
use shipshape_engine::view::{NodeView, Observed};
use shipshape_provider::Provider;

use super::Look;
use crate::answer::{answer, found};
use crate::error::PassError;

impl Look<'_> {
    /// The object that follows the machine of that provider id. The store has all our own writes to it
    /// by now.
    pub(super) async fn pending(&self, provider_id: Option<&str>) -> Observed<PendingView> {
        let Some(id) = provider_id else {
            return Observed::Absent;
        };
        let key = Key::cluster(pending_name(id));
        let store = &self.context.stores.pending;
        match store.wait_for(&key).await {
            Ok(_) => store.get(&key).map(|one| PendingView::of(&one)).into(),
            Err(error) => Observed::Unknown(in_full(&error)),
        }
    }

    pub(super) async fn recorded_group(&self) -> Observed<Group> {
        let record = self.status().and_then(|status| status.old_machine.as_ref());
        let Some(id) = record.and_then(|machine| machine.location.get("group")) else {
            return Observed::Absent;
        };
        match self.provider().await {
            Ok(provider) => found(provider.group(&GroupId(id.clone())).await),
            Err(error) => Observed::Unknown(in_full(&error)),
        }
    }

    /// The group that a task which is set aside would ask for a machine, once it is about to: one that has
    /// its machine asks for none.
    pub(super) async fn group_of_parked(&self) -> Observed<Group> {
        let status = self.status();
        let parked = status.and_then(|status| status.parked.as_ref());
        let is_due = parked.is_some_and(|record| record.resuming);
        let has_machine = status.is_some_and(|status| status.new_machine.is_some());
        if !is_due || has_machine {
            return Observed::NotAsked;
        }
        self.recorded_group().await
    }

    /// Whether the old machine ends although the task has yet to ask for that: by itself, where it is to go first and
    /// its group would make another, or because it was asked for before the task came back. The first is asked only
    /// while the node is not as a machine that runs has it.
    pub(super) async fn for_own_end(&self, snapshot: &mut TaskSnapshot) {
        let Some(status) = self.status() else {
            return;
        };
        let known = self.known_old_node();
        let node = match &snapshot.old_node {
            Observed::Present(_) | Observed::Absent => snapshot.old_node.present(),
            Observed::NotAsked | Observed::Unknown(_) => known.present(),
        };
        let is_well = |node: &NodeView| node.ready && node.uid == self.task.spec.node_uid;
        let is_doubtful = status.terminate_first == Some(true) && !node.is_some_and(is_well);
        if !is_doubtful && !may_be_ending(status) {
            return;
        }
        if let Some(record) = &status.old_machine {
            snapshot.old_machine = self.machine(&MachineId(record.id.clone())).await;
        }
    }

    pub(super) async fn new_machine(&self) -> Observed<Machine> {
        match self.new_machine_id() {
            Some(id) => self.machine(&id).await,
            None => Observed::Absent,
        }
    }

    pub(super) fn new_machine_id(&self) -> Option<MachineId> {
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

    pub(super) async fn machine_behind(&self, id: &ProviderId) -> Observed<Machine> {
        match self.provider().await {
            Ok(provider) => found(provider.resolve(id).await),
            Err(error) => Observed::Unknown(in_full(&error)),
        }
    }

    pub(super) async fn machine(&self, id: &MachineId) -> Observed<Machine> {
        match self.provider().await {
            Ok(provider) => found(provider.machine(id).await),
            Err(error) => Observed::Unknown(in_full(&error)),
        }
    }

    pub(super) async fn replacement(&self) -> Observed<Machine> {
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

    pub(super) async fn group_of(&self, machine: &Machine) -> Observed<Group> {
        let Some(id) = &machine.group else {
            return Observed::Absent;
        };
        match self.provider().await {
            Ok(provider) => found(provider.group(id).await),
            Err(error) => Observed::Unknown(in_full(&error)),
        }
    }
}
