//! Leader election: of several operators only one works at a time.
//!
//! Owns one Lease. Must not believe any clock but its own: a lease is taken over only after its
//! record was **observed** unchanged for its whole duration, as client-go does; the remote renewTime
//! is never compared with our time. Whoever cannot renew within the deadline stops its work before
//! anybody else may begin (deadline < duration). Used by the binary around all controllers.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::error::{Error, ErrorClass, Result, in_full};
use crate::shutdown::Shutdown;
use shipshape_api::names::{FIELD_MANAGER, LEADER_LEASE};

/// How leadership is held.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are; unique per process, for example the pod's name.
    pub identity: String,
    /// How long others wait, after the last change they observed, before they take over.
    pub lease_duration: Duration,
    /// How long we go on working without a successful renewal. Less than `lease_duration`.
    pub renew_deadline: Duration,
    /// Time between attempts.
    pub retry_period: Duration,
}

impl Settings {
    /// The usual times: 15 s, 10 s, 2 s.
    pub fn new(namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: LEADER_LEASE.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// How a term ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// The work came to its own end, and the lease was given back.
    Finished(T),
    /// The lease was lost or could not be renewed; the work was dropped where it stood.
    Lost,
    /// Shutdown began before we ever led.
    Stopped,
}

/// A candidate, and while it lasts the leader.
#[derive(Clone, Debug)]
pub struct Leader {
    api: Api<Lease>,
    clock: Clock,
    settings: Settings,
}

/// What a renewal found out.
enum Renewal {
    Held,
    Lost,
}

/// The record as we saw it last, and since when it has not changed.
struct Observed {
    spec: LeaseSpec,
    since: Instant,
}

impl Leader {
    /// A candidate that has not begun.
    pub fn new(client: Client, clock: Clock, settings: Settings) -> Self {
        Self {
            api: Api::namespaced(client, &settings.namespace),
            clock,
            settings,
        }
    }

    /// Waits to lead, then runs the work for as long as it leads. The work is not polled before.
    ///
    /// Shutdown ends the waiting. A work that shall end on shutdown watches it by itself, so that it
    /// can finish what it has in hand; the lease is given back after it.
    pub async fn run<T>(&self, shutdown: &Shutdown, work: impl Future<Output = T>) -> Ended<T> {
        let (mut lease, renewed) = tokio::select! {
            biased;
            () = shutdown.begun() => return Ended::Stopped,
            taken = self.campaign() => taken,
        };
        tracing::info!(identity = self.settings.identity, "leading");
        let finished = {
            let renewing = pin!(self.keep(&mut lease, renewed));
            let work = pin!(work);
            tokio::select! {
                biased;
                () = renewing => None,
                output = work => Some(output),
            }
        };
        let Some(output) = finished else {
            tracing::warn!(identity = self.settings.identity, "leadership lost");
            return Ended::Lost;
        };
        if let Err(error) = self.release(lease).await {
            tracing::warn!(
                error = in_full(&error),
                "cannot release the lease; others wait for it to run out"
            );
        }
        Ended::Finished(output)
    }

    /// Tries until the lease is ours. Returns it with the moment from which our term counts.
    async fn campaign(&self) -> (Lease, Instant) {
        let mut observed: Option<Observed> = None;
        loop {
            let asked = Instant::now();
            match self.bounded("take", self.try_take(&mut observed)).await {
                Ok(Some(lease)) => return (lease, asked),
                Ok(None) => (),
                Err(error) => tracing::warn!(error = in_full(&error), "cannot campaign"),
            }
            tokio::time::sleep(self.settings.retry_period).await;
        }
    }

