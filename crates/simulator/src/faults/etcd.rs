//! Faults between a controller and etcd.
//!
//! Owns an `Etcd` that holds calls against a plan before and after it hands them on.

use std::sync::Arc;

use async_trait::async_trait;
use shipshape_engine::etcd::{EtcdView, MemberId};
use shipshape_etcd::{Error, Etcd, Result};

use super::{Asked, Fault, Faults};

/// An etcd behind a plan of faults; clones share both.
#[derive(Clone)]
pub struct FaultyEtcd {
    inner: Arc<dyn Etcd>,
    faults: Faults,
}

impl FaultyEtcd {
    /// Puts the plan before the etcd.
    pub fn new(inner: Arc<dyn Etcd>, faults: &Faults) -> Self {
        Self {
            inner,
            faults: faults.clone(),
        }
    }

    async fn go<R: Send, F: Future<Output = Result<R>> + Send>(
        &self,
        call: &'static str,
        is_write: bool,
        work: impl Fn() -> F + Send + Sync,
    ) -> Result<R> {
        let broken = |_: &Fault| Error::NoAnswer {
            endpoint: "the plan's".to_owned(),
            what: call,
            message: "the connection was closed, as the plan says".to_owned(),
        };
        let asked = Asked::of(&format!("etcd {call}"), "", is_write);
        self.faults.call(&asked, broken, work).await
    }
}

#[async_trait]
impl Etcd for FaultyEtcd {
    async fn look(&self, endpoints: &[String]) -> Result<EtcdView> {
        self.go("look", false, || self.inner.look(endpoints)).await
    }

    async fn remove_member(&self, endpoints: &[String], id: &MemberId) -> Result<()> {
        self.go("removeMember", true, || {
            self.inner.remove_member(endpoints, id)
        })
        .await
    }

    async fn move_leader(
        &self,
        endpoints: &[String],
        from: &MemberId,
        to: &MemberId,
    ) -> Result<()> {
        self.go("moveLeader", true, || {
            self.inner.move_leader(endpoints, from, to)
        })
        .await
    }
}
