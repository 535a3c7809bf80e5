//! Where a story plays: the ways to a cluster, its cloud, its time and its request log.
//!
//! Owns the little that differs between the embedded cluster and a real one. Must not start or stop
//! either; whoever built the stage does.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use shipshape_cluster::Clock;
use shipshape_simulator::actors::Kubelets;
use shipshape_simulator::cloud::Cloud;
use shipshape_simulator::etcd::EtcdModel;
use shipshape_simulator::world::World;

use crate::witness::Request;

/// What the operator calls itself to the API and to the cloud; the logs tell it apart by this.
pub const OPERATOR: &str = "shipshape";

/// Gives a client that logs know by this name.
pub type Clients = Arc<dyn Fn(&str) -> Client + Send + Sync>;
/// Gives the operator's requests from the given position of the log on, and the next position.
pub type RequestLog = Arc<dyn Fn(usize) -> (Vec<(Timestamp, Request)>, usize) + Send + Sync>;

/// A place to play on.
#[derive(Clone)]
pub struct Stage {
    /// The ways to the API.
    pub clients: Clients,
    /// The cloud.
    pub cloud: Cloud,
    /// The etcd of its control planes, where they are ours.
    pub etcd: Option<EtcdModel>,
    /// The kubelets, which are ours everywhere.
    pub kubelets: Kubelets,
    /// The time.
    pub clock: Clock,
    /// What the operator has asked the API for.
    pub requests: RequestLog,
    /// How late the watches may be: a cloud call is judged this long after it was made, so that
    /// what the operator saw before it is visible to others too.
    pub lag: Duration,
    /// How long a leader's lease lasts here.
    pub lease: Duration,
}

impl Stage {
    /// The stage of an embedded cluster.
    pub fn embedded(world: &World) -> Self {
        let api = world.api().clone();
        let log = world.api().clone();
        Self {
            clients: Arc::new(move |name| api.client(name)),
            cloud: world.cloud().clone(),
            etcd: Some(world.etcd().clone()),
            kubelets: world.kubelets(),
            clock: world.clock(),
            lag: Duration::ZERO,
            lease: Duration::from_secs(15),
            requests: Arc::new(move |from| {
                let entries = log.log_since(from);
                let next = from + entries.len();
                let mine = entries
                    .into_iter()
                    .filter(|entry| entry.user_agent == OPERATOR);
                let requests = mine.map(|entry| {
                    let request = Request {
                        verb: entry.verb.as_str().to_owned(),
                        object: format!("{}/{}", entry.namespace, entry.name),
                        resource: entry.resource,
                        subresource: entry.subresource,
                        uid: entry.uid,
                        code: entry.code,
                        dry_run: entry.dry_run,
                    };
                    (entry.at, request)
                });
                (requests.collect(), next)
            }),
        }
    }

    /// A client by name.
    pub fn client(&self, name: &str) -> Client {
        (self.clients)(name)
    }
}
