//! One lock per node: a Lease by the node's name, held by one operation.
//!
//! Owns those Leases. Must not free a lock by time, whatever duration its lease shows: its holder may
//! live, and only the operation that took it, or whoever proves that it ended, lets it go. The
//! operation's id and the node's UID are the fence; the holder's name and the times are for people. A
//! lock belongs to its Node object, by UID: the cluster's garbage collector takes it away with that
//! one, so that a replacement needs no write of its own for it.
//! Called by tasks before the first touch of a node and while they work on it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};

use crate::clock::Clock;
use crate::error::{Error, ErrorClass, Result, call};
use crate::patch::Written;
use shipshape_api::names::{
    ANNOTATION_NODE_UID, ANNOTATION_OPERATION, FIELD_MANAGER, LOCK_PREFIX, lock_name,
};

/// Who asks for which node.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Name of the node.
    pub node: &'a str,
    /// UID of the node that was decided upon.
    pub node_uid: &'a str,
    /// Id of the operation: the task's UID.
    pub operation: &'a str,
    /// Which operator process asks, for people.
    pub holder: &'a str,
}

/// What an attempt to lock found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lock {
    /// It is ours: new, or ours already.
    Held,
    /// Another operation, or an earlier node of this name, has it.
    Taken(Holding),
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The operator process that took it.
    pub by: String,
    /// The operation that it was taken for.
    pub operation: String,
    /// The node that it was taken for.
    pub node_uid: String,
    /// When it was taken.
    pub since: Option<Timestamp>,
    /// When its holder last said that it is in use.
    pub renewed: Option<Timestamp>,
    /// Whether it goes by itself when the node does.
    pub goes_with_node: bool,
}

/// What became of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// The lock is gone, by us.
    Freed,
    /// There was none.
    Absent,
    /// It is not ours and stays.
    NotOurs(Holding),
}

/// All node locks.
#[derive(Clone, Debug)]
pub struct Locks {
    api: Api<Lease>,
    clock: Clock,
    namespace: String,
    lease: Duration,
}

