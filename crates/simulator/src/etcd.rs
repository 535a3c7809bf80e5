//! An etcd in a value: members that start, vote, fall ill and leave, and a log of all that.
//!
//! Owns the model and its log. Must not guard the quorum: it does what it is told, like an etcd without
//! its strict check of reconfigurations, so that whoever forgets to look is found out. Members are
//! started and stopped by `actors::control_planes`; controllers reach it through `EtcdHandle`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use shipshape_cluster::Clock;
use shipshape_engine::etcd::{EtcdView, Health, MemberId, MemberView, quorum};
use shipshape_etcd::{Error, Etcd, Result};

#[cfg(test)]
mod tests;

/// Who changes members that start and stop by themselves.
const NOBODY: &str = "etcd";

/// The code with which etcd refuses what it would not survive.
const UNAVAILABLE: u16 = 14;

/// What happened to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// It has started: with a vote where etcd began with it, else as a learner.
    Started,
    /// It has got its vote.
    Promoted,
    /// It was taken out.
    Removed,
    /// Its machine has ended.
    Stopped,
    /// It stays silent from now on.
    Sickened,
    /// It answers again.
    Recovered,
    /// It leads from now on.
    Led,
}

/// One event, and how etcd fares after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdEvent {
    /// When.
    pub at: Timestamp,
    /// Who brought it about.
    pub caller: String,
    /// What.
    pub change: MemberChange,
    /// Name of the member.
    pub member: String,
    /// Voters after it.
    pub voters: usize,
    /// Of these, the healthy ones.
    pub healthy: usize,
}

/// The etcd; clones share it.
#[derive(Clone)]
pub struct EtcdModel {
    shared: Arc<Mutex<State>>,
    clock: Clock,
}

#[derive(Default)]
struct State {
    members: Vec<Member>,
    /// Names of all members that there ever were: a machine joins once.
    known: BTreeSet<String>,
    leader: Option<u64>,
    log: Vec<EtcdEvent>,
}

struct Member {
    id: u64,
    name: String,
    is_learner: bool,
    runs: bool,
    is_sick: bool,
}

impl Member {
    fn is_healthy(&self) -> bool {
        self.runs && !self.is_sick
    }
}

impl State {
    /// Whether etcd lets this member go, as its strict check of reconfigurations does: one that is down or
    /// only learns may go, any other only if enough of the rest are up.
    fn survives_without(&self, member: &Member) -> bool {
        let voters = || self.members.iter().filter(|one| !one.is_learner);
        let left = voters().count().saturating_sub(1);
        let up = voters().filter(|one| one.is_healthy()).count();
        member.is_learner || !member.is_healthy() || up.saturating_sub(1) >= quorum(left)
    }

    fn count(&self) -> (usize, usize) {
        let voters = || self.members.iter().filter(|one| !one.is_learner);
        let healthy = voters().filter(|one| one.is_healthy()).count();
        (voters().count(), healthy)
    }

    /// Whoever led goes on while it can; else the first that is well leads, if enough are.
    fn elect(&mut self) {
        let (voters, healthy) = self.count();
        let can_lead = |one: &&Member| !one.is_learner && one.is_healthy();
        let able = || self.members.iter().filter(can_lead);
        let leader = able()
            .find(|one| Some(one.id) == self.leader)
            .or_else(|| able().next())
            .map(|one| one.id);
        self.leader = leader.filter(|_| healthy >= quorum(voters));
    }

    fn log(&mut self, at: Timestamp, caller: &str, change: MemberChange, member: &str) {
        self.elect();
        let (voters, healthy) = self.count();
        self.log.push(EtcdEvent {
            at,
            caller: caller.to_owned(),
            change,
            member: member.to_owned(),
            voters,
            healthy,
        });
    }
}

/// The address of a member's clients.
pub fn address(name: &str) -> String {
    format!("https://{name}:2379")
}

impl EtcdModel {
    /// An etcd without members.
    pub fn new(clock: Clock) -> Self {
        Self {
            shared: Arc::default(),
            clock,
        }
    }

    fn with<R>(&self, step: impl FnOnce(&mut State, Timestamp) -> R) -> R {
        let now = self.clock.now();
        step(
            &mut self.shared.lock().unwrap_or_else(PoisonError::into_inner),
            now,
        )
    }

    /// A member starts, as a learner unless etcd begins with it. Each name starts once.
    pub fn start_member(&self, name: &str, is_learner: bool) {
        self.with(|state, now| {
            if !state.known.insert(name.to_owned()) {
                return;
            }
            // Ids are told apart from places in a list.
            let id = 0x8000_0000_0000_0000 | (state.known.len() as u64);
            state.members.push(Member {
                id,
                name: name.to_owned(),
                is_learner,
                runs: true,
                is_sick: false,
            });
            state.log(now, NOBODY, MemberChange::Started, name);
        });
    }

