//! What an outsider sees of a roll: which nodes are closed, which pods are ready.
//!
//! Owns two watches and what they have shown. Must not look at any status of ours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client};
use shipshape_cluster::store::{Following, Kept, Settings};
use shipshape_cluster::{Change, Clock, Store};
use shipshape_engine::view::{NodeView, PodView};

/// A taint by which Karpenter closes a node.
const KARPENTER: &str = "karpenter.sh/disrupted";

/// What is seen of a node.
pub(super) struct SeenNode {
    name: String,
    ready: bool,
    closed: bool,
}

impl Kept for SeenNode {}

impl SeenNode {
    fn of(node: &Node) -> Self {
        let view = NodeView::of(node);
        let mut taints = node
            .spec
            .iter()
            .flat_map(|spec| spec.taints.iter().flatten());
        Self {
            closed: view.unschedulable || taints.any(|taint| taint.key == KARPENTER),
            ready: view.ready,
            name: view.name,
        }
    }
}

/// What was seen of closed nodes over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Closures {
    now: BTreeSet<String>,
    /// The most that were closed at once.
    pub(super) most: usize,
    /// When each node was first seen closed.
    pub(super) since: BTreeMap<String, Timestamp>,
}

/// The watches, and what they have shown.
pub(super) struct Eyes {
    nodes: Store<Node, SeenNode>,
    pods: Store<Pod, PodView>,
    closures: Arc<Mutex<Closures>>,
    _following: [Following; 2],
}

impl Eyes {
    /// Begins to look.
    pub(super) async fn open(client: &Client) -> Self {
        let nodes = Store::keeping(|node: Node| SeenNode::of(&node));
        let pods = Store::keeping(|pod: Pod| PodView::of(&pod));
        let closures: Arc<Mutex<Closures>> = Arc::default();
        let noted = Arc::clone(&closures);
        let following = [
            nodes.start(
                Api::all(client.clone()),
                Settings::default(),
                move |change| {
                    note(&mut lock(&noted), &change);
                },
            ),
            pods.start(Api::all(client.clone()), Settings::default(), |_| ()),
        ];
        nodes.synced().await;
        pods.synced().await;
        Self {
            nodes,
            pods,
            closures,
            _following: following,
        }
    }

    /// Nodes that are ready.
    pub(super) fn ready_nodes(&self) -> usize {
        self.nodes.list().iter().filter(|node| node.ready).count()
    }

    /// Names of all nodes.
    pub(super) fn node_names(&self) -> BTreeSet<String> {
        self.nodes
            .list()
            .iter()
            .map(|node| node.name.clone())
            .collect()
    }

    /// Pods that are ready and stay.
    pub(super) fn ready_pods(&self) -> usize {
        let pods = self.pods.list();
        pods.iter()
            .filter(|pod| pod.ready && !pod.terminating)
            .count()
    }

    /// What was seen of closed nodes so far.
    pub(super) fn closures(&self) -> Closures {
        lock(&self.closures).clone()
    }
}

fn lock(closures: &Mutex<Closures>) -> MutexGuard<'_, Closures> {
    closures.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(closures: &mut Closures, change: &Change<SeenNode>) {
    let node = change.object();
    let is_here = matches!(change, Change::Applied { .. });
    if is_here && node.closed {
        let now = Clock::System.now();
        closures.since.entry(node.name.clone()).or_insert(now);
        closures.now.insert(node.name.clone());
    } else {
        closures.now.remove(&node.name);
    }
    closures.most = closures.most.max(closures.now.len());
}
