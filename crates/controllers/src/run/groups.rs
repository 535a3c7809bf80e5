//! Observe: the groups that would launch the replacements of waiting nodes, and the room they have.
//!
//! Owns which group a machine belongs to, asked of the cloud once, and the look at each group, live and
//! once a pass however many nodes wait. Nodes of a group without room do not fill the window: those of
//! other groups behind them are looked at instead. Must not decide who begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use shipshape_api::NodePatchRun;
use shipshape_cluster::Key;
use shipshape_cluster::error::in_full;
use shipshape_engine::admit::{Waiting, surges};
use shipshape_engine::ledger::Ledger;
use shipshape_engine::machine::{Group, GroupId, ProviderId};
use shipshape_engine::view::{NodeView, Observed};
use shipshape_provider::Provider;

use crate::answer::found;
use crate::context::Context;

/// More machines than this are not remembered: the memory is then begun anew.
const MEMORY: usize = 20_000;

/// The group of each machine that was ever asked about; `None` for one that belongs to none. A machine
/// that is moved to another group is looked up anew by the next leader; its task asks live.
#[derive(Clone, Default)]
pub(crate) struct Memberships(Arc<Mutex<BTreeMap<ProviderId, Option<GroupId>>>>);

impl Memberships {
    /// `NotAsked` of a machine that nobody has asked about yet.
    fn known(&self, id: &ProviderId) -> Observed<GroupId> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(id)
            .map_or(Observed::NotAsked, |group| group.clone().into())
    }

    fn learn(&self, id: &ProviderId, group: Option<GroupId>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MEMORY {
            known.clear();
        }
        known.insert(id.clone(), group);
    }
}

/// Machines that tasks under way will ask their groups for. One whose machine is recorded is counted by
/// its group already.
pub(crate) fn on_their_way(context: &Context, ledger: &Ledger) -> BTreeMap<GroupId, usize> {
    let mut coming: BTreeMap<GroupId, usize> = BTreeMap::new();
    for slot in ledger.slots.values() {
        let Some(group) = &slot.surges else { continue };
        let task = slot
            .task
            .split_once('/')
            .and_then(|(namespace, name)| context.stores.tasks.get(&Key::new(namespace, name)));
        let has_machine = task
            .as_ref()
            .and_then(|task| task.status.as_ref())
            .is_some_and(|status| status.new_machine.is_some());
        if !has_machine {
            *coming.entry(group.clone()).or_default() += 1;
        }
    }
    coming
}

/// Gives each waiting node its group. `line` makes the list of those who wait, without the nodes that it
/// is told to pass over. Nobody is asked where no maximum binds, or no slot is left anyhow.
pub(super) async fn with_groups(
    context: &Context,
    run: &NodePatchRun,
    ledger: &Ledger,
    coming: &BTreeMap<GroupId, usize>,
    line: impl Fn(&dyn Fn(&NodeView) -> bool) -> Vec<Waiting>,
) -> Vec<Waiting> {
    let mut waiting = line(&|_| false);
    if waiting.is_empty() || !surges(&run.spec) || !has_slot(run, ledger) {
        return waiting;
    }
    let provider = match context.provider(Some(&run.spec.provider)).await {
        Ok(provider) => provider,
        Err(error) => return unclear(waiting, &in_full(&error)),
    };
    let mut seen = Seen {
        memberships: &context.memberships,
        provider,
        groups: BTreeMap::new(),
        full: BTreeSet::new(),
    };
    // Before any group was asked, nothing else can be passed over.
    if waiting.iter().any(|one| one.node.provider_id.is_none()) {
        waiting = line(&seen.passes_over());
    }
    loop {
        let full_before = seen.full.len();
        for one in &mut waiting {
            one.group = seen.group_of(&one.node, coming).await;
        }
        if seen.full.len() == full_before {
            return waiting;
        }
        waiting = line(&seen.passes_over());
    }
}

fn has_slot(run: &NodePatchRun, ledger: &Ledger) -> bool {
    let taken = ledger.usage();
    let count = |limit: i32| usize::try_from(limit).unwrap_or_default();
    taken.important < count(run.spec.batch_size_important())
        || taken.non_important < count(run.spec.batch_size_non_important())
}

fn unclear(mut waiting: Vec<Waiting>, why: &str) -> Vec<Waiting> {
    for one in &mut waiting {
        one.group = Observed::Unknown(why.to_owned());
    }
    waiting
}

/// What one pass has seen of groups.
struct Seen<'a> {
    memberships: &'a Memberships,
    provider: Arc<dyn Provider>,
    groups: BTreeMap<GroupId, Observed<Group>>,
    /// Groups without room, and those that could not be asked.
    full: BTreeSet<GroupId>,
}

impl Seen<'_> {
    async fn group_of(
        &mut self,
        node: &NodeView,
        coming: &BTreeMap<GroupId, usize>,
    ) -> Observed<Group> {
        let Some(id) = &node.provider_id else {
            return Observed::Unknown(format!("node {} has no provider id yet", node.name));
        };
        let id = match self.membership(id).await {
            Observed::Present(id) => id,
            Observed::Absent => return Observed::Absent,
            Observed::Unknown(why) => return Observed::Unknown(why),
            Observed::NotAsked => return Observed::NotAsked,
        };
        if let Some(group) = self.groups.get(&id) {
            return group.clone();
        }
        let group = found(self.provider.group(&id).await);
        let on_their_way = coming.get(&id).copied().unwrap_or_default();
        let has_room = match &group {
            Observed::Present(group) => group.room(on_their_way) != Some(0),
            Observed::Unknown(_) => false,
            Observed::Absent | Observed::NotAsked => true,
        };
        if !has_room {
            self.full.insert(id.clone());
        }
        self.groups.insert(id, group.clone());
        group
    }

    async fn membership(&self, id: &ProviderId) -> Observed<GroupId> {
        let known = self.memberships.known(id);
        if !matches!(known, Observed::NotAsked) {
            return known;
        }
        match found(self.provider.resolve(id).await) {
            Observed::Present(machine) => {
                self.memberships.learn(id, machine.group.clone());
                machine.group.into()
            }
            // What becomes of a node without a machine is its task's to tell.
            Observed::Absent => Observed::Absent,
            Observed::Unknown(why) => Observed::Unknown(why),
            Observed::NotAsked => Observed::NotAsked,
        }
    }

    /// Whether a node is passed over: it is of a group that has no room as far as anybody can tell, or says
    /// of no machine, and is not the first such, which stays to say why.
    fn passes_over(&self) -> impl Fn(&NodeView) -> bool {
        let named = Mutex::new(BTreeSet::new());
        move |node: &NodeView| {
            let group = match &node.provider_id {
                Some(id) => match self.memberships.known(id).present() {
                    Some(group) if self.full.contains(group) => Some(group.clone()),
                    _ => return false,
                },
                None => None,
            };
            let mut named = named.lock().unwrap_or_else(PoisonError::into_inner);
            !named.insert(group)
        }
    }
}
