//! etcd as passes reach it: who its members are, asked anew each time.
//!
//! Owns the step from configuration to addresses, and from an answer to an `Observed`. Must not keep an
//! answer: what hangs on it is asked for live.

use std::sync::Arc;

use futures::future::BoxFuture;
use shipshape_cluster::error::in_full;
use shipshape_cluster::etcd_pods;
use shipshape_engine::etcd::{EtcdView, MemberId};
use shipshape_engine::view::Observed;
use shipshape_etcd::Etcd;

use crate::context::Context;
use crate::error::PassError;

/// The way to etcd.
#[derive(Clone)]
pub struct EtcdAccess {
    /// Who asks.
    pub client: Arc<dyn Etcd>,
    /// Addresses of members; where there are none, the pods of kubeadm are looked up.
    pub endpoints: Vec<String>,
}

impl Context {
    /// How etcd fares now; absent where nobody has said how to reach it, or where it has no pods.
    /// Boxed, because few passes ask and all would carry its size.
    pub(crate) fn etcd(&self) -> BoxFuture<'_, Observed<EtcdView>> {
        Box::pin(self.look_at_etcd())
    }

    async fn look_at_etcd(&self) -> Observed<EtcdView> {
        let Some(access) = &self.etcd else {
            return Observed::Absent;
        };
        let endpoints = match self.etcd_endpoints(access).await {
            Ok(endpoints) if endpoints.is_empty() => return Observed::Absent,
            Ok(endpoints) => endpoints,
            Err(error) => return Observed::Unknown(in_full(&error)),
        };
        match access.client.look(&endpoints).await {
            Ok(view) => Observed::Present(view),
            Err(error) => Observed::Unknown(in_full(&error)),
        }
    }

    /// Takes a member out.
    pub(crate) async fn remove_etcd_member(&self, id: &MemberId) -> Result<(), PassError> {
        let access = self.etcd.as_ref().ok_or(PassError::NoEtcd)?;
        let endpoints = self.etcd_endpoints(access).await?;
        Ok(access.client.remove_member(&endpoints, id).await?)
    }

    /// Has another member lead.
    pub(crate) async fn move_etcd_leader(
        &self,
        from: &MemberId,
        to: &MemberId,
    ) -> Result<(), PassError> {
        let access = self.etcd.as_ref().ok_or(PassError::NoEtcd)?;
        let endpoints = self.etcd_endpoints(access).await?;
        Ok(access.client.move_leader(&endpoints, from, to).await?)
    }

    async fn etcd_endpoints(&self, access: &EtcdAccess) -> Result<Vec<String>, PassError> {
        if access.endpoints.is_empty() {
            return Ok(etcd_pods::endpoints(self.client.clone()).await?);
        }
        Ok(access.endpoints.clone())
    }
}
