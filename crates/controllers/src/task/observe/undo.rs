//! What the way back of a task has to know of its new machine, by reads only.
//!
//! Owns how the node behind a machine is found that the task never saw join. Must not take silence for
//! absence: a machine may carry pods, or a member of etcd, although nobody has told.

use shipshape_cluster::Key;
use shipshape_engine::machine::ProviderId;
use shipshape_engine::snapshot::TaskSnapshot;
use shipshape_engine::view::{NodeView, Observed};

use super::{Look, is_leaving};
use crate::drain;

impl Look<'_> {
    /// What an attempt has left behind: its machine by id or token, its node and what runs there. A
    /// machine that is followed out is not asked about: its object goes when it is gone.
    pub(super) async fn while_undoing(&self, snapshot: &mut TaskSnapshot) {
        snapshot.old_node = self.live_old_node().await;
        snapshot.pending = self.pending(self.new_provider_id()).await;
        if !is_leaving(snapshot) {
            snapshot.new_machine = match self.new_machine_id() {
                Some(id) => self.machine(&id).await,
                None => self.replacement().await,
            };
        }
        // The attempt may have been given up before it knew its machine.
        let found = snapshot.new_machine.present();
        let found = found.map(|machine| machine.provider_id.as_str().to_owned());
        let id = self.new_provider_id().or(found.as_deref());
        if self.new_provider_id().is_none() && id.is_some() {
            snapshot.pending = self.pending(id).await;
        }
        if !is_leaving(snapshot) {
            snapshot.etcd = self.etcd().await;
        }
        snapshot.new_node = self.node_to_undo(snapshot, id).await;
        if let Observed::Present(node) = &snapshot.new_node {
            let (name, may_end) = (node.name.clone(), node.unschedulable || !node.ready);
            self.look_at_drain(snapshot, &name);
            snapshot.new_pods = std::mem::take(&mut snapshot.pods);
            // Nothing is removed because the store says so.
            let pods = snapshot.new_pods.present().map_or(&[][..], Vec::as_slice);
            if may_end && self.is_drained(snapshot, pods) {
                snapshot.new_pods = drain::live_pods(self.context, &name).await;
                let pods = snapshot.new_pods.present().into_iter().flatten();
                snapshot.around = drain::around(self.context, [name.as_str()], pods);
            }
        }
    }

    /// The new machine's node as it is now: under the name by which it counted, or, if a stranger has that
    /// or nobody, under the one by which the store knows the machine.
    async fn node_to_undo(&self, snapshot: &TaskSnapshot, id: Option<&str>) -> Observed<NodeView> {
        let machine = id.map(ProviderId::from);
        let of_machine = |node: Observed<NodeView>| match &machine {
            Some(id) => node.on_machine(id),
            None => node,
        };
        let counted = self.status().and_then(|it| it.new_node_name.as_deref());
        if let Some(name) = counted {
            let found = of_machine(self.live_node(name).await);
            if !found.is_absent() {
                return found;
            }
        }
        let known = match &machine {
            Some(_) => self.joined_node(id),
            None => Observed::Absent,
        };
        match known {
            Observed::Present(node) => of_machine(self.live_node(&node.name).await),
            Observed::Absent if counted.is_none() => self.node_behind_a_member(snapshot).await,
            unclear @ (Observed::Absent | Observed::Unknown(_) | Observed::NotAsked) => unclear,
        }
    }

    /// The node of a new control plane that the store does not know yet: its member of etcd, which bears
    /// its name, may be there already. A member without a node may be that of the new machine.
    async fn node_behind_a_member(&self, snapshot: &TaskSnapshot) -> Observed<NodeView> {
        let (Some(view), Some(machine)) = (snapshot.etcd.present(), snapshot.new_machine.present())
        else {
            return Observed::Absent;
        };
        let nodes = &self.context.stores.nodes;
        for member in &view.members {
            if nodes.get(&Key::cluster(&member.name)).is_some() {
                continue;
            }
            match self.live_node(&member.name).await {
                Observed::Present(node)
                    if node.provider_id.as_ref() == Some(&machine.provider_id) =>
                {
                    return Observed::Present(node);
                }
                Observed::Present(_) => {}
                Observed::Absent => {
                    let why = format!("etcd has member {}, whose node is not known", member.name);
                    return Observed::Unknown(why);
                }
                unclear @ (Observed::Unknown(_) | Observed::NotAsked) => return unclear,
            }
        }
        Observed::Absent
    }
}
