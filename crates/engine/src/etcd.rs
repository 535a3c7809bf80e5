//! etcd: how its members fare, and whether one of them may leave.
//!
//! Owns the arithmetic of quorum and the sentences about it. Must not ask anybody: a view is what one
//! live look has found. A member that gave no clear answer counts as sick, never as healthy. Read by
//! `admit` before a control plane begins, and by `replace` before anything that cannot be taken back.

use std::borrow::Borrow;
use std::fmt;

use crate::labels::LabelSet as _;
use crate::view::PodView;

/// What is said where a member runs and nobody has told the controller how to reach it.
pub const NOT_CONFIGURED: &str = "it runs a member of etcd, which would stay in the quorum without its \
     machine: give the controller an etcd block in its file, or leave control planes out \
     (excludeControlPlane)";

/// Voters that there must be for one to go before its replacement has come: with two, the one that is
/// left could not even lose a packet.
const FEWEST_FOR_GAP: usize = 3;

/// A member as etcd names it, in the hexadecimal form that its own tools show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemberId(pub String);

impl fmt::Display for MemberId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// How a member fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answered for itself, follows the leader and complains of nothing.
    Healthy,
    /// It did not, and this is why.
    Sick(String),
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Its id.
    pub id: MemberId,
    /// Its name, which is that of its node; the empty string until it has started.
    pub name: String,
    /// Whether it only listens and has no vote yet.
    pub is_learner: bool,
    /// Whether it leads.
    pub leads: bool,
    /// How it fares.
    pub health: Health,
}

impl MemberView {
    fn is_healthy(&self) -> bool {
        self.health == Health::Healthy
    }

    /// The name, or the id of a member that has none yet.
    fn title(&self) -> &str {
        if self.name.is_empty() {
            &self.id.0
        } else {
            &self.name
        }
    }
}

/// All members, as one look has found them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdView {
    /// The members.
    pub members: Vec<MemberView>,
    /// Alarms that are raised, in etcd's words.
    pub alarms: Vec<String>,
}

/// Why a member leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving<'a> {
    /// The member of this name has taken its place.
    Replaced(&'a str),
    /// Its replacement comes only after it has gone.
    BeforeReplacement,
    /// It was brought in by an attempt that is put back.
    PutBack,
}

impl EtcdView {
    /// The member of this id; where nobody knows its id, the one of this name.
    pub fn find(&self, id: Option<&str>, name: &str) -> Option<&MemberView> {
        let by_id = self
            .members
            .iter()
            .find(|one| Some(one.id.0.as_str()) == id);
        by_id.or_else(|| self.named(name))
    }

    fn named(&self, name: &str) -> Option<&MemberView> {
        self.members.iter().find(|one| one.name == name)
    }

    fn voters(&self) -> impl Iterator<Item = &MemberView> {
        self.members.iter().filter(|one| !one.is_learner)
    }

    /// Why no control plane may begin now, if so.
    pub fn refusal_to_begin(&self, name: &str, terminate_first: bool) -> Option<String> {
        let voters = self.voters().count();
        let trouble = self.trouble(None).or_else(|| {
            let is_too_few = terminate_first && voters < FEWEST_FOR_GAP;
            is_too_few.then(|| too_few(voters))
        })?;
        Some(self.sentence(name, &trouble))
    }

    /// Why a member may not be taken out now, if so. Of one that is to go it does not matter how it
    /// fares; the others must be well, or at least enough of them where something is put back.
    pub fn refusal_to_remove(&self, id: &MemberId, leaving: Leaving<'_>) -> Option<String> {
        let member = self.members.iter().find(|one| one.id == *id)?;
        let voters = self.voters().count();
        let trouble = match leaving {
            Leaving::PutBack => None,
            Leaving::Replaced(by) => self.trouble(Some(id)).or_else(|| self.joined(by).err()),
            Leaving::BeforeReplacement => {
                let is_too_few = voters < FEWEST_FOR_GAP;
                let few = is_too_few.then(|| too_few(voters));
                self.trouble(Some(id)).or(few)
            }
        };
        let left: Vec<&MemberView> = self.voters().filter(|one| one.id != *id).collect();
        let healthy = left.iter().filter(|one| one.is_healthy()).count();
        let trouble = trouble.or_else(|| {
            let is_enough = member.is_learner || healthy >= quorum(left.len());
            (!is_enough).then(|| {
                format!(
                    "without it {healthy} of {} would be, and quorum would be {}",
                    left.len(),
                    quorum(left.len())
                )
            })
        })?;
        Some(self.sentence(member.title(), &trouble))
    }

    /// Why a machine that may be about to join must not end now, if so: its member could come at this very
    /// moment, get a vote and die with it, which a cluster with a sick member may not survive.
    pub fn refusal_to_end_newcomer(&self) -> Option<String> {
        let voters = self.voters().count();
        let healthy = self.voters().filter(|one| one.is_healthy()).count();
        let is_safe = healthy == voters || healthy >= quorum(voters + 1);
        (!is_safe).then(|| {
            format!(
                "etcd to be well: {healthy} of {voters} members healthy, and a new one that came and \
                 died now would make quorum {}",
                quorum(voters + 1)
            )
        })
    }

    /// The id of the member of this name once it has a vote and is well; else what is missing.
    pub fn joined(&self, name: &str) -> Result<MemberId, String> {
        let Some(member) = self.named(name) else {
            return Err(format!("etcd has no member {name} yet"));
        };
        match &member.health {
            _ if member.is_learner => Err(format!("etcd member {name} is still a learner")),
            Health::Sick(why) => Err(format!("etcd member {name}: {why}")),
            Health::Healthy => Ok(member.id.clone()),
        }
    }

    /// Who shall lead in place of this member: the one that takes its place, or the first that is well.
    pub fn successor(&self, id: &MemberId, preferred: Option<&str>) -> Option<MemberId> {
        let can_lead = |one: &&MemberView| one.id != *id && one.is_healthy();
        let mut able: Vec<&MemberView> = self.voters().filter(can_lead).collect();
        able.sort_by_key(|one| (Some(one.name.as_str()) != preferred, &one.name));
        able.first().map(|one| one.id.clone())
    }

    /// What keeps people from touching a member, leaving one of them out of account.
    fn trouble(&self, but: Option<&MemberId>) -> Option<String> {
        if let Some(alarm) = self.alarms.first() {
            return Some(format!("alarm {alarm} is raised"));
        }
        let others = || self.members.iter().filter(|one| Some(&one.id) != but);
        if let Some(learner) = others().find(|one| one.is_learner) {
            return Some(format!("member {} is still a learner", learner.title()));
        }
        others().find_map(|one| match &one.health {
            Health::Sick(why) => Some(format!("member {}: {why}", one.title())),
            Health::Healthy => None,
        })
    }

    fn sentence(&self, name: &str, trouble: &str) -> String {
        let voters = self.voters().count();
        let healthy = self.voters().filter(|one| one.is_healthy()).count();
        format!(
            "etcd member {name}: {healthy} of {voters} members healthy, quorum is {}: {trouble}",
            quorum(voters)
        )
    }
}

fn too_few(voters: usize) -> String {
    format!("with {voters} member(s) none may go before its replacement has come")
}

/// How many of so many voters must agree.
pub fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

/// Whether one of these pods is etcd as kubeadm runs it.
pub fn runs_member(pods: &[impl Borrow<PodView>]) -> bool {
    pods.iter().map(Borrow::borrow).any(|pod: &PodView| {
        pod.mirror
            && pod.namespace == "kube-system"
            && pod.labels.value("component") == Some("etcd")
    })
}

#[cfg(test)]
mod tests;
