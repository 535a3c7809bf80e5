//! A look at a whole cluster: nodes, pods, budgets and what owns them. Reads only.
//!
//! Owns what is asked for; used by `plan` and by rehearsals.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use shipshape_engine::drain::Around;
use shipshape_engine::view::{BudgetView, NodeView, PodView};

use crate::connect::Cluster;
use crate::failure::Failure;

/// What a cluster holds.
pub(crate) struct Survey {
    pub(crate) nodes: Vec<Node>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) budgets: Vec<PodDisruptionBudget>,
    pub(crate) daemon_sets: Vec<DaemonSet>,
}

/// The same, as decisions read it.
pub(crate) struct Views {
    pub(crate) nodes: Vec<NodeView>,
    pub(crate) budgets: Vec<BudgetView>,
    pub(crate) around: Around,
    /// Pods by the node that they are on.
    by_node: BTreeMap<String, Vec<PodView>>,
}

impl Survey {
    /// Looks at a cluster.
    pub(crate) async fn of(cluster: &Cluster) -> Result<Self, Failure> {
        Ok(Self {
            nodes: cluster.all().await?,
            pods: cluster.all().await?,
            budgets: cluster.all().await?,
            daemon_sets: cluster.all().await?,
        })
    }

    /// What decisions read of it.
    pub(crate) fn views(&self) -> Views {
        let sets: BTreeSet<(Option<String>, String)> = self
            .daemon_sets
            .iter()
            .map(|set| (set.namespace(), set.name_any()))
            .collect();
        let mut by_node: BTreeMap<String, Vec<PodView>> = BTreeMap::new();
        let mut around = Around::default();
        for pod in self.pods.iter().map(PodView::of) {
            let owner = pod.owner.as_ref().filter(|(kind, _)| kind == "DaemonSet");
            let is_orphan = owner.is_some_and(|(_, name)| {
                !sets.contains(&(Some(pod.namespace.clone()), name.clone()))
            });
            if is_orphan {
                around.orphans.insert(pod.uid.clone());
            }
            by_node.entry(pod.node.clone()).or_default().push(pod);
        }
        Views {
            nodes: self.nodes.iter().map(NodeView::of).collect(),
            budgets: self.budgets.iter().map(BudgetView::of).collect(),
            around,
            by_node,
        }
    }
}

impl Views {
    /// The pods on a node.
    pub(crate) fn pods(&self, node: &str) -> Vec<PodView> {
        self.by_node.get(node).cloned().unwrap_or_default()
    }
}