    /// A learner gets its vote, if it is still there and enough agree.
    pub fn promote(&self, name: &str) {
        self.change(name, MemberChange::Promoted, |one| {
            std::mem::take(&mut one.is_learner)
        });
    }

    /// The machine of a member ends; the others keep it in their list.
    pub fn stop_member(&self, name: &str) {
        self.change(name, MemberChange::Stopped, |one| {
            std::mem::take(&mut one.runs)
        });
    }

    /// These members stay silent from now on, and no others.
    pub fn set_sick(&self, names: &BTreeSet<String>) {
        for (_, name) in self.names() {
            let is_sick = names.contains(&name);
            let change = if is_sick {
                MemberChange::Sickened
            } else {
                MemberChange::Recovered
            };
            self.change(&name, change, |one| {
                std::mem::replace(&mut one.is_sick, is_sick) != is_sick
            });
        }
    }

    fn change(&self, name: &str, change: MemberChange, step: impl Fn(&mut Member) -> bool) {
        self.with(|state, now| {
            let mut members = state.members.iter_mut();
            if members.find(|one| one.name == name).is_some_and(step) {
                state.log(now, NOBODY, change, name);
            }
        });
    }

    /// Ids and names of all members.
    pub fn names(&self) -> Vec<(u64, String)> {
        self.with(|state, _| {
            let members = state.members.iter();
            members.map(|one| (one.id, one.name.clone())).collect()
        })
    }

    /// The events from an index on.
    pub fn log_since(&self, index: usize) -> Vec<EtcdEvent> {
        self.with(|state, _| state.log.iter().skip(index).cloned().collect())
    }

    /// An `Etcd` whose changes are logged under `caller`.
    pub fn handle(&self, caller: &str) -> EtcdHandle {
        EtcdHandle {
            model: self.clone(),
            caller: caller.to_owned(),
        }
    }
}

/// The way to the model for one caller.
#[derive(Clone)]
pub struct EtcdHandle {
    model: EtcdModel,
    caller: String,
}

impl EtcdHandle {
    /// Does something for which a majority must agree, through one of these addresses.
    fn agreed<R>(
        &self,
        endpoints: &[String],
        what: &'static str,
        step: impl FnOnce(&mut State, Timestamp) -> R,
    ) -> Result<R> {
        self.model.with(|state, now| {
            let mut members = state.members.iter().filter(|one| one.is_healthy());
            let is_reached = members.any(|one| endpoints.contains(&address(&one.name)));
            if !is_reached || state.leader.is_none() {
                return Err(Error::NoAnswer {
                    endpoint: endpoints.first().cloned().unwrap_or_default(),
                    what,
                    message: "no leader".to_owned(),
                });
            }
            Ok(step(state, now))
        })
    }
}

#[async_trait]
impl Etcd for EtcdHandle {
    async fn look(&self, endpoints: &[String]) -> Result<EtcdView> {
        self.agreed(endpoints, "look", |state, _| {
            let leader = state.leader;
            let view = |one: &Member| MemberView {
                id: MemberId(format!("{:x}", one.id)),
                name: one.name.clone(),
                is_learner: one.is_learner,
                leads: Some(one.id) == leader,
                health: if one.is_healthy() {
                    Health::Healthy
                } else {
                    Health::Sick("no answer".to_owned())
                },
            };
            EtcdView {
                members: state.members.iter().map(view).collect(),
                alarms: Vec::new(),
            }
        })
    }

    async fn remove_member(&self, endpoints: &[String], id: &MemberId) -> Result<()> {
        self.agreed(endpoints, "removeMember", |state, now| {
            let is_it = |one: &Member| format!("{:x}", one.id) == id.0;
            let Some(member) = state.members.iter().find(|one| is_it(one)) else {
                return Ok(());
            };
            if !state.survives_without(member) {
                return Err(Error::Refused {
                    endpoint: endpoints.first().cloned().unwrap_or_default(),
                    what: "removeMember",
                    code: UNAVAILABLE,
                    message: "etcdserver: unhealthy cluster".to_owned(),
                });
            }
            let name = member.name.clone();
            state.members.retain(|one| !is_it(one));
            state.log(now, &self.caller, MemberChange::Removed, &name);
            Ok(())
        })?
    }

    async fn move_leader(
        &self,
        endpoints: &[String],
        from: &MemberId,
        to: &MemberId,
    ) -> Result<()> {
        self.agreed(endpoints, "moveLeader", |state, now| {
            let leads =
                |id: &MemberId| state.leader.map(|one| format!("{one:x}")) == Some(id.0.clone());
            let found = state
                .members
                .iter()
                .find(|one| format!("{:x}", one.id) == to.0);
            if let Some((id, name)) = found
                .filter(|_| leads(from))
                .map(|one| (one.id, one.name.clone()))
            {
                state.leader = Some(id);
                state.log(now, &self.caller, MemberChange::Led, &name);
            }
        })
    }
}
