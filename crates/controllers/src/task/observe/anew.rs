//! Whether the old machine has come to be another Node than the task's own, by reads only.
//!
//! Owns where such a Node is looked for: under the old name, live; and under any other where the store
//! knows one with the machine's provider id, which is then read live. Must not take silence for absence.

use shipshape_engine::machine::ProviderId;
use shipshape_engine::snapshot::TaskSnapshot;
use shipshape_engine::view::{NodeView, Observed};

use super::Look;
use crate::context::NODES_BY_PROVIDER_ID;
use crate::drain;

impl Look<'_> {
    /// Called with the old node and the pods of its name read live.
    pub(super) async fn look_for_anew(&self, snapshot: &mut TaskSnapshot) {
        snapshot.anew = self.anew(&snapshot.old_node).await;
        if let Observed::Present(node) = &snapshot.anew {
            snapshot.anew_pods = if node.name == self.task.spec.node_name {
                snapshot.pods.clone()
            } else {
                drain::live_pods(self.context, &node.name).await
            };
        }
    }

    async fn anew(&self, under_old_name: &Observed<NodeView>) -> Observed<NodeView> {
        let old = self.status().and_then(|it| it.old_machine.as_ref());
        let Some(id) = old.and_then(|machine| machine.provider_id.as_deref()) else {
            return Observed::Unknown("the status names no old machine".to_owned());
        };
        let id = ProviderId::from(id);
        let own = &self.task.spec.node_uid;
        match under_old_name {
            Observed::Present(node) if node.uid != *own => {
                let found = under_old_name.clone().on_machine(&id);
                if !found.is_absent() {
                    return found;
                }
            }
            Observed::Present(_) | Observed::Absent => {}
            Observed::Unknown(_) | Observed::NotAsked => return under_old_name.clone(),
        }
        let nodes = &self.context.stores.nodes;
        let mut claimants = nodes.by_index(NODES_BY_PROVIDER_ID, id.as_str());
        claimants.retain(|node| node.uid != *own && node.name != self.task.spec.node_name);
        match claimants.as_slice() {
            [] => Observed::Absent,
            [node] => self.live_node(&node.name).await.on_machine(&id),
            many => Observed::Unknown(format!("{} nodes claim provider id {id}", many.len())),
        }
    }
}