impl Locks {
    /// Locks in this namespace that show this lease duration; their renewTime moves at most once in
    /// a third of it.
    pub fn new(client: Client, clock: Clock, namespace: &str, lease: Duration) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            clock,
            namespace: namespace.to_owned(),
            lease,
        }
    }

    /// Takes the lock, or finds out who has it. Asked for where nobody was seen to hold it.
    pub async fn acquire(&self, claim: Claim<'_>) -> Result<Lock> {
        let lease = self.lease(claim);
        let object = self.object(claim.node);
        match call("create", &object, self.api.create(&params(), &lease)).await {
            Ok(_) => return Ok(Lock::Held),
            Err(error) if error.class() == ErrorClass::Conflict => (),
            Err(error) => return Err(error),
        }
        match self.holder(claim.node).await? {
            Some(holding) => Ok(judge(claim, holding)),
            None => Err(Error::Disagrees {
                object,
                why: "it was freed while we looked".into(),
            }),
        }
    }

    /// Who holds the node's lock now, read live.
    pub async fn holder(&self, node: &str) -> Result<Option<Holding>> {
        Ok(self.get(node).await?.map(|lease| holding(&lease)))
    }

    /// Says that the operation is still at it. Writes only if the last word is old enough.
    pub async fn touch(&self, node: &str, operation: &str) -> Result<Written> {
        let object = self.object(node);
        let Some(lease) = self.get(node).await? else {
            return Err(Error::Disagrees {
                object,
                why: "the lock is gone".into(),
            });
        };
        let holding = holding(&lease);
        if holding.operation != operation {
            let why = format!("the lock is held by operation {}", holding.operation);
            return Err(Error::Disagrees { object, why });
        }
        let now = self.clock.now();
        let every = SignedDuration::try_from(self.lease / 3).unwrap_or(SignedDuration::MAX);
        if holding
            .renewed
            .is_some_and(|last| now.duration_since(last) < every)
        {
            return Ok(Written::Unchanged);
        }
        let mut wanted = lease.clone();
        wanted.spec.get_or_insert_default().renew_time = Some(MicroTime(now));
        crate::patch::write(&self.api, &lease, &wanted).await
    }

    /// Gives the lock back if it is this operation's.
    pub async fn release(&self, node: &str, operation: &str) -> Result<Release> {
        let Some(lease) = self.get(node).await? else {
            return Ok(Release::Absent);
        };
        let holding = holding(&lease);
        if holding.operation != operation {
            return Ok(Release::NotOurs(holding));
        }
        let delete = DeleteParams::default().preconditions(Preconditions {
            uid: lease.uid(),
            resource_version: lease.resource_version(),
        });
        let name = lock_name(node);
        let request = self.api.delete(&name, &delete);
        match call("delete", self.object(node), request).await {
            Ok(_) => Ok(Release::Freed),
            Err(error) if error.class() == ErrorClass::Gone => Ok(Release::Absent),
            Err(error) => Err(error),
        }
    }

    /// All locks that are held, each with the name of its node. One whose name is too long to be told from
    /// that of its lock is named by the lock's owner; without one it is left out.
    pub async fn all(&self) -> Result<Vec<(String, Holding)>> {
        let leases = call("list", "Leases", self.api.list(&ListParams::default())).await?;
        let held = leases.items.iter().filter_map(|lease| {
            let name = lease.name_any();
            let owners = lease
                .owner_references()
                .iter()
                .filter(|it| it.kind == "Node");
            let mut nodes = owners.map(|owner| owner.name.as_str());
            let is_its = |node: &&str| lock_name(node) == name;
            let node = nodes
                .find(is_its)
                .or_else(|| name.strip_prefix(LOCK_PREFIX))?;
            let holding = holding(lease);
            let is_lock = !holding.operation.is_empty() && is_its(&node);
            is_lock.then(|| (node.to_owned(), holding))
        });
        Ok(held.collect())
    }

    async fn get(&self, node: &str) -> Result<Option<Lease>> {
        call("get", self.object(node), self.api.get_opt(&lock_name(node))).await
    }

    fn lease(&self, claim: Claim<'_>) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.name = Some(lock_name(claim.node));
        lease.metadata.namespace = Some(self.namespace.clone());
        lease.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".into(),
            kind: "Node".into(),
            name: claim.node.into(),
            uid: claim.node_uid.into(),
            ..OwnerReference::default()
        }]);
        let annotations = lease.annotations_mut();
        annotations.insert(ANNOTATION_NODE_UID.into(), claim.node_uid.into());
        annotations.insert(ANNOTATION_OPERATION.into(), claim.operation.into());
        let now = MicroTime(self.clock.now());
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(claim.holder.into()),
            // The API takes whole seconds above zero.
            lease_duration_seconds: Some(
                self.lease.as_secs().max(1).try_into().unwrap_or(i32::MAX),
            ),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            ..LeaseSpec::default()
        });
        lease
    }

    fn object(&self, node: &str) -> String {
        format!("Lease {}/{}", self.namespace, lock_name(node))
    }
}

fn params() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PostParams::default()
    }
}

fn judge(claim: Claim<'_>, holding: Holding) -> Lock {
    let is_ours = holding.operation == claim.operation && holding.node_uid == claim.node_uid;
    if is_ours {
        Lock::Held
    } else {
        Lock::Taken(holding)
    }
}

/// A lease without our annotations is somebody else's: its empty operation equals none of ours.
fn holding(lease: &Lease) -> Holding {
    let note = |name: &str| lease.annotations().get(name).cloned().unwrap_or_default();
    let spec = lease.spec.clone().unwrap_or_default();
    let node_uid = note(ANNOTATION_NODE_UID);
    let mut owners = lease.owner_references().iter();
    Holding {
        by: spec.holder_identity.unwrap_or_default(),
        operation: note(ANNOTATION_OPERATION),
        goes_with_node: owners.any(|owner| owner.kind == "Node" && owner.uid == node_uid),
        node_uid,
        since: spec.acquire_time.map(|time| time.0),
        renewed: spec.renew_time.map(|time| time.0),
    }
}

#[cfg(test)]
mod tests;