    async fn try_take(&self, observed: &mut Option<Observed>) -> Result<Option<Lease>> {
        let Some(lease) = self.named("get", self.api.get_opt(&self.settings.name).await)? else {
            let made = self.api.create(&params(), &self.first_record()).await;
            return lost_race_is_none(self.named("create", made));
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if observed
            .as_ref()
            .is_none_or(|observed| observed.spec != spec)
        {
            *observed = Some(Observed {
                spec: spec.clone(),
                since: Instant::now(),
            });
        }
        let unchanged = observed
            .as_ref()
            .map_or(Duration::ZERO, |seen| seen.since.elapsed());
        if !self.may_take(&spec, unchanged) {
            return Ok(None);
        }
        let wanted = self.taken_over(lease);
        let answer = self
            .api
            .replace(&self.settings.name, &params(), &wanted)
            .await;
        lost_race_is_none(self.named("take", answer))
    }

    fn may_take(&self, record: &LeaseSpec, unchanged: Duration) -> bool {
        let holder = record.holder_identity.as_deref().unwrap_or_default();
        if holder.is_empty() || holder == self.settings.identity {
            return true;
        }
        let seconds = record
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        let theirs = Duration::from_secs(seconds.unwrap_or_default());
        unchanged >= theirs.max(self.settings.lease_duration)
    }

    /// Renews until the deadline passes or the lease is somebody else's.
    async fn keep(&self, lease: &mut Lease, mut renewed: Instant) {
        loop {
            let deadline = renewed + self.settings.renew_deadline;
            let attempt = async {
                tokio::time::sleep(self.settings.retry_period).await;
                let asked = Instant::now();
                (asked, self.bounded("renew", self.try_renew(lease)).await)
            };
            match tokio::time::timeout_at(deadline, attempt).await {
                Ok((asked, Ok(Renewal::Held))) => renewed = asked,
                Ok((_, Ok(Renewal::Lost))) | Err(_) => return,
                Ok((_, Err(error))) => tracing::warn!(error = in_full(&error), "cannot renew"),
            }
        }
    }

    async fn try_renew(&self, lease: &mut Lease) -> Result<Renewal> {
        let name = &self.settings.name;
        let wanted = self.renewed(lease.clone());
        match self.named("renew", self.api.replace(name, &params(), &wanted).await) {
            Ok(held) => {
                *lease = held;
                return Ok(Renewal::Held);
            }
            Err(error) if error.class() == ErrorClass::Conflict => (),
            // Whoever finds no lease may make one and lead at once: ours is over.
            Err(error) if error.class() == ErrorClass::Gone => return Ok(Renewal::Lost),
            Err(error) => return Err(error),
        }
        // Either somebody took it, or a write of ours went through and its answer was lost.
        let Some(live) = self.named("get", self.api.get_opt(name).await)? else {
            return Ok(Renewal::Lost);
        };
        let holder = live
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_deref());
        if holder != Some(self.settings.identity.as_str()) {
            return Ok(Renewal::Lost);
        }
        let wanted = self.renewed(live);
        *lease = self.named("renew", self.api.replace(name, &params(), &wanted).await)?;
        Ok(Renewal::Held)
    }

    async fn release(&self, mut lease: Lease) -> Result<()> {
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.renew_time = Some(MicroTime(self.clock.now()));
        let name = lease.name_any();
        let request =
            async { self.named("release", self.api.replace(&name, &params(), &lease).await) };
        self.bounded("release", request).await.map(|_| ())
    }

    fn first_record(&self) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.name = Some(self.settings.name.clone());
        lease.metadata.namespace = Some(self.settings.namespace.clone());
        lease.spec = Some(LeaseSpec {
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        });
        self.owned(lease)
    }

    fn taken_over(&self, mut lease: Lease) -> Lease {
        let spec = lease.spec.get_or_insert_default();
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or_default().saturating_add(1));
        self.owned(lease)
    }

    fn owned(&self, mut lease: Lease) -> Lease {
        let seconds = i32::try_from(self.settings.lease_duration.as_secs()).unwrap_or(i32::MAX);
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(self.settings.identity.clone());
        spec.lease_duration_seconds = Some(seconds.max(1));
        spec.acquire_time = Some(MicroTime(self.clock.now()));
        self.renewed(lease)
    }

    fn renewed(&self, mut lease: Lease) -> Lease {
        lease.spec.get_or_insert_default().renew_time = Some(MicroTime(self.clock.now()));
        lease
    }

    fn object(&self) -> String {
        format!("Lease {}/{}", self.settings.namespace, self.settings.name)
    }

    fn named<T>(&self, action: &'static str, answer: kube::Result<T>) -> Result<T> {
        answer.map_err(|error| Error::request(action, self.object(), error))
    }

    /// One lost answer must leave time for a second attempt before the deadline.
    async fn bounded<T>(
        &self,
        action: &'static str,
        attempt: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let limit = self.settings.renew_deadline / 2;
        match tokio::time::timeout(limit, attempt).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Timeout {
                action,
                object: self.object(),
                limit,
            }),
        }
    }
}

fn params() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PostParams::default()
    }
}

/// Somebody else was quicker: that is an answer, not a failure.
fn lost_race_is_none(answer: Result<Lease>) -> Result<Option<Lease>> {
    match answer {
        Ok(lease) => Ok(Some(lease)),
        Err(error) if error.class() == ErrorClass::Conflict => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
